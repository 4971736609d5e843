from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from advisor.configs.problem import Gemm
from advisor.tuner.batch import BatchSearch, Pair, References, Space
from advisor.tuner.effort import Effort
from advisor.tuner.space import Tile
from advisor.tuner.work import Failed, Failure, Outcome, Raced, Timed, Trial

EFFORT = Effort(seeds=4, evaluations=12, round_size=4, worthwhile_ratio=0.0, finalists=3)
TILES = tuple(
    Tile(height, width, 64, 1, 4, stages)
    for height in (16, 64)
    for width in (32, 64, 128)
    for stages in (3, 4)
)
SPACE = Space(tiles=TILES, scores=(1.0,) * len(TILES))
DEFAULT = Pair(up=TILES[0], down=TILES[0])


def search(*, one_tile: bool = False, neighbours: Sequence[Pair] = ()) -> BatchSearch:
    return BatchSearch(
        64,
        {Gemm.UP: SPACE, Gemm.DOWN: SPACE},
        References(default=DEFAULT),
        EFFORT,
        neighbours=neighbours,
        one_tile=one_tile,
    )


def measure(trial: Trial) -> Outcome:
    """Up wants 64 rows a little, down wants 16 rows badly."""
    tile = trial.tile
    wanted = 64 if trial.gemm is Gemm.UP else 16
    penalty = (1.0 if trial.gemm is Gemm.UP else 20.0) * (tile.block_m != wanted)
    return Timed(samples_us=(50.0 + penalty + abs(tile.block_n - 64) / 32 + tile.stages,))


def run(one: BatchSearch, order: Callable[[list[Trial]], list[Trial]] = list) -> list[Trial]:
    asked: list[Trial] = []
    while trials := one.next_round():
        asked += trials
        for trial in order(list(trials)):
            one.take(trial, measure(trial))
    return asked


def test_both_gemms_get_one_height_that_of_the_dearer_one() -> None:
    one = search()
    run(one)
    best = next(iter(one.screened()))
    assert best.up.block_m == best.down.block_m == 16
    assert all(pair.up.block_m == pair.down.block_m for pair in one.screened())


def test_what_is_asked_does_not_depend_on_the_order_of_answers() -> None:
    forward, backward = search(), search()
    assert run(forward) == run(backward, lambda trials: trials[::-1])
    assert list(forward.screened()) == list(backward.screened())


def test_what_the_server_has_is_measured_first() -> None:
    trials = search().next_round()
    assert Trial(tokens=64, gemm=Gemm.UP, tile=DEFAULT.up) in trials
    assert Trial(tokens=64, gemm=Gemm.DOWN, tile=DEFAULT.down) in trials


def test_winners_of_neighbours_are_measured_too() -> None:
    pair = Pair(up=TILES[7], down=TILES[9])
    tiles = {(trial.gemm, trial.tile) for trial in search(neighbours=[pair]).next_round()}
    assert {(Gemm.UP, TILES[7]), (Gemm.DOWN, TILES[9])} <= tiles


def test_one_file_for_both_means_one_tile_for_both() -> None:
    one = search(one_tile=True)
    asked = run(one)
    assert {t.tile for t in asked if t.gemm is Gemm.UP} == {
        t.tile for t in asked if t.gemm is Gemm.DOWN
    }
    assert all(pair.up == pair.down for pair in one.screened())
    assert next(iter(one.screened())).up.block_m == 16


def test_heats_hold_single_gemms_and_the_final_pairs_with_the_reference() -> None:
    one = search()
    run(one)
    heats = one.heats()
    assert heats is not None
    assert all((entrant.up is None) != (entrant.down is None) for entrant in heats.entrants)
    final = one.final(heats, Failed(failure=Failure.CRASHED, text="gone"))
    assert DEFAULT.entrant in final.entrants


@pytest.mark.parametrize(("latency_us", "most"), [(10.0, 12), (1000.0, 4)])
def test_more_pairs_of_short_kernels_meet_in_the_final(latency_us: float, most: int) -> None:
    one = search()
    run(one)
    heats = one.heats()
    assert heats is not None
    answers = tuple(Timed(samples_us=(latency_us + place,)) for place in range(len(heats.entrants)))
    final = one.final(heats, Raced(answers=answers))
    pairs = [entrant for entrant in final.entrants if entrant != DEFAULT.entrant]
    possible = len([pair for pair in one.screened() if pair != DEFAULT])
    assert min(4, possible) <= len(pairs) <= most
    assert len(pairs) > 4 or latency_us > 100


def test_nothing_that_runs_means_no_heats() -> None:
    one = search()
    for trial in one.next_round():
        one.take(trial, Failed(failure=Failure.LAUNCH, text="no"))
    assert one.heats() is None


@pytest.mark.parametrize("today", [None, DEFAULT])
def test_references_are_named_once(today: Pair | None) -> None:
    references = References(default=DEFAULT, today=today)
    assert references.pairs == (DEFAULT,)
    assert references.current == DEFAULT
