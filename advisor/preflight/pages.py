"""A check of preflight as a page: what `advisor rules explain` shows to whoever met its id."""

from __future__ import annotations

from advisor.preflight.catalogue import Check, checks, outcomes
from advisor.preflight.support import SupportRow, rows
from advisor.report.rule_text import readable


def page(name: str) -> str:
    """Return the Markdown page of a check, made from the data that words its findings."""
    check = checks()[name]
    known = [row for row in rows() if row.check == name]
    parts = [f"# {name}", f"**{readable(check.title) or check.says}**", _identity(check, known)]
    if check.summary:
        parts.append(readable(check.summary))
    if check.why:
        parts.append(f"## Why it matters\n\n{readable(check.why)}")
    if check.actions:
        actions = "\n".join(f"- {readable(str(row['title']))}" for row in check.actions)
        parts.append(f"## What to do\n\n{actions}")
    if known:
        parts.append("## What is known\n\n" + "\n".join(_row(row) for row in known))
    if check.references:
        parts.append("## References\n\n" + "\n".join(f"- <{item}>" for item in check.references))
    return "\n\n".join(parts) + "\n"


def _identity(check: Check, known: list[SupportRow]) -> str:
    levels = [outcomes()[row.otherwise].severity for row in known] or [check.severity]
    ranked = sorted(set(levels), key=lambda level: level.rank)
    return " · ".join(
        (
            " or ".join(level.value for level in ranked),
            check.category.value,
            f"topic `{check.topic}`",
            "a check of `advisor preflight`",
        )
    )


def _row(row: SupportRow) -> str:
    """Say one row in words: option, releases, GPUs, outcome, note and source."""
    values = f" {', '.join(map(str, row.values))}" if row.values else ""
    option = f"`{' / '.join(row.flags)}{values}`" if row.flags else readable(row.title)
    works = f", works on {row.shown_sm}" if row.shown_sm else ""
    outcome = row.otherwise.replace("_", " ")
    lines = [f"- {option}, SGLang {row.sglang}{works}: {outcome}. {readable(row.note)}".rstrip()]
    if row.message:
        lines.append(f"  Message: “{row.message}”.")
    lines.append(f"  Source ({row.basis}): {', '.join(f'srt/{path}' for path in row.where)}.")
    lines += [f"  <{reference}>" for reference in row.references]
    return "\n".join(lines)
