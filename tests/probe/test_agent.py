from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import advisor.probe
from advisor.knowledge.environment import Environment, parse_environment

AGENT = Path(advisor.probe.__file__).with_name("agent.py")
FINDER = Path(advisor.probe.__file__).with_name("finder.py")
FIXTURES = Path(__file__).parent.parent / "fixtures" / "probe"
MakeVenv = Callable[..., Path]


def run_agent(place: Path, *arguments: str, **variables: str) -> Environment:
    """Run the agent over stdin in a virtual environment, with these variables only."""
    environment = {"PATH": os.defpath, "HOME": "/nonexistent", **variables}
    done = subprocess.run(
        [place / "bin" / "python", "-", *arguments],
        input=AGENT.read_bytes(),
        capture_output=True,
        env=environment,
        cwd="/",
        check=True,
    )
    assert done.stderr == b""
    return parse_environment(done.stdout.decode(), "agent")


def version_and_error(environment: Environment, name: str) -> tuple[str | None, str | None]:
    package = environment.package(name)
    assert package is not None
    return package.version, package.error


def test_bare_interpreter_says_what_is_not_installed(make_venv: MakeVenv) -> None:
    place = make_venv("bare")
    environment = run_agent(place)
    assert environment.python is not None
    assert environment.python.executable == str(place / "bin" / "python")
    assert environment.python.virtual_environment is True
    assert version_and_error(environment, "torch") == (None, "not installed")
    assert version_and_error(environment, "sgl_kernel") == (None, "not installed")
    assert environment.error("torch") == "ModuleNotFoundError: No module named 'torch'"
    assert (environment.error("gpus") or "").startswith("no GPU found")
    assert environment.shared_memory is not None
    assert {limit.name for limit in environment.limits} >= {"nofile", "memlock"}


def test_script_run_as_a_file_gives_the_same_as_over_stdin(make_venv: MakeVenv) -> None:
    place = make_venv("bare")
    environment = {"PATH": os.defpath, "HOME": "/nonexistent"}
    done = subprocess.run(
        [place / "bin" / "python", AGENT], capture_output=True, env=environment, check=True
    )
    over_stdin = run_agent(place)
    as_file = parse_environment(done.stdout.decode(), "agent")
    assert as_file.packages == over_stdin.packages
    assert as_file.python == over_stdin.python


def test_torch_tells_gpu_and_versions(make_venv: MakeVenv) -> None:
    environment = run_agent(make_venv("gpu", "gpu"))
    assert environment.package_version("torch") == "2.9.1+cu130"
    assert environment.package_version("triton") == "3.6.0"
    assert environment.torch is not None
    assert environment.torch.nccl_version == "2.28.9"
    assert environment.gpus is not None
    assert environment.gpus.source == "torch"
    (device,) = environment.gpus.devices
    assert (device.name, device.sm, device.sm_count) == ("NVIDIA H200", "9.0", 132)
    assert device.shared_memory_per_block_optin_bytes == 232448


def test_broken_torch_degrades_to_its_first_line(make_venv: MakeVenv) -> None:
    environment = run_agent(make_venv("broken", "broken"))
    text = "ImportError: libcudart.so.13: cannot open shared object file"
    assert version_and_error(environment, "torch") == ("2.9.1", text)
    assert version_and_error(environment, "triton") == (None, "not installed")


def test_crashing_torch_degrades_to_its_signal(make_venv: MakeVenv) -> None:
    environment = run_agent(make_venv("crashing", "crashing"))
    assert version_and_error(environment, "torch")[1] == "the interpreter crashed (signal 11)"


def test_hanging_torch_is_given_up_after_the_limit(make_venv: MakeVenv) -> None:
    environment = run_agent(make_venv("hanging", "hanging"), "3")
    assert version_and_error(environment, "torch") == ("2.9.1", "no answer within 3 s")
    assert environment.package_version("torch") == "2.9.1"


def test_file_of_the_working_directory_is_not_taken_for_a_package(make_venv: MakeVenv) -> None:
    done = subprocess.run(
        [make_venv("gpu", "gpu") / "bin" / "python", "-"],
        input=AGENT.read_bytes(),
        capture_output=True,
        cwd=FIXTURES / "packages" / "stray",
        check=True,
    )
    environment = parse_environment(done.stdout.decode(), "agent")
    assert environment.package_version("torch") == "2.9.1+cu130"


def test_sglang_is_described_but_never_imported(make_venv: MakeVenv, tmp_path: Path) -> None:
    mark = tmp_path / "imported"
    place = make_venv("server", "server")
    environment = run_agent(place, SGLANG_IMPORT_MARK=str(mark))
    assert version_and_error(environment, "sglang") == ("0.5.12", None)
    kernel = environment.package("sgl_kernel")
    assert kernel is not None
    assert (kernel.distribution, kernel.version) == ("sglang-kernel", "0.4.4")
    assert not mark.exists()


def test_moe_config_folders_are_counted_and_the_override_is_named(
    make_venv: MakeVenv, tmp_path: Path
) -> None:
    environment = run_agent(make_venv("s", "server"), SGLANG_MOE_CONFIG_DIR=str(tmp_path / "no"))
    assert environment.moe_configs is not None
    bundled, override = environment.moe_configs.folders
    assert (bundled.origin, bundled.layout, bundled.loose_files) == ("bundled", "triton_utils", 1)
    assert {t.version: t.files for t in bundled.triton} == {"3.2.0": 2, "3.6.0": 1}
    assert (override.origin, override.error) == ("override", "no such folder")
    assert environment.moe_configs.override == str(tmp_path / "no")


