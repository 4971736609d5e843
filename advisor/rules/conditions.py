"""Conditions over facts and signals, with three answers: yes, no, unknown.

`all`, `any` and `none` combine; a fact that the inputs do not show makes a comparison unknown.
`present` and `absent` ask just that, so they are never unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import regex
from packaging.version import InvalidVersion, Version

from advisor.facts.literals import Value
from advisor.facts.sheet import FactValue
from advisor.knowledge.ranges import Membership, VersionRange

_SEARCH_TIMEOUT_S = 0.5


class Answer(StrEnum):
    """Whether a condition holds."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Operator(StrEnum):
    """How a fact is compared."""

    EQUALS = "equals"
    NOT_EQUALS = "not_equals"
    ONE_OF = "one_of"
    NOT_ONE_OF = "not_one_of"
    AT_LEAST = "at_least"
    ABOVE = "above"
    AT_MOST = "at_most"
    BELOW = "below"
    MATCHES = "matches"
    CONTAINS = "contains"
    WITHIN = "within"
    PRESENT = "present"
    ABSENT = "absent"
    BELOW_FACT = "below_fact"
    ABOVE_FACT = "above_fact"
    AT_LEAST_FACT = "at_least_fact"


class Subject(Protocol):
    """What a condition is asked of."""

    def fact(self, path: str) -> FactValue:
        """Return the value at a path; None where the inputs do not say."""

    def argument_is_default(self, path: str) -> bool:
        """Whether an argument is missing although the arguments are known."""

    def has_signal(self, name: str) -> bool:
        """Whether a pattern of this rule was met."""

    def fired(self, rule: str) -> bool:
        """Whether another rule's patterns were met."""


