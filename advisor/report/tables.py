"""Rows and blocks: the tables of a report for people, whatever they are about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from advisor.report.quantities import gib, percent, thousands

_NARROW_VALUE = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a block."""

    label: str
    value: str
    share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One table of a report; `note` says what its numbers refer to."""

    title: str
    rows: tuple[Row, ...]
    note: str = ""

    @property
    def has_bars(self) -> bool:
        """Whether any row is drawn as a bar."""
        return any(row.share is not None for row in self.rows)

    @property
    def is_wide(self) -> bool:
        """Whether its values are too long to stand beside another block."""
        return any(len(row.value) > _NARROW_VALUE for row in self.rows)


def known(rows: Iterable[Row | None]) -> tuple[Row, ...]:
    """Leave out the rows whose value is not known."""
    return tuple(row for row in rows if row is not None)


def count(label: str, value: int | None) -> Row | None:
    """Show a number."""
    return None if value is None else Row(label=label, value=thousands(value))


def most(label: str, value: int | None) -> Row | None:
    """Show the highest number that was seen."""
    if value is None:
        return None
    return Row(label=label, value=f"up to {thousands(value)}" if value else "none")


def ratio(label: str, value: float | None) -> Row | None:
    """Show a ratio of 0..1."""
    return None if value is None else Row(label=label, value=percent(value))


def size(label: str, value: float | None, total: float | None, detail: str = "") -> Row | None:
    """Show a size in GiB and its share of a total."""
    if value is None:
        return None
    share = min(1.0, max(0.0, value / total)) if total else None
    return Row(label=f"{label} ({detail})" if detail else label, value=gib(value), share=share)
