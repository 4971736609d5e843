"""GPUs at work on this machine: one bench process each, and compile processes ahead of them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Protocol

from advisor.errors import AdvisorError
from advisor.tuner.work import Failed, Failure, Outcome, Race, Work
from advisor.tuner.worker import (
    Broken,
    Opened,
    Setup,
    Worker,
    serve_bench,
    serve_compiler,
)

_TRIES = 2
_MOST_DEATHS = 9
_LONGEST_WAIT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long things may take before their worker is killed, in seconds."""

    open_s: float = 300.0
    compile_s: float = 120.0
    trial_s: float = 30.0
    race_s: float = 120.0

    def of(self, work: Work) -> float:
        """Return the limit of a piece of work."""
        return self.race_s if isinstance(work, Race) else self.trial_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A finished piece of work."""

    lane: int
    work: Work
    outcome: Outcome


class Pool(Protocol):
    """Measures work on lanes, one GPU each."""

    @property
    def lanes(self) -> tuple[int, ...]:
        """Return the lanes that can take work now."""

    def name(self, lane: int) -> str:
        """Return where a lane is, for journals and reports."""

    @property
    def device(self) -> str:
        """Return the GPUs' common name; empty until the first one is open."""

    def submit(self, lane: int, work: Work) -> None:
        """Queue a piece of work on a lane."""

    def collect(self, timeout_s: float) -> list[Done]:
        """Wait for answers, at most so long, and return those that are there."""

    def cancel(self) -> list[Work]:
        """Drop all work that no GPU has begun, and return it."""

    def close(self) -> None:
        """End all workers."""


@dataclass(slots=True)
class _Lane:
    gpu: int
    worker: Worker[Work, Outcome]
    queue: deque[Work]
    lost: int = 0


