from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.configs.problem import Gemm
from advisor.errors import InputError
from advisor.tuner.space import Tile
from advisor.tuner.work import (
    Entrant,
    Failed,
    Failure,
    Part,
    Race,
    Raced,
    Timed,
    Trial,
    outcome_from_json,
    outcome_to_json,
    spread_of,
    trial_from_key,
)

A, B = Tile(16, 64, 64, 1, 4, 3), Tile(16, 32, 64, 1, 4, 3)
SAMPLES = st.lists(st.integers(1, 10**7).map(lambda n: n / 100), min_size=1, max_size=5).map(tuple)
TIMED = st.builds(Timed, samples_us=SAMPLES, error_ratio=st.sampled_from([None, 0.0, 0.0015]))
FAILED = st.builds(Failed, failure=st.sampled_from(list(Failure)), text=st.text(max_size=40))
RACED = st.builds(Raced, answers=st.lists(st.one_of(TIMED, FAILED), max_size=3).map(tuple))


@given(st.one_of(TIMED, FAILED, RACED))
def test_outcomes_survive_json_and_pickling(outcome: Timed | Failed | Raced) -> None:
    assert outcome_from_json(outcome_to_json(outcome)) == outcome
    assert pickle.loads(pickle.dumps(outcome)) == outcome  # noqa: S301  (our own bytes)


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"us": 3}', '{"failed": "bored"}'])
def test_damaged_outcomes_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        outcome_from_json(text)


def test_a_trial_survives_its_key_and_a_race_has_none() -> None:
    trial = Trial(tokens=64, gemm=Gemm.DOWN, tile=A)
    race = Race(tokens=64, entrants=(Entrant(up=A), Entrant(up=A, down=B)))
    assert trial_from_key(trial.key) == trial
    assert trial_from_key(race.key) is None


def test_races_differ_by_who_runs_and_in_which_order() -> None:
    one = Race(tokens=64, entrants=(Entrant(up=A), Entrant(down=A)))
    other = Race(tokens=64, entrants=(Entrant(down=A), Entrant(up=A)))
    assert one.key != other.key


def test_parts_run_up_before_down() -> None:
    parts = (Part(gemm=Gemm.UP, tile=A), Part(gemm=Gemm.DOWN, tile=B))
    assert Entrant(up=A, down=B).parts() == parts
    assert Entrant(down=B).parts() == parts[1:]


def test_up_leaves_its_rows_sorted_for_a_down_gemm_with_tma() -> None:
    up, down = Entrant(up=A, down=replace(B, tma=True)).parts()
    assert up.sorted_output
    assert not down.sorted_output


def test_spread_ignores_outliers() -> None:
    assert spread_of([10.0] * 9 + [50.0]) == 0.0
    assert spread_of([9.0, 10.0, 11.0]) == pytest.approx(0.2)
