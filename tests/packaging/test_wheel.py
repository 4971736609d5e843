"""A wheel in an empty environment, away from the checkout, diagnoses as the checkout does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOG = ROOT / "tests" / "fixtures" / "logs" / "qwen35-nextn-oom.log"

pytestmark = [pytest.mark.slow, pytest.mark.network]


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        capture_output=True,
        text=True,
        env=bare,
        check=False,
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment that holds the built wheel and what it needs."""
    place = tmp_path_factory.mktemp("wheel")
    built = run(sys.executable, "-m", "build", "--wheel", "--outdir", place, ROOT, cwd=place)
    if built.returncode != 0:
        pytest.skip(f"no wheel without a package index: {built.stderr.strip()[-200:]}")
    venv.create(place / "env", with_pip=True)
    python = place / "env" / "bin" / "python"
    (wheel,) = place.glob("*.whl")
    got = run(python, "-m", "pip", "install", "--quiet", wheel, cwd=place)
    if got.returncode != 0:
        pytest.skip(f"no install without a package index: {got.stderr.strip()[-200:]}")
    return python


def test_the_wheel_holds_every_rule_template_and_data_file(installed: Path) -> None:
    listing = (
        "from advisor.resources import bundled; from importlib.resources import files; import json;"
        "names = lambda place: sorted(n for e in place.iterdir() for n in"
        " ([f'{e.name}/{m}' for m in names(e)] if e.is_dir() else [e.name]) if '__' not in n);"
        "print(json.dumps([names(bundled('rules')), names(bundled('templates')),"
        " names(files('advisor') / 'data')]))"
    )
    theirs = run(installed, "-c", listing, cwd=installed.parent)
    ours = run(sys.executable, "-c", listing, cwd=ROOT)
    assert theirs.returncode == 0, theirs.stderr
    assert json.loads(theirs.stdout) == json.loads(ours.stdout)


def test_the_wheel_reports_as_the_checkout_does(installed: Path) -> None:
    command = ("-m", "advisor", "diagnose", LOG, "--format", "json")
    theirs = run(installed, *command, cwd=installed.parent)
    ours = run(sys.executable, *command, cwd=installed.parent)
    assert theirs.stdout == ours.stdout
    assert theirs.returncode == ours.returncode == 1


def test_diagnosing_needs_none_of_the_heavy_packages(installed: Path) -> None:
    code = (
        "import sys; from advisor.cli.main import run; run(['diagnose', sys.argv[1], '-q']);"
        "print(sorted({'torch', 'triton', 'ray'} & set(sys.modules)))"
    )
    done = run(installed, "-c", code, LOG, cwd=installed.parent)
    assert done.stdout.splitlines()[-1] == "[]"
    listed = run(installed, "-m", "pip", "list", "--format", "json", cwd=installed.parent)
    names = {package["name"].lower() for package in json.loads(listed.stdout)}
    assert names.isdisjoint({"torch", "triton", "ray"})
