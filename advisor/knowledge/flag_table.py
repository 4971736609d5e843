"""Every command line flag of the known SGLang releases, over `advisor/data/flags*.yaml`."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from packaging.version import Version

from advisor.knowledge.flag_kinds import Status, Takes
from advisor.knowledge.ranges import (
    Membership,
    VersionRange,
    membership,
    parse_ranges,
    releases_in,
)
from advisor.knowledge.releases import known_versions, parse_version, speakers, stands_for
from advisor.resources import read_data

FLAGS_FILE = "flags.yaml"
CHOICES_FILE = "flags_choices.yaml"

Row = Mapping[str, object]
Rows = Mapping[str, Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagFacts:
    """A flag as one release knows it.

    Attributes:
        field: The ServerArgs field that it sets; None if it sets none.
        takes: What has to follow it.
        type: "int", "float" or "str"; another parser by its name in SGLang ("json.loads").
        sets: What it stores if it takes nothing: True, False or a value of its field.
        choices: The values that it accepts; None where any goes.
        status: What happens when it is used.
        replaced_by: The new spelling that SGLang names in the warning; None if there is none.
    """

    name: str
    field: str | None
    takes: Takes
    type: str
    sets: object
    choices: tuple[str, ...] | None
    status: Status
    replaced_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagHistory:
    """In which releases a flag was seen, and in which it only warned or refused."""

    name: str
    seen: tuple[VersionRange, ...]
    deprecated: tuple[VersionRange, ...]
    ignored: tuple[VersionRange, ...]
    refused: tuple[VersionRange, ...]


def all_flags() -> tuple[str, ...]:
    """Return every flag of every known release, sorted."""
    return tuple(_rows())


def flag_history(flag: str) -> FlagHistory | None:
    """Return what became of a flag; None if no known release had it."""
    if flag not in _rows():
        return None
    return FlagHistory(
        name=flag,
        seen=_ranges(flag, "seen"),
        deprecated=_ranges(flag, Status.DEPRECATED),
        ignored=_ranges(flag, Status.IGNORED),
        refused=_ranges(flag, Status.REFUSED),
    )


def flag_exists(flag: str, version: str) -> bool | None:
    """Say whether the parser of a release has a flag; None if the known releases do not tell.

    Abbreviations are not flags here: see `expand`.
    """
    if flag not in _rows():
        parsed = parse_version(version)
        is_known = parsed is not None and stands_for(parsed) in known_versions()
        return False if is_known else None
    answer = membership(_ranges(flag, "seen"), version)
    return None if answer is Membership.UNKNOWN else answer is Membership.IN


@functools.lru_cache(maxsize=64)
def flags_of(version: str) -> tuple[str, ...]:
    """Return the flags that a release has or, where the known ones do not tell, may have."""
    return tuple(flag for flag in _rows() if flag_exists(flag, version) is not False)


def expand(flag: str, version: str) -> tuple[str, ...]:
    """Return what argparse takes a spelling for: itself, or all flags that it abbreviates.

    One answer is that flag, several make argparse refuse it as ambiguous, none as unknown.
    """
    known = flags_of(version)
    if flag in known:
        return (flag,)
    return tuple(name for name in known if name.startswith(flag)) if len(flag) > len("--") else ()


def flag_facts(flag: str, version: str) -> FlagFacts | None:
    """Return a flag as a release knows it; None if the release does not have it.

    An unlisted release is taken as its known neighbour before it, else the one after it.
    """
    release = _speaker(flag, version)
    if release is None:
        return None
    row = _rows()[flag]
    own_field = flag.removeprefix("--").replace("-", "_")
    return FlagFacts(
        name=flag,
        field=cast("str | None", _at(row.get("field", own_field), release)),
        takes=Takes(str(_at(row.get("takes", Takes.ONE), release))),
        type=cast("str", _at(row.get("type", "str"), release)),
        sets=_at(row.get("sets", True), release),
        choices=choices_of(flag, release),
        status=_status(flag, release),
        replaced_by=cast("str | None", row.get("replaced_by")),
    )


def choices_of(flag: str, version: str | Version) -> tuple[str, ...] | None:
    """Return the values that a flag accepts in a release; None where any goes or nobody knows."""
    row = _choices().get(flag)
    if row is None or membership(parse_ranges(cast("str", row["seen"])), version) is Membership.OUT:
        return None
    values = cast("Mapping[str, str | None]", row["values"])
    return tuple(
        value
        for value, seen in values.items()
        if seen is None or membership(parse_ranges(seen), version) is not Membership.OUT
    )


def flag_for_field(field: str, version: str | None = None) -> str | None:
    """Return the flag that sets a ServerArgs field; None if there is none.

    Args:
        field: Such as "tp_size".
        version: The release to ask; without it the newest one that has the field.
    """
    for release in [version] if version else map(str, reversed(known_versions())):
        named = list(_flags_setting(field, release))
        own = "--" + field.replace("_", "-")
        if own in named:
            return own
        if named:
            return named[0]
    return None


def _flags_setting(field: str, version: str) -> Iterator[str]:
    """Yield the flags that set a field in a release, those that still act plainly."""
    candidates = _flags_by_field().get(field, ())
    for flag in candidates:
        facts = flag_facts(flag, version)
        is_plain = facts is not None and facts.status is Status.ACTIVE and facts.sets is True
        if is_plain and facts is not None and facts.field == field:
            yield flag
    own = "--" + field.replace("_", "-")
    if own in candidates and _speaker(own, version) is not None:
        yield own


@functools.cache
def _flags_by_field() -> Mapping[str, tuple[str, ...]]:
    table: dict[str, tuple[str, ...]] = {}
    for flag, row in _rows().items():
        stated = row.get("field", flag.removeprefix("--").replace("-", "_"))
        for field in stated.values() if isinstance(stated, Mapping) else [stated]:
            if isinstance(field, str):
                table[field] = (*table.get(field, ()), flag)
    return table


def _speaker(flag: str, version: str) -> Version | None:
    """Return the known release that answers for a version and has the flag."""
    if flag not in _rows() or parse_version(version) is None:
        return None
    having = releases_in(cast("str", _rows()[flag]["seen"]))
    return next((release for release in speakers(version) if release in having), None)


def _status(flag: str, release: Version) -> Status:
    for status in (Status.REFUSED, Status.IGNORED, Status.DEPRECATED):
        text = _rows()[flag].get(status)
        if isinstance(text, str) and release in releases_in(text):
            return status
    return Status.ACTIVE


def _ranges(flag: str, column: str) -> tuple[VersionRange, ...]:
    text = _rows()[flag].get(column)
    return parse_ranges(text) if isinstance(text, str) else ()


def _at(value: object, release: Version) -> object:
    """Return a value, or that of the release where it changed from range to range."""
    if not isinstance(value, Mapping):
        return value
    table = cast("Mapping[str, object]", value)
    return next((stated for span, stated in table.items() if release in releases_in(span)), None)


@functools.cache
def _rows() -> Rows:
    return cast("Mapping[str, Rows]", read_data(FLAGS_FILE))["flags"]


@functools.cache
def _choices() -> Rows:
    return cast("Mapping[str, Rows]", read_data(CHOICES_FILE))["choices"]
