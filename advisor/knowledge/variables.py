"""Environment variables of SGLang: which release reads which, over `advisor/data/variables.yaml`."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from advisor.knowledge.ranges import VersionRange, parse_ranges
from advisor.resources import read_data

DATA_FILE = "variables.yaml"
_OLD_PREFIX = "SGL_"
_PREFIX = "SGLANG_"
_NEAR_ENOUGH_RATIO = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableFacts:
    """One variable.

    Attributes:
        seen: Releases whose source names it.
        deprecated: Releases that warn of it and still act on it.
        ignored: Releases that only warn of it.
        new: The variable that has taken its place.
    """

    name: str
    seen: tuple[VersionRange, ...]
    deprecated: tuple[VersionRange, ...] = ()
    ignored: tuple[VersionRange, ...] = ()
    new: str | None = None


def is_of_sglang(name: str) -> bool:
    """Say whether a variable is meant for SGLang by its prefix."""
    return name.startswith((_PREFIX, _OLD_PREFIX))


def variable_facts(name: str) -> VariableFacts | None:
    """Return a variable; None if no known release names it."""
    row = _rows().get(name)
    if row is None:
        return None
    if isinstance(row, str):
        return VariableFacts(name=name, seen=_ranges(row))
    return VariableFacts(
        name=name,
        seen=_ranges(row["seen"]),
        deprecated=_ranges(row.get("deprecated")),
        ignored=_ranges(row.get("ignored")),
        new=row.get("new"),
    )


def current_prefix(name: str) -> str | None:
    """Return the SGLANG_ name for one that begins with SGL_, if a release knows that."""
    if not name.startswith(_OLD_PREFIX):
        return None
    new = _PREFIX + name.removeprefix(_OLD_PREFIX)
    return new if new in _rows() else None


def near_variables(name: str) -> Sequence[str]:
    """Return the known variable that a mistyped one was probably meant to be."""
    return difflib.get_close_matches(name, _rows(), n=1, cutoff=_NEAR_ENOUGH_RATIO)


def _ranges(text: str | None) -> tuple[VersionRange, ...]:
    return () if text is None else parse_ranges(text)


@functools.cache
def _rows() -> Mapping[str, str | Mapping[str, str]]:
    document = cast("Mapping[str, Mapping[str, str | Mapping[str, str]]]", read_data(DATA_FILE))
    return document["variables"]
