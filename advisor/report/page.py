"""The report as one HTML page that needs nothing besides itself."""

from __future__ import annotations

from advisor.diagnosis import Report
from advisor.report.style import Style
from advisor.report.templates import fill


def render(report: Report, style: Style) -> str:
    """Return the page."""
    return fill("report.html.j2", report, style)
