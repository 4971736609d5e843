"""What parsing alone cannot see in a rule: names in texts, other rules, missing examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from advisor.facts.patterns import compiled
from advisor.rules.conditions import Combined, Condition, RuleCondition
from advisor.rules.model import Rule, Wording
from advisor.rules.nodes import near
from advisor.rules.wording import groups, template_problems

_ACTION_TEXTS = ("title", "command", "expect", "risk", "verify")
_NEEDED = ("fires", "quiet")


def check_rules(rules: Iterable[Rule], known_ids: Iterable[str]) -> list[str]:
    """List the mistakes of rules that parsing lets through, each as `file:line: text`."""
    ids = frozenset(known_ids)
    return [
        f"{rule.where(path)}: {problem}" for rule in rules for path, problem in _check(rule, ids)
    ]


def has_sound_texts(rule: Rule) -> bool:
    """Whether the texts of a rule can be filled, so that its examples can be run."""
    return not any(_in_texts(rule))


def _check(rule: Rule, ids: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield each mistake with the key that it is in."""
    yield from _in_texts(rule)
    for number, other in enumerate(rule.suppresses):
        if other not in ids:
            yield f"suppresses.{number}", f"suppresses the unknown rule {other!r}{near(other, ids)}"
    for path, condition in _conditions(rule):
        for other in _rules_asked_for(condition):
            if other not in ids:
                yield path, f"asks for the unknown rule {other!r}{near(other, ids)}"
    yield from _in_examples(rule)
    for name, count in Counter(signal.name for signal in rule.signals).items():
        if count > 1:
            yield "signals", f"{count} signals are named {name!r}"


def _in_examples(rule: Rule) -> Iterator[tuple[str, str]]:
    expectations = {example.expect for example in rule.examples}
    for needed in _NEEDED:
        if needed not in expectations:
            yield "examples", f"needs at least one example that expects {needed!r}"
    names = Counter(example.name for example in rule.examples)
    for number, example in enumerate(rule.examples):
        if not example.name:
            yield f"examples.{number}", "an example needs a name"
        elif names[example.name] > 1:
            yield f"examples.{number}", f"{names[example.name]} examples are named {example.name!r}"


def _in_texts(rule: Rule) -> Iterator[tuple[str, str]]:
    captures = {
        name for signal in rule.signals for name in compiled(signal.pattern.expression).groupindex
    }
    known = groups() | captures | frozenset(rule.values)
    for path, text in _texts(rule):
        yield from ((path, problem) for problem in template_problems(text, known))


def _texts(rule: Rule) -> Iterator[tuple[str, str]]:
    """Yield the texts that a rule file holds; what a case inherits stands at the rule only."""
    yield from _wording_texts(rule.wording, "")
    yield from ((f"values.{name}", template) for name, template in rule.values.items())
    for number, case in enumerate(rule.cases):
        for path, text in _wording_texts(case.wording, f"cases.{number}."):
            if not rule.places or path in rule.places:
                yield path, text


def _wording_texts(wording: Wording, prefix: str) -> Iterator[tuple[str, str]]:
    yield from ((f"{prefix}{name}", getattr(wording, name)) for name in ("title", "summary", "why"))
    for number, action in enumerate(wording.actions):
        for name in _ACTION_TEXTS:
            yield f"{prefix}actions.{number}.{name}", getattr(action, name)


def _conditions(rule: Rule) -> Iterator[tuple[str, Condition]]:
    yield "when", rule.when
    for number, action in enumerate(rule.wording.actions):
        if action.when is not None:
            yield f"actions.{number}.when", action.when
    for number, case in enumerate(rule.cases):
        yield f"cases.{number}.when", case.when


def _rules_asked_for(condition: Condition) -> Iterator[str]:
    if isinstance(condition, RuleCondition):
        yield condition.rule
    elif isinstance(condition, Combined):
        for part in (*condition.all_of, *condition.any_of, *condition.none_of):
            yield from _rules_asked_for(part)