class LocalPool:
    """The GPUs of this machine.

    A worker that dies is replaced and its work tried once more; one that hangs is killed and its
    work failed. Compilers are shared by all lanes.
    """

    def __init__(
        self, setup: Setup, gpus: Sequence[int], compilers: int, limits: Limits | None = None
    ) -> None:
        """Start one bench per GPU and `compilers` compile processes (none: no compiling ahead)."""
        self._setup = setup
        self._limits = limits or Limits()
        self._tries: dict[Work, int] = {}
        self._device = ""
        self._recipes: dict[object, Failed | None] = {}
        self._to_compile: deque[object] = deque()
        self._compile_tries: dict[object, int] = {}
        self._compilers = [self._new_compiler(number) for number in range(compilers)]
        self._lanes = [_Lane(gpu=gpu, worker=self._new_bench(gpu), queue=deque()) for gpu in gpus]

    @property
    def lanes(self) -> tuple[int, ...]:
        """Return the lanes that can take work now."""
        return tuple(range(len(self._lanes)))

    def name(self, lane: int) -> str:
        """Return where a lane is, for journals and reports."""
        return f"gpu{self._lanes[lane].gpu}"

    @property
    def device(self) -> str:
        """Return the GPUs' common name; empty until the first one is open."""
        return self._device

    def submit(self, lane: int, work: Work) -> None:
        """Queue a piece of work on a lane, and its kernels on the compilers."""
        self.prepare(work)
        self._lanes[lane].queue.append(work)

    def prepare(self, work: Work) -> None:
        """Queue the kernels of a piece of work on the compilers."""
        for recipe in self._setup.recipes(work):
            if recipe not in self._recipes and recipe not in self._compile_tries:
                self._compile_tries[recipe] = 0
                self._to_compile.append(recipe)
        self._feed_compilers()

    @property
    def compiled(self) -> tuple[int, int]:
        """Return how many kernels are done, of how many asked for."""
        return len(self._recipes), len(self._recipes.keys() | self._compile_tries.keys())

    @property
    def compiling(self) -> bool:
        """Say whether kernels are still to be made."""
        done, total = self.compiled
        return done < total

    @property
    def uncompilable(self) -> int:
        """Return how many kernels could not be made or do not fit the GPU."""
        return sum(failed is not None for failed in self._recipes.values())

    def collect(self, timeout_s: float) -> list[Done]:
        """Wait for answers, at most so long, and return those that are there."""
        done = self._feed_lanes()
        workers = [lane.worker for lane in self._lanes] + self._compilers
        patience_s = 0.0 if done else min(timeout_s, _LONGEST_WAIT_S)
        ready = set(wait([worker.connection for worker in workers], patience_s))
        for place, compiler in enumerate(self._compilers):
            if compiler.connection in ready or compiler.overdue():
                self._hear_compiler(place)
        for number, lane in enumerate(self._lanes):
            if lane.worker.connection in ready or lane.worker.overdue():
                done += self._hear_lane(number)
        self._feed_compilers()
        return done + self._feed_lanes()

    def cancel(self) -> list[Work]:
        """Drop all work that no GPU has begun, and return it."""
        self._to_compile.clear()
        self._compile_tries.clear()
        dropped = [work for lane in self._lanes for work in lane.queue]
        for lane in self._lanes:
            lane.queue.clear()
        return dropped

    def close(self) -> None:
        """End all workers."""
        for worker in [lane.worker for lane in self._lanes] + self._compilers:
            worker.kill()

    def _new_bench(self, gpu: int) -> Worker[Work, Outcome]:
        worker: Worker[Work, Outcome] = Worker(
            f"bench-{gpu}", serve_bench, (self._setup, gpu), self._limits.open_s
        )
        return worker

    def _new_compiler(self, number: int) -> Worker[object, Failed | None]:
        worker: Worker[object, Failed | None] = Worker(
            f"compiler-{number}", serve_compiler, (self._setup,), self._limits.open_s
        )
        return worker

    def _feed_compilers(self) -> None:
        for compiler in self._compilers:
            if compiler.ready and compiler.job is None and self._to_compile:
                compiler.send(self._to_compile.popleft(), self._limits.compile_s)

    def _hear_compiler(self, place: int) -> None:
        compiler = self._compilers[place]
        recipe = compiler.job
        try:
            message = compiler.receive()
        except (EOFError, TimeoutError) as error:
            compiler.kill()
            self._compilers[place] = self._new_compiler(place)
            if recipe is not None:
                self._retry_recipe(recipe, hung=isinstance(error, TimeoutError), text=str(error))
            return
        if isinstance(message, Opened | Broken):
            compiler.ready = True
        elif recipe is not None:
            compiler.job = None
            self._recipes[recipe] = message

    def _retry_recipe(self, recipe: object, *, hung: bool, text: str) -> None:
        self._compile_tries[recipe] = self._compile_tries.get(recipe, 0) + 1
        if hung or self._compile_tries[recipe] >= _TRIES:
            what = f"compiling took over {self._limits.compile_s:.0f} s" if hung else text
            self._recipes[recipe] = Failed(failure=Failure.COMPILE, text=what)
        else:
            self._to_compile.append(recipe)

    def _feed_lanes(self) -> list[Done]:
        """Give each idle bench the first work whose kernels are there; fail what cannot be."""
        done: list[Done] = []
        for number, lane in enumerate(self._lanes):
            for work in list(lane.queue):
                recipes = self._setup.recipes(work)
                failed = self._failed_recipe(work, recipes)
                if failed is not None:
                    lane.queue.remove(work)
                    done.append(Done(lane=number, work=work, outcome=failed))
                elif self._can_start(lane, recipes):
                    lane.queue.remove(work)
                    lane.worker.send(work, self._limits.of(work))
        return done

    def _failed_recipe(self, work: Work, recipes: Sequence[object]) -> Failed | None:
        """Return why a trial cannot run; a race goes on with those that can."""
        if isinstance(work, Race):
            return None
        return next((failed for recipe in recipes if (failed := self._recipes.get(recipe))), None)

    def _can_start(self, lane: _Lane, recipes: Sequence[object]) -> bool:
        if not lane.worker.ready or lane.worker.job is not None:
            return False
        return not self._compilers or all(recipe in self._recipes for recipe in recipes)

    def _hear_lane(self, number: int) -> list[Done]:
        lane = self._lanes[number]
        work = lane.worker.job
        try:
            message = lane.worker.receive()
        except (EOFError, TimeoutError) as error:
            self._replace(lane)
            if work is None:
                return []
            return self._after_death(
                number, work, hung=isinstance(error, TimeoutError), text=str(error)
            )
        if isinstance(message, Broken):
            raise AdvisorError(f"GPU {lane.gpu} cannot be used for tuning: {message.text}")
        if isinstance(message, Opened):
            self._opened(lane, message)
            return []
        lane.worker.job = None
        lane.lost = 0
        return [] if work is None else [Done(lane=number, work=work, outcome=message)]

    def _replace(self, lane: _Lane) -> None:
        lane.lost += 1
        if lane.lost > _MOST_DEATHS:
            raise AdvisorError(
                f"the worker of GPU {lane.gpu} died {lane.lost} times in a row: look at the GPU "
                "(nvidia-smi, dmesg); what was measured is in the journal"
            )
        lane.worker.kill()
        lane.worker = self._new_bench(lane.gpu)

    def _after_death(self, number: int, work: Work, *, hung: bool, text: str) -> list[Done]:
        self._tries[work] = self._tries.get(work, 0) + 1
        if not hung and self._tries[work] < _TRIES:
            self._lanes[number].queue.appendleft(work)
            return []
        failed = (
            Failed(failure=Failure.HUNG, text=f"took over {self._limits.of(work):.0f} s")
            if hung
            else Failed(failure=Failure.CRASHED, text=text)
        )
        return [Done(lane=number, work=work, outcome=failed)]

    def _opened(self, lane: _Lane, message: Opened) -> None:
        if self._device and message.device != self._device:
            raise AdvisorError(
                f"GPU {lane.gpu} is {message.device!r}, another is {self._device!r}: tune each "
                "kind by itself (--gpu N), for their config files differ"
            )
        self._device = message.device
        lane.worker.ready = True


def compilers_for(lanes: int) -> int:
    """Return how many compile processes suit this machine: all cores but one per bench."""
    cores = len(os.sched_getaffinity(0))
    return max(1, cores - lanes)
