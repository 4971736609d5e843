"""What is kept between runs is only a shortcut: the answer is the same without it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from advisor import shelf
from advisor.resources import parse_yaml, read_data

DATA = sorted(
    entry.name
    for entry in files("advisor").joinpath("data").iterdir()
    if entry.name.endswith(".yaml")
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(shelf.FOLDER_VARIABLE, str(tmp_path / "kept"))
    return tmp_path / "kept"


@pytest.mark.parametrize("name", DATA)
def test_every_data_file_reads_alike_with_and_without_the_shelf(name: str, folder: Path) -> None:
    text = files("advisor").joinpath("data", name).read_text(encoding="utf-8")
    expected = parse_yaml(text)
    assert read_data(name) == expected
    assert read_data(name) == expected


def test_a_value_that_json_would_change_is_not_kept(folder: Path) -> None:
    shelf.store("kind", "key", {90: "a number as key"}, kept=2)
    assert shelf.load("kind", "key") is None


def test_only_the_newest_of_a_kind_stay(folder: Path) -> None:
    for number in range(5):
        shelf.store("kind", f"key{number}", [number], kept=2)
    shelf.store("other", "key", [7], kept=2)
    assert len(list(folder.glob("kind-*"))) == 2
    assert shelf.load("other", "key") == [7]


def test_switched_off_nothing_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(shelf.FOLDER_VARIABLE, shelf.OFF)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    shelf.store("kind", "key", [1], kept=2)
    assert list(tmp_path.iterdir()) == []
    assert shelf.load("kind", "key") is None


def test_what_others_may_have_written_is_passed_over(folder: Path) -> None:
    shelf.store("kind", "key", [1], kept=2)
    (path,) = folder.iterdir()
    path.chmod(0o666)
    assert shelf.load("kind", "key") is None
