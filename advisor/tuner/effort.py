"""How much to measure; every number of the search in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How far a search goes.

    Attributes:
        seeds: Tiles of the first round, by the prior and spread out.
        evaluations: Tiles per GEMM and batch size at most, seeds included; a few variants of the
            best come on top.
        round_size: Tiles asked at once; what is asked depends on whole rounds only, so that a
            resumed run asks the same.
        worthwhile_ratio: A round whose best expected gain is below this share ends the search.
        finalists: Pairs of tiles in the final shoot-out.
        noise_ratio: Spread of one screening measurement.
    """

    seeds: int
    evaluations: int
    round_size: int
    worthwhile_ratio: float
    finalists: int
    noise_ratio: float = 0.008


EFFORTS = {
    "quick": Effort(seeds=10, evaluations=22, round_size=6, worthwhile_ratio=0.002, finalists=4),
    "normal": Effort(seeds=16, evaluations=40, round_size=8, worthwhile_ratio=0.001, finalists=8),
    "thorough": Effort(seeds=24, evaluations=160, round_size=8, worthwhile_ratio=0.0, finalists=8),
}

Ceiling = Callable[[int], float]
"""Gives, for a BLOCK_SIZE_M, the latency in us below which a tile would be an improvement."""
