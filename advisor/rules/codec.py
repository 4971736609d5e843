"""Rules as plain JSON values and back, for the cache. Decoding checks what it builds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeGuard

from advisor.facts.literals import Value
from advisor.facts.patterns import Pattern
from advisor.findings import Category, Confidence, Severity
from advisor.knowledge.ranges import VersionRange
from advisor.rules.conditions import (
    Combined,
    Condition,
    FactCondition,
    Operator,
    RuleCondition,
    SignalCondition,
)
from advisor.rules.model import ActionText, Case, Example, Rule, SignalPattern, Wording

Plain = None | bool | int | float | str | Sequence["Plain"] | Mapping[str, "Plain"]


def encode(rule: Rule) -> Plain:
    """Return a rule as lists and scalars, in the order that `decode` reads."""
    return [
        [rule.id, rule.family, rule.topic, rule.category.value, rule.since, rule.origin],
        [
            [_encode_signal(signal) for signal in rule.signals],
            _encode_condition(rule.when),
            _encode_wording(rule.wording),
            [[_encode_condition(case.when), _encode_wording(case.wording)] for case in rule.cases],
        ],
        [
            rule.limits,
            list(rule.references),
            list(rule.suppresses),
            list(rule.evidence_paths),
            [_encode_example(example) for example in rule.examples],
            rule.fallback,
            dict(rule.values),
        ],
    ]


def decode(plain: Plain) -> Rule:
    """Return the rule that `encode` wrote.

    Raises:
        ValueError, TypeError, InputError: If it is not what `encode` writes.
    """
    identity_part, condition_part, rest = map(_items, _items(plain))
    identity, family, topic, category, since, origin = identity_part
    signals, when, wording, cases = condition_part
    limits, references, suppresses, evidence, examples, fallback, values = rest
    return Rule(
        id=_text(identity),
        family=_text(family),
        topic=_text(topic),
        category=Category(_text(category)),
        since=_text(since),
        signals=tuple(map(_signal, _items(signals))),
        when=_condition(when),
        wording=_wording(wording),
        cases=tuple(map(_case, _items(cases))),
        limits=_text(limits),
        references=_texts(references),
        suppresses=_texts(suppresses),
        evidence_paths=_texts(evidence),
        examples=tuple(map(_example, _items(examples))),
        fallback=_truth(fallback),
        origin=_text(origin),
        values={name: _text(value) for name, value in _pairs(values).items()},
    )


def _encode_signal(signal: SignalPattern) -> Plain:
    pattern = signal.pattern
    return [
        signal.name,
        [pattern.key, list(pattern.literals), pattern.expression],
        None if signal.releases is None else signal.releases.describe(),
        list(signal.modules),
        signal.every_rank,
    ]


def _signal(plain: Plain) -> SignalPattern:
    name, pattern, releases, modules, every_rank = _items(plain)
    key, literals, expression = _items(pattern)
    return SignalPattern(
        name=_text(name),
        pattern=Pattern(key=_text(key), literals=_texts(literals), expression=_text(expression)),
        releases=None if releases is None else VersionRange.parse(_text(releases)),
        modules=_texts(modules),
        every_rank=_truth(every_rank),
    )


def _encode_condition(condition: Condition) -> Plain:
    match condition:
        case SignalCondition(name=name):
            return ["signal", name]
        case RuleCondition(rule=rule):
            return ["rule", rule]
        case FactCondition(path=path, operator=operator, operand=VersionRange() as releases):
            return ["within", path, operator.value, releases.describe()]
        case FactCondition(path=path, operator=operator, operand=operand):
            return ["fact", path, operator.value, _encode_value(operand)]
        case Combined(all_of=all_of, any_of=any_of, none_of=none_of):
            groups = (all_of, any_of, none_of)
            return ["combined", *([_encode_condition(part) for part in group] for group in groups)]
    raise TypeError(f"no such condition: {condition!r}")


def _condition(plain: Plain) -> Condition:
    word, *rest = _items(plain)
    match word, rest:
        case "signal", [name]:
            return SignalCondition(name=_text(name))
        case "rule", [rule]:
            return RuleCondition(rule=_text(rule))
        case "within", [path, operator, releases]:
            within = VersionRange.parse(_text(releases))
            return FactCondition(path=_text(path), operator=_operator(operator), operand=within)
        case "fact", [path, operator, operand]:
            value = _value(operand)
            return FactCondition(path=_text(path), operator=_operator(operator), operand=value)
        case "combined", [all_of, any_of, none_of]:
            return Combined(
                all_of=tuple(map(_condition, _items(all_of))),
                any_of=tuple(map(_condition, _items(any_of))),
                none_of=tuple(map(_condition, _items(none_of))),
            )
    raise ValueError(f"no such condition: {word!r}")


def _operator(plain: Plain) -> Operator:
    return Operator(_text(plain))


def _encode_value(value: Value | VersionRange) -> Plain:
    if isinstance(value, tuple):
        return [_encode_value(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"no operand of a condition: {value!r}")


def _value(plain: Plain) -> Value:
    if _is_list(plain):
        return tuple(_value(item) for item in plain)
    if plain is None or isinstance(plain, bool | int | float | str):
        return plain
    raise TypeError(f"no operand of a condition: {plain!r}")


def _encode_wording(wording: Wording) -> Plain:
    return [
        wording.severity.value,
        wording.confidence.value,
        wording.title,
        wording.summary,
        wording.why,
        [_encode_action(action) for action in wording.actions],
    ]


def _wording(plain: Plain) -> Wording:
    severity, confidence, title, summary, why, actions = _items(plain)
    return Wording(
        severity=Severity(_text(severity)),
        confidence=Confidence(_text(confidence)),
        title=_text(title),
        summary=_text(summary),
        why=_text(why),
        actions=tuple(map(_action, _items(actions))),
    )


def _encode_action(action: ActionText) -> Plain:
    return [
        *(action.title, action.command, action.expect, action.risk, action.verify, action.cost),
        None if action.when is None else _encode_condition(action.when),
    ]


def _action(plain: Plain) -> ActionText:
    title, command, expect, risk, verify, cost, when = _items(plain)
    if not isinstance(cost, int):
        raise TypeError("a cost is a whole number")
    return ActionText(
        title=_text(title),
        command=_text(command),
        expect=_text(expect),
        risk=_text(risk),
        verify=_text(verify),
        cost=cost,
        when=None if when is None else _condition(when),
    )


def _case(plain: Plain) -> Case:
    when, wording = _items(plain)
    return Case(when=_condition(when), wording=_wording(wording))


def _encode_example(example: Example) -> Plain:
    severity = None if example.severity is None else example.severity.value
    texts = (example.name, example.expect, example.log, example.args, example.env)
    return [*texts, severity, example.summary, example.evidence]


def _example(plain: Plain) -> Example:
    name, expect, log, args, env, severity, summary, evidence = _items(plain)
    if evidence is not None and not isinstance(evidence, int):
        raise TypeError("a count of places is a whole number")
    return Example(
        name=_text(name),
        expect=_text(expect),
        log=_text(log),
        args=_text(args),
        env=_text(env),
        severity=None if severity is None else Severity(_text(severity)),
        summary=None if summary is None else _text(summary),
        evidence=evidence,
    )


def _is_list(plain: Plain) -> TypeGuard[Sequence[Plain]]:
    return isinstance(plain, list)


def _items(plain: Plain) -> Sequence[Plain]:
    if not _is_list(plain):
        raise TypeError(f"expected a list: {plain!r}")
    return plain


def _pairs(plain: Plain) -> Mapping[str, Plain]:
    if not isinstance(plain, Mapping):
        raise TypeError(f"expected a mapping: {plain!r}")
    return plain


def _text(plain: Plain) -> str:
    if not isinstance(plain, str):
        raise TypeError(f"expected text: {plain!r}")
    return plain


def _texts(plain: Plain) -> tuple[str, ...]:
    return tuple(_text(item) for item in _items(plain))


def _truth(plain: Plain) -> bool:
    if not isinstance(plain, bool):
        raise TypeError(f"expected true or false: {plain!r}")
    return plain
