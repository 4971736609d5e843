"""`advisor tune --from`: shapes, models, places and budgets, as a user meets them."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from click.testing import CliRunner, Result

from advisor.cli.tune import tune_command
from advisor.errors import AdvisorError

LOGS = Path(__file__).parent.parent / "fixtures" / "logs"
REAL = LOGS / "qwen3moe-default.log"
ROOT = "/opt/env/lib/python3.12/site-packages/sglang/srt/layers/moe/moe_runner/triton_utils"
MISSING = (
    "Using default MoE kernel config. Performance might be sub-optimal! Config file not found at "
    "{}/configs/triton_3_6_0/{}, you can create them with "
    "https://github.com/sgl-project/sglang/tree/main/benchmark/kernels/fused_moe_triton"
)
TARGET = "E=128,N=768,device_name=NVIDIA_H200.json"
DRAFT = "E=64,N=256,device_name=NVIDIA_H200.json"
INT4 = "E=128,N=384,device_name=NVIDIA_H200,dtype=int4_w4a16.json"


def config(experts: int, width: int, **more: object) -> str:
    fields = {
        "architectures": ["Qwen3MoeForCausalLM"],
        "hidden_size": 2048,
        "moe_intermediate_size": width,
        "num_experts": experts,
        "num_experts_per_tok": 8,
        "torch_dtype": "bfloat16",
    }
    return json.dumps({**fields, **more})


def lines(*names: str, arguments: str = "model_path='org/target'", root: str = ROOT) -> str:
    """Return the log of a start that lacks these files."""
    texts = [f"server_args=ServerArgs({arguments})", *(MISSING.format(root, one) for one in names)]
    return "".join(f"[2026-11-29 13:28:57] {text}\n" for text in texts)


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hide GPUs and models of this machine; return the folder of programs."""
    programs = tmp_path / "bin"
    programs.mkdir()
    smi = programs / "nvidia-smi"
    smi.write_text("#!/bin/sh\nexit 9\n", encoding="utf-8")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "SGLANG_MOE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return programs


@pytest.fixture
def cache(tmp_path: Path) -> Callable[[str, str], Path]:
    """Return what puts a model into the Hugging Face cache as the hub's client does."""

    def put(name: str, text: str) -> Path:
        folder = tmp_path / "hf" / "hub" / f"models--{name.replace('/', '--')}"
        for part in ("blobs", "refs", "snapshots/abc123"):
            (folder / part).mkdir(parents=True)
        (folder / "blobs" / "f00d").write_text(text, encoding="utf-8")
        (folder / "refs" / "main").write_text("abc123", encoding="ascii")
        link = folder / "snapshots" / "abc123" / "config.json"
        link.symlink_to("../../blobs/f00d")
        return link

    return put


@pytest.fixture
def model(tmp_path: Path) -> str:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(config(128, 768), encoding="utf-8")
    return str(folder)


def written(text: str, name: str = "server.log") -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(
        tune_command,
        list(arguments),
        catch_exceptions=False,
        input=stdin,
        standalone_mode=False,
    )


