"""The formats of a report. Each renderer is pure, is imported when it is used, and knows no other."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from advisor.diagnosis import Report
from advisor.report.harmless import harmless
from advisor.report.style import Style

__all__ = ["FORMATS", "Renderer", "Style"]

Renderer = Callable[[Report, Style], str]


def _terminal(report: Report, style: Style) -> str:
    from advisor.report import terminal

    return terminal.render(harmless(report), style)


def _markdown(report: Report, style: Style) -> str:
    from advisor.report import markdown

    return markdown.render(harmless(report), style)


def _html(report: Report, style: Style) -> str:
    from advisor.report import page

    return page.render(harmless(report), style)


def _json(report: Report, _style: Style) -> str:
    from advisor.report import document

    return document.render(harmless(report))


def _jsonl(report: Report, _style: Style) -> str:
    from advisor.report import document

    return document.render_lines(harmless(report))


def _sarif(report: Report, style: Style) -> str:
    from advisor.report import sarif

    return sarif.render(harmless(report), style)


def _junit(report: Report, style: Style) -> str:
    from advisor.report import junit

    return junit.render(harmless(report), style)


def _github(report: Report, style: Style) -> str:
    from advisor.report import github

    return github.render(harmless(report), style)


def _gitlab(report: Report, style: Style) -> str:
    from advisor.report import gitlab

    return gitlab.render(harmless(report), style)


FORMATS: Mapping[str, Renderer] = {
    "terminal": _terminal,
    "markdown": _markdown,
    "html": _html,
    "json": _json,
    "jsonl": _jsonl,
    "sarif": _sarif,
    "junit": _junit,
    "github": _github,
    "gitlab": _gitlab,
}
