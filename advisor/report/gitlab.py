"""GitLab's Code Quality report: one issue a finding."""

from __future__ import annotations

import json

from advisor.diagnosis import Report
from advisor.findings import Finding, Severity
from advisor.fingerprints import fingerprints
from advisor.report.style import Style

_SEVERITIES = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.NOTE: "info"}


def render(report: Report, style: Style) -> str:
    """Return the JSON array, two spaces deep, ended by a newline."""
    findings = report.verdicts.findings
    issues = [
        _issue(finding, mark, report, style)
        for finding, mark in zip(findings, fingerprints(findings), strict=True)
    ]
    return json.dumps(issues, indent=2, ensure_ascii=False) + "\n"


def _issue(finding: Finding, mark: str, report: Report, style: Style) -> dict[str, object]:
    path, line = _place(finding, report, style)
    return {
        "description": f"{finding.title}: {finding.summary}",
        "check_name": finding.rule,
        "fingerprint": mark,
        "severity": _SEVERITIES[finding.severity],
        "location": {"path": path, "lines": {"begin": line}},
    }


def _place(finding: Finding, report: Report, style: Style) -> tuple[str, int]:
    if style.anchor is not None:
        return style.repository.path(style.anchor), 1
    if finding.evidence:
        place = finding.evidence[0]
        return style.repository.path(place.source), max(1, place.line)
    name = report.sources[0].name if report.sources else "launch"
    return style.repository.path(name), 1
