"""The checks of preflight and their wording, over `advisor/data/preflight_checks.yaml`."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from advisor.findings import Action, Category, Confidence, Finding, Severity
from advisor.resources import read_data
from advisor.rules.wording import render
from advisor.sources.records import Evidence

DATA_FILE = "preflight_checks.yaml"
_DEFAULT_COST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that preflight looks for; texts are templates over the values of a finding.

    `title` and the other texts are empty where rows of flag_support.yaml word the findings; `says`
    then names what they speak of.
    """

    id: str
    topic: str
    category: Category
    severity: Severity
    confidence: Confidence
    says: str
    title: str
    summary: str
    why: str
    actions: tuple[Mapping[str, object], ...]
    references: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What happens with an option that does not fit, and how to say it."""

    severity: Severity
    confidence: Confidence
    title: str
    title_anywhere: str
    text: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """A check that found something."""

    finding: Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided:
    """A check that could not be judged, and why."""

    check: str
    reason: str


Result = Fired | Undecided


@functools.cache
def checks() -> Mapping[str, Check]:
    """Return every check by id, in the order of the data."""
    rows = cast("Mapping[str, Mapping[str, object]]", _data()["checks"])
    return {name: _check(name, row) for name, row in rows.items()}


@functools.cache
def outcomes() -> Mapping[str, Outcome]:
    """Return the outcomes that rows of flag_support.yaml name."""
    rows = cast("Mapping[str, Mapping[str, str]]", _data()["outcomes"])
    return {
        name: Outcome(
            severity=Severity(row["severity"]),
            confidence=Confidence(row["confidence"]),
            title=row["title"],
            title_anywhere=row["title_anywhere"],
            text=row["text"],
            why=row["why"],
        )
        for name, row in rows.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginValues:
    """Flags whose values installed plugins can add to, and the releases that load plugins."""

    sglang: str
    flags: frozenset[str]


@functools.cache
def plugin_values() -> PluginValues:
    """Return where a value that no parser lists may still be one."""
    row = cast("Mapping[str, object]", _data()["plugins"])
    return PluginValues(
        sglang=str(row["sglang"]), flags=frozenset(cast("Sequence[str]", row["flags"]))
    )


def fired(
    name: str,
    evidence: tuple[Evidence, ...],
    values: Mapping[str, object],
    *,
    severity: Severity | None = None,
) -> Fired:
    """Word a finding of a check; `severity` where the case is milder than usual."""
    check = checks()[name]
    finding = Finding(
        rule=check.id,
        title=render(check.title, values),
        topic=check.topic,
        severity=severity or check.severity,
        confidence=check.confidence,
        category=check.category,
        summary=_one_line(render(check.summary, values)),
        why=_one_line(render(check.why, values)),
        evidence=evidence,
        actions=tuple(_action(row, values) for row in check.actions),
        values=dict(values),
        references=check.references,
    )
    return Fired(finding=finding)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _action(row: Mapping[str, object], values: Mapping[str, object]) -> Action:
    texts = {
        name: _one_line(render(str(row.get(name, "")), values))
        for name in ("title", "command", "expect", "risk", "verify")
    }
    return Action(**texts, cost=cast("int", row.get("cost", _DEFAULT_COST)))


def _check(name: str, row: Mapping[str, object]) -> Check:
    return Check(
        id=name,
        topic=str(row["topic"]),
        category=Category(str(row["category"])),
        severity=Severity(str(row.get("severity", Severity.WARNING))),
        confidence=Confidence(str(row.get("confidence", Confidence.CERTAIN))),
        says=str(row.get("says", "")),
        title=str(row.get("title", "")),
        summary=str(row.get("summary", "")),
        why=str(row.get("why", "")),
        actions=tuple(cast("Sequence[Mapping[str, object]]", row.get("actions", ()))),
        references=tuple(cast("Sequence[str]", row.get("references", ()))),
    )


@functools.cache
def _data() -> Mapping[str, object]:
    return cast("Mapping[str, object]", read_data(DATA_FILE))
