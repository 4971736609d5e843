"""A rule as a page of documentation: made from the rule file, shown by `rules explain`."""

from __future__ import annotations

import regex

from advisor.rules.model import ActionText, Rule

_TAGS = regex.compile(r"\{%-?.*?-?%\}|\{\{\s*|\s*\}\}")
_CALL = regex.compile(r"flag\('([^']+)'\)|flag\(\"([^\"]+)\"\)")
_FILTER = regex.compile(r"\s*\|\s*\w+(?:\([^)]*\))?")
_EXAMPLE_LINES = 12
_LONGEST_LINE = 220


def plain_title(rule: Rule) -> str:
    """Return the title with its placeholders as plain words."""
    return plain_text(rule.wording.title)


def plain_text(template: str) -> str:
    """Show a template to a reader: placeholders become `<name>`, conditions disappear.

    >>> plain_text("E={{ experts }} on {{ gpu.name }}")
    'E=<experts> on <gpu.name>'
    """
    text = regex.sub(r"\{\{\s*(.*?)\s*\}\}", lambda match: _placeholder(match[1]), template)
    return " ".join(_TAGS.sub("", text).split())


def _placeholder(expression: str) -> str:
    if call := _CALL.search(expression):
        return str(call[1] or call[2])
    return f"<{_FILTER.sub('', expression).strip()}>"


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


def page(rule: Rule) -> str:
    """Return the Markdown page of a rule."""
    parts = [
        f"# {rule.id}",
        f"**{plain_title(rule)}**",
        f"{rule.wording.severity.value} · {rule.wording.confidence.value} · {rule.category.value} · "
        f"topic `{rule.topic}` · since {rule.since}",
        plain_text(rule.wording.summary),
        f"## Why it matters\n\n{plain_text(rule.wording.why)}",
    ]
    parts += _signals(rule)
    parts += _cases(rule)
    parts += _actions(rule.wording.actions)
    if rule.limits:
        parts.append(f"## When to ignore it\n\n{plain_text(rule.limits)}")
    if rule.suppresses:
        parts.append(
            "## Explains away\n\n" + "\n".join(f"- `{other}`" for other in rule.suppresses)
        )
    parts += _examples(rule)
    if rule.references:
        parts.append("## References\n\n" + "\n".join(f"- <{item}>" for item in rule.references))
    return "\n\n".join(parts) + "\n"


def _signals(rule: Rule) -> list[str]:
    if not rule.signals:
        return []
    rows = [
        f"- `{'` or `'.join(signal.pattern.literals)}`"
        + (f" (SGLang {signal.releases.describe()})" if signal.releases is not None else "")
        for signal in rule.signals
    ]
    return ["## What it looks for\n\n" + "\n".join(rows)]


def _cases(rule: Rule) -> list[str]:
    if not rule.cases:
        return []
    rows = [
        f"- {case.wording.severity.value}: {plain_text(case.wording.summary)}"
        for case in rule.cases
    ]
    return ["## Special cases\n\n" + "\n".join(rows)]


def _actions(actions: tuple[ActionText, ...]) -> list[str]:
    if not actions:
        return []
    return ["## What to do\n\n" + "\n".join(_action(action) for action in actions)]


def _action(action: ActionText) -> str:
    lines = [f"- {plain_text(action.title)}"]
    if action.command:
        lines.append(f"  `{plain_text(action.command)}`")
    for label, text in (
        ("Expect", action.expect),
        ("Risk", action.risk),
        ("Check", action.verify),
    ):
        if text:
            lines.append(f"  {label}: {plain_text(text)}")
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
