"""SGLang's capacity rules by release, over `advisor/data/capacity.yaml`."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from packaging.version import InvalidVersion, Version

from advisor.resources import read_data

DATA_FILE = "capacity.yaml"

Row = Mapping[str, object]


class RequestedBound(StrEnum):
    """What else bounds a request that was set, by the user or by a default."""

    NONE = "none"
    ESTIMATE = "estimate"
    HALF_OF_TOKENS = "half_of_tokens"


class StateSizing(StrEnum):
    """How a release finds the number of state slots of a hybrid model."""

    REQUESTS = "requests"
    RADIX_OR_REQUESTS = "radix_or_requests"
    RESERVE_FIRST = "reserve_first"
    JOINT = "joint"
    JOINT_PADDED = "joint_padded"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsPerRequest:
    """State slots that one running request takes; None where the release has no such mode."""

    no_buffer: int | None
    extra_buffer: int | None
    extra_buffer_without_overlap: int | None
    extra_buffer_speculative: int | None
    extra_buffer_lazy: int | None
    skip_decode_lock: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRules:
    """The capacity rules of one release.

    Attributes:
        estimate_from_profiled: The estimate sees the tokens before `--max-total-tokens`, page
            rounding and the sliding-window split.
        requested_floor: Least value of request // workers.
        radix_cache_possible: False where hybrid models lose the radix cache.
        tokens_enlarged: EAGLE and STANDALONE add tokens for drafts to the pool.
    """

    release: str
    requested_bound: RequestedBound
    estimate_from_profiled: bool
    requested_floor: int
    speculative_default: int
    deepseek_v4_default: int | None
    radix_cache_possible: bool
    slots: SlotsPerRequest
    sizing: StateSizing
    tokens_enlarged: bool


def known_releases() -> tuple[str, ...]:
    """Return the releases whose source was read, oldest first."""
    return tuple(cast("Sequence[str]", table("releases")))


def releases_for(version: str | None, version_range: tuple[str, str] | None) -> tuple[str, ...]:
    """Return the releases to evaluate, oldest first; empty before the first one known.

    A post release counts as its release. A release that was not read stands for its neighbours
    on both sides. With neither argument every known release is returned.
    """
    known = known_releases()
    if version is not None:
        return _neighbours(version)
    if version_range is None:
        return known
    low, high = version_range
    inside = {name for name in known if Version(low) <= Version(name) <= Version(high)}
    chosen = inside.union(_neighbours(low), _neighbours(high))
    return tuple(name for name in known if name in chosen)


def is_known(version: str) -> bool:
    """Say whether the source of this release, or of the one it is a post release of, was read."""
    parsed = _parsed(version)
    return (
        parsed is not None and not _unfinished(parsed) and parsed.base_version in known_releases()
    )


def is_newer_than_known(version: str) -> bool:
    """Say whether a release came after the newest one whose source was read."""
    parsed = _parsed(version)
    return parsed is not None and Version(parsed.base_version) > Version(known_releases()[-1])


@functools.cache
def rules_of(release: str) -> ReleaseRules:
    """Return the rules of a known release."""
    request = row("request_rules", release)
    defaults = row("request_defaults", release)
    slots = row("state_slots_per_request", release)
    return ReleaseRules(
        release=release,
        requested_bound=RequestedBound(str(request["requested_bound"])),
        estimate_from_profiled=request["estimate_from"] == "profiled",
        requested_floor=cast("int", request["requested_floor"]),
        speculative_default=cast("int", defaults["speculative"]),
        deepseek_v4_default=cast("int | None", defaults["deepseek_v4"]),
        radix_cache_possible=cast("bool", slots.get("radix_cache", True)),
        slots=_slots(slots),
        sizing=StateSizing(str(row("state_pool", release)["sizing"])),
        tokens_enlarged=cast("bool", row("token_pool", release)["enlarged"]),
    )


def row(table_name: str, release: str) -> Row:
    """Return the row of a table that holds for a known release.

    Raises:
        KeyError: If no row holds: the table has a hole.
    """
    found = optional_row(table_name, release)
    if found is None:
        raise KeyError(f"{DATA_FILE}: no row of {table_name} holds for SGLang {release}")
    return found


def optional_row(table_name: str, release: str) -> Row | None:
    """Return the row of a table that holds for a known release; None if there is none."""
    spans = cast("Sequence[Row]", table(table_name))
    return next((span for span in spans if _holds(span, release)), None)


def table(name: str) -> object:
    """Return one table of the data file."""
    return _data()[name]


@functools.cache
def _data() -> Mapping[str, object]:
    return cast("Mapping[str, object]", read_data(DATA_FILE))


def _holds(span: Row, release: str) -> bool:
    first, last = Version(str(span["from"])), Version(str(span["to"]))
    return first <= Version(release) <= last


def _slots(span: Row) -> SlotsPerRequest:
    def value(name: str) -> int | None:
        return cast("int | None", span.get(name))

    return SlotsPerRequest(
        no_buffer=value("no_buffer"),
        extra_buffer=value("extra_buffer"),
        extra_buffer_without_overlap=value("extra_buffer_without_overlap"),
        extra_buffer_speculative=value("extra_buffer_speculative"),
        extra_buffer_lazy=value("extra_buffer_lazy"),
        skip_decode_lock=cast("bool", span.get("skip_decode_lock", False)),
    )


def _parsed(version: str) -> Version | None:
    try:
        return Version(version)
    except InvalidVersion:
        return None


def _unfinished(version: Version) -> bool:
    return version.is_prerelease or version.is_devrelease


def _neighbours(version: str) -> tuple[str, ...]:
    parsed = _parsed(version)
    if parsed is None:
        return known_releases()
    if is_known(version):
        return (parsed.base_version,)
    known = known_releases()
    below = [name for name in known if Version(name) < parsed]
    above = [name for name in known if Version(name) > parsed]
    if not below:
        return ()
    return (below[-1], *above[:1])
