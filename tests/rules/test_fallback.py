"""A fallback speaks only where no rule knows the cause of an error."""

from __future__ import annotations

from advisor.diagnosis import Request, diagnose_logs
from advisor.rules.model import Rule
from advisor.rules.parse import parse_rule
from advisor.sources.files import LogInput

LOG = """\
[2026-03-04 05:06:07 TP0] the cause
[2026-03-04 05:06:08 TP0] the echo
"""

TEXT = """
id: {id}
title: A title
topic: startup
severity: {severity}
category: startup
signals: [{{literal: {literal}}}]
summary: A summary.
why: A reason.
{extra}
examples: [{{name: it, expect: fires, log: "[2026-03-04 05:06:07 TP0] {literal}"}}]
"""


def _rule(name: str, literal: str, *, severity: str = "error", extra: str = "") -> Rule:
    text = TEXT.format(id=name, literal=literal, severity=severity, extra=extra)
    rule, problems = parse_rule(text, file=f"{name}.yaml", family="test", stem=name)
    assert rule is not None, problems
    return rule


def _outcome(*rules: Rule) -> tuple[list[str], dict[str, str]]:
    request = Request(logs=(LogInput(name="x.log", text=LOG),), rules=rules)
    verdicts = diagnose_logs(request).verdicts
    skipped = {item.rule: item.reason for item in verdicts.skipped}
    return [item.rule for item in verdicts.findings], skipped


def test_a_fallback_stays_where_nothing_else_is_an_error() -> None:
    fallback = _rule("it-died", "the echo", extra="fallback: true")
    warning = _rule("a-warning", "the cause", severity="warning")
    found, _ = _outcome(fallback, warning)
    assert found == ["it-died", "a-warning"]


def test_a_fallback_gives_way_to_any_error_and_says_to_which() -> None:
    fallback = _rule("it-died", "the echo", extra="fallback: true")
    found, skipped = _outcome(fallback, _rule("the-cause", "the cause"))
    assert found == ["the-cause"]
    assert skipped["it-died"] == "explained by the-cause"


def test_an_error_that_is_explained_away_does_not_silence_a_fallback() -> None:
    fallback = _rule("it-died", "the echo", extra="fallback: true")
    cause = _rule("the-cause", "the cause")
    harmless = _rule("harmless-here", "the cause", severity="note", extra="suppresses: [the-cause]")
    found, skipped = _outcome(fallback, cause, harmless)
    assert found == ["it-died", "harmless-here"]
    assert skipped["the-cause"] == "explained by harmless-here"


def test_fallback_is_a_truth_value() -> None:
    text = TEXT.format(id="it-died", literal="x", severity="error", extra="fallback: maybe")
    rule, problems = parse_rule(text, file="it-died.yaml", family="test", stem="it-died")
    assert rule is None
    assert any("maybe" in problem or "true" in problem for problem in problems)
