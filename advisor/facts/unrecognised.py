"""Warnings and errors that nothing knows, grouped by what is fixed in their wording.

Numbers, paths, addresses, hexadecimal and quoted text are masked; messages that then differ in a few
words only are joined, and those words become `<*>`. Memory is bounded, whatever the log holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import regex

from advisor.facts.hits import Sightings
from advisor.sources.records import Evidence, Record

UNRECOGNISED_KEY = "unrecognised"
_MOST_KINDS = 200
_LONGEST_MESSAGE = 1000
_LEAST_ALIKE_RATIO = 0.7
_WILDCARD = "<*>"
_FURTHER = ("(further", "kinds)")
_TIMEOUT_S = 0.5
_MASKS = (
    (regex.compile(r"\w+://\S+"), "<url>"),
    (regex.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`"), "<text>"),
    (regex.compile(r"(?<![\w<])(?:[\w.-]*/)+[\w.=,@+-]*"), "<path>"),
    (regex.compile(r"\b0x[0-9a-fA-F]+\b|\b(?=[a-f]*\d)[0-9a-f]{8,}\b"), "<hex>"),
    (regex.compile(r"[\[(]\s*-?\d[\d.,\s-]*[\])]"), "<list>"),
    (regex.compile(r"(?<![A-Za-z])-?\d+(?:[.,:]\d+)*"), "<n>"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnrecognisedKind:
    """A wording that nothing knows, how often it came, and where first."""

    template: str
    count: int
    evidence: Evidence


@dataclass(slots=True)
class _Group:
    words: tuple[str, ...]
    sightings: Sightings


@dataclass(slots=True)
class UnrecognisedCollector:
    """Groups messages as they come; beyond a bound, new wordings are counted together."""

    _groups: dict[tuple[int, str], list[_Group]] = field(default_factory=dict)
    _kinds: int = 0
    _rest: _Group | None = None

    def take(self, record: Record) -> None:
        """Count one message."""
        words = tuple(masked(record.message).split())
        if not words:
            return
        bucket = self._groups.setdefault((len(words), words[0]), [])
        group = next((item for item in bucket if _alike(item.words, words)), None)
        if group is not None:
            group.words = _joined(group.words, words)
        else:
            group = self._new_group(words, record, bucket)
        group.sightings.add(record)

    def _new_group(self, words: tuple[str, ...], record: Record, bucket: list[_Group]) -> _Group:
        if self._kinds < _MOST_KINDS:
            group = _Group(words=words, sightings=Sightings(first=record))
            bucket.append(group)
            self._kinds += 1
            return group
        if self._rest is None:
            self._rest = _Group(words=_FURTHER, sightings=Sightings(first=record))
        return self._rest

    def result(self) -> tuple[UnrecognisedKind, ...]:
        """Return the kinds, the most frequent first, then in the order of their first lines."""
        groups = [group for bucket in self._groups.values() for group in bucket]
        kinds = [
            UnrecognisedKind(
                template=" ".join(group.words),
                count=group.sightings.count,
                evidence=group.sightings.evidence(),
            )
            for group in (*groups, *((self._rest,) if self._rest is not None else ()))
        ]
        return tuple(
            sorted(kinds, key=lambda kind: (-kind.count, kind.evidence.source, kind.evidence.line))
        )


def masked(message: str) -> str:
    """Return a message with what varies replaced by its kind.

    >>> masked("Failed to open '/data/a.bin' after 3 tries (rank 1)")
    'Failed to open <text> after <n> tries (rank <n>)'
    """
    text = message[:_LONGEST_MESSAGE]
    for pattern, name in _MASKS:
        try:
            text = pattern.sub(name, text, timeout=_TIMEOUT_S)
        except TimeoutError:
            continue
    return text


def _alike(known: Sequence[str], words: Sequence[str]) -> bool:
    same = sum(one in {other, _WILDCARD} for one, other in zip(known, words, strict=True))
    return same >= _LEAST_ALIKE_RATIO * len(words)


def _joined(known: Sequence[str], words: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        one if one == other else _WILDCARD for one, other in zip(known, words, strict=True)
    )
