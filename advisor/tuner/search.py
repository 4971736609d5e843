"""Which tile to measure next: ask and tell, for one GEMM at one batch size."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from advisor.tuner.effort import Ceiling, Effort
from advisor.tuner.space import GRID, Tile, best_of
from advisor.tuner.surrogate import Numbers, Surrogate, positions_of

_PRIOR_STRENGTH = 0.1
_SMALLEST_SCORE = 1e-4
_SEED_SPREAD = 0.7
_POLISHED_TILES = 2
_GROUP = 3


class Strategy(Protocol):
    """Choose tiles of one GEMM at one batch size."""

    def ask(self, count: int, ceiling: Ceiling | None = None) -> tuple[Tile, ...]:
        """Return up to `count` tiles never returned before; none when the search is over."""

    def tell(self, tile: Tile, latency_us: float | None) -> None:
        """Take a tile's latency; None if it cannot run."""


class GuidedSearch:
    """Start from what won elsewhere, go on by expected improvement."""

    def __init__(
        self,
        tiles: Sequence[Tile],
        scores: Sequence[float],
        effort: Effort,
        musts: Sequence[Tile] = (),
    ) -> None:
        """Prepare a search.

        Args:
            tiles: The space.
            scores: How likely each is to win, best 1.0.
            effort: How many to measure.
            musts: Tiles of the first round whatever the scores say: today's entry, winners of
                neighbouring batch sizes. Those outside the space are added to it.
        """
        known = set(tiles)
        outside = tuple(dict.fromkeys(tile for tile in musts if tile not in known))
        self._tiles = (*tiles, *outside)
        self._index = {tile: place for place, tile in enumerate(self._tiles)}
        self._positions = positions_of(self._tiles)
        heights = np.asarray([tile.block_m for tile in self._tiles])
        self._of_height = {
            height: np.flatnonzero(heights == height) for height in sorted(set(heights.tolist()))
        }
        self._free = np.ones(len(self._tiles), dtype=np.bool_)
        self._scores = [*scores, *(1.0 for _ in outside)]
        self._effort = effort
        self._musts = tuple(dict.fromkeys(musts))
        means = [-_PRIOR_STRENGTH * math.log(score + _SMALLEST_SCORE) for score in self._scores]
        self._surrogate = Surrogate(self._tiles, means, effort.noise_ratio)
        self._asked: dict[int, None] = {}
        self._values: dict[int, float] = {}
        self._failed: set[int] = set()

    def ask(self, count: int, ceiling: Ceiling | None = None) -> tuple[Tile, ...]:
        """Return up to `count` tiles never returned before; none when the search is over."""
        room = min(count, self._effort.evaluations - len(self._asked))
        if not self._asked:
            chosen = self._seeds(room)
        elif room > 0 and not self._values:
            chosen = self._next_by_score(room)
        else:
            chosen = self._improvements(room, ceiling) or self._polish(count)
        return tuple(self._tiles[place] for place in chosen)

    def tell(self, tile: Tile, latency_us: float | None) -> None:
        """Take a tile's latency; None if it cannot run."""
        place = self._index[tile]
        if latency_us is None:
            self._failed.add(place)
        else:
            self._values[place] = math.log(latency_us)

    def measured(self) -> dict[Tile, float]:
        """Return the latencies in us, smoothed over what is known of near tiles."""
        if not self._values:
            return {}
        means = self._surrogate.means(self._values)
        return {self._tiles[place]: math.exp(means[place]) for place in self._values}

    def expected_us(self) -> dict[int, float]:
        """Return the best latency that can be expected at each BLOCK_SIZE_M."""
        if not self._values:
            return {}
        means = self._surrogate.means(self._values)
        means[list(self._failed)] = np.inf
        best = {height: means[places].min() for height, places in self._of_height.items()}
        return {height: math.exp(mean) for height, mean in best.items() if mean < np.inf}

    def _take(self, place: int) -> int:
        self._asked[place] = None
        self._free[place] = False
        self._surrogate.add(place)
        return place

    def _seeds(self, room: int) -> list[int]:
        """Choose the first round: the musts, then high scores that are not near each other."""
        chosen = [self._index[tile] for tile in self._musts][:room]
        left: Numbers = np.asarray(self._scores, dtype=np.float64)
        for place in chosen:
            self._dampen(left, place)
        while len(chosen) < min(room, len(self._tiles)):
            place = int(left.argmax())
            chosen.append(place)
            self._dampen(left, place)
        return [self._take(place) for place in chosen]

    def _dampen(self, left: Numbers, chosen: int) -> None:
        squared = np.square(self._positions - self._positions[chosen]).sum(axis=1)
        left *= 1.0 - np.exp(-0.5 * squared / _SEED_SPREAD**2)
        left[chosen] = -1.0

    def _next_by_score(self, room: int) -> list[int]:
        """Choose by the prior alone while everything measured so far has failed."""
        free = [int(place) for place in np.flatnonzero(self._free)]
        free.sort(key=lambda place: -self._scores[place])
        return [self._take(place) for place in free[:room]]

    def _improvements(self, room: int, ceiling: Ceiling | None) -> list[int]:
        if room <= 0:
            return []
        means = self._surrogate.means(self._values)
        goals = self._goals(ceiling, float(means[list(self._values)].min()))
        chosen: list[int] = []
        for _ in range(room):
            place, gain = self._best_improvement(goals, means)
            if place is None or (not chosen and gain < self._effort.worthwhile_ratio):
                break
            chosen.append(self._take(place))
        return chosen

    def _polish(self, count: int) -> list[int]:
        """Choose what differs from the best tiles in GROUP_SIZE_M only, at the search's end.

        It moves latency by about 1 %, which the model takes for noise.
        """
        best = best_of(self.measured(), _POLISHED_TILES)
        variants = [
            self._index[variant]
            for tile in best
            for group in GRID[_GROUP]
            if (variant := replace(tile, group_m=group)) in self._index
        ]
        fresh = [place for place in dict.fromkeys(variants) if place not in self._asked]
        return [self._take(place) for place in fresh[:count]]

    def _best_improvement(self, goals: Numbers, means: Numbers) -> tuple[int | None, float]:
        open_places = np.flatnonzero(self._free & (goals > -np.inf))
        if not len(open_places):
            return None, 0.0
        deviations = self._surrogate.deviations()
        gains = expected_gains((goals - means)[open_places], deviations[open_places])
        best = int(gains.argmax())
        return int(open_places[best]), float(gains[best])

    def _goals(self, ceiling: Ceiling | None, incumbent: float) -> Numbers:
        """Return the log latency that each tile has to beat; minus infinity where nothing can."""
        if ceiling is None:
            return np.full(len(self._tiles), incumbent)
        goals: Numbers = np.full(len(self._tiles), -np.inf)
        for height, places in self._of_height.items():
            limit = ceiling(height)
            if limit > 0:
                goals[places] = math.log(limit)
        return goals


def expected_gains(distances: Numbers, deviations: Numbers) -> Numbers:
    """Return the expected improvements of normal values whose means lie `distances` below."""
    ratios = distances / deviations
    densities = np.exp(-0.5 * ratios * ratios) / math.sqrt(2 * math.pi)
    errors = np.asarray([math.erf(ratio) for ratio in (ratios / math.sqrt(2)).tolist()])
    gains: Numbers = distances * 0.5 * (1.0 + errors) + deviations * densities
    return gains


class RandomSearch:
    """Ask in random order: what a clever search must beat."""

    def __init__(self, tiles: Sequence[Tile], seed: int) -> None:
        """Shuffle the space."""
        self._left = list(tiles)
        random.Random(seed).shuffle(self._left)  # noqa: S311  (no secret)

    def ask(self, count: int, ceiling: Ceiling | None = None) -> tuple[Tile, ...]:  # noqa: ARG002
        """Return the next tiles of the shuffled space."""
        chosen, self._left = self._left[:count], self._left[count:]
        return tuple(chosen)

    def tell(self, tile: Tile, latency_us: float | None) -> None:
        """Ignore the answer."""
