"""Patterns: a literal that must stand in the line, and the expression that reads it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import regex

from advisor.resources import read_data

SEARCH_TIMEOUT_S = 0.5
_LINES_FILE = "lines.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """What the scanner looks for and what is read from it.

    `key` names the pattern's owner: the id of a fact line, or `rule-id/signal-name`. At least one
    of `literals` occurs in every text that `expression` matches.
    """

    key: str
    literals: tuple[str, ...]
    expression: str

    def search(self, text: str) -> Mapping[str, str] | None:
        """Return the named captures that took part, or None where nothing matches.

        Raises:
            TimeoutError: If the expression takes too long on this text.
        """
        if not any(literal in text for literal in self.literals):
            return None
        match = compiled(self.expression).search(text, timeout=SEARCH_TIMEOUT_S)
        if match is None:
            return None
        return {name: value for name, value in match.groupdict().items() if value is not None}


@functools.cache
def compiled(expression: str) -> regex.Pattern[str]:
    """Compile an expression once; rules are compiled only when their literal occurs."""
    return regex.compile(expression)


@functools.cache
def line_patterns() -> tuple[Pattern, ...]:
    """Return the patterns of the log lines that carry facts (`advisor/data/lines.yaml`)."""
    rows = cast("Sequence[Mapping[str, object]]", read_data(_LINES_FILE))
    return tuple(
        Pattern(
            key=str(row["id"]),
            literals=tuple(str(text) for text in cast("Sequence[object]", row["literals"])),
            expression=str(row["regex"]),
        )
        for row in rows
    )
