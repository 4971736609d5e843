"""The SGLang releases that were read, what each pins, and version ranges over them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import cast

from packaging.version import InvalidVersion, Version

from advisor.resources import read_data

DATA_FILE = "releases.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release whose wheel was read, and the versions that it pins.

    Attributes:
        triton: What the pinned torch requires on Linux x86-64.
        flashinfer: Version of `flashinfer_python`.
        kernel_package: Distribution of the kernels: `sgl-kernel`, from 0.5.10 `sglang-kernel`.
    """

    version: str
    torch: str
    triton: str
    flashinfer: str
    kernel_package: str
    kernel: str
    transformers: str


PINNED = frozenset(field.name for field in fields(Release)) - {"version"}


def parse_version(text: str) -> Version | None:
    """Return a version as packages and logs write it ("v0.5.9", "0.5.12.post1"), else None."""
    try:
        return _version(text)
    except InvalidVersion:
        return None


@functools.cache
def known_releases() -> tuple[Release, ...]:
    """Return the releases whose wheels were read, oldest first."""
    data = cast("Mapping[str, Sequence[Mapping[str, str]]]", read_data(DATA_FILE))
    return tuple(Release(**row) for row in data["releases"])


@functools.cache
def known_versions() -> tuple[Version, ...]:
    """Return the versions of `known_releases`, oldest first."""
    return tuple(Version(release.version) for release in known_releases())


def stands_for(version: str | Version) -> Version:
    """Return the version that answers for another: without `+cu130`, and 0.5.12 for 0.5.12.post1.

    A post release mends its release; where only the latter was read, it speaks for both.

    Raises:
        InvalidVersion: If the text is no version.
    """
    parsed = _version(version) if isinstance(version, str) else version
    public = Version(parsed.public) if parsed.local else parsed
    base = Version(public.base_version)
    is_unread_fix = public.is_postrelease and public not in known_versions()
    return base if is_unread_fix and base in known_versions() else public


def find_release(version: str | Version) -> Release | None:
    """Return the known release that speaks for this version."""
    wanted = stands_for(version)
    return next((row for row in known_releases() if Version(row.version) == wanted), None)


def neighbours(version: str | Version) -> tuple[Release | None, Release | None]:
    """Return the nearest known releases, one at or before the version, one at or after it.

    Both are the release itself if it is known; None where the version lies beyond all of them.
    """
    wanted = stands_for(version)
    before = [row for row in known_releases() if Version(row.version) <= wanted]
    after = [row for row in known_releases() if Version(row.version) >= wanted]
    return (before[-1] if before else None), (after[0] if after else None)


@functools.lru_cache(maxsize=64)
def speakers(version: str | Version) -> tuple[Version, ...]:
    """Return the known releases that answer for a version: itself, or its neighbours, in order."""
    rows = [row for row in neighbours(version) if row is not None]
    return tuple(dict.fromkeys(Version(row.version) for row in rows))


def pinned(version: str, package: str) -> str | None:
    """Return the version of a package that an SGLang release pins.

    An unlisted release has what its two known neighbours agree in, else None.

    Args:
        version: Any text; None comes back for one that is no version.
        package: One of `PINNED`, such as "torch".
    """
    if parse_version(version) is None:
        return None
    before, after = neighbours(version)
    if before is None or after is None:
        return None
    values = {cast("str", getattr(row, package)) for row in (before, after)}
    return values.pop() if len(values) == 1 else None


def default_triton(version: str) -> str | None:
    """Return the Triton that a plain install of this SGLang brings; None if not known."""
    return pinned(version, "triton")


@functools.lru_cache(maxsize=1024)
def _version(text: str) -> Version:
    return Version(text)
