from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.configs.loglines import seen_in_lines, seen_in_log
from advisor.configs.lookup import Source
from advisor.errors import InputError

ROOT = "/opt/env/lib/python3.12/site-packages/sglang/srt/layers/moe/moe_runner/triton_utils"
UP = "E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json"
DOWN = "E=128,N=768,device_name=NVIDIA_H200_down.json"
FALLBACK = (
    f"[2026-11-29 13:40:01 TP0] Config file not found at {ROOT}/configs/triton_3_6_0/{UP}. Fallback "
    f"to triton version 3.2.0 and use MoE kernel config from {ROOT}/configs/triton_3_2_0/{UP}. "
    "Performance might be sub-optimal!"
)
MISSING = (
    "[2026-11-29 13:40:01 TP1] Using MoE kernel config with down_moe=False. Performance might be "
    f"sub-optimal! Config file not found at {ROOT}/configs/triton_3_6_0/{DOWN}, you can create them "
    "with https://github.com/sgl-project/sglang/tree/main/benchmark/kernels/fused_moe_triton"
)
EXACT = f"[2026-11-29 13:40:01] Using MoE kernel config from /srv/moe/configs/triton_3_6_0/{UP}."
REUSED = (
    f"Down MoE config file not found at {ROOT}/configs/triton_3_6_0/{DOWN}; reusing the tuned "
    "up-projection config without TMA. Performance might be sub-optimal."
)
FLAT = f"Using MoE kernel config from {ROOT}/configs/{UP}."


@pytest.mark.parametrize(
    ("line", "source", "name", "triton", "reads"),
    [
        (FALLBACK, Source.FALLBACK, UP, "3.6.0", f"{ROOT}/configs/triton_3_2_0/{UP}"),
        (MISSING, Source.DEFAULT, DOWN, "3.6.0", None),
        (EXACT, Source.EXACT, UP, "3.6.0", f"/srv/moe/configs/triton_3_6_0/{UP}"),
        (REUSED, Source.REUSED_UP, DOWN, "3.6.0", None),
        (FLAT, Source.EXACT, UP, None, f"{ROOT}/configs/{UP}"),
    ],
)
def test_each_wording(
    line: str, source: Source, name: str, triton: str | None, reads: str | None
) -> None:
    (seen,) = seen_in_lines([line])
    assert (seen.source, seen.name.file_name, seen.triton, seen.path) == (
        source,
        name,
        triton,
        reads,
    )
    assert seen.root == ("/srv/moe" if line is EXACT else ROOT)


def test_lines_of_several_ranks_are_one() -> None:
    seen = seen_in_lines(["start", MISSING, MISSING.replace("TP1", "TP3"), FALLBACK])
    assert [(one.line, one.count) for one in seen] == [(2, 2), (4, 1)]


def test_a_log_without_such_lines_is_told(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("server_args=ServerArgs()\n")
    with pytest.raises(InputError, match="no line about a MoE kernel config"):
        seen_in_log(log)


@pytest.mark.parametrize("name", ["", "."])
def test_what_is_no_log_is_told(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        seen_in_log(tmp_path / name)


@given(st.lists(st.text(max_size=300)))
def test_no_line_crashes_the_reader(lines: list[str]) -> None:
    assert seen_in_lines([*lines, EXACT])[-1].source is Source.EXACT


@given(st.text(max_size=100))
def test_torn_lines_do_not_crash(tail: str) -> None:
    for line in (FALLBACK, MISSING, EXACT, REUSED):
        cut = line[: len(line) // 2] + tail
        for seen in seen_in_lines([cut]):
            assert seen.name.file_name.endswith(".json")
