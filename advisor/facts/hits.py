"""A pattern met in the log, and what the collectors of facts do with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from advisor.sources.records import Evidence, Record

SERVING_KEYS = frozenset({"decode-batch", "prefill-batch"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One pattern met in one record; `values` are the named captures that took part."""

    key: str
    values: Mapping[str, str]
    record: Record
    in_traceback: bool = False

    def number(self, name: str) -> float | None:
        """Return a capture as a number; None if it took no part or is no number."""
        return as_number(self.values.get(name))

    def integer(self, name: str) -> int | None:
        """Return a capture as a whole number."""
        value = self.values.get(name)
        return int(value) if value is not None and value.lstrip("-").isdigit() else None

    def integers(self, name: str) -> tuple[int, ...] | None:
        """Return a capture such as `[1, 2, 4]` as numbers."""
        value = self.values.get(name)
        if value is None:
            return None
        return tuple(int(part) for part in value.strip("[]").split(",") if part.strip().isdigit())


@dataclass(slots=True)
class Sightings:
    """Equal messages of several ranks, joined: how often, from which ranks, and where first."""

    first: Record
    count: int = 0
    ranks: dict[str, None] | None = None

    def add(self, record: Record) -> None:
        """Count one more record of the same message."""
        self.count += 1
        if record.ranks:
            self.ranks = self.ranks or {}
            self.ranks.setdefault(record.rank)

    def evidence(self) -> Evidence:
        """Return the first place, with the count and the ranks of all."""
        first = self.first.evidence()
        return Evidence(
            source=first.source,
            line=first.line,
            text=first.text,
            count=self.count,
            ranks=tuple(sorted(self.ranks or (), key=rank_order)),
        )


def rank_order(rank: str) -> tuple[tuple[str, int], ...]:
    """Order rank labels by their numbers, so that TP10 comes after TP9."""
    labels = []
    for label in rank.split():
        digits = len(label) - len(label.rstrip("0123456789"))
        labels.append((label[: len(label) - digits], int(label[len(label) - digits :] or 0)))
    return tuple(labels)


def as_number(text: str | None) -> float | None:
    """Read a number; None for None and for what is no number."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def seconds_between(begin: datetime | None, end: datetime | None) -> float | None:
    """Return the seconds from one log time to another; None if one is missing."""
    if begin is None or end is None:
        return None
    return (end - begin).total_seconds()
