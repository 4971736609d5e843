"""Each part of each rule matters to one of its examples."""

from __future__ import annotations

import pytest

from advisor.audit.mutation import Survivor, mutants, survivors, without_each_part
from advisor.rules.conditions import Combined, FactCondition, Operator, RuleCondition
from advisor.rules.load import bundled_rules
from advisor.rules.model import Rule
from advisor.rules.parse import parse_rule

TEXT = """
id: a-rule
title: A title
topic: startup
severity: warning
category: startup
signals:
  - {{name: one, literals: [the cause, the reason], pattern: 'the (?:cause|reason)'}}
  - {{name: two, literal: the echo}}
when:
  all:
    - args.tp_size: {{at_least: 2}}
  none:
    - rule: another-rule
summary: A summary.
why: A reason.
cases:
  - when: {{args.tp_size: 4}}
    severity: note
examples:
{examples}
"""
FIRES = "  - {{name: '{0}', expect: fires, log: \"{1}\", args: sglang serve --tp-size {2}{3}}}\n"
LINE = "[2026-03-04 05:06:07 TP0] "


def _rule(examples: str) -> Rule:
    text = TEXT.format(examples=examples)
    rule, problems = parse_rule(text, file="a-rule.yaml", family="test", stem="a-rule")
    assert rule is not None, problems
    return rule


def _fires(name: str, text: str, size: int, more: str = "") -> str:
    return FIRES.format(name, LINE + text, size, more)


WHOLE = (
    _fires("cause", "the cause", 2)
    + _fires("reason", "the reason", 2)
    + _fires("echo", "the echo", 2)
    + _fires("four", "the echo", 4, ", severity: note")
    + f'  - {{name: one rank, expect: quiet, log: "{LINE}the cause", args: sglang serve --tp-size 1}}\n'
)


@pytest.mark.parametrize("rule", bundled_rules(), ids=lambda rule: rule.id)
def test_losing_a_signal_of_a_bundled_rule_makes_an_example_fail(rule: Rule) -> None:
    alive = [survivor for survivor in survivors(rule) if survivor.part.startswith("signal ")]
    assert alive == []


def test_examples_that_show_every_part_leave_no_survivor() -> None:
    assert survivors(_rule(WHOLE)) == ()


@pytest.mark.parametrize(
    ("left_out", "part"),
    [
        ("reason", "literal 'the reason'"),
        ("one rank", "when: args.tp_size at_least 2"),
        ("four", "case 1"),
    ],
)
def test_a_part_that_no_example_shows_survives(left_out: str, part: str) -> None:
    lines = WHOLE.splitlines(keepends=True)
    rest = "".join(line for line in lines if left_out not in line.split(",")[0])
    assert Survivor(rule="a-rule", part=part) in survivors(_rule(rest))


def test_every_part_is_tried_once_and_what_asks_for_other_rules_not() -> None:
    parts = [mutant.part for mutant in mutants(_rule(WHOLE))]
    assert parts == [
        "signal one",
        "literal 'the cause'",
        "literal 'the reason'",
        "signal two",
        "when: args.tp_size at_least 2",
        "case 1",
    ]


def test_the_only_way_of_any_is_no_part_of_its_own() -> None:
    fact = FactCondition(path="gpu.sm", operator=Operator.EQUALS, operand=90)
    assert list(without_each_part(Combined(any_of=(fact,)))) == []
    both = Combined(any_of=(fact, RuleCondition(rule="x")))
    assert [name for name, _ in without_each_part(both)] == ["gpu.sm equals 90"]
