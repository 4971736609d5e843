"""Read conditions: structure, not little programs in strings."""

from __future__ import annotations

import regex
import yaml

from advisor.errors import InputError
from advisor.facts.literals import Value
from advisor.facts.sheet import catalogue, known_path
from advisor.knowledge.ranges import VersionRange
from advisor.rules import nodes
from advisor.rules.conditions import (
    ALWAYS,
    Combined,
    Condition,
    FactCondition,
    Operator,
    RuleCondition,
    SignalCondition,
)
from advisor.rules.nodes import Problems

_GROUPS = ("all", "any", "none")
_SIGNAL_WORDS = ("signal", "no_signal")


def parse_condition(node: yaml.Node, problems: Problems, signals: tuple[str, ...]) -> Condition:
    """Read one condition, or a list of conditions that must all hold."""
    if isinstance(node, yaml.SequenceNode):
        parts = tuple(parse_condition(item, problems, signals) for item in node.value)
        return Combined(all_of=parts)
    fields = nodes.pairs(node, problems)
    parts = tuple(_one(key, value, problems, signals) for key, value in fields.items())
    return parts[0] if len(parts) == 1 else Combined(all_of=parts)


def mentions_signal(node: yaml.Node) -> bool:
    """Whether a condition speaks of signals itself."""
    if isinstance(node, yaml.SequenceNode):
        return any(mentions_signal(item) for item in node.value)
    if isinstance(node, yaml.MappingNode):
        return any(
            key.value in _SIGNAL_WORDS or mentions_signal(value) for key, value in node.value
        )
    return False


def _one(key: str, node: yaml.Node, problems: Problems, signals: tuple[str, ...]) -> Condition:
    if key in _GROUPS:
        parts = tuple(
            parse_condition(item, problems, signals) for item in nodes.items(node, problems)
        )
        return {
            "all": Combined(all_of=parts),
            "any": Combined(any_of=parts),
            "none": Combined(none_of=parts),
        }[key]
    if key in _SIGNAL_WORDS:
        return _signal(key, node, problems, signals)
    if key == "rule":
        return RuleCondition(rule=nodes.text(node, problems))
    return _fact(key, node, problems)


def _signal(key: str, node: yaml.Node, problems: Problems, signals: tuple[str, ...]) -> Condition:
    name = nodes.text(node, problems)
    if name not in signals:
        problems.add(node, f"no signal is named {name!r}{nodes.near(name, signals)}")
    met = SignalCondition(name=name)
    return met if key == "signal" else Combined(none_of=(met,))


def _fact(path: str, node: yaml.Node, problems: Problems) -> Condition:
    if not known_path(path):
        problems.add(node, f"unknown fact {path!r}{nodes.near(path, catalogue())}")
    if not isinstance(node, yaml.MappingNode):
        return FactCondition(path=path, operator=Operator.EQUALS, operand=nodes.scalar(node))
    parts = [
        _comparison(path, word, operand, problems)
        for word, operand in nodes.pairs(node, problems).items()
    ]
    return parts[0] if len(parts) == 1 else Combined(all_of=tuple(parts))


def _comparison(path: str, word: str, node: yaml.Node, problems: Problems) -> Condition:
    known = [operator.value for operator in Operator]
    if word not in known:
        problems.add(node, f"unknown comparison {word!r}{nodes.near(word, known)}")
        return ALWAYS
    operator = Operator(word)
    operand = nodes.scalar(node)
    if operator is Operator.WITHIN:
        return _within(path, operand, node, problems)
    if operator is Operator.MATCHES:
        _check_expression(str(operand), node, problems)
    if operator in {Operator.BELOW_FACT, Operator.ABOVE_FACT, Operator.AT_LEAST_FACT} and not (
        known_path(str(operand))
    ):
        problems.add(node, f"unknown fact {operand!r}{nodes.near(str(operand), catalogue())}")
    return FactCondition(path=path, operator=operator, operand=operand)


def _within(path: str, operand: Value, node: yaml.Node, problems: Problems) -> Condition:
    try:
        releases = VersionRange.parse(str(operand))
    except InputError as error:
        problems.add(node, str(error))
        return ALWAYS
    return FactCondition(path=path, operator=Operator.WITHIN, operand=releases)


def _check_expression(expression: str, node: yaml.Node, problems: Problems) -> None:
    try:
        regex.compile(expression)
    except regex.error as error:
        problems.add(node, f"bad pattern: {error}")
