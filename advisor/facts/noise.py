"""Lines that look like trouble and are none, each with the reason (`advisor/data/noise.yaml`)."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import regex

from advisor.errors import AdvisorError
from advisor.facts.patterns import Pattern
from advisor.knowledge.ranges import VersionRange
from advisor.resources import read_data

_NOISE_FILE = "noise.yaml"
_KEYS = frozenset({"id", "literals", "regex", "sglang", "why"})
_PREFIX = "noise/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """A harmless line.

    `releases` is where SGLang has this wording; None for text of other software.
    """

    id: str
    pattern: Pattern
    releases: VersionRange | None
    why: str


@functools.cache
def noise() -> tuple[Noise, ...]:
    """Return the harmless lines that Advisor knows.

    Raises:
        AdvisorError: If the shipped file is malformed.
    """
    return tuple(_entry(row) for row in cast("Sequence[Mapping[str, object]]", _rows()))


def _rows() -> object:
    return read_data(_NOISE_FILE) or ()


def _entry(row: Mapping[str, object]) -> Noise:
    name = str(row.get("id"))
    literals = tuple(str(text) for text in cast("Sequence[object]", row.get("literals", ())))
    if set(row) - _KEYS or not literals or not row.get("why"):
        raise AdvisorError(f"{_NOISE_FILE}: {name}: needs id, literals and why; keys are {_KEYS}")
    ends = cast("Sequence[object]", row.get("sglang", ()))
    return Noise(
        id=name,
        pattern=Pattern(
            key=f"{_PREFIX}{name}", literals=literals, expression=_expression(row, literals)
        ),
        releases=VersionRange.between(str(ends[0]), str(ends[1])) if ends else None,
        why=str(row["why"]),
    )


def _expression(row: Mapping[str, object], literals: Sequence[str]) -> str:
    written = row.get("regex")
    if written is not None:
        return str(written)
    return "|".join(regex.escape(text, special_only=True, literal_spaces=True) for text in literals)
