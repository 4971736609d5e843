"""What wins elsewhere: a score for each tile from the config files that SGLang ships."""

from __future__ import annotations

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from advisor.configs.problem import Gemm, MoeProblem
from advisor.errors import ConfigError
from advisor.resources import read_data
from advisor.tuner.space import GRID, LENGTHS, LOADS, Tile, parse_tile, step

DATA_FILE = "tuner_prior.yaml"
_BATCH_DECAY = 1.0
_OTHER_SM_WEIGHT = 0.3
_OTHER_GEMM_WEIGHT = 0.5
_NEGLIGIBLE_WEIGHT = 0.02
_REACH = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """One tile of the shipped files, with how often it won there."""

    sm: int
    gemm: Gemm
    tokens: int
    tile: Tile
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """The shipped winners by kind of weights: `16bit`, `8bit` or `8bit_block`."""

    winners: Mapping[str, tuple[Winner, ...]]

    def scores(
        self, tiles: Sequence[Tile], problem: MoeProblem, gemm: Gemm, tokens: int, sm: int
    ) -> list[float]:
        """Score tiles for one batch size, best 1.0; all 1.0 if nothing is known.

        A winner counts by its nearness in batch size (halves about every factor of 1.6), by its
        GPU generation and GEMM, and spreads half a step around itself.
        """
        weights = _spread(self._weights(family_of(problem), gemm, tokens, sm))
        raw = [weights.get(tile.numbers, 0.0) for tile in tiles]
        best = max(raw, default=0.0)
        return [value / best for value in raw] if best > 0 else [1.0] * len(raw)

    def _weights(self, family: str, gemm: Gemm, tokens: int, sm: int) -> dict[Tile, float]:
        weights: dict[Tile, float] = defaultdict(float)
        for winner in self.winners.get(family, ()):
            distance = abs(math.log2(winner.tokens / tokens))
            weight = math.exp(-distance / _BATCH_DECAY)
            if weight < _NEGLIGIBLE_WEIGHT:
                continue
            weight *= 1.0 if winner.sm == sm else _OTHER_SM_WEIGHT
            weight *= 1.0 if winner.gemm is gemm else _OTHER_GEMM_WEIGHT
            weights[winner.tile] += weight * winner.count
        return weights


def family_of(problem: MoeProblem) -> str:
    """Return the kind of weights under which the prior is kept."""
    if problem.element_bytes != 1:
        return "16bit"
    return "8bit_block" if problem.block_shape else "8bit"


def _spread(weights: Mapping[Tile, float]) -> Mapping[tuple[int, ...], float]:
    """Smear the winners' weights over the grid, one dimension after the other."""
    import numpy as np

    axes = (*GRID, LOADS)
    won = [sorted(set(column)) for column in zip(*(tile.numbers for tile in weights), strict=True)]
    if not won:
        return {}
    spread = np.zeros([len(values) for values in won])
    for tile, weight in weights.items():
        spread[tuple(map(list.index, won, tile.numbers))] += weight
    for dimension, values in enumerate(axes):
        shares = [[_share(dimension, from_, to) for from_ in won[dimension]] for to in values]
        spread = np.moveaxis(np.tensordot(shares, spread, (1, dimension)), 0, dimension)
    return dict(zip(itertools.product(*axes), spread.ravel().tolist(), strict=True))


@functools.cache
def _share(dimension: int, won: int, value: int) -> float:
    """Return how much a value is worth where another one won: 1 for the same, little beyond a step."""
    steps = abs(step(dimension, won) - step(dimension, value)) / LENGTHS[dimension]
    return math.exp(-0.5 * (steps / _REACH) ** 2)


@functools.cache
def shipped_prior() -> Prior:
    """Return the prior that comes with Advisor."""
    return parse_prior(read_data(DATA_FILE), DATA_FILE)


def parse_prior(document: object, origin: str) -> Prior:
    """Read a prior as `benchmarks/tuner_prior.py` writes it.

    Raises:
        ConfigError: If the document has another form.
    """
    try:
        families = cast(
            "Mapping[str, Mapping[int, object]]", cast("dict[str, object]", document)["winners"]
        )
        return Prior(
            winners={
                family: tuple(_winners(cast("Mapping[int, Mapping[str, object]]", by_sm)))
                for family, by_sm in families.items()
            }
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{origin} is not a tuner prior: {error}") from error


def _winners(by_sm: Mapping[int, Mapping[str, object]]) -> list[Winner]:
    return [
        Winner(sm=int(sm), gemm=Gemm(role), tokens=int(tokens), tile=parse_tile(key), count=count)
        for sm, by_role in by_sm.items()
        for role, by_batch in by_role.items()
        for tokens, cells in cast("Mapping[int, Mapping[str, int]]", by_batch).items()
        for key, count in cells.items()
    ]
