from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from advisor.cli.probe import probe_command
from advisor.errors import ConfigError, InputError
from advisor.knowledge.environment import Environment, parse_environment

MakeVenv = Callable[..., Path]
StartServer = Callable[..., "subprocess.Popen[str]"]

pytestmark = pytest.mark.usefixtures("fake_programs")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(probe_command, arguments)


def environment_of(*arguments: str) -> Environment:
    result = run(*arguments)
    assert result.exit_code == 0, result.exception
    return parse_environment(result.stdout, "stdout")


def refusal_of(*arguments: str) -> str:
    result = run(*arguments)
    assert isinstance(result.exception, InputError | ConfigError), result.output
    assert "\n" not in str(result.exception)
    assert "\x1b" not in str(result.exception)
    return str(result.exception)


def notes_of(environment: Environment) -> str:
    assert environment.probe is not None
    return "\n".join(environment.probe.notes)


def test_venv_folder_is_probed_and_triton_elsewhere_is_named(
    make_venv: MakeVenv, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare, gpu = make_venv("bare"), make_venv("gpu", "gpu")
    monkeypatch.setenv("VIRTUAL_ENV", str(gpu))
    environment = environment_of("--python", str(bare))
    assert environment.python is not None
    assert environment.python.executable == str(bare / "bin" / "python")
    note = notes_of(environment)
    assert note.startswith(f"Triton is missing in {bare}/bin/python, but is in ")
    assert f"{gpu}/bin/python (3.6.0)" in note
    note = notes_of(environment_of("--python", str(gpu)))
    assert note.startswith(f"Triton 3.6.0 is in {gpu}/bin/python, but is missing in ")


def test_path_of_an_interpreter_is_taken_as_it_is(make_venv: MakeVenv) -> None:
    python = make_venv("gpu", "gpu") / "bin" / "python3"
    environment = environment_of("--python", str(python))
    assert environment.python is not None
    assert environment.python.executable == str(python)
    assert environment.package_version("triton") == "3.6.0"


def test_process_is_probed_in_its_own_venv_with_its_own_variables(
    running_server: StartServer, tmp_path: Path
) -> None:
    pid = running_server().pid
    environment = environment_of("--pid", str(pid))
    assert environment.python is not None
    assert environment.python.executable == str(tmp_path / "server" / "bin" / "python")
    assert environment.package_version("sglang") == "0.5.12"
    assert environment.variable("SGLANG_MOE_CONFIG_DIR") == str(tmp_path / "overlay")
    assert environment.variable("HF_TOKEN") == "[redacted]"
    assert "but is missing in" in notes_of(environment)


def test_running_server_is_found_without_being_named(running_server: StartServer) -> None:
    pid = running_server("--tp", "8").pid
    environment = environment_of()
    assert environment.probe is not None
    assert (environment.probe.interpreter_origin or "").startswith("running SGLang, process")
    (server,) = [server for server in environment.servers if server.pid == pid]
    assert server.role == "server"
    assert server.command[-4:] == ("--api-key", "[redacted]", "--tp", "8")


def test_worker_with_a_title_leads_to_its_venv_and_to_the_variables_of_its_launcher(
    running_server: StartServer, tmp_path: Path
) -> None:
    launcher = running_server("--worker").pid
    found = environment_of("--pid", str(launcher))
    (worker,) = [server for server in found.servers if server.role == "scheduler_TP0"]
    assert worker.command == ("sglang::scheduler_TP0",)
    environment = environment_of("--pid", str(worker.pid))
    assert environment.python is not None
    assert environment.python.executable == str(tmp_path / "server" / "bin" / "python")
    assert environment.variable("SGLANG_MOE_CONFIG_DIR") == str(tmp_path / "overlay")


def test_without_a_server_the_interpreter_with_the_most_is_taken(
    make_venv: MakeVenv, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = make_venv("server", "server")
    monkeypatch.setenv("VIRTUAL_ENV", str(place))
    environment = environment_of("--docker", "web")
    assert environment.probe is not None
    assert environment.probe.interpreter_origin == "VIRTUAL_ENV, holds sglang 0.5.12"


@pytest.mark.parametrize("name", ["web", "noisy", "shellless"])
def test_container_is_probed_whatever_its_image_has(name: str, fake_programs: Path) -> None:
    environment = environment_of("--docker", name, "--python", str(fake_programs / "python3"))
    assert environment.probe is not None
    assert environment.probe.target == f"container {name}"
    assert environment.python is not None
    assert environment.python.executable == str(fake_programs / "python3")


def test_pod_is_probed_in_its_namespace_and_container() -> None:
    environment = environment_of("--kubectl", "llm-0", "-n", "serving", "-c", "sglang")
    assert environment.probe is not None
    assert environment.probe.target == "pod llm-0"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--docker", "empty"), "container empty: no Python there: name one with --python"),
        (("--docker", "gone"), "container gone: no answer from the probe: Error response from"),
        (("--docker", "huge"), "docker printed more than 4 MiB"),
        (("--docker", "garbled"), "container garbled: unreadable answer"),
        (("--kubectl", "other"), "pod other: no answer from the probe: Error from server"),
        (("--python", "/nonexistent/python"), "this machine: no interpreter at /nonexistent"),
        (("--pid", "4194305"), "this machine: no process 4194305 here"),
        (("--pid", "1", "--python", "x"), "--pid and --python exclude each other"),
        (("--docker", "-v"), "container '-v' is not a valid name"),
        (("-o", "/nonexistent/env.json"), "/nonexistent/env.json: cannot be written"),
    ],
)
def test_what_cannot_be_probed_is_said_in_one_line(
    arguments: tuple[str, ...], message: str
) -> None:
    assert message in refusal_of(*arguments)


def test_program_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refusal_of("--docker", "web") == ("docker is not on PATH: install it or use another way")


def test_process_that_is_no_python_is_refused() -> None:
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as cat:
        assert f"process {cat.pid} is no Python" in refusal_of("--pid", str(cat.pid))
        cat.communicate()


def test_file_gets_json_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "out" / "env.json"
    target.parent.mkdir()
    result = run("-o", str(target))
    assert (result.exit_code, result.stdout) == (0, "")
    assert json.loads(target.read_text(encoding="utf-8"))["schema_version"] == 1
    assert list(target.parent.iterdir()) == [target]


def test_summary_says_versions_gpus_and_notes(make_venv: MakeVenv) -> None:
    place = make_venv("all", "gpu", "server")
    result = run("--python", str(place), "--format", "terminal")
    assert result.exit_code == 0
    for text in (
        "2.9.1+cu130 (metadata says 2.9.1)",
        "NVIDIA H200, SM 9.0, 139.7 GiB, 132 SMs, shared memory per block 232448 bytes",
        "Triton 3.2.0: 2, Triton 3.6.0: 1, without version: 1",
        "flashinfer           ! not installed",
        "note                 Triton 3.6.0 is in",
    ):
        assert text in result.stdout
