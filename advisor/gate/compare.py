"""A report against a baseline: what is new or worse remains, the rest is accepted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date

from advisor.diagnosis import Report
from advisor.findings import Action, Category, Confidence, Finding, Severity, Suppressed, order
from advisor.fingerprints import fingerprints
from advisor.gate.apply import BASELINE_STALE, CAPACITY_REGRESSED, GATE_RULES, judged_again
from advisor.gate.baseline import Accepted, Baseline, capacity_of
from advisor.sources.records import Evidence

DEFAULT_TOLERANCE_RATIO = 0.05
_SHOWN_STALE = 20


def compare(
    report: Report,
    baseline: Baseline,
    origin: str,
    today: date,
    *,
    tolerance_ratio: float = DEFAULT_TOLERANCE_RATIO,
) -> Report:
    """Return the report with accepted findings suppressed and capacity regressions added.

    A finding that is worse than its accepted severity, or whose acceptance has run out, counts.
    """
    accepted = {item.fingerprint: item for item in baseline.findings}
    findings = report.verdicts.findings
    marks = fingerprints(findings)
    kept: list[Finding] = []
    suppressed = list(report.verdicts.suppressed)
    for finding, mark in zip(findings, marks, strict=True):
        item = accepted.get(mark)
        if item is None or finding.rule in GATE_RULES:
            kept.append(finding)
        elif _counts(finding, item, today):
            kept.append(replace(finding, values={**finding.values, "accepted": _was(item)}))
        else:
            suppressed.append(Suppressed(finding=finding, by=origin, reason=item.reason))
    kept.extend(_regressions(report, baseline, origin, tolerance_ratio))
    gone = [item for item in baseline.findings if item.fingerprint not in set(marks)]
    kept.extend(_stale(gone, origin))
    verdicts = replace(report.verdicts, findings=order(kept), suppressed=tuple(suppressed))
    return judged_again(report, verdicts)


def _counts(finding: Finding, item: Accepted, today: date) -> bool:
    worse = finding.severity.rank < item.severity.rank
    return worse or (item.expires is not None and today > item.expires)


def _was(item: Accepted) -> str:
    until = f" until {item.expires}" if item.expires is not None else ""
    return f"as {item.severity.value}{until}"


def _regressions(
    report: Report, baseline: Baseline, origin: str, tolerance_ratio: float
) -> Iterator[Finding]:
    before, now = baseline.capacity, capacity_of(report)
    rows = (
        ("max_running_requests", before.max_running_requests, now.max_running_requests, -1),
        ("max_total_num_tokens", before.max_total_num_tokens, now.max_total_num_tokens, -1),
        ("start-up seconds", before.startup_s, now.startup_s, 1),
    )
    for name, old, new, bad_direction in rows:
        if old is None or new is None or old <= 0:
            continue
        change = (new - old) / old
        if change * bad_direction > tolerance_ratio:
            yield _regression(report, origin, name, (old, new), tolerance_ratio)


def _regression(
    report: Report, origin: str, name: str, values: tuple[float, float], tolerance_ratio: float
) -> Finding:
    old, new = values
    change = f"{(new - old) / old * 100:+.0f} %"
    key = {
        "max_running_requests": "capacity.max_running_requests",
        "max_total_num_tokens": "capacity.max_total_num_tokens",
    }.get(name, "startup.ready_s")
    place = report.run.evidence.get(key) or Evidence(source=origin, line=1, text=f"{name}: {old:g}")
    return Finding(
        rule=CAPACITY_REGRESSED,
        title=f"{name}: {new:g}, in the baseline {old:g} ({change})",
        topic="startup" if key.startswith("startup") else "max_running",
        severity=Severity.WARNING,
        confidence=Confidence.CERTAIN,
        category=Category.STARTUP if key.startswith("startup") else Category.CAPACITY,
        summary=f"The change is beyond the tolerance of {tolerance_ratio * 100:g} %.",
        why="A capacity that falls from one deployment to the next shows up as queueing under load.",
        evidence=(place,),
        actions=(
            Action(
                title="Compare the reports of both runs; mend the cause or accept it in a new baseline",
                cost=2,
            ),
        ),
        values={"before": old, "after": new, "tolerance_ratio": tolerance_ratio, "name": name},
    )


def _stale(gone: list[Accepted], origin: str) -> Iterator[Finding]:
    """Yield one note on accepted findings that no longer occur."""
    if not gone:
        return
    names = sorted({item.rule for item in gone})
    yield Finding(
        rule=BASELINE_STALE,
        title=f"{len(gone)} accepted finding{'s' if len(gone) > 1 else ''} no longer occur{'' if len(gone) > 1 else 's'}",
        topic="log",
        severity=Severity.NOTE,
        confidence=Confidence.CERTAIN,
        category=Category.CONFIGURATION,
        summary=f"In {origin}, not in this report: {', '.join(names[:_SHOWN_STALE])}.",
        why="An accepted finding that is mended would be accepted again if it came back.",
        evidence=(Evidence(source=origin, line=1, text=", ".join(names[:_SHOWN_STALE])),),
        actions=(Action(title="Make the baseline anew with `advisor baseline`", cost=1),),
    )
