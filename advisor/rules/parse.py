"""From the text of a rule file to a validated rule, or to the list of all its mistakes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

import regex
import yaml

from advisor.errors import InputError
from advisor.facts.patterns import Pattern
from advisor.findings import Category, Confidence, Severity
from advisor.knowledge.ranges import VersionRange
from advisor.rules import nodes
from advisor.rules.condition_parser import mentions_signal, parse_condition
from advisor.rules.conditions import ALWAYS, Combined, Condition, SignalCondition
from advisor.rules.model import ActionText, Case, Example, Rule, SignalPattern, Wording
from advisor.rules.nodes import Problems
from advisor.rules.vocabulary import (
    ACTION_KEYS,
    CASE_KEYS,
    EVERY_RELEASE,
    EXAMPLE_KEYS,
    EXPECTATIONS,
    EXTERNAL,
    REQUIRED_KEYS,
    RULE_KEYS,
    SIGNAL_KEYS,
    TOPICS,
)

_Fields = Mapping[str, yaml.Node]
_Word = TypeVar("_Word", bound=StrEnum)
_ID = regex.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def parse_rule(text: str, *, file: str, family: str, stem: str) -> tuple[Rule | None, list[str]]:
    """Parse one rule file.

    Returns:
        The rule, or None; and every mistake as `file:line: text`.
    """
    problems = Problems(file)
    top = nodes.compose(text, problems)
    if top is None:
        return None, problems.lines
    fields = nodes.pairs(top, problems)
    nodes.check_keys(fields, RULE_KEYS, problems)
    for key in REQUIRED_KEYS:
        if key not in fields:
            problems.add(top, f"missing key {key!r}")
    rule = _rule(fields, top, problems, family=family, stem=stem, origin=file)
    return (None if problems.lines else rule), problems.lines


def _rule(
    fields: _Fields, top: yaml.Node, problems: Problems, *, family: str, stem: str, origin: str
) -> Rule:
    identity = nodes.text(fields.get("id"), problems)
    if identity and identity != stem:
        problems.add(fields["id"], f"id {identity!r} differs from the file's name {stem!r}")
    if identity and not _ID.fullmatch(identity):
        problems.add(fields["id"], "an id is words of a-z and 0-9 joined by hyphens")
    signals = tuple(
        _signal(item, problems, rule=identity)
        for item in nodes.items(fields.get("signals"), problems)
    )
    names = tuple(signal.name for signal in signals)
    wording = _wording(fields, top, problems, base=None, signals=names)
    return Rule(
        id=identity,
        family=family,
        topic=_topic(fields.get("topic"), problems),
        category=_word(Category, fields.get("category"), problems, Category.CONFIGURATION),
        since=nodes.text(fields.get("since"), problems, "0.1.0"),
        signals=signals,
        when=_when(fields.get("when"), problems, names),
        wording=wording,
        cases=tuple(
            _case(item, problems, base=wording, signals=names)
            for item in nodes.items(fields.get("cases"), problems)
        ),
        limits=nodes.text(fields.get("limits"), problems),
        references=_references(fields.get("references"), problems),
        suppresses=nodes.texts(fields.get("suppresses"), problems),
        fallback=nodes.boolean(fields.get("fallback"), problems),
        evidence_paths=nodes.texts(fields.get("evidence"), problems),
        examples=tuple(
            _example(item, problems) for item in nodes.items(fields.get("examples"), problems)
        ),
        origin=origin,
        places=nodes.places(top),
        values={
            name: nodes.text(node, problems)
            for name, node in (
                nodes.pairs(fields["values"], problems) if "values" in fields else {}
            ).items()
        },
    )


def _signal(node: yaml.Node, problems: Problems, *, rule: str) -> SignalPattern:
    fields = nodes.pairs(node, problems)
    nodes.check_keys(fields, SIGNAL_KEYS, problems)
    literals = nodes.texts(fields.get("literals", fields.get("literal")), problems)
    if not literals or not all(literals):
        problems.add(node, "a signal needs a literal that must stand in the line")
    name = nodes.text(fields.get("name"), problems, "line")
    expression = nodes.text(fields.get("pattern"), problems) or "|".join(
        regex.escape(literal, special_only=True, literal_spaces=True) for literal in literals
    )
    try:
        regex.compile(expression)
    except regex.error as error:
        problems.add(fields.get("pattern", node), f"bad pattern: {error}")
    emitted = nodes.texts(fields.get("emitted_by"), problems)
    return SignalPattern(
        name=name,
        pattern=Pattern(key=f"{rule}/{name}", literals=literals, expression=expression),
        releases=_releases(fields.get("sglang"), problems),
        modules=() if emitted == (EXTERNAL,) else emitted,
        every_rank=nodes.boolean(fields.get("every_rank"), problems),
    )


def _releases(node: yaml.Node | None, problems: Problems) -> VersionRange | None:
    written = nodes.text(node, problems)
    if not written:
        return None
    if written == EVERY_RELEASE:
        return VersionRange()
    try:
        return VersionRange.parse(written)
    except InputError as error:
        problems.add(node, str(error))
        return None


def _when(node: yaml.Node | None, problems: Problems, signals: tuple[str, ...]) -> Condition:
    """Read when a rule applies; unless it names signals itself, any of the rule's must be met."""
    condition = ALWAYS if node is None else parse_condition(node, problems, signals)
    if not signals or (node is not None and mentions_signal(node)):
        if node is None and not signals:
            problems.add(None, "a rule needs `signals`, `when`, or both")
        return condition
    met = Combined(any_of=tuple(SignalCondition(name=name) for name in signals))
    return met if node is None else Combined(all_of=(met, condition))


