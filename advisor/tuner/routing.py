"""Which token goes to which experts while timing, and the sorted row list the kernel wants."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from advisor.errors import InputError

ELSEWHERE = -1
"""Stands for an expert that another rank holds."""

_TOO_LARGE = 1e100
_ZIPF_EXPONENT = 1.0
_SPARSE_RATIO = 4


class RoutingKind(StrEnum):
    """How experts are drawn."""

    UNIFORM = "uniform"
    ZIPF = "zipf"
    RECORDED = "recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """A distribution over experts.

    Attributes:
        weights: For `recorded`: one number per expert, tokens seen; empty otherwise.
    """

    kind: RoutingKind = RoutingKind.UNIFORM
    weights: tuple[float, ...] = ()

    def draw(
        self, tokens: int, experts: int, top_k: int, batches: int, seed: int
    ) -> list[list[list[int]]]:
        """Return `batches` routings, each `[tokens][top_k]`, an expert at most once per token.

        Uniform draws of few tokens never take an expert twice until all have been taken, so that
        successive batches read other weights and find nothing in the L2 cache.
        """
        generator = random.Random(seed)  # noqa: S311  (no secret)
        if self.kind is RoutingKind.UNIFORM and tokens * top_k * _SPARSE_RATIO <= experts:
            return _without_repeats(tokens, experts, top_k, batches, generator)
        if self.kind is RoutingKind.UNIFORM:
            return [
                [generator.sample(range(experts), top_k) for _ in range(tokens)]
                for _ in range(batches)
            ]
        weights = self._expert_weights(experts, generator)
        return [
            [_weighted(weights, top_k, generator) for _ in range(tokens)] for _ in range(batches)
        ]

    def _expert_weights(self, experts: int, generator: random.Random) -> list[float]:
        if self.kind is RoutingKind.RECORDED:
            if len(self.weights) != experts:
                raise InputError(
                    f"the recorded routing has {len(self.weights)} experts, the problem {experts}"
                )
            return list(self.weights)
        weights = [1.0 / (rank + 1) ** _ZIPF_EXPONENT for rank in range(experts)]
        generator.shuffle(weights)
        return weights


def _without_repeats(
    tokens: int, experts: int, top_k: int, batches: int, generator: random.Random
) -> list[list[list[int]]]:
    deck: list[int] = []
    drawn = []
    for _ in range(batches):
        rows = []
        for _ in range(tokens):
            if len(deck) < top_k:
                deck = generator.sample(range(experts), experts)
            rows.append([deck.pop() for _ in range(top_k)])
        drawn.append(rows)
    return drawn


def _weighted(weights: Sequence[float], top_k: int, generator: random.Random) -> list[int]:
    """Draw experts without repeats by their weights (Efraimidis and Spirakis)."""
    keys = [
        (generator.random() ** (1.0 / weight) if weight > 0 else 0.0, expert)
        for expert, weight in enumerate(weights)
    ]
    keys.sort(reverse=True)
    return [expert for _, expert in keys[:top_k]]


def read_routing(path: Path) -> Routing:
    """Read recorded expert loads: a JSON list with one number per expert.

    Raises:
        InputError: If the file holds anything else.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}") from error
    numbers = isinstance(document, list) and all(
        isinstance(load, int | float) and not isinstance(load, bool) and 0 <= load < _TOO_LARGE
        for load in document
    )
    if not numbers or not document or sum(document) <= 0:
        raise InputError(f"{path}: a recorded routing is a JSON list of one load per expert")
    return Routing(kind=RoutingKind.RECORDED, weights=tuple(float(load) for load in document))


def keep_local(routings: list[list[list[int]]], experts: int) -> list[list[list[int]]]:
    """Return routings over all ranks' experts as the first rank sees them, which holds `experts`."""
    return [
        [[expert if expert < experts else ELSEWHERE for expert in token] for token in routing]
        for routing in routings
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedRows:
    """Rows grouped by expert, each expert's padded to whole tiles, as moe_align_block_size does.

    Attributes:
        rows: Indices `token * top_k + choice`; padding holds the number of rows.
        experts: One expert per tile of rows; -1 for rows of other ranks' experts, which come first.
        padded: Length of the used part of `rows`.
    """

    rows: tuple[int, ...]
    experts: tuple[int, ...]
    padded: int


def sort_rows(routing: Sequence[Sequence[int]], block_m: int, length: int) -> SortedRows:
    """Sort one routing for a tile height; `length` is the size of the row list (EM)."""
    flat = [expert for token in routing for expert in token]
    of_expert: dict[int, list[int]] = {}
    for row, expert in enumerate(flat):
        of_expert.setdefault(expert, []).append(row)
    rows: list[int] = []
    experts: list[int] = []
    for expert in sorted(of_expert):
        own = of_expert[expert]
        tiles = -(-len(own) // block_m)
        rows += own + [len(flat)] * (tiles * block_m - len(own))
        experts += [expert] * tiles
    padded = len(rows)
    rows += [len(flat)] * (length - padded)
    experts += [0] * (-(-length // block_m) - len(experts))
    return SortedRows(rows=tuple(rows), experts=tuple(experts), padded=padded)
