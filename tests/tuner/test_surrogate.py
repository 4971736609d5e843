from __future__ import annotations

import pytest

from advisor.tuner.space import Tile
from advisor.tuner.surrogate import Surrogate

TILES = [Tile(16, width, 64, 1, 4, stages) for width in (32, 64, 128, 256) for stages in (2, 3, 4)]


def fresh() -> Surrogate:
    return Surrogate(TILES, [0.0] * len(TILES), noise=0.001)


def test_measured_tiles_are_predicted_as_measured() -> None:
    surrogate = fresh()
    values = {0: 3.0, 5: 3.4, 11: 2.8}
    for place in values:
        surrogate.add(place)
    means, deviations = surrogate.means(values), surrogate.deviations()
    for place, value in values.items():
        assert means[place] == pytest.approx(value, abs=0.005)
        assert deviations[place] < 0.01


def test_what_lies_between_is_predicted_between() -> None:
    surrogate = fresh()
    for place in (0, 6):
        surrogate.add(place)
    means = surrogate.means({0: 3.0, 6: 4.0})
    assert 3.0 < means[3] < 4.0


def test_a_pending_tile_lowers_uncertainty_and_moves_nothing() -> None:
    surrogate = fresh()
    surrogate.add(0)
    means, deviations = surrogate.means({0: 3.0}), surrogate.deviations()
    surrogate.add(6)
    later_means, later_deviations = surrogate.means({0: 3.0}), surrogate.deviations()
    assert later_means == pytest.approx(means)
    assert later_deviations[6] < deviations[6]


def test_the_prior_mean_shows_through_where_nothing_was_measured() -> None:
    surrogate = Surrogate(TILES, [0.0] * 11 + [0.5], noise=0.001)
    surrogate.add(0)
    means = surrogate.means({0: 3.0})
    assert means[11] > means[10]
