from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parent.parent / "fixtures" / "probe"

MakeVenv = Callable[..., Path]


@pytest.fixture
def make_venv(tmp_path: Path) -> MakeVenv:
    """Return a maker of virtual environments that hold the named fixture packages."""

    def make(name: str, *packages: str) -> Path:
        place = tmp_path / name
        venv.create(place, symlinks=True, with_pip=False)
        (site,) = place.glob("lib/python3*/site-packages")
        lines = [f"{FIXTURES / 'packages' / package}\n" for package in packages]
        (site / "fixtures.pth").write_text("".join(lines), encoding="utf-8")
        return place

    return make


@pytest.fixture
def fake_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the fake docker and kubectl first on PATH, and a bare Python as `python3`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python3").symlink_to(Path(sys.executable).resolve())
    path = os.pathsep.join((str(FIXTURES / "bin"), str(folder), "/usr/bin", "/bin"))
    monkeypatch.setenv("PATH", path)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    return folder


@pytest.fixture
def running_server(
    make_venv: MakeVenv, tmp_path: Path
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Return a starter of fake SGLang servers; each lives in a virtual environment of its own."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: str) -> subprocess.Popen[str]:
        python = make_venv("server", "server", "gpu") / "bin" / "python"
        environment = {
            "PATH": os.defpath,
            "SGLANG_MOE_CONFIG_DIR": str(tmp_path / "overlay"),
            "HF_TOKEN": "hf_abcdefghijklmnopqrst",
        }
        process = subprocess.Popen(
            [python, "-m", "sglang.launch_server", "--api-key", "my-own-word", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.communicate("")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep these tests in one process: some start servers that others would find running."""
    here = Path(__file__).resolve().parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("server processes"))
