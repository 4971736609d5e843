"""Workflow commands that GitHub shows as annotations: worst first, at most ten of a level.

A step shows no more than ten annotations of each level; a closing notice says what did not fit.
"""

from __future__ import annotations

from collections import Counter

from advisor.diagnosis import Report
from advisor.findings import Finding, Severity
from advisor.report.style import Style

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_MOST = 10


def render(report: Report, style: Style) -> str:
    """Return one workflow command a line."""
    lines: list[str] = []
    shown: Counter[Severity] = Counter()
    left: list[Finding] = []
    for finding in report.verdicts.findings:
        # The closing notice is one of the ten notices.
        room = _MOST - (finding.severity is Severity.NOTE)
        if shown[finding.severity] >= room:
            left.append(finding)
            continue
        shown[finding.severity] += 1
        lines.append(_annotation(finding, report, style))
    if left:
        rules = ", ".join(finding.rule for finding in left)
        text = f"{len(left)} more not shown here: {rules}"
        lines.append(f"::notice title={_property('advisor')}::{_data(text)}")
    return "".join(f"{line}\n" for line in lines)


def _annotation(finding: Finding, report: Report, style: Style) -> str:
    properties = {"title": f"advisor: {finding.title} ({finding.rule})"}
    if style.anchor is not None:
        properties |= {"file": style.repository.path(style.anchor), "line": "1"}
    elif finding.evidence:
        place = finding.evidence[0]
        properties |= {"file": style.repository.path(place.source), "line": str(max(1, place.line))}
    elif report.sources:
        properties |= {"file": style.repository.path(report.sources[0].name), "line": "1"}
    parts = [finding.summary]
    for action in finding.actions[:1]:
        parts += [action.title, action.command]
    message = "\n".join(part for part in parts if part)
    named = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{_LEVELS[finding.severity]} {named}::{_data(message)}"


def _data(text: str) -> str:
    """Escape a message: percent signs first, since the others become percent codes."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
