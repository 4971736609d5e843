"""Whether the up and the down file agree about BLOCK_SIZE_M at every batch size.

Both GEMMs share one sort of tokens by expert, padded to BLOCK_SIZE_M of up. Each takes the entry of
its own nearest key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

from advisor.configs.entries import ConfigTable

LARGEST_BATCH = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockConflict:
    """A range of batch sizes at which the two GEMMs want different BLOCK_SIZE_M.

    Attributes:
        tokens: First batch size of the range.
        up: BLOCK_SIZE_M of the first GEMM there.
        down: BLOCK_SIZE_M of the second.
    """

    tokens: int
    up: int
    down: int


def block_conflicts(
    up: ConfigTable | None,
    down: ConfigTable,
    *,
    default_block: Callable[[int], int] | None = None,
    extra: Iterable[int] = (),
) -> tuple[BlockConflict, ...]:
    """Return where they differ, one conflict for each run of batch sizes with the same pair.

    Without an up table, `default_block` gives BLOCK_SIZE_M of the built-in tiles for a batch size;
    `extra` are the batch sizes at which it may change.
    """
    if not down.entries or (up is None and default_block is None):
        return ()
    conflicts: list[BlockConflict] = []
    previous: tuple[int, int] | None = None
    for tokens in _switching_points(up, down, extra):
        pair = (_up_block(up, default_block, tokens), down.nearest(tokens)[1].block_m)
        if pair != previous and pair[0] != pair[1]:
            conflicts.append(BlockConflict(tokens=tokens, up=pair[0], down=pair[1]))
        previous = pair
    return tuple(conflicts)


def _up_block(
    up: ConfigTable | None, default_block: Callable[[int], int] | None, tokens: int
) -> int:
    if up is not None and up.entries:
        return up.nearest(tokens)[1].block_m
    return default_block(tokens) if default_block else 0


def _switching_points(up: ConfigTable | None, down: ConfigTable, extra: Iterable[int]) -> list[int]:
    """Return all batch sizes at which one of the tables may change its entry, ascending."""
    points = {1, *extra}
    for table in (up, down):
        keys = sorted(key for key, _ in table.entries) if table else []
        points.update(keys)
        for low, high in pairwise(keys):
            middle = (low + high) // 2
            points.update((middle, middle + 1))
    return sorted(point for point in points if 0 < point <= LARGEST_BATCH)
