"""A Gaussian process over tiles, kept up to date one measurement at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from advisor.tuner.space import LENGTHS, Tile

Numbers = NDArray[np.float64]

_DEVIATION = 0.3
_LEVEL_VARIANCE = 4.0
_SMALLEST_VARIANCE = 1e-9
_SQRT5 = math.sqrt(5.0)
_FIRST_CAPACITY = 64


class Surrogate:
    """Predict the logarithm of latency for every tile of a space.

    Covariance: Matern 5/2 plus a wide constant, for the level of latencies is unknown. Adding a
    tile costs one pass over the space; values may be replaced at any time.
    """

    def __init__(self, tiles: Sequence[Tile], means: Sequence[float], noise: float) -> None:
        """Start with a prior mean per tile (natural log of us, up to a constant)."""
        self._points: Numbers = positions_of(tiles) / np.asarray(LENGTHS)
        self._means: Numbers = np.asarray(means, dtype=np.float64)
        self._noise_variance = noise**2
        self._columns: Numbers = np.zeros((len(tiles), _FIRST_CAPACITY), order="F")
        self._variances: Numbers = np.full(len(tiles), _DEVIATION**2 + _LEVEL_VARIANCE)
        self._chosen: list[int] = []
        self._pivots: list[float] = []

    def add(self, index: int) -> None:
        """Take a tile as one whose latency will be known."""
        factors = self._factors()
        pivot = math.sqrt(max(self._variances[index], _SMALLEST_VARIANCE) + self._noise_variance)
        column = (self._covariances(index) - _product(factors, factors[index])) / pivot
        self._append(column)
        self._variances -= column * column
        self._chosen.append(index)
        self._pivots.append(pivot)

    def means(self, values: Mapping[int, float]) -> Numbers:
        """Return the mean of log latency for every tile.

        Args:
            values: Log latency of the added tiles, by index; those without one (still being
                measured) are taken as predicted.
        """
        factors = self._factors()
        solution = np.zeros(len(self._chosen))
        for place, index in enumerate(self._chosen):
            known = values.get(index)
            if known is not None:
                shared = float(_product(factors[index : index + 1, :place], solution[:place])[0])
                residual = known - self._means[index] - shared
                solution[place] = residual / self._pivots[place]
        return self._means + _product(factors, solution)

    def deviations(self) -> Numbers:
        """Return the standard deviation of log latency for every tile, all added ones known."""
        deviations: Numbers = np.sqrt(np.maximum(self._variances, _SMALLEST_VARIANCE))
        return deviations

    def _factors(self) -> Numbers:
        return self._columns[:, : len(self._chosen)]

    def _append(self, column: Numbers) -> None:
        if len(self._chosen) == self._columns.shape[1]:
            self._columns = np.hstack([self._columns, np.zeros_like(self._columns)])
        self._columns[:, len(self._chosen)] = column

    def _covariances(self, index: int) -> Numbers:
        """Return the covariance of a tile with every tile."""
        squared = np.square(self._points - self._points[index]).sum(axis=1)
        reach = _SQRT5 * np.sqrt(squared)
        near: Numbers = (1.0 + reach + reach * reach / 3.0) * np.exp(-reach)
        return _LEVEL_VARIANCE + _DEVIATION**2 * near


def _product(matrix: Numbers, vector: Numbers) -> Numbers:
    """Multiply without BLAS, which would wake a thread per core while compilers hold the cores."""
    product: Numbers = np.einsum("ij,j->i", matrix, vector)
    return product


def positions_of(tiles: Sequence[Tile]) -> Numbers:
    """Return the tiles' places in the space, one row each."""
    return np.asarray([tile.position for tile in tiles], dtype=np.float64)
