"""Ranges of SGLang versions: what was seen in the wheels that were read, and what that leaves open.

A range names the first and the last release in which something was seen. The true border may lie
in an unlisted release between two known ones, so membership has three answers.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from packaging.version import InvalidVersion, Version

from advisor.errors import InputError
from advisor.knowledge.releases import known_versions, stands_for

_ALL = "all releases"
_SINGLE = re.compile(r"[^\s–]+")
_CLOSED = re.compile(r"(\S+?)\s*(?:–|\.\.|\s-\s|\sto\s)\s*(\S+)")
_FROM = re.compile(r"(?:from|>=)\s*(\S+)|(\S+?)\s*(?:\+|\s–|\sand later)")
_UP_TO = re.compile(r"(?:up to|<=|–\s)\s*(\S+)")


class Membership(StrEnum):
    """Whether a version lies in a range."""

    IN = "in"
    OUT = "out"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRange:
    """First and last release in which something was seen, both inclusive; None: no such end.

    An end at the oldest or newest known release says nothing of what lies beyond it; an open end
    claims that it goes on there.

    Raises:
        InputError: If `first` is later than `last`.
    """

    first: Version | None = None
    last: Version | None = None

    def __post_init__(self) -> None:
        if self.first is not None and self.last is not None and self.first > self.last:
            raise InputError(f"version range {self.first} – {self.last} ends before it begins")

    @classmethod
    def between(cls, first: str | None, last: str | None) -> VersionRange:
        """Return the range of two versions in text form.

        Raises:
            InputError: If one of them is no version or they are in the wrong order.
        """
        return cls(first=_bound(first), last=_bound(last))

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Read what `describe` writes, and `0.5.9+`, `>=0.5.9`, `<=0.5.12`, `0.5.9..0.5.12`.

        Raises:
            InputError: If the text is no version range.
        """
        text = text.strip()
        if text == _ALL:
            return cls()
        if match := _UP_TO.fullmatch(text):
            return cls.between(None, match[1])
        if match := _CLOSED.fullmatch(text):
            return cls.between(match[1], match[2])
        if match := _FROM.fullmatch(text):
            return cls.between(match[1] or match[2], None)
        if _SINGLE.fullmatch(text):
            return cls.between(text, text)
        raise InputError(
            f"{text!r} is no version range: write 0.5.9 – 0.5.12, from 0.5.9 or up to 0.5.12"
        )

    def describe(self) -> str:
        """Return the range in words: "0.5.9 – 0.5.10", "from 0.5.9", "up to 0.5.12", "0.5.9"."""
        if self.first is None:
            return _ALL if self.last is None else f"up to {self.last}"
        if self.last is None:
            return f"from {self.first}"
        return str(self.first) if self.first == self.last else f"{self.first} – {self.last}"

    def contains(self, version: str | Version) -> Membership:
        """Say whether a version lies in the range, as far as the known releases tell.

        UNKNOWN between the range and the nearest known release outside it, and beyond the oldest
        or newest known release where the range ends there; also for a text that is no version.
        An unread post release is judged as its release.
        """
        try:
            exact = Version(version) if isinstance(version, str) else version
        except InvalidVersion:
            return Membership.UNKNOWN
        if self._covers(exact):
            return Membership.IN
        wanted = stands_for(exact)
        if self.first is not None and wanted < self.first:
            outside = [known for known in known_versions() if known < self.first]
            return Membership.OUT if outside and wanted <= outside[-1] else Membership.UNKNOWN
        if self.last is not None and wanted > self.last:
            outside = [known for known in known_versions() if known > self.last]
            return Membership.OUT if outside and wanted >= outside[0] else Membership.UNKNOWN
        return Membership.IN

    def _covers(self, version: Version) -> bool:
        return (self.first is None or self.first <= version) and (
            self.last is None or version <= self.last
        )

    def intersect(self, other: VersionRange) -> VersionRange | None:
        """Return the overlap of two ranges; None if they have none."""
        firsts = [bound for bound in (self.first, other.first) if bound is not None]
        lasts = [bound for bound in (self.last, other.last) if bound is not None]
        first = max(firsts, default=None)
        last = min(lasts, default=None)
        if first is not None and last is not None and first > last:
            return None
        return VersionRange(first=first, last=last)


@functools.lru_cache(maxsize=1024)
def parse_ranges(text: str) -> tuple[VersionRange, ...]:
    """Read ranges separated by commas: "0.5.9 – 0.5.10, 0.5.14".

    Raises:
        InputError: If one of them is no version range.
    """
    return tuple(VersionRange.parse(part) for part in text.split(","))


@functools.lru_cache(maxsize=1024)
def releases_in(text: str) -> frozenset[Version]:
    """Return the known releases that lie in ranges written as `parse_ranges` reads them."""
    ranges = parse_ranges(text)
    return frozenset(
        version for version in known_versions() if membership(ranges, version) is Membership.IN
    )


def describe_ranges(ranges: Sequence[VersionRange]) -> str:
    """Return ranges in words, as `parse_ranges` reads them."""
    return ", ".join(item.describe() for item in ranges)


def membership(ranges: Sequence[VersionRange], version: str | Version) -> Membership:
    """Say whether a version lies in any of several ranges."""
    answers = {item.contains(version) for item in ranges}
    for answer in (Membership.IN, Membership.UNKNOWN):
        if answer in answers:
            return answer
    return Membership.OUT


def _bound(text: str | None) -> Version | None:
    if text is None:
        return None
    try:
        return Version(text)
    except InvalidVersion as error:
        raise InputError(f"{text!r} is no version: write one such as 0.5.9") from error
