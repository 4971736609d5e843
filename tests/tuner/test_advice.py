"""The commands that findings advise: `advisor tune --from LOG` has something to tune in that log."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.cli.tune_log import server_runs
from advisor.diagnosis import Request, diagnose_logs
from advisor.rules.load import bundled_rules
from advisor.sources.files import LogInput
from advisor.tuner.fromlog import missing_in_runs

FIXTURES = Path(__file__).parent.parent / "fixtures"
LOGS = sorted(
    path
    for folder in ("cases", "logs")
    for path in (FIXTURES / folder).glob("*.log")
    if b"oE kernel config" in path.read_bytes()
)
BOTH_FOUND = """\
[2026-03-04 05:06:01] server_args=ServerArgs(model_path='/models/Qwen3-30B-A3B', tp_size=2)
[2026-03-04 05:06:05 TP0] Using MoE kernel config from /v/configs/triton_3_6_0/E=128,N=384,device_name=NVIDIA_H200.json.
[2026-03-04 05:06:05 TP0] Using MoE kernel config from /v/configs/triton_3_6_0/E=128,N=384,device_name=NVIDIA_H200_down.json.
[2026-03-04 05:06:07 TP0] down_moe config BLOCK_SIZE_M=64 does not match up config BLOCK_SIZE_M=128 at M=1024; overriding down BLOCK_SIZE_M to match.
"""


def advised(path: Path) -> list[str]:
    request = Request(logs=(LogInput(name=path.name, path=path),), rules=bundled_rules())
    return [
        action.command
        for finding in diagnose_logs(request).verdicts.findings
        for action in finding.actions
        if action.command and action.command.startswith("advisor tune")
    ]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_what_is_advised_for_a_log_can_be_tuned_from_it(path: Path) -> None:
    if any("--from" in command for command in advised(path)):
        assert missing_in_runs(server_runs(str(path)), path.name)


def test_a_pair_that_was_found_is_tuned_by_its_model(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(BOTH_FOUND, encoding="utf-8")
    assert set(advised(path)) == {"advisor tune --model /models/Qwen3-30B-A3B --tp 2"}
