from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from advisor.cli.tune import tune_command
from advisor.errors import AdvisorError, MissingExtraError

SHAPE = ["--shape", "128,768,2048,8"]
LOGS = Path(__file__).parent.parent / "fixtures" / "logs"
QWEN = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "hidden_size": 2048,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "torch_dtype": "bfloat16",
}


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "config.json").write_text(json.dumps(QWEN), encoding="utf-8")
    return str(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(
        tune_command, list(arguments), catch_exceptions=False, standalone_mode=False
    )


def test_a_dry_run_prints_the_plan_and_writes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run(*SHAPE, "--rehearse", "--dry-run", "-o", str(out))
    assert result.return_value == 0
    assert "E=128,N=768,device_name=Rehearsal_GPU_down.json" in result.output
    assert "expected: about" in result.output
    assert not out.exists()


@pytest.mark.parametrize(
    ("version", "line"),
    [
        ([], "tiles with TMA: down; for up, too, say which release"),
        (["--sglang-version", "0.5.23"], "tiles with TMA: up and down\n"),
        (["--sglang-version", "0.5.12"], "tiles with TMA: down\n"),
        (["--sglang-version", "0.5.3"], "tiles with TMA: none\n"),
    ],
)
def test_the_plan_says_where_tma_is_tried(version: list[str], line: str) -> None:
    assert line in run(*SHAPE, *version, "--gpu", "H200", "--dry-run").output


def test_an_up_file_that_stops_its_server_is_not_compared_with(tmp_path: Path) -> None:
    today = tmp_path / "E=128,N=768,device_name=NVIDIA_H200.json"
    sizes = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1}
    today.write_text(json.dumps({"1": {**sizes, "USE_TMA": True}}), encoding="utf-8")
    options = [*SHAPE, "--gpu", "H200", "--dry-run", "--today", str(today), "--sglang-version"]
    assert run(*options, "0.5.18").return_value == 0
    with pytest.raises(AdvisorError, match="USE_TMA in an up file stops SGLang"):
        run(*options, "0.5.16")


@pytest.mark.parametrize(
    ("version", "line"),
    [
        ([], "tiles with TMA: none; for up and down, too, say which release"),
        (["--sglang-version", "0.5.20"], "tiles with TMA: up\n"),
        (["--sglang-version", "0.5.23"], "tiles with TMA: up and down\n"),
    ],
)
def test_the_plan_says_where_tma_is_tried_on_a_rank(version: list[str], line: str) -> None:
    rank = ["--shape", "32,768,2048,8", "--ep", "4"]
    assert line in run(*rank, *version, "--gpu", "H200", "--dry-run").output


def test_a_short_budget_lowers_the_effort() -> None:
    result = run(*SHAPE, "--rehearse", "--dry-run", "--compilers", "1", "--budget", "30s")
    assert "effort quick" in result.output
    assert "at most 1" in result.output


def test_a_model_and_its_split_give_the_shape(model: str) -> None:
    result = run("--model", model, "--tp", "2", "--rehearse", "--dry-run")
    assert "E=128 N=384 K=2048 top-k 8 bf16" in result.output


def test_a_rank_holds_its_share_of_the_experts_and_the_plan_says_so(model: str) -> None:
    split = run("--model", model, "--tp", "4", "--ep", "4", "--rehearse", "--dry-run")
    given = run("--shape", "32,768,2048,8", "--ep", "4", "--rehearse", "--dry-run")
    for result in (split, given):
        assert "E=32 N=768 K=2048 top-k 8 bf16 of 4 ranks" in result.output


def test_a_log_tells_what_is_missing(model: str) -> None:
    log = str(LOGS / "qwen3moe-default.log")
    result = run("--from", log, "--model", model, "--rehearse", "--dry-run")
    assert "E=128 N=768 K=2048 top-k 8 bf16" in result.output


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([], "say what to tune"),
        ([*SHAPE, "--model", "x"], "say what to tune"),
        (["--shape", "1,2,3"], "four numbers"),
        (["--shape", "0,768,2048,8"], "E=0"),
        ([*SHAPE, "--block-shape", "128,128"], "fp8 or int8"),
        ([*SHAPE, "--dtype", "fp8_w8a8", "--block-shape", "128"], "two numbers"),
        ([*SHAPE, "--batch-sizes", "0"], "batch size 0"),
        ([*SHAPE, "--kernel", "server"], "--sglang DIR"),
        ([*SHAPE, "--routing", "nowhere.json"], "nowhere.json"),
        ([*SHAPE, "--sglang-version", "banana"], "banana"),
        (["--from", str(LOGS / "llama-retract.log")], "no line about a MoE kernel config"),
        (["--from", str(LOGS / "qwen3moe-default.log")], "add --model PATH"),
    ],
)
def test_impossible_wishes_are_refused_in_one_line(arguments: list[str], word: str) -> None:
    with pytest.raises(AdvisorError, match=word) as caught:
        run(*arguments, "--rehearse", "--dry-run")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--budget", "soon"],
        ["--budget", "0s"],
        ["--shape", "a,b"],
        ["--batch-sizes", "1,,2"],
        ["--shape", "9" * 30],
        ["--effort", "heroic"],
    ],
)
def test_malformed_options_are_usage_errors(arguments: list[str]) -> None:
    with pytest.raises(click.UsageError):
        run(*arguments, "--rehearse", "--dry-run")


@pytest.mark.slow
def test_a_rehearsal_writes_every_file_and_continues_its_journal(tmp_path: Path) -> None:
    arguments = [*SHAPE, "--rehearse", "--effort", "quick", "--batch-sizes", "1,64"]
    arguments += ["--compilers", "1", "-o", str(tmp_path)]
    first = run(*arguments)
    assert first.exit_code == 0, first.output
    folder = next((tmp_path / "configs").iterdir())
    assert len(list(folder.iterdir())) == 2
    assert {path.suffix for path in tmp_path.glob("tune-report.*")} == {
        ".md",
        ".html",
        ".svg",
        ".json",
    }
    assert run(*arguments).output.startswith("0 measurements")


@pytest.mark.slow
def test_simulating_needs_no_gpu(recorded: Callable[[str], Path]) -> None:
    table = recorded("h200_down_1.json.gz")
    result = run("--simulate", str(table))
    assert result.return_value == 0
    assert "guided" in result.output
    assert "random" in result.output


WITHOUT_NUMPY = """
import sys
sys.modules["numpy"] = None
from advisor.__main__ import main
main()
"""


def test_a_dry_run_does_without_numpy(tmp_path: Path) -> None:
    arguments = [*SHAPE, "--rehearse", "--dry-run", "-o", str(tmp_path)]
    command = [sys.executable, "-c", WITHOUT_NUMPY, "tune", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "expected: about" in done.stdout


@pytest.mark.parametrize("arguments", [["--rehearse"], ["--precompile", "--gpu", "H200"]])
def test_what_searches_without_numpy_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError, match=r"sglang-advisor\[tune\]"):
        run(*SHAPE, *arguments)
