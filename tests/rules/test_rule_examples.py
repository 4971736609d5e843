"""Every rule proves itself: its examples run through the real readers."""

from __future__ import annotations

import pytest

from advisor.examples import example_problem
from advisor.rules.checking import check_rules
from advisor.rules.load import bundled_rules
from advisor.rules.model import Example, Rule

CASES = [
    pytest.param(rule, example, id=f"{rule.id}::{example.name}")
    for rule in bundled_rules()
    for example in rule.examples
]


@pytest.mark.parametrize(("rule", "example"), CASES)
def test_example_comes_out_as_it_claims(rule: Rule, example: Example) -> None:
    assert example_problem(rule, example) is None


def test_texts_name_only_what_exists_and_each_rule_has_both_kinds_of_example() -> None:
    rules = bundled_rules()
    assert check_rules(rules, [rule.id for rule in rules]) == []


def test_rule_ids_read_well_in_a_list_of_ignored_rules() -> None:
    assert all(rule.id.count("-") >= 1 for rule in bundled_rules())
