"""`advisor rules` as the writer of a rule uses it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from advisor.cli.main import run
from advisor.report.rule_text import readable
from advisor.rules.load import read_folder


def rules(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = run(["rules", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def pack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """Return a folder of one's own rules with a new one in it."""
    code, out, _ = rules("new", "widget-small", "--rules", str(tmp_path / "pack"), capsys=capsys)
    assert code == 0
    assert out.startswith(str(tmp_path / "pack" / "own" / "widget-small.yaml"))
    return tmp_path / "pack"


def edit(pack: Path, old: str, new: str) -> int:
    """Replace text of the new rule and return the line that it stands in."""
    path = pack / "own" / "widget-small.yaml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return text[: text.index(old)].count("\n") + 1


def test_a_new_rule_is_accepted_as_it_is_and_tells_what_to_fill_in(
    pack: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = rules("check", str(pack), capsys=capsys)
    assert (code, out) == (0, "1 rules, 2 examples: all hold\n")
    text = (pack / "own" / "widget-small.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(text)["id"] == "widget-small"
    assert text.count("#") > 10


def test_a_new_rule_never_replaces_one(pack: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = rules("new", "widget-small", "--rules", str(pack), capsys=capsys)
    assert code == 2
    assert "exists already" in err


@pytest.mark.parametrize("name", ["Widget", "widget_small", "../widget", "a/b", ""])
def test_an_id_that_is_none_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = rules("new", name, "--rules", str(tmp_path), capsys=capsys)
    assert code == 2
    assert "words of a-z and 0-9 joined by hyphens" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("topic: startup", "topic: startpu", "unknown topic 'startpu' (did you mean 'startup'?)"),
        ("confidence: certain", "confidnce: certain", "(did you mean 'confidence'?)"),
        (
            "  The widget works with {{ slots }}",
            "  The widget works with {{ slot }}",
            "unknown name 'slot' in a text (did you mean 'slots'?)",
        ),
        (
            "    command: ",
            "    when: {gpu.sn: 90}\n    command: ",
            "unknown fact 'gpu.sn' (did you mean 'gpu.sm'?)",
        ),
        (
            "  What causes it;",
            "  {{ gpu.nam }} causes it;",
            "unknown fact 'gpu.nam' in a text (did you mean 'gpu.name'?)",
        ),
        ("(?P<slots>", "(?P<slots", "bad pattern"),
        (
            "references: []",
            "suppresses: [server-dyed]\nreferences: []",
            "suppresses the unknown rule 'server-dyed' (did you mean 'server-died'?)",
        ),
        (
            "summary: >-\n",
            "when: {rule: port-in-us}\nsummary: >-\n",
            "asks for the unknown rule 'port-in-us' (did you mean 'port-in-use'?)",
        ),
        ("with 8 slots.", "with 9 slots.", "expected the summary"),
        ("expect: quiet", "expect: fires", "expected fires, is quiet"),
        ("expect: quiet", "expect: quite", "expect is one of fires, quiet, skipped"),
        ("the nearest healthy line", "a small widget", "2 examples are named 'a small widget'"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_what_was_meant(
    pack: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, problem: str
) -> None:
    line = edit(pack, old, new)
    code, _, err = rules("check", str(pack), capsys=capsys)
    assert code == 2
    told = [text for text in err.splitlines() if problem in text]
    assert told, err
    places = [int(text.split(".yaml:")[1].split(":")[0]) for text in told]
    assert any(line - 6 <= place <= line + 1 for place in places)


def test_mistakes_of_all_kinds_and_files_come_at_once(
    pack: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules("new", "widget-other", "--rules", str(pack), capsys=capsys)
    other = pack / "own" / "widget-other.yaml"
    broken = other.read_text(encoding="utf-8").replace("severity:", "severty:")
    other.write_text(broken, encoding="utf-8")
    edit(pack, "{{ slots }} slots.", "{{ slotz }} slots.")
    (pack / "own" / "no-rule.yaml").write_bytes(b"\xff")
    code, _, err = rules("check", str(pack), capsys=capsys)
    assert code == 2
    for text in ("unknown key 'severty'", "missing key 'severity'", "'slotz'", "cannot be read"):
        assert text in err


def test_a_pack_of_ones_own_takes_part_in_every_command(
    pack: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, listed, _ = rules("list", "--rules", str(pack), capsys=capsys)
    assert "widget-small" in listed
    _, page, _ = rules("explain", "widget-small", "--rules", str(pack), capsys=capsys)
    assert "**The widget has {slots} slots**" in page
    assert "For the example below: warning, “The widget has 8 slots”." in page
    log = pack / "x.log"
    log.write_text("[2026-03-04 05:06:07 TP0] widget is limited to 8 slots\n", encoding="utf-8")
    assert run(["diagnose", str(log), "--rules", str(pack), "--format", "json"]) == 0


def test_an_unknown_rule_has_a_near_miss(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = rules("explain", "port-in-us", capsys=capsys)
    assert (code, err) == (2, "advisor: no rule 'port-in-us' (did you mean 'port-in-use'?)\n")


@pytest.fixture
def pack_alone(pack: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the commands see the rules of the pack only: pages of all take a while."""
    monkeypatch.setattr("advisor.cli.rule_writing.load_rules", lambda _: read_folder(pack))
    return pack


def test_pages_are_written_checked_and_removed(
    tmp_path: Path, pack_alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = tmp_path / "pages"
    command = ("docs", str(pages))
    assert rules(*command, "--check", capsys=capsys)[0] == 1
    assert rules(*command, capsys=capsys)[0] == 0
    assert rules(*command, "--check", capsys=capsys) == (0, "", "")
    catalogue = (pages / "README.md").read_text(encoding="utf-8")
    assert "[widget-small](widget-small.md)" in catalogue
    (pages / "gone-rule.md").write_text("# gone-rule\n", encoding="utf-8")
    (pages / "widget-small.md").write_text("# edited by hand\n", encoding="utf-8")
    code, _, err = rules(*command, "--check", capsys=capsys)
    assert code == 1
    assert [line.split(":")[0].rsplit("/", 1)[1] for line in err.splitlines()] == [
        "widget-small.md",
        "gone-rule.md",
    ]
    assert rules(*command, capsys=capsys)[0] == 0
    assert not (pages / "gone-rule.md").exists()


@pytest.mark.usefixtures("pack_alone")
def test_a_page_that_is_no_rules_is_never_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.md").write_text("# My notes\n", encoding="utf-8")
    code, _, err = rules("docs", str(tmp_path), capsys=capsys)
    assert code == 2
    assert "is no page of a rule" in err
    assert (tmp_path / "notes.md").exists()


@pytest.mark.parametrize(
    ("template", "shown"),
    [
        ("plain", "plain"),
        ("{{ flag('--x') or '--x' }} 3", "--x 3"),
        ("{{ slots|int|thousands }} slots", "{slots} slots"),
        ("{{ 48 * per_request|int }}", "{per_request}"),
        ("time{{ 's' if count != 1 }}", "time[s]"),
        ("{{ 'on' if graph else 'off' }}", "[on / off]"),
        ("a{% if b %} and {{ b }}{% endif %}.", "a [and {b}]."),
        ("{% if a %}x{% elif b %}y{% else %}z{% endif %}", "[x / y / z]"),
        ("{% if a %}{% if b %}x{% endif %}{% endif %}", "[[x]]"),
        ("{% for item in items %}{{ item }}{% endfor %}", "[{item}]"),
        ("{% endif %}{% else %}text", "text"),
    ],
)
def test_templates_are_readable(template: str, shown: str) -> None:
    assert readable(template) == shown