def _wording(
    fields: _Fields,
    node: yaml.Node,
    problems: Problems,
    *,
    base: Wording | None,
    signals: tuple[str, ...],
) -> Wording:
    """Read the texts; what a case leaves out is taken from the rule."""

    def words(key: str, inherited: str) -> str:
        return nodes.text(fields.get(key), problems, inherited).strip()

    severity = _word(
        Severity, fields.get("severity"), problems, base.severity if base else Severity.NOTE
    )
    confidence = _word(
        Confidence,
        fields.get("confidence"),
        problems,
        base.confidence if base else Confidence.CERTAIN,
    )
    actions = base.actions if base is not None else ()
    if "actions" in fields:
        actions = tuple(
            _action(item, problems, signals) for item in nodes.items(fields["actions"], problems)
        )
    wording = Wording(
        severity=severity,
        confidence=confidence,
        title=words("title", base.title if base else ""),
        summary=words("summary", base.summary if base else ""),
        why=words("why", base.why if base else ""),
        actions=actions,
    )
    for key, written in (("summary", wording.summary), ("why", wording.why)):
        if written and written[-1] not in ".}":
            problems.add(fields.get(key, node), f"{key} must end with a period")
    return wording


def _case(node: yaml.Node, problems: Problems, *, base: Wording, signals: tuple[str, ...]) -> Case:
    fields = nodes.pairs(node, problems)
    nodes.check_keys(fields, CASE_KEYS, problems)
    if "when" not in fields:
        problems.add(node, "a case needs `when`")
    condition = parse_condition(fields["when"], problems, signals) if "when" in fields else ALWAYS
    return Case(
        when=condition, wording=_wording(fields, node, problems, base=base, signals=signals)
    )


def _action(node: yaml.Node, problems: Problems, signals: tuple[str, ...]) -> ActionText:
    fields = nodes.pairs(node, problems)
    nodes.check_keys(fields, ACTION_KEYS, problems)
    if "title" not in fields:
        problems.add(node, "an action needs a title")
    cost = nodes.scalar(fields["cost"]) if "cost" in fields else 5
    if not isinstance(cost, int):
        problems.add(fields.get("cost"), "cost is a number from 0 (free) to 9")
        cost = 5
    return ActionText(
        title=nodes.text(fields.get("title"), problems).strip(),
        command=nodes.text(fields.get("command"), problems).strip(),
        expect=nodes.text(fields.get("expect"), problems).strip(),
        risk=nodes.text(fields.get("risk"), problems).strip(),
        verify=nodes.text(fields.get("verify"), problems).strip(),
        cost=cost,
        when=parse_condition(fields["when"], problems, signals) if "when" in fields else None,
    )


def _example(node: yaml.Node, problems: Problems) -> Example:
    fields = nodes.pairs(node, problems)
    nodes.check_keys(fields, EXAMPLE_KEYS, problems)
    expect = nodes.text(fields.get("expect"), problems)
    if expect not in EXPECTATIONS:
        problems.add(fields.get("expect", node), f"expect is one of {', '.join(EXPECTATIONS)}")
    severity = fields.get("severity")
    summary = nodes.text(fields.get("summary"), problems).strip()
    return Example(
        name=nodes.text(fields.get("name"), problems),
        expect=expect,
        log=nodes.text(fields.get("log"), problems),
        args=nodes.text(fields.get("args"), problems),
        env=nodes.text(fields.get("env"), problems),
        severity=None if severity is None else _word(Severity, severity, problems, Severity.NOTE),
        summary=summary or None,
        evidence=_count(fields.get("evidence"), problems),
    )


def _count(node: yaml.Node | None, problems: Problems) -> int | None:
    if node is None:
        return None
    value = nodes.scalar(node)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    problems.add(node, "expected a whole number")
    return None


def _topic(node: yaml.Node | None, problems: Problems) -> str:
    topic = nodes.text(node, problems)
    if node is not None and topic not in TOPICS:
        problems.add(node, f"unknown topic {topic!r}{nodes.near(topic, TOPICS)}")
    return topic


def _references(node: yaml.Node | None, problems: Problems) -> tuple[str, ...]:
    references = nodes.texts(node, problems)
    for reference in references:
        if not reference.startswith("https://"):
            problems.add(node, f"reference {reference!r} is no https address")
    return references


def _word(kind: type[_Word], node: yaml.Node | None, problems: Problems, default: _Word) -> _Word:
    if node is None:
        return default
    written = nodes.text(node, problems)
    try:
        return kind(written)
    except ValueError:
        known = [member.value for member in kind]
        problems.add(
            node, f"{written!r} is not one of {', '.join(known)}{nodes.near(written, known)}"
        )
        return default
