"""The cache of parsed rules is a shortcut: whatever is wrong with it, the rules are the same."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from advisor.errors import RuleError
from advisor.rules.cache import RuleFile, cache_key, load, store
from advisor.rules.codec import decode, encode
from advisor.rules.load import bundled_rules, read_folder
from advisor.rules.parse import parse_rule
from advisor.shelf import FOLDER_VARIABLE, OFF
from advisor.shelf import folder as cache_folder

TEXT = """\
id: {id}
title: "{{{{ count }}}} times"
topic: startup
severity: warning
category: startup
signals:
  - literal: the cause
    sglang: 0.5.9 – 0.5.12
    emitted_by: managers/scheduler
when:
  all:
    - gpu.sm: {{at_least: 90}}
    - args.tp_size: {{one_of: [1, 2]}}
    - versions.sglang: {{within: from 0.5.9}}
    - rule: another-rule
    - signal: line
summary: A summary.
why: A reason.
actions: [{{title: Do it, when: {{args.tp_size: 2}}}}]
cases: [{{when: {{gpu.sm: 90}}, severity: note}}]
values: {{target: "7"}}
examples: [{{name: it, expect: fires, log: the cause, severity: note, summary: A summary.}}]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty cache folder in use."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr("advisor.rules.load._FEWEST_CACHED", 1)
    return tmp_path / "cache"


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    """Return a folder with one rule."""
    place = tmp_path / "pack"
    place.mkdir()
    (place / "a-rule.yaml").write_text(TEXT.format(id="a-rule"), encoding="utf-8")
    return place


def kept(folder: Path) -> Path:
    """Return the only file of the cache."""
    (path,) = folder.iterdir()
    return path


def test_every_bundled_rule_comes_back_as_it_was() -> None:
    for rule in bundled_rules():
        assert decode(json.loads(json.dumps(encode(rule)))) == rule


def test_a_rule_with_every_kind_of_condition_comes_back_as_it_was() -> None:
    rule, problems = parse_rule(
        TEXT.format(id="a-rule"), file="a-rule.yaml", family="test", stem="a-rule"
    )
    assert rule is not None, problems
    assert decode(json.loads(json.dumps(encode(rule)))) == rule


def test_the_second_reading_takes_the_rules_from_the_cache(
    folder: Path, pack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = read_folder(pack)
    monkeypatch.setattr("advisor.rules.load.parse_rule", None)
    assert read_folder(pack) == first
    assert kept(folder).stat().st_mode & 0o077 == 0


def test_a_few_files_are_not_worth_a_cache(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cache"))
    assert len(read_folder(pack)) == 1
    assert not (tmp_path / "cache").exists()


def test_a_changed_rule_is_read_anew(folder: Path, pack: Path) -> None:
    read_folder(pack)
    text = TEXT.format(id="a-rule").replace("severity: warning", "severity: error")
    (pack / "a-rule.yaml").write_text(text, encoding="utf-8")
    (rule,) = read_folder(pack)
    assert rule.wording.severity == "error"
    assert len(list(folder.iterdir())) == 2


def test_mistakes_are_never_kept(folder: Path, pack: Path) -> None:
    (pack / "b-rule.yaml").write_text("id: another\n", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(RuleError, match="differs from the file's name"):
            read_folder(pack)
    assert not folder.exists()


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda content: b"", id="empty"),
        pytest.param(lambda content: content[:-20], id="cut off"),
        pytest.param(lambda content: content.replace(b"cause", b"other"), id="edited"),
        pytest.param(lambda content: b"\x80\x04\x95" + content, id="a pickle"),
        pytest.param(lambda content: b"[" * 100_000, id="deeply nested"),
    ],
)
def test_a_broken_cache_is_passed_over_and_mended(folder: Path, pack: Path, spoil) -> None:  # type: ignore[no-untyped-def]
    whole = read_folder(pack)
    content = kept(folder).read_bytes()
    kept(folder).write_bytes(spoil(content))
    assert read_folder(pack) == whole
    assert kept(folder).read_bytes() == content


def test_a_cache_with_a_right_checksum_and_wrong_content_is_passed_over(folder: Path) -> None:
    import hashlib

    files = [RuleFile(place="p", family="f", stem="s", text="t")]
    store(cache_key(files), [])
    for payload in (b"7", b'{"a": 1}', b"[[]]", b"[[[1, 2, 3, 4, 5, 6], [], []]]"):
        checksum = hashlib.sha256(payload).hexdigest().encode()
        kept(folder).write_bytes(checksum + b"\n" + payload)
        assert load(cache_key(files)) is None


@pytest.mark.parametrize("mode", [0o660, 0o606])
def test_a_cache_that_others_can_write_is_passed_over(folder: Path, pack: Path, mode: int) -> None:
    read_folder(pack)
    key = cache_key([])
    store(key, ())
    path = max(folder.iterdir(), key=lambda item: item.name == f"rules-{key[:32]}.json")
    assert load(key) == ()
    path.chmod(mode)
    assert load(key) is None


def test_a_link_in_the_place_of_a_cache_is_not_followed(folder: Path, tmp_path: Path) -> None:
    key = cache_key([])
    store(key, ())
    moved = kept(folder).rename(tmp_path / "elsewhere.json")
    (folder / f"rules-{key[:32]}.json").symlink_to(moved)
    assert load(key) is None


def test_a_folder_that_cannot_be_written_costs_only_the_shortcut(
    tmp_path: Path, pack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "file" / "below"))
    assert [rule.id for rule in read_folder(pack)] == ["a-rule"]
    monkeypatch.setenv(FOLDER_VARIABLE, OFF)
    assert cache_folder() is None
    assert [rule.id for rule in read_folder(pack)] == ["a-rule"]


def test_only_the_newest_caches_stay(folder: Path) -> None:
    for number in range(7):
        file = RuleFile(place="p", family="f", stem="s", text=str(number))
        store(cache_key([file]), [])
        for age, path in enumerate(sorted(folder.iterdir(), key=os.path.getmtime, reverse=True)):
            os.utime(path, (1_000_000 - age, 1_000_000 - age))
    assert len(list(folder.iterdir())) <= 5


def test_the_cache_lies_where_the_system_keeps_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/somebody")
    assert cache_folder() == Path("/var/cache/somebody/sglang-advisor")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache_folder() == Path("/home/somebody/.cache/sglang-advisor")


def test_another_family_or_place_is_another_cache() -> None:
    one = RuleFile(place="p", family="f", stem="s", text="t")
    other = RuleFile(place="p", family="g", stem="s", text="t")
    assert cache_key([one]) != cache_key([other])
    assert cache_key([one]) == cache_key([one])
