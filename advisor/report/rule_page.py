"""A rule as a page of documentation: made from the rule file, shown by `rules explain`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from advisor.findings import Finding
from advisor.report.rule_text import readable
from advisor.rules.model import ActionText, Rule, Wording

_EXAMPLE_LINES = 12
_LONGEST_LINE = 220
_ORIGIN = """\
Made by `advisor rules docs docs/rules` from the rule files; [writing rules](../writing-rules.md)
says how to add one."""
_HINT = """\
In the texts below `{name}` is a value, and square brackets hold what is said only where the facts
call for it."""


def plain_title(rule: Rule) -> str:
    """Return the title with its placeholders as plain words."""
    return readable(rule.wording.title)


def summary(rule: Rule) -> dict[str, object]:
    """Return a rule's identity for lists."""
    return {
        "id": rule.id,
        "family": rule.family,
        "topic": rule.topic,
        "severity": rule.wording.severity.value,
        "confidence": rule.wording.confidence.value,
        "category": rule.category.value,
        "title": plain_title(rule),
        "since": rule.since,
    }


def page(rule: Rule, shown: Finding | None = None) -> str:
    """Return the Markdown page of a rule; `shown` is what it says on its first example."""
    parts = [
        f"# {rule.id}",
        f"**{plain_title(rule)}**",
        _identity(rule),
        readable(rule.wording.summary),
    ]
    parts += _report(shown)
    parts.append(f"## Why it matters\n\n{readable(rule.wording.why)}")
    parts += _signals(rule)
    parts += _cases(rule)
    parts += _actions(rule.wording.actions)
    if rule.limits:
        parts.append(f"## When to ignore it\n\n{readable(rule.limits)}")
    if rule.suppresses:
        parts.append(
            "## Explains away\n\n" + "\n".join(f"- `{other}`" for other in rule.suppresses)
        )
    parts += _examples(rule)
    if rule.references:
        parts.append("## References\n\n" + "\n".join(f"- <{item}>" for item in rule.references))
    return "\n\n".join(parts) + "\n"


def catalogue(rules: Iterable[Rule]) -> str:
    """Return the Markdown list of all rules, by family, each linked to its page."""
    ordered = sorted(rules, key=lambda rule: (rule.family, rule.id))
    parts = [
        "# Rules",
        f"{len(ordered)} rules. {_ORIGIN}",
        _HINT,
    ]
    for family, members in groupby(ordered, key=lambda rule: rule.family):
        parts.append(f"## {family}\n\n{_table(list(members))}")
    return "\n\n".join(parts) + "\n"


def _table(rules: Sequence[Rule]) -> str:
    rows = [
        f"| [{rule.id}]({rule.id}.md) | {rule.wording.severity.value} | `{rule.topic}` "
        f"| {_cell(plain_title(rule))} |"
        for rule in rules
    ]
    return "\n".join(["| rule | level | topic | title |", "|---|---|---|---|", *rows])


def _cell(text: str) -> str:
    """Keep what Markdown would take for a column or a tag as it is."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def _identity(rule: Rule) -> str:
    return " · ".join(
        (
            rule.wording.severity.value,
            rule.wording.confidence.value,
            rule.category.value,
            f"topic `{rule.topic}`",
            f"family `{rule.family}`",
            f"since {rule.since}",
        )
    )


def _report(shown: Finding | None) -> list[str]:
    """Show what a report says of the example that the page prints."""
    if shown is None:
        return []
    summary = " ".join(shown.summary.split())
    return [f"For the example below: {shown.severity.value}, “{shown.title}”. {summary}"]


def _signals(rule: Rule) -> list[str]:
    if not rule.signals:
        return []
    rows = [
        f"- `{'` or `'.join(signal.pattern.literals)}`"
        + (f" (SGLang {signal.releases.describe()})" if signal.releases is not None else "")
        + (f", from `{'`, `'.join(signal.modules)}`" if signal.modules else "")
        for signal in rule.signals
    ]
    return ["## What it looks for\n\n" + "\n".join(rows)]


def _cases(rule: Rule) -> list[str]:
    if not rule.cases:
        return []
    rows = [
        f"- {case.wording.severity.value}: {_difference(case.wording, rule.wording)}"
        for case in rule.cases
    ]
    return ["## Special cases\n\n" + "\n".join(rows)]


def _difference(case: Wording, usual: Wording) -> str:
    """Return the first text of a case that differs from the usual one, else its actions."""
    for name in ("summary", "title", "why"):
        if getattr(case, name) != getattr(usual, name):
            return readable(getattr(case, name))
    if case.actions == usual.actions:
        return "the same, at this level"
    return "; ".join(readable(action.title) for action in case.actions) or "nothing to do"


def _actions(actions: tuple[ActionText, ...]) -> list[str]:
    if not actions:
        return []
    return ["## What to do\n\n" + "\n".join(_action(action) for action in actions)]


def _action(action: ActionText) -> str:
    lines = [f"- {readable(action.title)}"]
    if action.command:
        lines.append(f"  `{readable(action.command)}`")
    for label, text in (
        ("Expect", action.expect),
        ("Risk", action.risk),
        ("Check", action.verify),
    ):
        if text:
            lines.append(f"  {label}: {readable(text)}")
    return "\n".join(lines)


def _examples(rule: Rule) -> list[str]:
    parts: list[str] = []
    for expect, heading in (("fires", "Fires on"), ("quiet", "Stays quiet on")):
        example = next((item for item in rule.examples if item.expect == expect), None)
        if example is None or not (example.log or example.args):
            continue
        lines = (example.log or example.args).strip().splitlines()[:_EXAMPLE_LINES]
        shown = "\n".join(f"    {line[:_LONGEST_LINE]}" for line in lines)
        parts.append(f"## {heading}: {example.name}\n\n{shown}")
    return parts
