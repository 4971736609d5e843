"""The phases of a start on each rank: which lines begin and end them (`advisor/data/startup.yaml`)."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from advisor.facts.graphs import graph_kind
from advisor.facts.hits import Hit, seconds_between
from advisor.facts.model import Phase
from advisor.resources import read_data
from advisor.sources.records import Record

_DATA_FILE = "startup.yaml"
_COMPILE_SECONDS = "seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseLines:
    """One row of the data file. `kind` is that of a graph capture."""

    name: str
    begins: tuple[str, ...]
    ends: tuple[str, ...]
    kind: str | None
    nested: bool
    once: bool
    cache: str | None

    def concerns(self, hit: Hit) -> bool:
        """Whether a line belongs to this phase; lines of captures are told apart by kind."""
        return self.kind is None or graph_kind(hit) == self.kind


@dataclass(slots=True)
class _OnRank:
    """A phase on one rank; it can come twice, as for the weights of a draft model."""

    begun: Record | None = None
    seconds: float = 0.0
    logged: bool = False
    ended: bool = False


@dataclass(slots=True)
class Interval:
    """A phase over all ranks: its first and last line, and the time of each rank."""

    lines: PhaseLines
    begin: Record
    end: Record | None = None
    _ranks: dict[str, _OnRank] = field(default_factory=dict)

    def start(self, record: Record) -> None:
        """Note that a rank begins."""
        self._ranks.setdefault(record.rank, _OnRank()).begun = record

    def finish(self, hit: Hit) -> None:
        """Note that a rank ends: by its own line's word, or since it, or any rank, began.

        A second end without a second begin is passed over.
        """
        rank = self._ranks.setdefault(hit.record.rank, _OnRank())
        if rank.ended and rank.begun is None:
            return
        elapsed = hit.number("elapsed")
        begun = self.begin if rank.begun is None else rank.begun
        between = seconds_between(begun.time, hit.record.time)
        self.end, rank.ended, rank.begun = hit.record, True, None
        rank.logged = rank.logged or elapsed is not None
        rank.seconds += elapsed if elapsed is not None else between or 0.0

    def add(self, record: Record, seconds: float) -> None:
        """Note a line that tells how long a piece of the phase took."""
        rank = self._ranks.setdefault(record.rank, _OnRank())
        rank.seconds += seconds
        rank.logged = rank.ended = True
        self.end = record

    @property
    def slowest(self) -> tuple[str, float, bool] | None:
        """The rank that took longest, its seconds, and whether a line says so; None if open."""
        ended = [(name, rank) for name, rank in self._ranks.items() if rank.ended]
        if not ended:
            return None
        name, rank = max(ended, key=lambda item: item[1].seconds)
        return name, rank.seconds, rank.logged

    @property
    def seconds(self) -> float | None:
        """The time of the slowest rank; None while no rank has ended."""
        return None if self.slowest is None else self.slowest[1]

    def phase(self) -> Phase:
        """Return the facts."""
        name, seconds, logged = self.slowest or (None, None, False)
        return Phase(
            name=self.lines.name,
            began=self.begin.time,
            seconds=seconds,
            basis="logged" if logged else "timestamps",
            evidence=self.begin.evidence(),
            slowest_rank=name or None,
            ranks=len(self._ranks),
            nested=self.lines.nested,
            once=self.lines.once,
            cache=self.lines.cache,
        )


@dataclass(slots=True)
class PhaseCollector:
    """Follows all phases, in the order in which they begin."""

    intervals: dict[str, Interval] = field(default_factory=dict)

    def take(self, hit: Hit) -> None:
        """Note a line that begins or ends phases; one line can end one and begin the next."""
        for lines in _by_line().get(hit.key, ()):
            if not lines.concerns(hit):
                continue
            if hit.key in lines.ends:
                self._end(lines, hit)
            else:
                self._begin(lines, hit)

    def _begin(self, lines: PhaseLines, hit: Hit) -> None:
        if lines.name not in self.intervals:
            self.intervals[lines.name] = Interval(lines=lines, begin=hit.record)
        interval = self.intervals[lines.name]
        seconds = hit.number(_COMPILE_SECONDS)
        if seconds is None:
            interval.start(hit.record)
        else:
            interval.add(hit.record, seconds)

    def _end(self, lines: PhaseLines, hit: Hit) -> None:
        interval = self.intervals.get(lines.name)
        if interval is not None:
            interval.finish(hit)

    def get(self, name: str) -> Interval | None:
        """Return a phase by name; None if it never began."""
        return self.intervals.get(name)

    @property
    def last_open(self) -> str | None:
        """The phase that began last and that no rank has ended; nested ones do not count."""
        names = reversed(self.intervals)
        return next(
            (
                name
                for name in names
                if self.intervals[name].end is None and not self.intervals[name].lines.nested
            ),
            None,
        )


@functools.cache
def _by_line() -> Mapping[str, tuple[PhaseLines, ...]]:
    found: dict[str, tuple[PhaseLines, ...]] = {}
    for row in cast("Sequence[Mapping[str, object]]", read_data(_DATA_FILE)):
        lines = _phase_lines(row)
        for key in (*lines.begins, *lines.ends):
            found[key] = (*found.get(key, ()), lines)
    return found


def _phase_lines(row: Mapping[str, object]) -> PhaseLines:
    return PhaseLines(
        name=str(row["name"]),
        begins=tuple(cast("Sequence[str]", row["begins"])),
        ends=tuple(cast("Sequence[str]", row["ends"])),
        kind=cast("str | None", row.get("kind")),
        nested=bool(row.get("nested")),
        once=bool(row.get("once")),
        cache=cast("str | None", row.get("cache")),
    )
