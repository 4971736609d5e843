"""`advisor diagnose`: formats and files as a user asks for them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from advisor.cli.main import run

FIXTURES = Path(__file__).parent.parent / "fixtures"
LOG = str(FIXTURES / "logs" / "qwen35-nextn-oom.log")
RULES = str(FIXTURES / "report" / "rules")


def diagnose(*options: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = run(["diagnose", LOG, "--rules", RULES, *options])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_terminal_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = diagnose("--width", "80", capsys=capsys)
    assert code == 1
    assert "The server did not start: OutOfMemoryError" in out
    assert out.endswith("gate: fail-on=error -> failed\n")
    assert err == ""


def test_several_formats_in_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = {"sarif": "a.sarif", "junit": "a.xml", "html": "a.html", "markdown": "with:colon.md"}
    options: list[str] = []
    for form, name in names.items():
        options += ["--output", f"{form}:{tmp_path / name}"]
    code, out, _ = diagnose(
        "--format", "json", "-o", str(tmp_path / "a.json"), *options, capsys=capsys
    )
    assert code == 1
    assert out == ""
    assert json.loads((tmp_path / "a.json").read_text())["exit_code"] == 1
    assert json.loads((tmp_path / "a.sarif").read_text())["version"] == "2.1.0"
    assert (tmp_path / "a.xml").read_text().startswith("<?xml")
    assert (tmp_path / "a.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "with:colon.md").read_text().startswith("# Advisor: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*names.values(), "a.json"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--output", "ticket.md"], "write FORMAT:FILE, such as markdown:ticket.md"),
        (["--output", "sarif:"], "write FORMAT:FILE"),
        (["--output", "pdf:a.pdf"], "no format 'pdf'; there are terminal, markdown, html, json"),
        (["--output", "json:a", "-o", "a"], "two reports would be written to this file"),
        (["--output", "json:/no/such/folder/a.json"], "cannot be written"),
    ],
)
def test_a_mistaken_output_is_one_line_and_exit_code_2(
    options: Sequence[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = diagnose(*options, capsys=capsys)
    assert code == 2
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_colour_only_where_it_is_wanted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in diagnose(capsys=capsys)[1]
    diagnose("-o", str(tmp_path / "a.txt"), capsys=capsys)
    assert "\x1b[" not in (tmp_path / "a.txt").read_text()
    diagnose("--output", f"terminal:{tmp_path / 'b.txt'}", capsys=capsys)
    assert "\x1b[" not in (tmp_path / "b.txt").read_text()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in diagnose(capsys=capsys)[1]


def test_paths_are_those_of_the_checkout_around_the_working_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    monkeypatch.delenv("CI_PROJECT_DIR", raising=False)
    (tmp_path / ".git").mkdir()
    folder = tmp_path / "deploy"
    folder.mkdir()
    (folder / "server.log").write_bytes(Path(LOG).read_bytes())
    monkeypatch.chdir(folder)
    run(
        [
            "diagnose",
            "server.log",
            str(folder / "server.log"),
            "--rules",
            RULES,
            "--format",
            "sarif",
        ]
    )
    results = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    uris = {
        place["physicalLocation"]["artifactLocation"]["uri"]
        for result in results
        for place in result["locations"]
    }
    assert uris == {"deploy/server.log"}


def test_a_category_names_the_upload(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = diagnose("--format", "sarif", "--category", "llm-0", capsys=capsys)
    assert json.loads(out)["runs"][0]["automationDetails"]["id"] == "llm-0/"
