"""How a flag is spelled in the SGLang at hand, over `advisor/data/flags_renamed.yaml`.

A spelling is one or more flags, each with the value that it needs: `--cuda-graph-max-bs`,
`--cuda-graph-backend-prefill=disabled`, `--moe-a2a-backend deepep`.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from packaging.version import Version

from advisor.knowledge.flag_kinds import Status
from advisor.knowledge.flag_table import (
    FlagFacts,
    FlagHistory,
    all_flags,
    choices_of,
    expand,
    flag_exists,
    flag_facts,
    flag_for_field,
    flag_history,
    flags_of,
)
from advisor.knowledge.ranges import Membership, VersionRange
from advisor.knowledge.releases import known_versions, parse_version, speakers
from advisor.resources import read_data

__all__ = [
    "FlagFacts",
    "FlagHistory",
    "Renaming",
    "all_flags",
    "choices_of",
    "expand",
    "flag_exists",
    "flag_facts",
    "flag_for_field",
    "flag_history",
    "flag_name",
    "flag_value",
    "flags_of",
    "near_misses",
    "renaming_of",
    "renamings",
]

DATA_FILE = "flags_renamed.yaml"
_NEAR_MISSES = 3
_NEAR_ENOUGH_RATIO = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Renaming:
    """What became of a flag, variable or value.

    Attributes:
        new: What does the same now; None if nothing does.
        instead: Advice where there is no plain replacement.
        one_way: `new` replaces several old flags and does not lead back to this one.
        basis: "read" in SGLang's source, or "inferred" from names.
        flag: For a value, the flag that takes it.
    """

    old: str
    new: str | None = None
    instead: str | None = None
    note: str | None = None
    one_way: bool = False
    basis: str = "read"
    flag: str | None = None


def flag_name(flag: str, version: str | VersionRange | None) -> str | None:
    """Return how a release spells a flag, given by any of its spellings, old or new.

    Where the version is unknown, lies between two known releases or is a range, and the spelling
    changed there, both come back: `--new (up to 0.5.12: --old)`.

    Returns:
        None if no such release has it under any name.
    """
    releases = _releases(version)
    answers = [(release, _spelling(flag, release)) for release in releases]
    return _worded(answers)


def flag_value(flag: str, value: str, version: str) -> str | None:
    """Return how a release spells a value of a flag; None if it does not accept it.

    A value of a flag that takes any is returned as it is.
    """
    allowed = choices_of(flag, version)
    if allowed is None:
        return value
    pairs = [row for row in _renamed("values") if row.flag == flag and row.new]
    newer = [row.new for row in pairs if row.old == value]
    older = [row.old for row in pairs if row.new == value]
    return next((name for name in (*newer, value, *older) if name in allowed), None)


def renamings() -> tuple[Renaming, ...]:
    """Return every flag that got another spelling, in the order of the data."""
    return _renamed("flags")


def renaming_of(text: str) -> Renaming | None:
    """Return what became of a flag or an environment variable; None if nothing is known."""
    rows = (*_renamed("flags"), *_renamed("environment"))
    return next((row for row in rows if row.old == text), None)


def near_misses(flag: str, version: str | None) -> tuple[str, ...]:
    """Return up to three flags of a release that were meant by an unknown one, best first.

    What the flag is called there comes first, then what looks like it.
    """
    renamed = flag_name(flag, version) if flag_history(flag) else None
    known = flags_of(version) if version else all_flags()
    close = difflib.get_close_matches(flag, known, n=_NEAR_MISSES, cutoff=_NEAR_ENOUGH_RATIO)
    return tuple(dict.fromkeys([*([renamed] if renamed else []), *close]))[:_NEAR_MISSES]


def _releases(version: str | VersionRange | None) -> Sequence[Version]:
    """Return the known releases that stand for a version or range, oldest first."""
    if isinstance(version, VersionRange):
        inside = [item for item in known_versions() if version.contains(item) is Membership.IN]
        return inside or known_versions()
    if version is None or parse_version(version) is None:
        return known_versions()
    return speakers(version)


def _spelling(flag: str, release: Version) -> str | None:
    """Return the newest spelling that works in a known release."""
    chain = _chain(_key(flag), flag)
    return next((text for text in reversed(chain) if _works(text, release)), None)


@functools.cache
def _chain(key: str, text: str) -> tuple[str, ...]:
    """Return all spellings of an option, oldest first."""
    newer: list[str] = []
    following = key
    while row := next((row for row in renamings() if _key(row.old) == following and row.new), None):
        newer.append(cast("str", row.new))
        following = _key(newer[-1])
    older: list[str] = []
    preceding = key
    while row := next((row for row in renamings() if _leads_back(row, preceding)), None):
        older.insert(0, row.old)
        preceding = _key(row.old)
    return (*older, text, *newer)


def _leads_back(row: Renaming, key: str) -> bool:
    return row.new is not None and not row.one_way and _key(row.new) == key


def _works(text: str, release: Version) -> bool:
    """Say whether a known release has every flag of a spelling and accepts its values."""
    return all(_accepts(part, release) for part in _parts(text))


def _accepts(part: Sequence[str], release: Version) -> bool:
    flag, *values = part
    facts = flag_facts(flag, str(release)) if flag_exists(flag, str(release)) else None
    if facts is None or facts.status in {Status.REFUSED, Status.IGNORED}:
        return False
    return facts.choices is None or all(value in facts.choices for value in values)


def _parts(text: str) -> Iterable[Sequence[str]]:
    """Split a spelling into its flags, each with its values."""
    parts: list[list[str]] = []
    for word in _key(text).split():
        if word.startswith("--") or not parts:
            parts.append([word])
        else:
            parts[-1].append(word)
    return parts


def _key(text: str) -> str:
    return " ".join(text.replace("=", " ").split())


def _worded(answers: Sequence[tuple[Version, str | None]]) -> str | None:
    """Word the spellings of several releases, the newest first."""
    spans: list[tuple[str, Version, Version]] = []
    for release, text in answers:
        if spans and spans[-1][0] == text:
            spans[-1] = (text, spans[-1][1], release)
        elif text is not None:
            spans.append((text, release, release))
    if not spans:
        return None
    newest, oldest = spans[-1], spans[0]
    others = [
        f"{'up to ' if span is oldest else f'{span[1]} – '}{span[2]}: {span[0]}"
        for span in reversed(spans[:-1])
    ]
    ended = [f"up to {newest[2]}"] if newest[2] != answers[-1][0] else []
    remarks = "; ".join([*ended, *others])
    return f"{newest[0]} ({remarks})" if remarks else newest[0]


@functools.cache
def _renamed(section: str) -> tuple[Renaming, ...]:
    data = cast("Mapping[str, Sequence[Mapping[str, object]]]", read_data(DATA_FILE))
    return tuple(Renaming(**cast("Mapping[str, str]", row)) for row in data[section])  # type: ignore[arg-type]