def refusal(*arguments: str) -> str:
    with pytest.raises(AdvisorError) as caught:
        run(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def planned(output: str) -> list[str]:
    return re.findall(r"^tune (.+?) for ", output, re.MULTILINE)


def test_a_plan_needs_no_gpu_where_the_log_names_it(model: str) -> None:
    result = run("--from", str(REAL), "--model", model, "--dry-run")
    assert planned(result.output) == ["E=128 N=768 K=2048 top-k 8 bf16"]
    assert "no GPU here: the plan is for NVIDIA H200" in result.output
    assert "server: SGLang 0.5.12, Triton 3.6.0, NVIDIA_H200" in result.output


@pytest.mark.parametrize(
    "pack", [gzip.compress, bz2.compress, lzma.compress, zstandard.ZstdCompressor().compress]
)
def test_packed_logs_are_read(pack: Callable[[bytes], bytes], model: str) -> None:
    Path("packed").write_bytes(pack(REAL.read_bytes()))
    result = run("--from", "packed", "--model", model, "--dry-run")
    assert planned(result.output) == ["E=128 N=768 K=2048 top-k 8 bf16"]


def test_standard_input_in_dockers_envelope_is_read(model: str) -> None:
    wrapped = "".join(
        json.dumps({"log": f"{line}\n", "stream": "stderr", "time": "2026-11-29T13:28:57Z"}) + "\n"
        for line in lines(TARGET).splitlines()
    )
    result = run("--from", "-", "--model", model, "--dry-run", stdin=wrapped)
    assert planned(result.output) == ["E=128 N=768 K=2048 top-k 8 bf16"]


def test_target_and_draft_come_from_the_hugging_face_cache(
    cache: Callable[[str, str], Path],
) -> None:
    cache("org/target", config(128, 768))
    cache("org/draft", config(64, 256, hidden_size=1024, num_experts_per_tok=2))
    arguments = "model_path='org/target', speculative_draft_model_path='org/draft', tp_size=1"
    log = written(lines(TARGET, DRAFT, arguments=arguments))
    result = run("--from", log, "--dry-run")
    assert result.return_value == 0
    assert planned(result.output) == [
        "E=128 N=768 K=2048 top-k 8 bf16",
        "E=64 N=256 K=1024 top-k 2 bf16",
    ]
    assert "2 shapes lack files, 2 can be tuned" in result.output
    assert "advisor-tune/E128_N768/configs" in result.output
    assert "advisor-tune/E64_N256/configs" in result.output


def test_of_two_models_that_fit_the_one_that_is_split_so_is_taken(
    cache: Callable[[str, str], Path],
) -> None:
    cache("org/target", config(128, 1024))
    cache("org/draft", config(64, 512, hidden_size=1024))
    arguments = "model_path='org/target', speculative_draft_model_path='org/draft', tp_size=2"
    log = written(lines(DRAFT, arguments=arguments))
    assert planned(run("--from", log, "--dry-run").output) == ["E=64 N=256 K=1024 top-k 8 bf16"]


def test_a_named_model_counts_before_those_of_the_log(
    cache: Callable[[str, str], Path], model: str
) -> None:
    cache("org/target", config(128, 768, hidden_size=4096))
    log = written(lines(TARGET))
    output = run("--from", log, "--model", model, "--dry-run").output
    assert "K=2048" in output
    assert f"sizes: {model}/config.json" in output


def test_a_folder_of_the_log_counts_if_it_is_here(model: str) -> None:
    log = written(lines(TARGET, arguments=f"model_path={model!r}"))
    assert f"sizes: {model}/config.json" in run("--from", log, "--dry-run").output


def test_a_model_that_is_nowhere_is_named_with_where_was_looked(tmp_path: Path) -> None:
    text = refusal("--from", written(lines(TARGET)), "--dry-run")
    assert f"org/target is no model folder here and not in {tmp_path}/hf/hub" in text
    assert "add --model PATH" in text


def test_a_model_that_does_not_fit_is_named_with_its_sizes(
    cache: Callable[[str, str], Path],
) -> None:
    cache("org/target", config(96, 768))
    text = refusal("--from", written(lines(TARGET)), "--dry-run")
    assert "has 96 experts of width 768" in text


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("E=32,N=768,device_name=NVIDIA_H200.json", "tp_size=4, ep_size=4", "E=32 N=768"),
        (
            "E=36,N=768,device_name=NVIDIA_H200.json",
            "tp_size=4, ep_size=4, ep_num_redundant_experts=16",
            "E=36 N=768",
        ),
        (TARGET, "tp_size=1, dtype='float16'", "K=2048 top-k 8 fp16"),
    ],
)
def test_the_arguments_tell_how_a_model_is_served(
    name: str, arguments: str, problem: str, model: str
) -> None:
    log = written(lines(name, arguments=f"model_path='x', {arguments}"))
    (label,) = planned(run("--from", log, "--model", model, "--dry-run").output)
    assert problem in label


def test_one_shape_that_cannot_be_tuned_does_not_stop_the_others(model: str) -> None:
    log = written(lines(TARGET, INT4, DRAFT, arguments="model_path='x', tp_size=1"))
    result = run("--from", log, "--model", model, "--dry-run")
    assert result.return_value == 0
    assert len(planned(result.output)) == 1
    told = [line for line in result.output.splitlines() if line.startswith("advisor: cannot")]
    assert len(told) == 2
    assert "int4_w4a16 weights" in told[0]
    assert "3 shapes lack files, 1 can be tuned" in result.output


def test_none_that_can_be_tuned_is_an_error(model: str) -> None:
    log = written(lines(DRAFT, INT4, arguments="model_path='x', tp_size=1"))
    assert "none of the 2" in refusal("--from", log, "--model", model, "--dry-run")


def test_shapes_share_the_budget(model: str) -> None:
    fp8 = "E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8.json"
    log = written(lines(TARGET, fp8, INT4))
    output = run("--from", log, "--model", model, "--dry-run", "--budget", "20m").output
    assert output.count("at most 10") == 2


def test_a_later_start_that_found_the_file_settles_it(model: str) -> None:
    up = f"[2026-11-29 14:00:00] Using MoE kernel config from /x/configs/triton_3_6_0/{TARGET}.\n"
    down = up.replace(".json", "_down.json")
    restart = lines(arguments="model_path='org/target'") + up + down
    log = written(lines(TARGET) + restart)
    assert "nothing is missing" in refusal("--from", log, "--model", model, "--dry-run")


