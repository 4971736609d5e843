from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from advisor.tuner.decide import Origin, Proof
from advisor.tuner.journal import Journal
from advisor.tuner.run import Plan, Progress, Result, Run
from advisor.tuner.work import Failed, Failure, Outcome, Race, Work

BATCHES = (1, 16, 64, 256, 1024, 4096)
Measure = Callable[[Work], Outcome]


@pytest.fixture
def tune(
    tmp_path: Path, small_plan: Callable[..., Plan], rehearse: Measure, inline_pool: type
) -> Callable[..., tuple[Result, object]]:
    def go(name: str = "journal", **pool_options: object) -> tuple[Result, object]:
        pool = inline_pool(pool_options.pop("measure", rehearse), **pool_options)
        with Journal(tmp_path / name) as journal:
            return Run(small_plan(BATCHES), pool, journal).tune(), pool

    return go


def test_every_batch_size_gets_an_entry_that_is_not_worse(
    tune: Callable[..., tuple[Result, object]],
) -> None:
    result, _ = tune()
    assert [choice.tokens for choice in result.choices] == list(BATCHES)
    for choice in result.choices:
        assert choice.proof is Proof.RACED
        assert choice.pair.up.block_m == choice.pair.down.block_m
        assert choice.chosen_us is not None
        assert choice.default_us is not None
        assert choice.chosen_us <= choice.default_us


def test_the_order_of_answers_and_the_number_of_gpus_do_not_change_the_choice(
    tune: Callable[..., tuple[Result, object]],
) -> None:
    one, _ = tune("a")
    two, pool = tune("b", lanes=2, backwards=True)
    assert [choice.pair for choice in one.choices] == [choice.pair for choice in two.choices]
    shares = pool.by_lane  # type: ignore[attr-defined]
    assert min(shares) > 0.35 * sum(shares)


def test_a_resumed_run_measures_only_the_rest_and_chooses_the_same(
    tune: Callable[..., tuple[Result, object]],
) -> None:
    whole, complete = tune("whole")
    broken, first = tune("broken", interrupt_after=37)
    assert broken.stopped == "interrupt"
    resumed, second = tune("broken")
    assert resumed.replayed >= 36
    assert resumed.choices == whole.choices
    assert not set(first.measured) & set(second.measured)  # type: ignore[attr-defined]
    assert set(first.measured) | set(second.measured) == set(complete.measured)  # type: ignore[attr-defined]


@pytest.mark.parametrize("after", [0, 1, 20, 90])
def test_an_interrupted_run_still_has_an_entry_for_every_batch_size(
    tune: Callable[..., tuple[Result, object]], after: int
) -> None:
    result, _ = tune(interrupt_after=after)
    assert [choice.tokens for choice in result.choices] == list(BATCHES)
    unmeasured = [choice for choice in result.choices if choice.proof is Proof.UNMEASURED]
    assert all(choice.origin is Origin.DEFAULT for choice in unmeasured)


def test_a_spent_budget_ends_with_entries_for_all(
    tmp_path: Path, small_plan: Callable[..., Plan], rehearse: Measure, inline_pool: type
) -> None:
    with Journal(tmp_path / "journal") as journal:
        run = Run(small_plan(BATCHES), inline_pool(rehearse), journal, budget_s=0.0)
        result = run.tune()
    assert result.stopped == "budget"
    assert len(result.choices) == len(BATCHES)


def test_a_gpu_on_which_nothing_runs_leaves_everything_as_it_is(
    tune: Callable[..., tuple[Result, object]],
) -> None:
    def broken(_: Work) -> Outcome:
        return Failed(failure=Failure.LAUNCH, text="no kernel image")

    result, _ = tune(measure=broken)
    assert {choice.origin for choice in result.choices} == {Origin.DEFAULT}
    assert {choice.proof for choice in result.choices} == {Proof.UNMEASURED}


def test_a_lost_race_falls_back_to_what_is_there(
    tune: Callable[..., tuple[Result, object]], rehearse: Measure
) -> None:
    def no_races(work: Work) -> Outcome:
        if isinstance(work, Race):
            return Failed(failure=Failure.CRASHED, text="worker died by SIGKILL")
        return rehearse(work)

    result, _ = tune(measure=no_races)
    assert {choice.origin for choice in result.choices} == {Origin.DEFAULT}
    assert all("SIGKILL" in choice.note for choice in result.choices)


def test_old_releases_get_one_tile_for_both_gemms(
    tmp_path: Path, small_plan: Callable[..., Plan], rehearse: Measure, inline_pool: type
) -> None:
    with Journal(tmp_path / "journal") as journal:
        result = Run(small_plan((1, 64), version="0.5.3"), inline_pool(rehearse), journal).tune()
    assert all(choice.pair.up == choice.pair.down for choice in result.choices)


def test_progress_counts_up_to_all_batch_sizes(
    tmp_path: Path, small_plan: Callable[..., Plan], rehearse: Measure, inline_pool: type
) -> None:
    seen: list[Progress] = []
    with Journal(tmp_path / "journal") as journal:
        Run(small_plan((1, 64)), inline_pool(rehearse), journal, on_progress=seen.append).tune()
    assert (seen[-1].done, seen[-1].total) == (2, 2)
    assert [one.measured for one in seen] == sorted(one.measured for one in seen)
