"""Which texts of a release look like signals of performance, capacity or start-up.

The words and modules stand in `advisor/data/audit.yaml`; docs/rules-audit.md explains them.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

import regex

from advisor.audit.emissions import Level, Template
from advisor.resources import read_data

_FILE = "audit.yaml"
_ALARMING = (Level.WARNING, Level.ERROR)


class Kind(StrEnum):
    """What a text looks like; the first that fits, in this order."""

    PERFORMANCE = "performance"
    CAPACITY = "capacity"
    STARTUP = "startup"
    REFUSAL = "refusal"


COUNTED = (Kind.PERFORMANCE, Kind.CAPACITY, Kind.STARTUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The definition that the audit counts by."""

    modules: tuple[str, ...]
    startup_modules: tuple[str, ...]
    refusal_modules: tuple[str, ...]
    modules_left_out: regex.Pattern[str]
    words_left_out: regex.Pattern[str]
    words: Mapping[Kind, regex.Pattern[str]]
    fillings: tuple[str, ...]

    def kind_of(self, template: Template) -> Kind | None:
        """Return what a text looks like; None where it need not be known."""
        shown = template.text.shown()
        if self.modules_left_out.search(template.module) or self.words_left_out.search(shown):
            return None
        if template.level is Level.RAISE:
            return Kind.REFUSAL if is_below(template.module, self.refusal_modules) else None
        if template.level not in _ALARMING or not is_below(template.module, self.modules):
            return None
        return next((kind for kind in COUNTED if self._looks_like(kind, template, shown)), None)

    def _looks_like(self, kind: Kind, template: Template, shown: str) -> bool:
        if kind is Kind.STARTUP and not is_below(template.module, self.startup_modules):
            return False
        return self.words[kind].search(shown) is not None


def is_below(module: str, places: Sequence[str]) -> bool:
    """Whether a module is one of the places; one that ends in `/` or `_` takes all that follows.

    >>> is_below("layers/moe/utils", ["layers/"]), is_below("utils/common", ["utils"])
    (True, False)
    """
    return any(
        module.startswith(place) if place.endswith(("/", "_")) else module == place
        for place in places
    )


@functools.cache
def scope() -> Scope:
    """Return the definition that ships with Advisor."""
    data = cast("Mapping[str, Sequence[str]]", read_data(_FILE))
    kinds = cast("Mapping[str, Sequence[str]]", data["kinds"])
    return Scope(
        modules=tuple(data["modules"]),
        startup_modules=tuple(data["startup_modules"]),
        refusal_modules=tuple(data["refusal_modules"]),
        modules_left_out=_any_of(data["modules_left_out"]),
        words_left_out=_any_of(data["words_left_out"]),
        words={Kind(name): _any_of(words) for name, words in kinds.items()},
        fillings=tuple(map(str, data["fillings"])),
    )


def _any_of(expressions: Sequence[str]) -> regex.Pattern[str]:
    return regex.compile("|".join(f"(?:{text})" for text in expressions), regex.IGNORECASE)
