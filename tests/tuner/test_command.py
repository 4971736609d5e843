from __future__ import annotations

import gzip
import importlib.util
import json
import os
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
        ["--budget", "9" * 20 + "h"],
        ["--batch-sizes", "\N{ARABIC-INDIC DIGIT ONE}"],
        ["--shape", "a,b"],
        ["--batch-sizes", "1,,2"],
        ["--shape", "9" * 30],
        ["--effort", "heroic"],
    ],
)
def test_malformed_options_are_usage_errors(arguments: list[str]) -> None:
    with pytest.raises(click.UsageError):
        run(*arguments, "--rehearse", "--dry-run")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([], "say what to tune"),
        (["--model", "m", "--model", "n"], "--model once"),
        (["--model", "m", "--dtype", "fp8_w8a8"], "the model tells how weights are stored"),
        (["--model", "m", "--block-shape", "128,128"], "for --shape"),
        ([*SHAPE, "--tp", "2"], "leave --tp out"),
        (["--from", "x.log", "--tp", "2"], "leave --tp and --ep out"),
        (["--from", "x.log", "--ep", "2"], "leave --tp and --ep out"),
        (["--from", "x.log", "--dtype", "bf16"], "the log tells how weights are stored"),
        ([*SHAPE, "--rehearse", "--gpu", "H200"], "--gpu takes numbers there"),
        ([*SHAPE, "--rehearse", "--gpu", "\N{SUPERSCRIPT TWO}"], "--gpu takes numbers there"),
        ([*SHAPE, "--rehearse", "--precompile"], "leave --rehearse and --ray out"),
        ([*SHAPE, "--gpu", "H200", "--precompile", "--budget", "5m"], "has no --budget"),
        ([*SHAPE, "--gpu", "0", "--gpu", "H200"], "name the GPU"),
        ([*SHAPE, "--gpu", "banana"], "tune is for NVIDIA GPUs"),
        ([*SHAPE, "--gpu", "AMD Instinct MI300X"], "tune is for NVIDIA GPUs"),
    ],
)
def test_what_would_be_passed_over_in_silence_is_refused(arguments: list[str], word: str) -> None:
    with pytest.raises(AdvisorError, match=word) as caught:
        run(*arguments, "--dry-run")
    assert "\n" not in str(caught.value)


def test_a_dry_run_of_precompiling_compiles_nothing(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    result = run(*SHAPE, "--gpu", "H200", "--precompile", "--dry-run", "--cache", str(cache))
    assert "expected: about" in result.output
    assert not cache.exists()


def test_recorded_loads_are_one_for_each_expert(tmp_path: Path) -> None:
    loads = tmp_path / "loads.json"
    loads.write_text(json.dumps([1] * 32), encoding="utf-8")
    arguments = ["--rehearse", "--dry-run", "--routing", str(loads)]
    assert run("--shape", "8,768,2048,8", "--ep", "4", *arguments).return_value == 0
    with pytest.raises(AdvisorError, match="has 32 loads: one for each of the 128 experts"):
        run(*SHAPE, *arguments)


H200_FILE = "E=128,N=768,device_name=NVIDIA_H200.json"
ENTRY = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1}


def plan_against(folder: Path, name: str, table: object, *more: str) -> str:
    path = folder / name
    path.write_text(json.dumps(table), encoding="utf-8")
    return run(*SHAPE, "--gpu", "H200", "--dry-run", "--today", str(path), *more).output


def test_todays_file_serves_both_gemms_where_it_is_alone(tmp_path: Path) -> None:
    assert "today: up exact, down reuse-up (" in plan_against(tmp_path, H200_FILE, {"1": ENTRY})
    output = plan_against(tmp_path, H200_FILE, {"1": ENTRY}, "--sglang-version", "0.5.3")
    assert "today: up exact (" in output


@pytest.mark.parametrize(
    ("name", "table", "word"),
    [
        (H200_FILE.replace("768", "704"), {"1": ENTRY}, "another shape or GPU"),
        (H200_FILE.replace("H200", "B200"), {"1": ENTRY}, "another shape or GPU"),
        (H200_FILE.replace(".json", ",dtype=fp8_w8a8.json"), {"1": ENTRY}, "another shape or GPU"),
        (H200_FILE, {}, "no entry that a server could use"),
        (H200_FILE, {"1": {"BLOCK_SIZE_M": 16}}, "BLOCK_SIZE_N is missing"),
        ("today.json", {"1": ENTRY}, "is not a name that SGLang looks for"),
    ],
)
def test_todays_file_is_of_the_shape_that_is_tuned(
    tmp_path: Path, name: str, table: object, word: str
) -> None:
    with pytest.raises(AdvisorError, match=word):
        plan_against(tmp_path, name, table)


