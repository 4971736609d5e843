"""What a diagnosis says: findings, what was not judged and why, and the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from advisor.sources.records import Evidence


class Severity(StrEnum):
    """How bad: failed or wrong; costs something that can be mended; worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """Order severities: the worst first."""
        return list(Severity).index(self)


class Confidence(StrEnum):
    """How sure: the log says so; inferred from facts; needs the named evidence."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"

    @property
    def rank(self) -> int:
        """Order confidences: the surest first."""
        return list(Confidence).index(self)


class Category(StrEnum):
    """What a finding touches."""

    CORRECTNESS = "correctness"
    STABILITY = "stability"
    STARTUP = "startup"
    CAPACITY = "capacity"
    PERFORMANCE = "performance"
    CONFIGURATION = "configuration"
    SECURITY = "security"

    @property
    def rank(self) -> int:
        """Order categories: wrong answers before lost speed."""
        return list(Category).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing to do. `cost` orders the plan: 0 is free and safe, 9 is a big change."""

    title: str
    command: str = ""
    expect: str = ""
    risk: str = ""
    verify: str = ""
    cost: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a rule found, with the evidence that it rests on (at least one place)."""

    rule: str
    title: str
    topic: str
    severity: Severity
    confidence: Confidence
    category: Category
    summary: str
    why: str
    evidence: tuple[Evidence, ...]
    actions: tuple[Action, ...] = ()
    values: Mapping[str, object] = field(default_factory=dict)
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A rule that could not be judged, and why."""

    rule: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppressed:
    """A finding that the gate lets pass: which file or option says so, and why."""

    finding: Finding
    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAction:
    """An action of the plan with the finding that calls for it."""

    rule: str
    severity: Severity
    action: Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """The outcome of all rules for one run, in a deterministic order."""

    findings: tuple[Finding, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    quiet: tuple[str, ...] = ()
    suppressed: tuple[Suppressed, ...] = ()


def order(findings: list[Finding]) -> tuple[Finding, ...]:
    """Sort findings: worst first, wrong answers before lost speed, then by first evidence."""
    return tuple(
        sorted(
            findings,
            key=lambda item: (
                item.severity.rank,
                item.category.rank,
                item.confidence.rank,
                item.rule,
            ),
        )
    )


def plan(findings: tuple[Finding, ...]) -> tuple[PlannedAction, ...]:
    """Order the actions of all findings: errors first, then the cheapest and safest.

    The same command is planned once, for the worst finding that calls for it.
    """
    planned: list[PlannedAction] = []
    seen: set[str] = set()
    for finding in findings:
        for action in finding.actions:
            key = action.command or action.title
            if key in seen or finding.severity is Severity.NOTE:
                continue
            seen.add(key)
            planned.append(
                PlannedAction(rule=finding.rule, severity=finding.severity, action=action)
            )
    return tuple(sorted(planned, key=lambda item: (item.severity.rank, item.action.cost)))
