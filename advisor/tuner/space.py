"""The tile configurations worth trying: the grid, what can run, what is near what."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from advisor.configs.entries import Entry
from advisor.configs.estimate import estimate_shared_bytes
from advisor.configs.problem import Gemm, MoeProblem, Target, extent

GRID = (
    (16, 32, 64, 128, 256),  # BLOCK_SIZE_M
    (32, 64, 128, 256),  # BLOCK_SIZE_N
    (64, 128, 256),  # BLOCK_SIZE_K
    (1, 16, 32, 64),  # GROUP_SIZE_M
    (4, 8),  # num_warps
    (2, 3, 4, 5),  # num_stages
)
"""The grid of SGLang's tuner on CUDA: 1920 points; 93.5 % of the shipped winners lie in it."""

LOADS = (False, True)
"""Whether tiles are loaded by the tensor memory accelerator (TMA): the seventh dimension."""

LENGTHS = (1.0, 1.0, 1.0, 2.0, 1.0, 1.5, 3.0)
"""Steps over which latency changes, by dimension (fitted on bf16 tables of an H200)."""

_KEY = re.compile(r"(\d{1,9})x(\d{1,9})x(\d{1,9})-g(\d{1,9})-w(\d{1,9})-s(\d{1,9})(-tma)?")
_GROUP = 3
_STAGES = 5
_TMA = 6
_TMA_FROM_SM = 90
_TMA_ROW_BYTES = 16
_ROWS_ALWAYS_ALLOWED = 64
_LARGEST_PADDING_RATIO = 8
_LARGEST_SPLIT_RATIO = 16


@dataclass(frozen=True, slots=True, order=True)
class Tile:
    """One point of the space; positional, since its numbers have one order everywhere.

    Attributes:
        tma: Whether weights, and in the down GEMM the inputs too, are loaded by the tensor memory
            accelerator.
    """

    block_m: int
    block_n: int
    block_k: int
    group_m: int
    warps: int
    stages: int
    tma: bool = False

    def entry(self) -> Entry:
        """Return the tile as an entry of a config file."""
        return Entry(
            block_m=self.block_m,
            block_n=self.block_n,
            block_k=self.block_k,
            group_m=self.group_m,
            num_warps=self.warps,
            num_stages=self.stages,
            use_tma=self.tma or None,
        )

    @property
    def key(self) -> str:
        """Return the tile in one word, as in journals: `16x64x128-g1-w4-s3`, `...-tma`."""
        return (
            f"{self.block_m}x{self.block_n}x{self.block_k}"
            f"-g{self.group_m}-w{self.warps}-s{self.stages}{'-tma' if self.tma else ''}"
        )

    @property
    def numbers(self) -> tuple[int, ...]:
        """Return the seven numbers in their order."""
        blocks = (self.block_m, self.block_n, self.block_k, self.group_m)
        return (*blocks, self.warps, self.stages, int(self.tma))

    @property
    def position(self) -> tuple[float, ...]:
        """Return the tile's place: one step of the grid is about one."""
        return tuple(step(dimension, value) for dimension, value in enumerate(self.numbers))


@functools.cache
def step(dimension: int, value: int) -> float:
    """Return where a value lies along one of the tile's seven dimensions.

    Powers of two by their logarithm, stages and TMA as they are; GROUP_SIZE_M matters mostly by
    being 1 or not.
    """
    if dimension in {_STAGES, _TMA}:
        return float(value)
    if dimension != _GROUP:
        return math.log2(value)
    return 0.0 if value == 1 else 1.0 + 0.15 * math.log2(value / 16)


def parse_tile(key: str) -> Tile:
    """Parse a tile's key.

    >>> parse_tile("16x64x128-g1-w4-s3").block_k
    128

    Raises:
        ValueError: If it is none.
    """
    match = _KEY.fullmatch(key)
    if match is None:
        raise ValueError(f"not a tile: {key!r}")
    block_m, block_n, block_k, group_m, warps, stages = map(int, match.groups()[:6])
    return Tile(block_m, block_n, block_k, group_m, warps, stages, tma=match[7] is not None)


def tile_of(entry: Entry) -> Tile:
    """Return the tile of an entry, with Triton's defaults where the entry is silent."""
    return Tile(
        entry.block_m,
        entry.block_n,
        entry.block_k,
        entry.group_m,
        entry.warps,
        entry.stages,
        tma=bool(entry.use_tma),
    )


def grid() -> tuple[Tile, ...]:
    """Return every point of SGLang's grid."""
    return tuple(Tile(*values) for values in itertools.product(*GRID))


def tma_serves(problem: MoeProblem, gemm: Gemm, target: Target) -> bool:
    """Say whether tiles with TMA make sense: the GPU has it, and so have weights that ship with it.

    SGLang's files use it for 16-bit and for block-quantised weights; with scales per row its
    kernel would read the scales of other rows. A descriptor's rows must be multiples of 16 bytes.
    """
    shipped = problem.dtype is None or problem.block_shape is not None
    aligned = extent(problem, gemm)[1] * problem.element_bytes % _TMA_ROW_BYTES == 0
    return target.sm >= _TMA_FROM_SM and shipped and aligned


def legal_tiles(
    problem: MoeProblem, gemm: Gemm, tokens: int, target: Target, *, tma: bool = False
) -> tuple[Tile, ...]:
    """Return the grid points worth trying for one batch size, in grid order; with `tma` each twice.

    Left out: what needs too much shared memory (by the estimate), what the quantisation block
    forbids, what is known to break the compiler, and tile heights that only pad or only repeat
    loads at this batch size (8 of 8841 shipped winners lie there).
    """
    return tuple(
        tile
        for tile in _runnable(problem, target, tma=tma)
        if _height_makes_sense(tile.block_m, problem, tokens)
        and _width_makes_sense(tile, problem, gemm)
    )


@functools.lru_cache(maxsize=4)
def _runnable(problem: MoeProblem, target: Target, *, tma: bool) -> tuple[Tile, ...]:
    return tuple(
        tile
        for plain in grid()
        for tile in ((plain, replace(plain, tma=True)) if tma else (plain,))
        if _compiles(tile, problem)
        and estimate_shared_bytes(problem, tile.entry(), target.sm) <= target.shared_memory_bytes
    )


def _compiles(tile: Tile, problem: MoeProblem) -> bool:
    """Say whether the kernel's rules and the compiler's known limits allow a tile."""
    if problem.block_shape and problem.block_shape[1] % tile.block_k:
        return False
    tallest, fewest_warps = GRID[0][-1], GRID[4][0]
    broken = tile.warps == fewest_warps and tile.block_n == tile.block_k
    return not (tile.block_m == tallest and broken)


def _height_makes_sense(block_m: int, problem: MoeProblem, tokens: int) -> bool:
    rows = tokens * problem.top_k / problem.all_experts
    tallest = max(_ROWS_ALWAYS_ALLOWED, _LARGEST_PADDING_RATIO * rows)
    lowest = min(rows / _LARGEST_SPLIT_RATIO, GRID[0][-1] / 4)
    return lowest <= block_m <= tallest


def _width_makes_sense(tile: Tile, problem: MoeProblem, gemm: Gemm) -> bool:
    columns, depth = extent(problem, gemm)
    return tile.block_n < 2 * max(columns, GRID[1][0]) and tile.block_k < 2 * max(depth, GRID[2][0])


def best_of(values: Mapping[Tile, float], count: int) -> tuple[Tile, ...]:
    """Return the `count` fastest tiles, fastest first; ties by the tile's numbers."""
    return tuple(sorted(values, key=lambda tile: (values[tile], tile))[:count])
