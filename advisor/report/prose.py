"""Texts of rules as paragraphs and list items: their line ends are those of a YAML file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import regex

_BULLET = regex.compile(r"(?P<bullet>[-*•]|\d{1,3}[.)]) +")


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """One paragraph on one line; `bullet` is what stands before a list item, else empty."""

    text: str
    bullet: str = ""


def one_line(text: str) -> str:
    """Fold all white space of a text: a name or a message from a log stays on its line."""
    return " ".join(text.split())


def paragraphs(text: str) -> tuple[Paragraph, ...]:
    r"""Split a text at empty lines and list items; other white space is folded.

    >>> [(item.bullet, item.text) for item in paragraphs("One\nline:\n- a\n- b")]
    [('', 'One line:'), ('-', 'a'), ('-', 'b')]
    """
    return tuple(item for item in _split(text) if item.text)


def lead(text: str) -> tuple[str, bool]:
    r"""Return the first paragraph with the list that follows it, and whether more was left out.

    >>> lead("One.\n\nTwo.")
    ('One.', True)
    """
    items = paragraphs(text)
    shown = list(items[:1])
    for item in items[1:]:
        if not item.bullet:
            break
        shown.append(item)
    lines = [f"{item.bullet} {item.text}" if item.bullet else item.text for item in shown]
    return "\n".join(lines), len(shown) < len(items)


def _split(text: str) -> Iterator[Paragraph]:
    bullet, held = "", ""
    for raw in text.splitlines():
        line = one_line(raw)
        match = _BULLET.match(line)
        if match is not None or not line:
            yield Paragraph(text=held.strip(), bullet=bullet)
            bullet, held = (match["bullet"], line[match.end() :]) if match else ("", "")
        else:
            held = f"{held} {line}"
    yield Paragraph(text=held.strip(), bullet=bullet)
