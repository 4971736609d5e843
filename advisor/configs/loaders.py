"""How each SGLang release finds its fused-MoE config files, over `advisor/data/moe_loaders.yaml`."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import cast

from advisor.errors import InputError
from advisor.resources import read_data

DATA_FILE = "moe_loaders.yaml"


class DownRule(StrEnum):
    """What a release does with the second GEMM's own file."""

    NONE = "none"
    """One file serves both GEMMs; a `_down` file is never looked up."""

    ASSERTED = "asserted"
    """Looked up; a BLOCK_SIZE_M other than that of up is an AssertionError."""

    OVERRIDDEN = "overridden"
    """Looked up; a BLOCK_SIZE_M other than that of up is replaced by it, with a warning."""

    REUSED = "reused"
    """As overridden; a missing down file reuses the up table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader:
    """The lookup rules of one range of releases.

    Attributes:
        folder: Folder of the loader below `sglang/`; its `configs/` holds the bundled files.
        triton_folders: False for a flat `configs/` that no environment variable replaces.
        fallback: Triton versions tried in this order when the running one has no file; None means
            every folder on disk, newest first.
        low_memory_fp8_default: Smaller fp8 default tiles below 128 KiB of shared memory.
        up_tma_understood: Whether USE_TMA in an up file is taken out before the launch.
        padding_skipped: Whether the activation skips padding rows where down uses TMA.
        sorted_ranks: Whether a rank of expert parallelism can use TMA in down: the others write zeros
            into rows that other programs of the same launch write.
        early_launch: Whether the kernel is launched before its predecessor has ended.
        certain: False for a release between two read releases that differ, or newer than all.
    """

    folder: str
    triton_folders: bool
    per_channel_in_name: bool
    down: DownRule
    fallback: tuple[str, ...] | None
    low_memory_fp8_default: bool
    up_tma_understood: bool
    padding_skipped: bool = False
    sorted_ranks: bool = False
    early_launch: bool = False
    certain: bool = True


def loader_of_version(version: str) -> Loader:
    """Return the rules of a release; a release between two read ones follows the older.

    Raises:
        InputError: If the version is not one, or older than 0.4.6.
    """
    from packaging.version import InvalidVersion, Version

    try:
        wanted = Version(version)
    except InvalidVersion as error:
        raise InputError(f"{version!r} is not an SGLang version; write it like 0.5.12") from error
    rows = _rows()
    base = [row for row in rows if Version(str(row["since"])).release <= wanted.release]
    if not base:
        raise InputError(f"SGLang {version} is too old: lookup rules are known from 0.4.6 on")
    following = rows[len(base) : len(base) + 1]
    border = [str(row["before"]) for row in following] or [str(_data()["newest_read"])]
    certain = wanted.release <= Version(border[0]).release
    skipped, ranks, early = (
        wanted.release >= Version(str(_data()[f"{name}_since"])).release
        for name in ("padding_skipped", "sorted_ranks", "early_launch")
    )
    return replace(
        _loader(base[-1]),
        certain=certain,
        padding_skipped=skipped,
        sorted_ranks=ranks,
        early_launch=early,
    )


def kernel_paths() -> tuple[str, ...]:
    """Return where the fused-MoE kernel may lie below `sglang/`, newest release first."""
    return tuple(cast("Sequence[str]", _data()["kernels"]))


def loader_paths() -> tuple[str, ...]:
    """Return where the config loader may lie below `sglang/`, newest release first."""
    return tuple(cast("Sequence[str]", _data()["loader_sources"]))


@functools.cache
def _data() -> Mapping[str, object]:
    return cast("Mapping[str, object]", read_data(DATA_FILE))


def _rows() -> Sequence[Mapping[str, object]]:
    return cast("Sequence[Mapping[str, object]]", _data()["loaders"])


def _loader(row: Mapping[str, object]) -> Loader:
    fallback = row["fallback"]
    return Loader(
        folder=str(row["folder"]),
        triton_folders=bool(row["triton_folders"]),
        per_channel_in_name=bool(row["per_channel_in_name"]),
        down=DownRule(str(row["down"])),
        fallback=None if fallback == "disk" else tuple(cast("Sequence[str]", fallback)),
        low_memory_fp8_default=bool(row["low_memory_fp8_default"]),
        up_tma_understood=row["up_tma"] == "understood",
    )
