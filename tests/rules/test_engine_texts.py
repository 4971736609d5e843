"""A rule whose texts cannot be filled is told, and costs only its own finding."""

from __future__ import annotations

import pytest

from advisor.diagnosis import Request, diagnose_logs
from advisor.examples import example_problem
from advisor.rules.model import Rule
from advisor.rules.parse import parse_rule
from advisor.sources.files import LogInput

TEXT = """
id: {id}
title: A title
topic: startup
severity: error
category: startup
signals: [{{literal: the cause, pattern: 'the cause(?: of (?P<number>\\d+))?'}}]
summary: "{summary}."
why: A reason.
examples: [{{name: it, expect: fires, log: "[2026-03-04 05:06:07 TP0] the cause"}}]
"""


def _rule(name: str, summary: str) -> Rule:
    text = TEXT.format(id=name, summary=summary)
    rule, problems = parse_rule(text, file=f"{name}.yaml", family="test", stem=name)
    assert rule is not None, problems
    return rule


@pytest.mark.parametrize(
    "summary", ["{{ number * 2 + 1 }}", "{{ number|float(none) / 0 }}", "{{ {}['x'].y }}"]
)
def test_a_failing_text_skips_its_rule_with_the_reason(summary: str) -> None:
    failing, sound = _rule("a-failing", summary), _rule("b-sound", "Found")
    log = LogInput(name="x.log", text="[2026-03-04 05:06:07 TP0] the cause\n")
    verdicts = diagnose_logs(Request(logs=(log,), rules=(failing, sound))).verdicts
    assert [finding.rule for finding in verdicts.findings] == ["b-sound"]
    (skipped,) = verdicts.skipped
    assert skipped.rule == "a-failing"
    assert skipped.reason.startswith("a text cannot be filled: ")


def test_an_example_shows_it() -> None:
    rule = _rule("a-failing", "{{ number * 2 + 1 }}")
    problem = example_problem(rule, rule.examples[0])
    assert problem is not None
    assert problem.startswith("expected fires, is skipped (a text cannot be filled: ")
