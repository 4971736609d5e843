"""Fields of ServerArgs by release: which release a dump is from, and what differs from defaults.

Over `advisor/data/server_args.yaml`.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from packaging.version import Version

from advisor.knowledge.ranges import (
    Membership,
    VersionRange,
    membership,
    parse_ranges,
    releases_in,
)
from advisor.knowledge.releases import known_versions, parse_version, speakers
from advisor.resources import read_data

DATA_FILE = "server_args.yaml"


class Evidence(StrEnum):
    """How a release was inferred from the names of its server arguments."""

    EXACT = "exact"
    CONTAINS = "contains"
    BETWEEN = "between"
    NEWER = "newer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseGuess:
    """The releases that a dump of server arguments may be from.

    Attributes:
        range: EXACT: releases with exactly these fields. CONTAINS: with these and more (a cut
            dump, or a release just before the first). BETWEEN: an unlisted release between two.
            NEWER: has fields that no known release has, and fits after the newest.
        unknown_fields: Names that no known release has, sorted.
    """

    range: VersionRange
    evidence: Evidence
    unknown_fields: tuple[str, ...]

    @property
    def version(self) -> str | None:
        """Return the one known release that fits exactly; None if there is none or several."""
        is_one = self.evidence is Evidence.EXACT and self.range.first == self.range.last
        return str(self.range.first) if is_one else None


class DefaultKind(StrEnum):
    """Whether a field's default is known."""

    FIXED = "fixed"
    COMPUTED = "computed"
    REQUIRED = "required"
    ABSENT = "absent"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Default:
    """What a field holds when its flag is not given.

    Attributes:
        kind: COMPUTED at run time; REQUIRED: there is none; ABSENT: the release lacks the field;
            UNKNOWN: the release is not known and its neighbours differ.
        value: None unless FIXED; a list comes as a tuple.
    """

    kind: DefaultKind
    value: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Departures:
    """Arguments that differ from a release's defaults, by who can have set them.

    Attributes:
        given: The user must have passed these: SGLang does not change them by itself.
        given_or_chosen: The user or SGLang itself: the value alone does not tell.
        unclear: Fields without a known default there; sorted names.
    """

    given: Mapping[str, object]
    given_or_chosen: Mapping[str, object]
    unclear: tuple[str, ...]


def infer_releases(field_names: Iterable[str]) -> ReleaseGuess | None:
    """Return the releases whose ServerArgs have these fields; None if none fits.

    Args:
        field_names: The keys of a `server_args=` dump, complete or cut off; nothing else.
    """
    names = frozenset(field_names)
    unknown = names - frozenset(_fields())
    known = names - unknown
    if not known:
        return None
    having = [version for version in known_versions() if known <= _fields_of(version)]
    newest = known_versions()[-1]
    if unknown and newest in having:
        return _guess([newest, None], Evidence.NEWER, unknown)
    if exact := [version for version in having if known == _fields_of(version) and not unknown]:
        return _guess(exact, Evidence.EXACT, unknown)
    if having:
        return _guess(having, Evidence.CONTAINS, unknown)
    pairs = itertools.pairwise(known_versions())
    gaps = [pair for pair in pairs if known <= _fields_of(pair[0]) | _fields_of(pair[1])]
    return _guess(list(itertools.chain(*gaps)), Evidence.BETWEEN, unknown) if gaps else None


def all_fields() -> tuple[str, ...]:
    """Return every field of every known release, sorted."""
    return tuple(_fields())


def has_field(field: str, version: str) -> bool | None:
    """Say whether a release has a field; None if the known releases do not tell."""
    if field not in _fields():
        return None
    answer = membership(parse_ranges(cast("str", _fields()[field])), version)
    return None if answer is Membership.UNKNOWN else answer is Membership.IN


def default_of(field: str, version: str) -> Default:
    """Return what a field holds in a release when its flag is not given.

    An unlisted release has what its two known neighbours agree in.
    """
    if parse_version(version) is None:
        return Default(kind=DefaultKind.UNKNOWN)
    answers = [_default(field, release) for release in speakers(version)]
    agreed = all(_same(answer, answers[0]) for answer in answers)
    return answers[0] if agreed and answers else Default(kind=DefaultKind.UNKNOWN)


def is_adjusted(field: str, version: str) -> bool:
    """Say whether a release may change a field by itself after parsing (True if not known)."""
    changing = _releases("adjusted", field)
    return bool(changing) and (
        parse_version(version) is None or not changing.isdisjoint(speakers(version))
    )


def non_default(args: Mapping[str, object], version: str) -> Departures:
    """Return the arguments of a dump that differ from the defaults of its release.

    Up to 0.5.18 a dump shows the arguments after most of SGLang's own changes, from 0.5.20 after
    all of them. A value that equals its default may still have been passed: it is not listed.

    Args:
        args: Field -> value as the dump has it; lists and tuples are the same here.
        version: The SGLang release.
    """
    given: dict[str, object] = {}
    given_or_chosen: dict[str, object] = {}
    unclear: list[str] = []
    for field, value in args.items():
        default = default_of(field, version)
        if default.kind is DefaultKind.REQUIRED:
            given[field] = value
        elif default.kind is not DefaultKind.FIXED:
            unclear.append(field)
        elif _frozen(value) != default.value:
            (given_or_chosen if is_adjusted(field, version) else given)[field] = value
    return Departures(given=given, given_or_chosen=given_or_chosen, unclear=tuple(sorted(unclear)))


def _guess(
    releases: Sequence[Version | None], evidence: Evidence, unknown: frozenset[str]
) -> ReleaseGuess:
    return ReleaseGuess(
        range=VersionRange(first=releases[0], last=releases[-1]),
        evidence=evidence,
        unknown_fields=tuple(sorted(unknown)),
    )


def _default(field: str, release: Version) -> Default:
    """Return the default of a field in a known release."""
    if release not in _releases("fields", field):
        return Default(kind=DefaultKind.ABSENT)
    if field in cast("Sequence[str]", _data()["required"]):
        return Default(kind=DefaultKind.REQUIRED)
    if release in _releases("computed", field):
        return Default(kind=DefaultKind.COMPUTED)
    stated = _data()["defaults"].get(field)
    if not isinstance(stated, Mapping):
        return Default(kind=DefaultKind.FIXED, value=_frozen(stated))
    for span, value in cast("Mapping[str, object]", stated).items():
        if release in releases_in(span):
            return Default(kind=DefaultKind.FIXED, value=_frozen(value))
    return Default(kind=DefaultKind.FIXED)


def _frozen(value: object) -> object:
    return tuple(value) if isinstance(value, list | tuple) else value


def _same(one: Default, other: Default) -> bool:
    return one.kind is other.kind and repr(one.value) == repr(other.value)


@functools.cache
def _fields_of(version: Version) -> frozenset[str]:
    return frozenset(field for field in _fields() if version in _releases("fields", field))


def _releases(section: str, field: str) -> frozenset[Version]:
    """Return the known releases that a section names for a field."""
    text = _data()[section].get(field)
    return releases_in(text) if isinstance(text, str) else frozenset()


def _fields() -> Mapping[str, object]:
    return _data()["fields"]


@functools.cache
def _data() -> Mapping[str, Mapping[str, object]]:
    return cast("Mapping[str, Mapping[str, object]]", read_data(DATA_FILE))