SECRETS = {
    "SGLANG_API_KEY": "opensesame",
    "HF_TOKEN": "hf_0123456789abcdefghij",
    "SGLANG_S3_SECRET_ACCESS_KEY": "aws/secret+word",
    "NCCL_SOMETHING": "Bearer abcdefghijkl",
    "SGLANG_STORE_CONFIG": '{"password": "word-in-json"}',
    "TORCH_STORE": "redis://me:in-the-url@host/0",
    "CUDA_PIN_TOKEN": "12345678",
}
HARMLESS = {
    "SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION": "4096",
    "SGLANG_LOG_DECODE_GRAPH_KEY": "1",
    "SGLANG_INIT_NEW_TOKEN_RATIO": "0.7",
    "CUDA_VISIBLE_DEVICES": "0,1",
    "NCCL_P2P_LEVEL": "SYS",
    "LD_LIBRARY_PATH": "/usr/local/cuda/lib64",
}


def test_secret_values_stay_behind_and_harmless_ones_come(make_venv: MakeVenv) -> None:
    environment = run_agent(make_venv("bare"), **SECRETS, **HARMLESS, UNRELATED="kept back")
    told = {variable.name: variable.value for variable in environment.variables}
    assert set(told) == set(SECRETS) | set(HARMLESS)
    assert {name: told[name] for name in HARMLESS} == HARMLESS
    assert told["TORCH_STORE"] == "redis://[redacted]@host/0"
    assert {told[name] for name in SECRETS if name != "TORCH_STORE"} == {"[redacted]"}


def test_nvidia_smi_is_asked_when_nothing_else_answers(make_venv: MakeVenv) -> None:
    path = f"{FIXTURES / 'bin'}:{os.defpath}"
    environment = run_agent(make_venv("bare"), PATH=path)
    assert environment.gpus is not None
    assert environment.gpus.source == "nvidia-smi"
    assert environment.gpus.cuda_driver_version == "13.0"
    (device,) = environment.gpus.devices
    assert (device.sm, device.pci_bus_id) == ("9.0", "0000:17:00.0")
    assert device.memory_bytes == 143771 << 20


@pytest.fixture
def driver_libraries(tmp_path: Path) -> Path:
    """Compile libraries with the driver's interface."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler for the stand-ins of libcuda and NVML")
    folder = tmp_path / "driver"
    folder.mkdir()
    for source in (FIXTURES / "native").glob("*.c"):
        target = folder / f"{source.stem}.so.1"
        subprocess.run([compiler, "-w", "-shared", "-fPIC", "-o", target, source], check=True)
    return folder


@pytest.mark.slow
def test_driver_libraries_tell_gpus_processes_and_links(
    make_venv: MakeVenv, driver_libraries: Path
) -> None:
    environment = run_agent(make_venv("bare"), LD_LIBRARY_PATH=str(driver_libraries))
    gpus = environment.gpus
    assert gpus is not None
    assert (gpus.source, gpus.driver_version, gpus.cuda_driver_version) == (
        "libcuda",
        "580.65.06",
        "13.0",
    )
    assert gpus.installed_count == 2
    (device,) = gpus.devices
    assert (device.index, device.installed_index, device.uuid) == (0, 1, "GPU-1")
    assert (device.sm, device.sm_count) == ("9.0", 132)
    assert device.shared_memory_per_block_optin_bytes == 232448
    assert (device.pcie_generation, device.pcie_width, device.nvlink_count) == (5, 16, 4)
    assert [(p.pid, p.installed_index, p.used_bytes) for p in gpus.processes] == [
        (4000001, 1, 90_000_000_000),
        (4000002, 1, None),
    ]
    (link,) = gpus.links
    assert (link.path, link.nvlink, link.peer_access) == ("NUMA node", True, False)


@pytest.mark.slow
def test_torch_is_completed_from_the_driver(make_venv: MakeVenv, driver_libraries: Path) -> None:
    environment = run_agent(make_venv("gpu", "gpu"), LD_LIBRARY_PATH=str(driver_libraries))
    assert environment.gpus is not None
    assert environment.gpus.source == "torch"
    (device,) = environment.gpus.devices
    assert (device.uuid, device.used_bytes) == ("GPU-1", 100_000_000_000)


@pytest.mark.parametrize("script", [AGENT, FINDER])
def test_scripts_keep_to_old_syntax_and_to_the_standard_library(script: Path) -> None:
    tree = ast.parse(script.read_text(encoding="utf-8"), feature_version=(3, 6))
    imported = {
        (alias.name if isinstance(node, ast.Import) else node.module or "").partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported - set(sys.stdlib_module_names) <= {"torch", "triton"}


def test_agent_answers_one_line_of_json(make_venv: MakeVenv) -> None:
    done = subprocess.run(
        [make_venv("bare") / "bin" / "python", AGENT], capture_output=True, check=True
    )
    assert done.stdout.count(b"\n") == 1
    assert json.loads(done.stdout)["schema_version"] == 1
