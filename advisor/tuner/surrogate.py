"""A Gaussian process over tiles, kept up to date one measurement at a time.

Pure Python on purpose: a thousand tiles and a hundred measurements cost milliseconds, and the
search must run where neither numpy nor a GPU is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import mul

from advisor.tuner.space import LENGTHS, Tile

_DEVIATION = 0.3
_LEVEL_VARIANCE = 4.0
_SMALLEST_VARIANCE = 1e-9
_SQRT5 = math.sqrt(5.0)


class Surrogate:
    """Predict the logarithm of latency for every tile of a space.

    Covariance: Matern 5/2 plus a wide constant, for the level of latencies is unknown. Adding a
    tile costs one pass over the space; values may be replaced at any time.
    """

    def __init__(self, tiles: Sequence[Tile], means: Sequence[float], noise: float) -> None:
        """Start with a prior mean per tile (natural log of us, up to a constant)."""
        self._points = [
            tuple(value / length for value, length in zip(tile.position, LENGTHS, strict=True))
            for tile in tiles
        ]
        self._means = list(means)
        self._noise_variance = noise**2
        self._factors: list[list[float]] = [[] for _ in tiles]
        self._variances = [_DEVIATION**2 + _LEVEL_VARIANCE] * len(tiles)
        self._chosen: list[int] = []
        self._pivots: list[float] = []

    def add(self, index: int) -> None:
        """Take a tile as one whose latency will be known."""
        row = list(self._factors[index])
        pivot = math.sqrt(max(self._variances[index], _SMALLEST_VARIANCE) + self._noise_variance)
        point = self._points[index]
        for place, factors in enumerate(self._factors):
            shared = sum(map(mul, row, factors))
            value = (_covariance(point, self._points[place]) - shared) / pivot
            factors.append(value)
            self._variances[place] -= value * value
        self._chosen.append(index)
        self._pivots.append(pivot)

    def predict(self, values: Mapping[int, float]) -> tuple[list[float], list[float]]:
        """Return mean and standard deviation of log latency for every tile.

        Args:
            values: Log latency of the added tiles, by index; those without one (still being
                measured) are taken as predicted, which only lowers their uncertainty.
        """
        solution: list[float] = []
        for place, index in enumerate(self._chosen):
            shared = sum(map(mul, self._factors[index], solution))
            known = values.get(index)
            residual = 0.0 if known is None else known - self._means[index] - shared
            solution.append(residual / self._pivots[place])
        means = [
            mean + sum(map(mul, factors, solution))
            for mean, factors in zip(self._means, self._factors, strict=True)
        ]
        deviations = [math.sqrt(max(value, _SMALLEST_VARIANCE)) for value in self._variances]
        return means, deviations


def _covariance(left: tuple[float, ...], right: tuple[float, ...]) -> float:
    squared = 0.0
    for a, b in zip(left, right, strict=True):
        squared += (a - b) * (a - b)
    reach = _SQRT5 * math.sqrt(squared)
    return _LEVEL_VARIANCE + _DEVIATION**2 * (1.0 + reach + reach * reach / 3.0) * math.exp(-reach)
