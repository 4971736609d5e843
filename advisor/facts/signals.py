"""The hits of the rules' patterns, equal captures joined over ranks and repetitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from advisor.facts.hits import Hit, Sightings
from advisor.facts.model import Signal

MOST_GROUPS = 64
_Captures = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Group:
    sightings: Sightings
    values: Mapping[str, str]
    in_traceback: bool


@dataclass(slots=True)
class SignalCollector:
    """Groups hits by pattern and captures; beyond a bound, new captures join the last group."""

    _groups: dict[str, dict[_Captures, _Group]] = field(default_factory=dict)

    def take(self, hit: Hit) -> None:
        """Count one hit of a rule's pattern."""
        groups = self._groups.setdefault(hit.key, {})
        captures = tuple(sorted(hit.values.items()))
        if captures not in groups and len(groups) >= MOST_GROUPS:
            captures = next(reversed(groups))
        group = groups.get(captures)
        if group is None:
            group = groups[captures] = _Group(
                sightings=Sightings(first=hit.record),
                values=dict(hit.values),
                in_traceback=hit.in_traceback,
            )
        group.sightings.add(hit.record)

    def result(self) -> Mapping[str, tuple[Signal, ...]]:
        """Return the groups of each pattern in the order of their first hit."""
        return {
            key: tuple(
                Signal(
                    values=group.values,
                    evidence=group.sightings.evidence(),
                    time=group.sightings.first.time,
                    in_traceback=group.in_traceback,
                )
                for group in groups.values()
            )
            for key, groups in self._groups.items()
        }
