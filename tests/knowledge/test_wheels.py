from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from advisor.errors import InputError
from advisor.knowledge.drift import interface_drift
from advisor.knowledge.extract import extract
from advisor.knowledge.releases import known_releases
from advisor.knowledge.wheels import CACHE_VARIABLE, cache_folder, find_wheel, wheel

ROOT = Path(__file__).parent.parent.parent
VERSIONS = [release.version for release in known_releases()]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "wheels"))
    (tmp_path / "wheels").mkdir()
    return tmp_path / "wheels"


def fetched(version: str) -> Path:
    try:
        return wheel(version)
    except InputError as error:
        pytest.skip(str(error))


def test_a_wheel_in_the_cache_is_found(cache: Path) -> None:
    name = "sglang-0.5.12.post1-cp311-cp311-manylinux_2_34_x86_64.whl"
    (cache / name).touch()
    (cache / "sglang-nonsense.whl").touch()
    (cache / "sglang_router-0.5.12-py3-none-any.whl").touch()
    assert wheel("0.5.12.post1") == cache / name
    assert find_wheel("0.5.12") is None


def test_the_cache_is_in_the_home_folder_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache_folder() == Path("/home/somebody/.cache/sglang-advisor/wheels")


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("text", ["latest", "", "0.5.9; rm -rf /", "--help"])
def test_what_is_no_version_never_reaches_pip(text: str) -> None:
    with pytest.raises(InputError, match="is no SGLang version"):
        wheel(text)


@pytest.mark.slow
def test_without_an_index_one_line_says_so(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(InputError) as caught:
        wheel("0.5.9")
    assert "\n" not in str(caught.value)
    assert list(cache.iterdir()) == []


@pytest.mark.network
@pytest.mark.parametrize("version", VERSIONS)
def test_the_data_is_what_the_wheel_says(version: str) -> None:
    assert interface_drift(extract(fetched(version))) == ()


@pytest.mark.network
@pytest.mark.slow
def test_regenerating_the_data_changes_nothing() -> None:
    folders = {fetched(version).parent for version in VERSIONS}
    script = ROOT / "tools" / "extract_release_data.py"
    done = subprocess.run(
        [sys.executable, str(script), str(folders.pop()), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
