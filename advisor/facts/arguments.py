"""Server arguments: what was asked for, what runs, and the lines that changed one into the other.

`server_args=` is printed once after the first resolution (entrypoints/engine.py); later changes
are told by lines of their own, listed in `advisor/data/changes.yaml`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from advisor.facts.hits import Hit
from advisor.facts.launch import typed
from advisor.facts.literals import Parsed, Value, parse_dump
from advisor.facts.model import ChangedArgument
from advisor.facts.patterns import Pattern
from advisor.facts.requested import differences
from advisor.resources import read_data
from advisor.sources.records import Evidence

_CHANGES_FILE = "changes.yaml"
_PREFIX = "change/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A line by which SGLang says that it sets an argument.

    `value` is the new value, or the name of the capture that holds it; `requested` likewise.
    """

    key: str
    pattern: Pattern
    argument: str
    value: Value
    value_capture: str | None
    requested_capture: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """The arguments of a run. `requested` is None where no launch command was given."""

    effective: Mapping[str, Value] | None
    requested: Mapping[str, Value] | None
    changed: tuple[ChangedArgument, ...]
    complete: bool
    field_names: tuple[str, ...]


@dataclass(slots=True)
class ArgumentCollector:
    """Reads the dump, then applies the lines that change a value."""

    requested: Mapping[str, Value] | None = None
    evidence: Evidence | None = None
    _dump: Parsed | None = None
    _changes: dict[str, ChangedArgument] = field(default_factory=dict)

    def take(self, hit: Hit) -> None:
        """Note the dump, or a line that changes an argument."""
        if hit.key == "server-args-dump" and self._dump is None:
            self.evidence = hit.record.evidence()
            self._dump = _parsed(hit)
        elif hit.key.startswith(_PREFIX):
            self._take_change(_change_by_key()[hit.key], hit)

    def _take_change(self, change: Change, hit: Hit) -> None:
        value = change.value
        if change.value_capture is not None:
            value = _captured(hit, change.value_capture)
        if change.argument in self._changes:
            self._changes[change.argument] = replace(
                self._changes[change.argument], effective=value
            )
            return
        asked = None
        if change.requested_capture is not None:
            asked = _captured(hit, change.requested_capture)
        if asked is None:
            asked = self.dumped(change.argument)
        self._changes[change.argument] = ChangedArgument(
            name=change.argument,
            requested=asked,
            effective=value,
            evidence=hit.record.evidence(),
        )

    def dumped(self, name: str) -> Value:
        """Return an argument as the dump has it, before any later change."""
        return None if self._dump is None else self._dump.values.get(name)

    def result(self) -> Arguments:
        """Return the effective arguments: the dump with the later changes applied.

        Where a launch command was given, what it asked for and the dump has otherwise is a change
        as well, told by no line of its own.
        """
        effective = dict(self._dump.values) if self._dump is not None else None
        if effective is not None:
            for name, change in self._changes.items():
                if name in effective and change.effective is not None:
                    effective[name] = change.effective
        return Arguments(
            effective=effective if effective is not None else self.requested,
            requested=self.requested,
            changed=self._changed(),
            complete=self._dump is not None and self._dump.complete,
            field_names=tuple(self._dump.values) if self._dump is not None else (),
        )

    def _changed(self) -> tuple[ChangedArgument, ...]:
        """Return the changes by name, measured by what the launch command asked for, if any."""
        requested = self.requested or {}
        found = {
            name: replace(change, requested=requested.get(name, change.requested))
            for name, change in self._changes.items()
        }
        dumped = self._dump.values if self._dump is not None else {}
        for name, asked, runs in differences(requested, dumped):
            found.setdefault(
                name,
                ChangedArgument(name=name, requested=asked, effective=runs, evidence=self.evidence),
            )
        return tuple(found[name] for name in sorted(found))


def dumped_node(hit: Hit) -> tuple[int, int]:
    """Return (number of nodes, rank of this node) of an argument dump."""
    values = _parsed(hit).values
    nodes, rank = values.get("nnodes"), values.get("node_rank")
    return (nodes if isinstance(nodes, int) else 1, rank if isinstance(rank, int) else 0)


def _parsed(hit: Hit) -> Parsed:
    _, _, text = hit.record.message.partition("server_args=")
    return parse_dump(text)


@functools.cache
def changes() -> tuple[Change, ...]:
    """Return the lines that change an argument."""
    rows = cast("Sequence[Mapping[str, object]]", read_data(_CHANGES_FILE))
    return tuple(_change(row) for row in rows)


@functools.cache
def _change_by_key() -> Mapping[str, Change]:
    return {change.key: change for change in changes()}


def _change(row: Mapping[str, object]) -> Change:
    key = f"{_PREFIX}{row['id']}"
    value = row.get("value")
    capture = value[1:-1] if isinstance(value, str) and value.startswith("{") else None
    requested = row.get("requested")
    return Change(
        key=key,
        pattern=Pattern(
            key=key,
            literals=tuple(str(text) for text in cast("Sequence[object]", row["literals"])),
            expression=str(row["regex"]),
        ),
        argument=str(row["argument"]),
        value=None if capture is not None else cast("Value", value),
        value_capture=capture,
        requested_capture=requested[1:-1] if isinstance(requested, str) else None,
    )


def _captured(hit: Hit, name: str) -> Value:
    text = hit.values.get(name)
    return None if text is None else typed(text)