def test_the_silence_of_another_runner_is_explained() -> None:
    text = refusal("--from", str(LOGS / "llama-retract.log"), "--dry-run")
    assert "no line about a MoE kernel config" in text


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--gpu", "B200"], "the server's GPU is NVIDIA_H200, here is NVIDIA_B200"),
        (["--shape", "128,768,2048,8"], "leave --shape out"),
        (["--env", "nowhere.json"], "nowhere.json"),
    ],
)
def test_contradictions_are_refused(arguments: list[str], word: str, model: str) -> None:
    log = written(lines(TARGET))
    assert word in refusal("--from", log, "--model", model, "--dry-run", *arguments)


def test_a_named_model_may_be_in_the_hugging_face_cache(
    cache: Callable[[str, str], Path], tmp_path: Path
) -> None:
    link = cache("org/named", config(128, 768))
    log = written(lines(TARGET))
    output = run("--from", log, "--model", "org/named", "--dry-run").output
    assert f"sizes: {link}" in output
    output = run("--model", "org/named", "--gpu", "H200", "--dry-run").output
    assert planned(output) == ["E=128 N=768 K=2048 top-k 8 bf16"]
    text = refusal("--model", "org/lost", "--gpu", "H200", "--dry-run")
    assert text == f"--model org/lost: no such file or folder, nor a model in {tmp_path}/hf/hub"


def test_todays_file_must_be_of_a_shape_that_the_log_lacks(model: str) -> None:
    entry = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1}
    arguments = ["--from", written(lines(TARGET, DRAFT)), "--model", model, "--dry-run"]
    today = written(json.dumps({"1": entry}), TARGET)
    assert "today: up exact" in run(*arguments, "--today", today).output
    other = written(json.dumps({"1": entry}), TARGET.replace("128", "96"))
    assert "none of the shapes" in refusal(*arguments, "--today", other)


def test_a_journal_for_several_shapes_is_refused(model: str) -> None:
    log = written(lines(TARGET, DRAFT))
    text = refusal("--from", log, "--model", model, "--rehearse", "--journal", "one.journal")
    assert "--journal holds one shape" in text


def environment(**more: object) -> str:
    """Write what a probe of the server's machine says; return the file's name."""
    document: dict[str, object] = {
        "schema_version": 1,
        "packages": [{"name": "triton", "imported_version": "3.6.0"}],
        "gpus": {"devices": [{"index": 0, "name": "NVIDIA H200"}]},
    }
    return written(json.dumps({**document, **more}), "env.json")


def test_a_probe_tells_the_triton_that_a_flat_log_does_not(model: str) -> None:
    log = written(lines(TARGET).replace("triton_3_6_0/", ""))
    packages = [{"name": "triton", "version": "3.4.0"}, {"name": "sglang", "version": "0.5.3"}]
    probe = environment(packages=packages)
    output = run("--from", log, "--env", probe, "--model", model, "--dry-run").output
    assert "for NVIDIA H200, Triton 3.4.0" in output
    assert "server: SGLang 0.5.3, Triton 3.4.0, NVIDIA_H200" in output
    assert "_down.json" not in output


@pytest.mark.parametrize(
    ("part", "word"),
    [
        ({"packages": [{"name": "triton", "version": "3.5.1"}]}, "Triton 3.6.0, --env of 3.5.1"),
        ({"gpus": {"devices": [{"index": 0, "name": "NVIDIA B200"}]}}, "--env of NVIDIA_B200"),
    ],
)
def test_a_probe_of_another_machine_is_refused(
    part: dict[str, object], word: str, model: str
) -> None:
    log = written(lines(TARGET))
    probe = environment(**part)
    assert word in refusal("--from", log, "--env", probe, "--model", model, "--dry-run")


def test_a_probe_alone_names_the_gpu_and_who_holds_it(model: str) -> None:
    servers = [{"pid": 77, "role": "server"}, {"pid": 78, "role": "scheduler"}]
    probe = environment(servers=servers)
    output = run("--model", model, "--env", probe, "--dry-run").output
    assert "for NVIDIA H200" in output
    assert "held by the SGLang server, process 77: stop that before tuning" in output


