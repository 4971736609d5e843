"""Find literals and patterns in templates: the fixed pieces, and what may fill the holes."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Sequence
from itertools import islice, product

from advisor.audit.emissions import Level, Template
from advisor.audit.scope import scope
from advisor.audit.texts import Text
from advisor.facts.patterns import Pattern, compiled

_BOUNDARY = "\x00"
_MOST_SAMPLES = 300
_LEAST_FIXED_RATIO = 0.6
_LEAST_FIXED_RUN = 6
_NUMBERS = ("8", "0.50")
_SEARCH_TIMEOUT_S = 0.5


class Corpus:
    """Templates that can be searched for literals, all at once."""

    def __init__(self, templates: Sequence[Template]) -> None:
        self.templates = tuple(templates)
        self._starts: list[int] = []
        chunks: list[str] = []
        position = 0
        for template in self.templates:
            chunk = _BOUNDARY.join(template.text.pieces) + _BOUNDARY
            self._starts.append(position)
            chunks.append(chunk)
            position += len(chunk)
        self._text = "".join(chunks)

    def holding(self, literal: str) -> tuple[Template, ...]:
        """Return the templates that hold a literal inside one fixed piece."""
        found: list[Template] = []
        position = self._text.find(literal)
        while position >= 0:
            number = bisect.bisect_right(self._starts, position) - 1
            found.append(self.templates[number])
            after = self._starts[number + 1] if number + 1 < len(self._starts) else None
            position = -1 if after is None else self._text.find(literal, after)
        return tuple(found)

    def spanned(self, literal: str) -> tuple[Template, ...]:
        """Return the templates that give a literal when their holes are filled in a likely way."""
        words = re.findall(r"[A-Za-z]{4,}", literal) or [literal]
        word = max(words, key=len)
        near = self.holding(word) + self.holding(literal[: len(literal) // 2])
        return tuple(dict.fromkeys(item for item in near if spans(item.text, literal)))


def spans(text: Text, literal: str) -> bool:
    """Whether a literal can stand in a text across its holes.

    Most of the literal must be fixed text of the template, at least one run of it at length.

    >>> spans(Text(pieces=("Capture ", " graph begin."), holes=("",)), "Capture cuda graph begin")
    True
    >>> spans(Text(pieces=("Capture ", "."), holes=("",)), "Capture cuda graph begin.")
    False
    """
    return any(
        sum(runs) >= _LEAST_FIXED_RATIO * len(literal) and max(runs, default=0) >= _LEAST_FIXED_RUN
        for start in range(len(text.pieces))
        for runs in _overlays(text.pieces, start, literal)
    )


def _overlays(pieces: Sequence[str], start: int, literal: str) -> Iterator[tuple[int, ...]]:
    """Yield the lengths of fixed runs for each way to lay a literal over pieces from `start`."""
    first = pieces[start]
    for length in range(min(len(first), len(literal)), -1, -1):
        if first.endswith(literal[:length]):
            yield from _rest(pieces, start + 1, literal, length, (length,))


def _rest(
    pieces: Sequence[str], number: int, literal: str, position: int, runs: tuple[int, ...]
) -> Iterator[tuple[int, ...]]:
    """Lay the rest of a literal over the pieces from `number`, a hole before each."""
    if position >= len(literal) or number >= len(pieces):
        if position >= len(literal):
            yield runs
        return
    piece = pieces[number]
    tail = literal[position:]
    for length in range(min(len(piece), len(tail)), 0, -1):
        if tail.endswith(piece[:length]):
            yield (*runs, length)
            break
    at = literal.find(piece, position) if piece else -1
    if at >= 0:
        yield from _rest(pieces, number + 1, literal, at + len(piece), (*runs, len(piece)))


def fits(pattern: Pattern, template: Template) -> bool:
    """Whether a pattern matches the template's text with likely fillings of its holes."""
    expression = compiled(pattern.expression)
    return any(
        expression.search(line, timeout=_SEARCH_TIMEOUT_S) is not None
        for sample in islice(samples(template), _MOST_SAMPLES)
        for line in sample.splitlines()
    )


def samples(template: Template) -> Iterator[str]:
    """Yield the lines that a template may give; a raised one also with its exception's name."""
    fillings = scope().fillings
    choices = [_NUMBERS if _is_number(hole) else fillings for hole in template.text.holes]
    heads = ("", f"{template.exception}: ") if template.level is Level.RAISE else ("",)
    uniform = (
        tuple(filling if filling in choice else choice[0] for choice in choices)
        for filling in fillings
    )
    for chosen in (*uniform, *islice(product(*choices), _MOST_SAMPLES)):
        line = template.text.pieces[0] + "".join(
            filling + piece for filling, piece in zip(chosen, template.text.pieces[1:], strict=True)
        )
        for head in heads:
            yield head + line


def _is_number(hole: str) -> bool:
    return hole[-1:] in set("dfeg")
