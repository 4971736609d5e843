"""The report as GitHub-flavoured Markdown for a ticket."""

from __future__ import annotations

from advisor.diagnosis import Report
from advisor.report.style import Style
from advisor.report.templates import fill


def render(report: Report, style: Style) -> str:
    """Return the Markdown text."""
    return fill("report.md.j2", report, style)