class Condition(Protocol):
    """Anything that can be asked of a run."""

    def ask(self, subject: Subject) -> Answer:
        """Say whether it holds."""

    def missing(self, subject: Subject) -> tuple[str, ...]:
        """Name the facts whose absence leaves it unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalCondition:
    """Holds where a pattern of the rule was met."""

    name: str

    def ask(self, subject: Subject) -> Answer:
        """Say whether the pattern was met."""
        return Answer.YES if subject.has_signal(self.name) else Answer.NO

    def missing(self, subject: Subject) -> tuple[str, ...]:  # noqa: ARG002  (never unknown)
        """Name nothing: a pattern is met or not."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCondition:
    """Holds where the patterns of another rule were met in this run."""

    rule: str

    def ask(self, subject: Subject) -> Answer:
        """Say whether that rule's patterns were met."""
        return Answer.YES if subject.fired(self.rule) else Answer.NO

    def missing(self, subject: Subject) -> tuple[str, ...]:  # noqa: ARG002  (never unknown)
        """Name nothing."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FactCondition:
    """Compares one fact with an operand."""

    path: str
    operator: Operator
    operand: Value | VersionRange

    def ask(self, subject: Subject) -> Answer:
        """Compare; unknown where the fact, or the fact compared with, is unknown."""
        value = subject.fact(self.path)
        if self.operator in {Operator.PRESENT, Operator.ABSENT}:
            wanted = (self.operator is Operator.PRESENT) is (self.operand is not False)
            return _answer((value is not None) is wanted)
        if value is None:
            return Answer.NO if subject.argument_is_default(self.path) else Answer.UNKNOWN
        if self.operator in _FACT_OPERATORS:
            other = subject.fact(str(self.operand))
            plain = _FACT_OPERATORS[self.operator]
            return Answer.UNKNOWN if other is None else _compare(plain, value, other)
        return _compare(self.operator, value, self.operand)

    def missing(self, subject: Subject) -> tuple[str, ...]:
        """Name the path if it is what is unknown."""
        if self.ask(subject) is not Answer.UNKNOWN:
            return ()
        if subject.fact(self.path) is None or self.operator not in _FACT_OPERATORS:
            return (self.path,)
        return (str(self.operand),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Combined:
    """`all` of the parts, at least one of `any`, and none of `none`."""

    all_of: tuple[Condition, ...] = ()
    any_of: tuple[Condition, ...] = ()
    none_of: tuple[Condition, ...] = ()

    def ask(self, subject: Subject) -> Answer:
        """Combine the three groups."""
        answers = [part.ask(subject) for part in self.all_of]
        answers += [_negated(part.ask(subject)) for part in self.none_of]
        if self.any_of:
            answers.append(_any([part.ask(subject) for part in self.any_of]))
        if Answer.NO in answers:
            return Answer.NO
        return Answer.UNKNOWN if Answer.UNKNOWN in answers else Answer.YES

    def missing(self, subject: Subject) -> tuple[str, ...]:
        """Name what the parts miss."""
        parts = (*self.all_of, *self.any_of, *self.none_of)
        names = [name for part in parts for name in part.missing(subject)]
        return tuple(dict.fromkeys(names))


ALWAYS = Combined()

_FACT_OPERATORS: Mapping[Operator, Operator] = {
    Operator.BELOW_FACT: Operator.BELOW,
    Operator.ABOVE_FACT: Operator.ABOVE,
    Operator.AT_LEAST_FACT: Operator.AT_LEAST,
}


def _any(answers: list[Answer]) -> Answer:
    if Answer.YES in answers:
        return Answer.YES
    return Answer.UNKNOWN if Answer.UNKNOWN in answers else Answer.NO


def _negated(answer: Answer) -> Answer:
    return {Answer.YES: Answer.NO, Answer.NO: Answer.YES}.get(answer, Answer.UNKNOWN)


def _answer(holds: bool) -> Answer:  # noqa: FBT001  (turns a truth value into an answer)
    return Answer.YES if holds else Answer.NO


def _compare(operator: Operator, value: object, operand: object) -> Answer:  # noqa: PLR0911
    match operator:
        case Operator.EQUALS:
            return _answer(_plain(value) == operand)
        case Operator.NOT_EQUALS:
            return _answer(_plain(value) != operand)
        case Operator.ONE_OF:
            return _answer(isinstance(operand, tuple) and _plain(value) in operand)
        case Operator.NOT_ONE_OF:
            return _answer(isinstance(operand, tuple) and _plain(value) not in operand)
        case Operator.MATCHES:
            return _answer(_matches(str(operand), value))
        case Operator.CONTAINS:
            return _answer(_contains(value, operand))
        case Operator.WITHIN:
            return _within(value, operand)
        case _:
            return _ordered(operator, value, operand)


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Version) else value


def _matches(expression: str, value: object) -> bool:
    texts = value if isinstance(value, tuple) else (value,)
    return any(
        regex.search(expression, str(text), timeout=_SEARCH_TIMEOUT_S) is not None for text in texts
    )


def _contains(value: object, operand: object) -> bool:
    if isinstance(value, (tuple, Mapping)):
        return operand in value
    return str(operand) in str(value)


def _within(value: object, operand: object) -> Answer:
    """Ask whether a version, or every release of a range, lies within a range of releases."""
    if not isinstance(operand, VersionRange):
        return Answer.UNKNOWN
    if isinstance(value, VersionRange):
        return _range_within(value, operand)
    return _MEMBERSHIPS[operand.contains(str(value))]


def _range_within(value: VersionRange, operand: VersionRange) -> Answer:
    ends = [end for end in (value.first, value.last) if end is not None]
    answers = {_MEMBERSHIPS[operand.contains(end)] for end in ends}
    if answers == {Answer.NO} and value.intersect(operand) is None:
        return Answer.NO
    return Answer.YES if answers == {Answer.YES} else Answer.UNKNOWN


_MEMBERSHIPS = {
    Membership.IN: Answer.YES,
    Membership.OUT: Answer.NO,
    Membership.UNKNOWN: Answer.UNKNOWN,
}


def _ordered(operator: Operator, value: object, operand: object) -> Answer:
    numbers = (_number(value), _number(operand))
    if None in numbers:
        return _ordered_versions(operator, value, operand)
    return _answer(_holds(operator, *numbers))


def _ordered_versions(operator: Operator, value: object, operand: object) -> Answer:
    """Compare versions such as Triton's; a range of releases is asked with `within`."""
    try:
        return _answer(_holds(operator, Version(str(value)), Version(str(operand))))
    except InvalidVersion:
        return Answer.UNKNOWN


def _holds(operator: Operator, value: object, operand: object) -> bool:
    match operator:
        case Operator.AT_LEAST:
            return bool(value >= operand)  # type: ignore[operator]
        case Operator.ABOVE:
            return bool(value > operand)  # type: ignore[operator]
        case Operator.AT_MOST:
            return bool(value <= operand)  # type: ignore[operator]
        case _:
            return bool(value < operand)  # type: ignore[operator]


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value)
