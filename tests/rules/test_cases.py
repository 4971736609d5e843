"""Whole logs with what must and must not be found in them: tests/fixtures/cases.

A case is NAME.log with NAME.expect.yaml: `must_find` names topics with a severity and strings that
summary, reason or actions must hold; `must_not_find` forbids a topic (`*`: any) at the listed
severities; `healthy` allows notes only. Many cases follow public reports (`source_url`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from advisor.diagnosis import Request, diagnose_logs
from advisor.findings import Finding, Severity
from advisor.rules.load import bundled_rules
from advisor.sources.files import LogInput

CASES = Path(__file__).parent.parent / "fixtures" / "cases"
NAMES = tuple(sorted(path.name.removesuffix(".expect.yaml") for path in CASES.glob("*.yaml")))

MENDED_STRINGS = {
    # Two items of the list stand in one folded scalar: "advisor tune - E=256,N=192".
    "moe-rtxpro6000-missing": {
        "advisor tune - E=256,N=192": ("advisor tune", "E=256,N=192"),
    },
}
ALSO_TRUE = {
    # Its decode lines run without a graph above the 32 that were captured.
    "wd-waiting-timeout-overload": {"decode-beyond-captured-sizes"},
}


@pytest.mark.parametrize("name", NAMES)
def test_a_case_gives_what_it_deserves(name: str) -> None:
    case = yaml.safe_load((CASES / f"{name}.expect.yaml").read_text(encoding="utf-8"))
    assert list(mistakes(name, case, findings(name))) == []


def test_most_topics_are_met_by_some_case() -> None:
    met = {
        want["topic"]
        for name in NAMES
        for want in yaml.safe_load((CASES / f"{name}.expect.yaml").read_text()).get("must_find", ())
    }
    assert len(met) >= 40


def findings(name: str) -> tuple[Finding, ...]:
    path = CASES / f"{name}.log"
    request = Request(logs=(LogInput(name=path.name, path=path),), rules=bundled_rules())
    return diagnose_logs(request).verdicts.findings


def mistakes(name: str, case: Mapping[str, Any], found: Sequence[Finding]) -> Iterator[str]:
    """Yield what differs from the expectations, as a person would say it."""
    wanted = case.get("must_find") or ()
    topics = {want["topic"] for want in wanted}
    for want in wanted:
        yield from _lacking(name, want, [item for item in found if item.topic == want["topic"]])
    for ban in case.get("must_not_find") or ():
        severities = {_severity(text) for text in ban["severity"]}
        for item in found:
            forbidden = ban["topic"] == item.topic or (
                ban["topic"] == "*" and item.topic not in topics
            )
            if forbidden and item.severity in severities:
                yield f"false alarm: {item.severity} {item.rule}"
    allowed = ALSO_TRUE.get(name, set())
    for item in found:
        loud = item.severity is not Severity.NOTE and item.rule not in allowed
        if loud and (case.get("healthy") or item.topic not in topics):
            yield f"more than the log deserves: {item.severity} {item.rule}"


def _lacking(name: str, want: Mapping[str, Any], hits: Sequence[Finding]) -> Iterator[str]:
    if not hits:
        yield f"missed: {want['topic']}"
        return
    if all(item.severity is not _severity(want["severity"]) for item in hits):
        yield f"{want['topic']}: {want['severity']} wanted, {[str(i.severity) for i in hits]} found"
    text = "\n".join(_said(item) for item in hits).lower()
    for string in want.get("action_contains") or ():
        for part in MENDED_STRINGS.get(name, {}).get(string, (string,)):
            if part.lower() not in text:
                yield f"{want['topic']}: {part!r} is not said"


def _said(item: Finding) -> str:
    parts = [item.summary, item.why]
    for action in item.actions:
        parts += [action.title, action.command, action.expect, action.risk, action.verify]
    return "\n".join(parts)


def _severity(text: str) -> Severity:
    return Severity.NOTE if text == "info" else Severity(text)
