"""Reports of real logs by a small fixed rule set, and of made ones, as they stand."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import regex
from syrupy.assertion import SnapshotAssertion

from advisor import __version__
from advisor.diagnosis import Report
from advisor.report.formats import FORMATS, Style

LOGS = (
    "qwen3moe-default",
    "qwen35-hybrid-default",
    "qwen35-nextn-oom",
    "qwen3moe-overlay-too-much-smem",
    "llama-retract",
)
STYLE = Style(width=80)


def without_version(text: str) -> str:
    return text.replace(f'"{__version__}"', '"VERSION"')


@pytest.mark.parametrize("log", LOGS)
def test_terminal(
    log: str, diagnosed: Callable[[str], Report], snapshot: SnapshotAssertion
) -> None:
    assert FORMATS["terminal"](diagnosed(log), STYLE) == snapshot


def test_wide_terminal(diagnosed: Callable[[str], Report], snapshot: SnapshotAssertion) -> None:
    assert FORMATS["terminal"](diagnosed("llama-retract"), Style(width=120)) == snapshot


@pytest.mark.parametrize("name", ["healthy", "crash", "long-path", "bare"])
def test_terminal_of_made_reports(
    name: str, made: dict[str, Report], snapshot: SnapshotAssertion
) -> None:
    assert FORMATS["terminal"](made[name], STYLE) == snapshot


@pytest.mark.parametrize("form", ["markdown", "jsonl", "sarif", "junit", "github", "gitlab"])
def test_other_formats(
    form: str, diagnosed: Callable[[str], Report], snapshot: SnapshotAssertion
) -> None:
    assert without_version(FORMATS[form](diagnosed("qwen35-nextn-oom"), STYLE)) == snapshot


def test_json_besides_the_facts(
    diagnosed: Callable[[str], Report], snapshot: SnapshotAssertion
) -> None:
    document = json.loads(FORMATS["json"](diagnosed("qwen35-nextn-oom"), STYLE))
    assert document.pop("facts")["model"] == "/models/Qwen3.5-122B-A10B-8layers"
    assert without_version(json.dumps(document, indent=1)) == snapshot


def test_html_body(diagnosed: Callable[[str], Report], snapshot: SnapshotAssertion) -> None:
    page = FORMATS["html"](diagnosed("qwen35-nextn-oom"), STYLE)
    assert regex.sub(r"(?s)<style>.*</style>", "<style></style>", page) == snapshot
