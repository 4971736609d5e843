from __future__ import annotations

from dataclasses import replace

import pytest

from advisor.configs.problem import Gemm
from advisor.tuner.batch import BatchSearch, Pair, References, Space
from advisor.tuner.decide import Choice, Origin, Proof, decide_raced, decide_screened
from advisor.tuner.effort import Effort
from advisor.tuner.pairing import paired
from advisor.tuner.space import Tile
from advisor.tuner.work import Entrant, Failed, Failure, Race, Raced, Timed, Trial

EFFORT = Effort(seeds=4, evaluations=8, round_size=4, worthwhile_ratio=0.0, finalists=3)
A, B, C = (Tile(16, width, 64, 1, 4, 3) for width in (32, 64, 128))
DEFAULT, TODAY, NEW = (Pair(up=tile, down=tile) for tile in (A, B, C))
WRONG = Failed(failure=Failure.WRONG, text="differs from the reference by 0.3")


def search(today: Pair | None = None) -> BatchSearch:
    space = Space(tiles=(A, B, C), scores=(1.0, 1.0, 1.0))
    references = References(default=DEFAULT, today=today)
    return BatchSearch(64, {Gemm.UP: space, Gemm.DOWN: space}, references, EFFORT)


def decide(times: dict[Pair, list[float] | Failed], today: Pair | None = None) -> Choice:
    race = Race(tokens=64, entrants=tuple(pair.entrant for pair in times))
    answers = tuple(
        value if isinstance(value, Failed) else Timed(samples_us=tuple(value), error_ratio=0.001)
        for value in times.values()
    )
    return decide_raced(search(today), race, Raced(answers=answers))


def test_a_clear_gain_is_taken() -> None:
    choice = decide({NEW: [90.0, 90.1, 90.2, 90.0], DEFAULT: [100.0, 100.1, 100.0, 100.2]})
    assert (choice.origin, choice.pair) == (Origin.TUNED, NEW)
    assert choice.gain_ratio == pytest.approx(1.11, abs=0.01)
    assert choice.error_ratio == 0.001


def test_a_gain_within_noise_is_not_taken_and_the_report_says_so() -> None:
    choice = decide({NEW: [99.7, 99.8, 99.7, 99.7], DEFAULT: [100.0, 100.1, 100.0, 100.0]})
    assert (choice.origin, choice.pair) == (Origin.DEFAULT, DEFAULT)
    assert "not beyond noise" in choice.note


def test_a_gain_smaller_than_its_own_spread_is_not_taken() -> None:
    noisy = [90.0, 104.0, 91.0, 103.0, 90.0, 104.0, 91.0, 103.0]
    choice = decide({NEW: noisy, DEFAULT: [100.0] * 8})
    assert choice.origin is Origin.DEFAULT


def test_heat_that_slows_everybody_does_not_hide_a_gain() -> None:
    heat = [1.0, 1.05, 1.1, 1.2, 1.3, 1.2, 1.1, 1.05]
    choice = decide({NEW: [97.0 * h for h in heat], DEFAULT: [100.0 * h for h in heat]})
    assert choice.origin is Origin.TUNED
    assert choice.spread_ratio == pytest.approx(0.0, abs=1e-9)


def test_todays_entry_is_the_one_to_beat() -> None:
    times: dict[Pair, list[float] | Failed] = {
        NEW: [95.0] * 4,
        TODAY: [90.0] * 4,
        DEFAULT: [100.0] * 4,
    }
    choice = decide(times, TODAY)
    assert (choice.origin, choice.pair) == (Origin.TODAY, TODAY)
    assert choice.default_us == pytest.approx(100.0)


def test_a_wrong_result_is_never_chosen_however_fast() -> None:
    choice = decide({NEW: WRONG, DEFAULT: [100.0] * 4})
    assert choice.pair == DEFAULT


def test_a_default_that_cannot_run_is_replaced() -> None:
    broken = Failed(failure=Failure.RESOURCES, text="needs 147456 bytes of shared memory of 101376")
    choice = decide({NEW: [90.0] * 4, DEFAULT: broken})
    assert (choice.origin, choice.default_us) == (Origin.TUNED, None)
    assert "cannot run" in choice.note


def test_nothing_timed_keeps_what_is_there_and_says_why() -> None:
    choice = decide({NEW: WRONG, DEFAULT: WRONG})
    assert (choice.pair, choice.proof) == (DEFAULT, Proof.UNMEASURED)
    assert "differs" in choice.note


def take(one: BatchSearch, tile: Tile, latency_us: float) -> None:
    for gemm in Gemm:
        trial = Trial(tokens=64, gemm=gemm, tile=tile)
        one.take(trial, Timed(samples_us=(latency_us,)))


@pytest.mark.parametrize(("new_us", "origin"), [(90.0, Origin.TUNED), (98.0, Origin.DEFAULT)])
def test_without_a_race_only_a_large_gain_counts(new_us: float, origin: Origin) -> None:
    one = search()
    one.next_round()
    take(one, A, 100.0)
    take(one, C, new_us)
    choice = decide_screened(one)
    assert (choice.origin, choice.proof) == (origin, Proof.SCREENED)


def test_a_batch_never_measured_keeps_what_is_there() -> None:
    choice = decide_screened(search(TODAY))
    assert (choice.pair, choice.proof) == (TODAY, Proof.UNMEASURED)


def test_failed_entrants_do_not_disturb_the_comparison() -> None:
    runs = paired({Entrant(up=A): Timed(samples_us=(1.0, 2.0)), Entrant(up=B): WRONG})
    assert list(runs) == [Entrant(up=A)]
    assert paired({Entrant(up=B): WRONG}) == {}


def test_what_tma_costs_outside_its_kernel_counts_in_the_race_and_in_the_screening() -> None:
    loaded = replace(C, tma=True)
    space = Space(tiles=(A, B, C, loaded), scores=(1.0,) * 4)
    charged = replace(space, tma_us={16: 12.0})
    one = BatchSearch(64, {Gemm.UP: space, Gemm.DOWN: charged}, References(default=DEFAULT), EFFORT)
    while trials := one.next_round():
        for trial in trials:
            latency = 40.0 if trial.tile.tma else 50.0
            one.take(trial, Timed(samples_us=(latency,)))
    dear = Pair(up=A, down=loaded)
    assert one.screened_us(dear) == 102.0
    race = Race(tokens=64, entrants=(dear.entrant, DEFAULT.entrant))
    answers = (Timed(samples_us=(90.0,) * 4), Timed(samples_us=(100.0,) * 4))
    choice = decide_raced(one, race, Raced(answers=answers))
    assert choice.pair == DEFAULT
    assert choice.best_us == pytest.approx(100.0)