QUICK = ["--rehearse", "--effort", "quick", "--batch-sizes", "1", "--compilers", "1"]


def test_results_that_cannot_be_written_stop_a_run_before_it_measures(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    journal = tmp_path / "journal"
    with pytest.raises(AdvisorError, match="cannot be written: Not a directory"):
        run(*SHAPE, *QUICK, "-o", str(file / "out"), "--journal", str(journal))
    assert not journal.exists()


def test_a_cache_that_cannot_be_written_is_not_called_a_gpu_that_is_too_small(
    tmp_path: Path,
) -> None:
    file = tmp_path / "file"
    file.touch()
    arguments = ["--gpu", "H200", "--precompile", "--compilers", "1"]
    with pytest.raises(AdvisorError, match="cannot be written: Not a directory"):
        run(*SHAPE, *arguments, "--cache", str(file / "cache"))


IDLE_GPU = """\
#!/bin/sh
case "$1" in
  --query-gpu=*) echo "0, GPU-a, NVIDIA H200, 0, 143771, 580.1" ;;
esac
"""


def test_measuring_without_torch_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text(IDLE_GPU, encoding="utf-8")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "torch" else there(name)
    )
    with pytest.raises(MissingExtraError, match=r"sglang-advisor\[tune\]"):
        run(*SHAPE, "-o", str(tmp_path / "out"))


@pytest.mark.slow
def test_a_rehearsal_says_that_it_is_one_and_installs_nothing(tmp_path: Path) -> None:
    output = run(*SHAPE, *QUICK, "-o", str(tmp_path)).output
    assert "the GPU is made up" in output
    assert "install and prove" not in output
    assert "the GPU is made up" in (tmp_path / "tune-report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_run_that_ends_early_says_so_and_how_it_goes_on(tmp_path: Path) -> None:
    arguments = ["--rehearse", "--effort", "thorough", "--compilers", "1", "-o", str(tmp_path)]
    output = run(*SHAPE, *arguments, "--budget", "1s").output
    assert output.splitlines()[0].endswith("; time ran out")
    assert "the same command, with more time, continues" in output


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        (gzip.compress(b"{}" * 500)[:20], "neither a tuning journal nor an exhaustive table"),
        (b"[" * 100_000, "neither a tuning journal nor an exhaustive table"),
        (b"\x1f\x8bnope", "neither a tuning journal nor an exhaustive table"),
        (b"SQLite format 3\x00and no more", "cannot be used as a journal"),
        (b"{}", "is no exhaustive table"),
    ],
)
def test_what_cannot_be_simulated_is_told_in_one_line(
    tmp_path: Path, raw: bytes, word: str
) -> None:
    path = tmp_path / "table"
    path.write_bytes(raw)
    with pytest.raises(AdvisorError, match=word) as caught:
        run("--simulate", str(path))
    assert "\n" not in str(caught.value)


def table_of(samples: object, *, block_n: int = 32, experts: int = 128, tokens: float = 1) -> str:
    sizes = ["BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M"]
    columns = [*sizes, "num_warps", "num_stages", "us_samples"]
    meta = {"E": experts, "N": 768, "K": 2048, "topk": 8}
    rows = [[16, block_n, 64, 1, 4, 3, samples]]
    return json.dumps({"M": tokens, "gemm": "up", "columns": columns, "rows": rows, "meta": meta})


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (table_of([0.0]), "no positive number"),
        (table_of([float("nan")]), "no positive number"),
        (table_of(["x"]), "is no exhaustive table"),
        (table_of(3), "is no exhaustive table"),
        (table_of([]), "holds no measurement"),
        (table_of([1.0], block_n=33), "none of the recorded tiles can run"),
        (table_of([1.0], experts=-1), "E=-1 must lie between"),
        (table_of([1.0], tokens=1e30), "must lie between 1 and"),
    ],
)
def test_tables_that_mean_nothing_are_refused(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "table.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(AdvisorError, match=word):
        run("--simulate", str(path))


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
