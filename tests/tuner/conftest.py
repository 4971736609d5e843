"""Fakes for the tuner's tests: a pool in this process, and small problems."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest

from advisor.configs.loaders import loader_of_version
from advisor.configs.problem import MoeProblem, target_of_gpu
from advisor.tuner.effort import Effort
from advisor.tuner.planning import make_plan
from advisor.tuner.pool import Done
from advisor.tuner.prior import Prior
from advisor.tuner.rehearsal import Rehearsal
from advisor.tuner.run import Plan
from advisor.tuner.work import Outcome, Work

FIXTURES = Path(__file__).parent.parent / "fixtures" / "tuner"
SMALL_EFFORT = Effort(seeds=6, evaluations=12, round_size=3, worthwhile_ratio=0.0, finalists=2)


class InlinePool:
    """Lanes in this process; answers come last in, first out, to shuffle their order."""

    def __init__(
        self,
        measure: Callable[[Work], Outcome],
        lanes: int = 1,
        *,
        backwards: bool = False,
        interrupt_after: int | None = None,
    ) -> None:
        self._measure = measure
        self._queues: list[deque[Work]] = [deque() for _ in range(lanes)]
        self._backwards = backwards
        self._interrupt_after = interrupt_after
        self.measured: list[str] = []
        self.by_lane = [0] * lanes

    @property
    def lanes(self) -> tuple[int, ...]:
        return tuple(range(len(self._queues)))

    def name(self, lane: int) -> str:
        return f"lane{lane}"

    def submit(self, lane: int, work: Work) -> None:
        self._queues[lane].append(work)

    def collect(self, timeout_s: float) -> list[Done]:
        done = []
        for lane, queue in enumerate(self._queues):
            if queue:
                if self._interrupt_after == len(self.measured):
                    raise KeyboardInterrupt
                work = queue.pop() if self._backwards else queue.popleft()
                self.measured.append(work.key)
                self.by_lane[lane] += 1
                done.append(Done(lane=lane, work=work, outcome=self._measure(work)))
        return done

    def cancel(self) -> list[Work]:
        dropped = [work for queue in self._queues for work in queue]
        for queue in self._queues:
            queue.clear()
        return dropped

    def close(self) -> None:
        for queue in self._queues:
            queue.clear()


@pytest.fixture
def problem() -> MoeProblem:
    return MoeProblem(experts=16, width=256, hidden=1024, top_k=4)


@pytest.fixture
def small_plan(problem: MoeProblem) -> Callable[..., Plan]:
    def make(batch_sizes: tuple[int, ...], *, version: str = "0.5.23") -> Plan:
        return make_plan(
            problem,
            target_of_gpu("H200"),
            batch_sizes,
            loader=loader_of_version(version),
            prior=Prior(winners={}),
            effort=SMALL_EFFORT,
        )

    return make


@pytest.fixture
def rehearse(problem: MoeProblem) -> Callable[[Work], Outcome]:
    return Rehearsal(problem=problem).open(0).measure


@pytest.fixture
def inline_pool() -> type[InlinePool]:
    return InlinePool


@pytest.fixture
def recorded() -> Callable[[str], Path]:
    return lambda name: FIXTURES / name
