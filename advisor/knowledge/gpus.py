"""GPUs by any of their names, over `advisor/data/gpus.yaml`."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from advisor.resources import read_data

DATA_FILE = "gpus.yaml"
_VENDOR_WORDS = frozenset({"nvidia", "geforce", "tesla", "gpu", "edition", "generation"})
_MEMORY_SIZE = re.compile(r"\d+gb?")
_NEAR_MISSES = 4
_NEAR_ENOUGH_RATIO = 0.6

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU model, or what several models of one short name have in common.

    Attributes:
        name: What people call it.
        device_name: The torch name with underscores for spaces, as in SGLang's config file names;
            None for a short name that several models share.
        sm: Compute capability times ten: 90, 103, 120.
        shared_memory_bytes: Opt-in limit per block.
        memory_mib: As nvidia-smi prints it; None for memory shared with the host.
        uncertain: Names of the fields that were not confirmed.
    """

    name: str
    device_name: str | None
    sm: int
    shared_memory_bytes: int | None
    memory_mib: int | None = None
    sm_count: int | None = None
    bandwidth_gb_s: int | None = None
    uncertain: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    @property
    def torch_name(self) -> str | None:
        """Return the name as torch and nvidia-smi print it."""
        return None if self.device_name is None else self.device_name.replace("_", " ")


@functools.cache
def all_gpus() -> tuple[Gpu, ...]:
    """Return every known GPU in the order of the data: by compute capability."""
    rows = cast("Sequence[Mapping[str, object]]", _data()["gpus"])
    return tuple(_gpu(row) for row in rows)


def shared_memory_bytes(sm: int) -> int | None:
    """Return the opt-in shared memory per block of a compute capability; None if not known."""
    table = cast("Mapping[int, int]", _data()["shared_memory_bytes"])
    return table.get(sm)


def find_gpu(text: str) -> Gpu | None:
    """Return the GPU that a torch name, a config file name or a short name means.

    A short name of several models ("RTX PRO 6000", "A100") gives what they agree in, the rest
    None; it gives nothing when they differ in compute capability or shared memory ("RTX 6000").
    """
    words = _words(text)
    if not words:
        return None
    exact = [gpu for gpu, names in _index() if words in names]
    return _common(exact or [gpu for gpu, names in _index() if _means(words, names)])


def gpu_near_misses(text: str) -> tuple[str, ...]:
    """Return up to four known names that `text` may mean or that look like it, best first."""
    words = _words(text)
    meant = [gpu.name for gpu, names in _index() if _means(words, names)]
    spelled = {" ".join(known): gpu.name for gpu, names in _index() for known in names}
    close = difflib.get_close_matches(
        " ".join(words), spelled, n=2 * _NEAR_MISSES, cutoff=_NEAR_ENOUGH_RATIO
    )
    return tuple(dict.fromkeys([*meant, *(spelled[key] for key in close)]))[:_NEAR_MISSES]


@functools.cache
def _data() -> Mapping[str, object]:
    return cast("Mapping[str, object]", read_data(DATA_FILE))


def _gpu(row: Mapping[str, object]) -> Gpu:
    sm = cast("int", row["sm"])
    return Gpu(
        name=cast("str", row["name"]),
        device_name=cast("str", row["device_name"]),
        sm=sm,
        shared_memory_bytes=shared_memory_bytes(sm),
        memory_mib=cast("int | None", row.get("memory_mib")),
        sm_count=cast("int", row["sm_count"]),
        bandwidth_gb_s=cast("int", row["bandwidth_gb_s"]),
        uncertain=tuple(cast("Sequence[str]", row.get("uncertain", ()))),
        aliases=tuple(cast("Sequence[str]", row.get("aliases", ()))),
    )


@functools.cache
def _index() -> tuple[tuple[Gpu, frozenset[tuple[str, ...]]], ...]:
    """Return each GPU with all its names, each name as its words."""
    return tuple(
        (gpu, frozenset(_words(name) for name in (gpu.name, gpu.device_name or "", *gpu.aliases)))
        for gpu in all_gpus()
    )


def _words(text: str) -> tuple[str, ...]:
    """Split a name into its telling words: lower case, without vendor and edition."""
    words = re.findall(r"[a-z0-9]+", text.casefold())
    return tuple(word for word in words if word not in _VENDOR_WORDS)


def _means(words: tuple[str, ...], names: Iterable[tuple[str, ...]]) -> bool:
    """Say whether all words occur in a GPU's names, or stand there in one piece ("rtx5090").

    Words that name no model ("Blackwell", "80GB") mean nothing by themselves.
    """
    if not any(re.search(r"\d", word) and not _MEMORY_SIZE.fullmatch(word) for word in words):
        return False
    joined = "".join(words)
    known = frozenset(word for name in names for word in name)
    return known.issuperset(words) or any(joined in _pieces(name) for name in names)


def _pieces(name: tuple[str, ...]) -> frozenset[str]:
    """Return every run of neighbouring words, written as one word."""
    ends = range(1, len(name) + 1)
    return frozenset("".join(name[start:end]) for end in ends for start in range(end))


def _common(candidates: Sequence[Gpu]) -> Gpu | None:
    if len(candidates) <= 1:
        return next(iter(candidates), None)
    first = candidates[0]
    if len({(gpu.sm, gpu.shared_memory_bytes) for gpu in candidates}) > 1:
        return None
    return Gpu(
        name=_shared_name([gpu.name.split() for gpu in candidates]),
        device_name=None,
        sm=first.sm,
        shared_memory_bytes=first.shared_memory_bytes,
        memory_mib=_agreed(gpu.memory_mib for gpu in candidates),
        sm_count=_agreed(gpu.sm_count for gpu in candidates),
        bandwidth_gb_s=_agreed(gpu.bandwidth_gb_s for gpu in candidates),
        uncertain=tuple(sorted({field for gpu in candidates for field in gpu.uncertain})),
    )


def _agreed(values: Iterable[T | None]) -> T | None:
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def _shared_name(names: Sequence[Sequence[str]]) -> str:
    """Return the words that all names share, in order; all first words if they share none."""
    shared = [word for word in names[0] if all(word in name for name in names)]
    return " ".join(shared) or " / ".join(dict.fromkeys(name[0] for name in names))
