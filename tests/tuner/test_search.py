from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from advisor.configs.problem import Gemm, target_of_gpu
from advisor.resources import parse_yaml
from advisor.tuner.effort import EFFORTS
from advisor.tuner.prior import Prior, parse_prior
from advisor.tuner.search import GuidedSearch, RandomSearch, expected_gains
from advisor.tuner.simulate import problem_of_table, read_tables, simulate
from advisor.tuner.space import Tile, legal_tiles

EFFORT = replace(EFFORTS["quick"], evaluations=24, worthwhile_ratio=0.0)
TILES = [
    Tile(16, width, 64, 1, 4, stages) for width in (32, 64, 128, 256) for stages in (2, 3, 4, 5)
]


def latency(tile: Tile) -> float:
    return 10.0 + abs(tile.block_n - 128) / 64 + abs(tile.stages - 4)


def search_all(search: GuidedSearch) -> list[Tile]:
    asked: list[Tile] = []
    while tiles := search.ask(4):
        asked += tiles
        for tile in tiles:
            search.tell(tile, latency(tile))
    return asked


def test_no_tile_is_asked_twice_and_the_space_ends() -> None:
    asked = search_all(GuidedSearch(TILES, [1.0] * len(TILES), replace(EFFORT, evaluations=99)))
    assert sorted(asked) == sorted(TILES)


def test_the_best_tile_is_found_early() -> None:
    asked = search_all(GuidedSearch(TILES, [1.0] * len(TILES), replace(EFFORT, evaluations=10)))
    assert Tile(16, 128, 64, 1, 4, 4) in asked


def test_musts_come_first_even_from_outside_the_space() -> None:
    odd = Tile(16, 32, 32, 8, 4, 3)
    search = GuidedSearch(TILES, [1.0] * len(TILES), EFFORT, [TILES[7], odd])
    assert search.ask(4)[:2] == (TILES[7], odd)


def test_failures_are_answers_and_the_search_goes_on() -> None:
    search = GuidedSearch(TILES, [1.0] * len(TILES), EFFORT)
    for tile in search.ask(4):
        search.tell(tile, None)
    assert len(search.ask(4)) == 4
    assert search.measured() == {}
    assert search.expected_us() == {}


def test_a_ceiling_keeps_the_search_out_of_hopeless_heights() -> None:
    tall = [replace(tile, block_m=64) for tile in TILES]
    search = GuidedSearch([*TILES, *tall], [1.0] * 2 * len(TILES), EFFORT)
    for tile in search.ask(8):
        search.tell(tile, latency(tile))
    asked = search.ask(6, lambda height: 11.0 if height == 64 else 0.0)
    assert {tile.block_m for tile in asked} == {64}


def test_nothing_worthwhile_ends_the_search() -> None:
    search = GuidedSearch(TILES, [1.0] * len(TILES), replace(EFFORT, worthwhile_ratio=0.9))
    for tile in search.ask(4):
        search.tell(tile, latency(tile))
    assert search.ask(4) == ()


def test_expected_gain_grows_with_distance_and_doubt() -> None:
    distances, deviations = np.array([0.1, 0.0, -0.1, -0.1]), np.array([0.1, 0.1, 0.1, 0.2])
    near, level, far, doubtful = expected_gains(distances, deviations)
    assert near > level > far > 0
    assert doubtful > far


@pytest.fixture
def foreign_prior(recorded: Callable[[str], Path]) -> Prior:
    """Return the winners of all shipped shapes but the recorded one."""
    text = recorded("prior_without_128_768.yaml").read_text(encoding="utf-8")
    return parse_prior(parse_yaml(text), "fixture")


@pytest.mark.parametrize("gemm", ["up", "down", "both"])
@pytest.mark.parametrize("tokens", [1, 64, 1024])
def test_recorded_tables_are_within_a_hundredth_after_forty_eight_measurements(
    recorded: Callable[[str], Path], foreign_prior: Prior, gemm: str, tokens: int
) -> None:
    path = recorded(f"h200_{gemm}_{tokens}.json.gz")
    (table,) = read_tables(path)
    problem = problem_of_table(path)
    role = table.gemm or Gemm.UP
    tiles = legal_tiles(problem, role, tokens, target_of_gpu("H200"), tma=table.tma)
    scores = foreign_prior.scores(tiles, problem, role, tokens, 90)
    curve = simulate(
        table,
        "guided",
        lambda _: GuidedSearch(tiles, scores, EFFORTS["normal"]),
        repetitions=1,
        budget=48,
    )
    _, mean, worst = curve.ratios[-1]
    assert worst <= 1.01, curve
    random_curve = simulate(
        table, "random", lambda seed: RandomSearch(tiles, seed), repetitions=20, budget=48
    )
    assert mean < random_curve.ratios[-1][1]


def test_the_space_holds_the_best_tile_of_every_recorded_table(
    recorded: Callable[[str], Path],
) -> None:
    for path in sorted(recorded("x").parent.glob("h200_*.json.gz")):
        (table,) = read_tables(path)
        role = table.gemm or Gemm.UP
        problem, target = problem_of_table(path), target_of_gpu("H200")
        tiles = set(legal_tiles(problem, role, table.tokens, target, tma=table.tma))
        best = min(
            (tile for tile, samples in table.samples.items() if samples),
            key=lambda tile: median(table.samples[tile]),
        )
        assert best in tiles, path.name
        assert not any(tile in tiles for tile, samples in table.samples.items() if not samples)


def test_the_end_of_a_search_tries_the_groupings_of_the_best() -> None:
    grouped = [replace(tile, group_m=group) for tile in TILES for group in (1, 16, 32, 64)]
    search = GuidedSearch(grouped, [1.0] * len(grouped), replace(EFFORT, evaluations=8))
    asked = search_all(search)
    best = min(asked, key=latency)
    assert {replace(best, group_m=group) for group in (1, 16, 32, 64)} <= set(asked)


def test_random_search_asks_everything_once() -> None:
    search = RandomSearch(TILES, seed=1)
    asked = [tile for _ in range(9) for tile in search.ask(2)]
    assert sorted(asked) == sorted(TILES)
    assert asked != TILES
