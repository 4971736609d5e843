"""What is wrong with a config file apart from shared memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from advisor.configs.agreement import BlockConflict, block_conflicts
from advisor.configs.entries import ConfigTable, Entry
from advisor.configs.loaders import DownRule, Loader
from advisor.configs.names import MoeConfigName

_WIDEST_GAP = 4
_PREFILL_TOKENS = 1024
_FEWEST_TOKENS = 16
_MOST_WARPS = 32


class Gravity(StrEnum):
    """How bad a problem is."""

    ERROR = "error"
    """The server stops, refuses the file or computes wrong results."""

    WARNING = "warning"
    """It works, but not as well as it could, or not in every release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One finding about a file.

    Attributes:
        tokens: The batch size it is about; None for the whole file.
    """

    gravity: Gravity
    text: str
    tokens: int | None = None


def table_problems(
    name: MoeConfigName, table: ConfigTable, loader: Loader | None = None
) -> tuple[Problem, ...]:
    """Return the problems of one file; `loader` narrows them to one release, None means any."""
    found = [Problem(gravity=Gravity.ERROR, text=text) for text in table.problems]
    if not table.entries and not table.problems:
        text = "no entry: the server says it uses the file and then takes its built-in tiles"
        found.append(Problem(gravity=Gravity.ERROR, text=text))
    for tokens, entry in table.entries:
        found += _entry_problems(name, tokens, entry, loader)
    found += (Problem(gravity=Gravity.WARNING, text=text) for text in _sparse(table))
    return tuple(found)


def _entry_problems(
    name: MoeConfigName, tokens: int, entry: Entry, loader: Loader | None
) -> Iterator[Problem]:
    for key, _ in entry.extras:
        text = f"{json.dumps(key[:40])} is no parameter of the kernel on NVIDIA GPUs: the launch raises"
        yield Problem(gravity=Gravity.ERROR, text=text, tokens=tokens)
    if entry.warps > _MOST_WARPS:
        text = f"num_warps {entry.warps} makes more than 1024 threads: the launch raises"
        yield Problem(gravity=Gravity.ERROR, text=text, tokens=tokens)
    if name.block_shape and name.block_shape[1] % entry.block_k:
        text = (
            f"BLOCK_SIZE_K {entry.block_k} does not divide the quantisation block of "
            f"{name.block_shape[1]}: one scale is used for several blocks, results are wrong"
        )
        yield Problem(gravity=Gravity.ERROR, text=text, tokens=tokens)
    if entry.use_tma is not None and not name.down:
        yield from _tma_in_up(tokens, loader)


def _tma_in_up(tokens: int, loader: Loader | None) -> Iterator[Problem]:
    if loader is not None and loader.up_tma_understood:
        return
    gravity = Gravity.WARNING if loader is None else Gravity.ERROR
    text = "USE_TMA in an up file: the launch raises in SGLang 0.5.16 and older"
    yield Problem(gravity=gravity, text=text, tokens=tokens)


def _sparse(table: ConfigTable) -> Iterator[str]:
    keys = sorted(key for key, _ in table.entries)
    if not keys:
        return
    if keys[-1] < _PREFILL_TOKENS:
        yield (
            f"the largest batch size is {keys[-1]}: its entry serves every prefill, up to the "
            "chunked prefill size"
        )
    if keys[0] > _FEWEST_TOKENS:
        yield f"the smallest batch size is {keys[0]}: its entry serves single requests too"
    for low, high in pairwise(keys):
        if high > _WIDEST_GAP * low:
            yield f"no batch size between {low} and {high}: each serves up to their middle"


def pair_problems(
    up: ConfigTable, down: ConfigTable, loader: Loader | None = None
) -> tuple[Problem, ...]:
    """Return where an up and a down file disagree about BLOCK_SIZE_M."""
    return tuple(_conflict(one, loader) for one in block_conflicts(up, down))


def _conflict(conflict: BlockConflict, loader: Loader | None) -> Problem:
    asserted = loader is None or loader.down is DownRule.ASSERTED
    effect = (
        "an AssertionError in SGLang 0.5.6 to 0.5.12"
        if asserted
        else "the server overrides down with the value of up"
    )
    return Problem(
        gravity=Gravity.ERROR if asserted else Gravity.WARNING,
        text=f"BLOCK_SIZE_M is {conflict.up} for up and {conflict.down} for down: {effect}",
        tokens=conflict.tokens,
    )