def test_the_servers_own_sglang_tells_what_is_there_today(tmp_path: Path, model: str) -> None:
    package = tmp_path / "site-packages" / "sglang"
    loader = package / "srt/layers/moe/moe_runner/triton_utils"
    kernel = loader / "fused_moe_triton_kernels.py"
    (loader / "configs" / "triton_3_2_0").mkdir(parents=True)
    (loader / "fused_moe_triton_config.py").write_text("", encoding="utf-8")
    kernel.write_text("", encoding="utf-8")
    (package / "_version.py").write_text("version = '0.5.12'\n", encoding="utf-8")
    entry = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1}
    table = json.dumps({"1": {**entry, "num_warps": 4, "num_stages": 3}})
    (loader / "configs" / "triton_3_2_0" / TARGET).write_text(table, encoding="utf-8")
    log = written(lines(TARGET, root=str(loader)))
    arguments = ["--from", log, "--model", model, "--dry-run", "--kernel", "bundled"]
    output = run(*arguments).output
    assert f"today: up fallback, down reuse-up ({loader}/configs/triton_3_2_0/{TARGET})" in output
    (package / "_version.py").write_text("version = '0.5.23'\n", encoding="utf-8")
    probe = environment(
        packages=[{"name": "sglang", "version": "0.5.12", "path": str(package)}],
    )
    output = run(*arguments, "--env", probe).output
    assert "is SGLang 0.5.23, the server's is 0.5.12; not used" in output
    assert "today: not known" in output


def test_a_busy_gpu_is_named_with_what_must_stop(bare_machine: Path, model: str) -> None:
    (bare_machine / "nvidia-smi").write_text(
        '#!/bin/sh\ncase "$1" in\n'
        '  --query-gpu=*) echo "0, GPU-a, NVIDIA H200, 120000, 143771, 580.1" ;;\n'
        '  *) echo "GPU-a, 999999999, sglang::scheduler_TP0" ;;\nesac\n',
        encoding="utf-8",
    )
    log = written(lines(TARGET))
    words = "by process 999999999 sglang::scheduler_TP0: stop that first"
    result = run("--from", log, "--model", model, "--dry-run")
    assert result.return_value == 0
    assert words in result.output
    text = refusal("--from", log, "--model", model)
    assert "measuring there would disturb both" in text
    assert "stop that first" in text


def test_a_plan_for_the_servers_gpu_is_made_beside_another(bare_machine: Path, model: str) -> None:
    (bare_machine / "nvidia-smi").write_text(
        '#!/bin/sh\ncase "$1" in\n'
        '  --query-gpu=*) echo "0, GPU-a, NVIDIA L40S, 0, 46068, 580.1" ;;\nesac\n',
        encoding="utf-8",
    )
    arguments = ["--from", written(lines(TARGET)), "--model", model]
    assert "no such GPU here: the plan is for NVIDIA H200" in run(*arguments, "--dry-run").output
    assert "never read there" in refusal(*arguments)


@pytest.mark.slow
def test_a_rehearsal_tunes_all_shapes_in_folders_of_their_own(model: str) -> None:
    fp8 = "E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8.json"
    log = written(lines(TARGET, INT4, fp8))
    arguments = ["--from", log, "--model", model, "--rehearse", "--effort", "quick"]
    arguments += ["--batch-sizes", "1", "--compilers", "1", "-o", "out", "--budget", "60s"]
    result = run(*arguments)
    assert result.return_value == 0, result.output
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "E128_N768",
        "E128_N768_fp8_w8a8",
    ]
    for folder in Path("out").iterdir():
        assert len(list(folder.glob("configs/*/*.json"))) == 2
        assert (folder / "tune-report.md").is_file()
        assert len(list(folder.glob("*.journal"))) == 1
    assert run(*arguments).output.count("0 measurements") == 2


@pytest.mark.slow
def test_a_shape_that_fails_while_it_is_tuned_does_not_stop_the_next(model: str) -> None:
    fp8 = "E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8.json"
    log = written(lines(TARGET, fp8))
    broken = Path("out/E128_N768/E=128,N=768,device_name=Rehearsal_GPU.journal")
    broken.parent.mkdir(parents=True)
    broken.write_text("this is no journal\n" * 100, encoding="utf-8")
    arguments = ["--from", log, "--model", model, "--rehearse", "--effort", "quick"]
    arguments += ["--batch-sizes", "1", "--compilers", "1", "-o", "out"]
    result = run(*arguments)
    assert result.return_value == 2
    assert f"cannot tune {TARGET}: " in result.output
    assert Path("out/E128_N768_fp8_w8a8/tune-report.md").is_file()


@pytest.mark.slow
def test_an_interrupt_ends_all_shapes(model: str) -> None:
    fp8 = "E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8.json"
    log = written(lines(TARGET, fp8))
    arguments = ["--from", log, "--model", model, "--rehearse", "--effort", "thorough"]
    command = [sys.executable, "-m", "advisor", "tune", *arguments, "--compilers", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "shape 1 of 2" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "shape 2 of 2" not in rest
