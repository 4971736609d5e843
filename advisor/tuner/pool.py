"""GPUs at work on this machine: one bench process each, and compile processes ahead of them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Protocol

from advisor.errors import AdvisorError
from advisor.tuner.compilers import Compilers
from advisor.tuner.work import Failed, Failure, Outcome, Race, Work
from advisor.tuner.worker import Broken, Opened, Setup, Worker, serve_bench

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
    """A GPU: its bench, and the work whose kernels are there."""

    gpu: int
    worker: Worker[Work, Outcome]
    queue: deque[Work]
    deaths: int = 0


@dataclass(slots=True)
class _Blocked:
    """Work that waits for kernels."""

    lane: int
    missing: set[object]


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
        self._device = ""
        self._tries: dict[Work, int] = {}
        self._blocked: dict[Work, _Blocked] = {}
        self._wanted_by: dict[object, list[Work]] = {}
        self._failed: list[Done] = []
        self._lanes = [_Lane(gpu=gpu, worker=self._new_bench(gpu), queue=deque()) for gpu in gpus]
        self._compilers = Compilers(
            setup, compilers, open_limit_s=self._limits.open_s, limit_s=self._limits.compile_s
        )

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
        recipes = self._setup.recipes(work)
        for recipe in recipes:
            self._compilers.want(recipe)
        self._compilers.feed()
        missing = self._compilers.missing(recipes)
        failed = None if isinstance(work, Race) else self._compilers.failure(recipes)
        if failed is not None:
            self._failed.append(Done(lane=lane, work=work, outcome=failed))
        elif missing:
            self._blocked[work] = _Blocked(lane=lane, missing=missing)
            for recipe in missing:
                self._wanted_by.setdefault(recipe, []).append(work)
        else:
            self._lanes[lane].queue.append(work)

    def collect(self, timeout_s: float) -> list[Done]:
        """Wait for answers, at most so long, and return those that are there."""
        self._feed_lanes()
        benches = [lane.worker.connection for lane in self._lanes]
        patience_s = 0.0 if self._failed else min(timeout_s, _LONGEST_WAIT_S)
        ready = set(wait([*benches, *self._compilers.connections], patience_s))
        for recipe in self._compilers.hear(ready):
            self._release(recipe)
        done: list[Done] = []
        for number, lane in enumerate(self._lanes):
            if lane.worker.connection in ready or lane.worker.overdue():
                done += self._hear_lane(number, lane)
        self._compilers.feed()
        self._feed_lanes()
        done += self._failed
        self._failed = []
        return done

    def cancel(self) -> list[Work]:
        """Drop all work that no GPU has begun, and return it."""
        self._compilers.cancel()
        dropped = [work for lane in self._lanes for work in lane.queue] + list(self._blocked)
        self._blocked.clear()
        self._wanted_by.clear()
        for lane in self._lanes:
            lane.queue.clear()
        return dropped

    def close(self) -> None:
        """End all workers."""
        for lane in self._lanes:
            lane.worker.end()
        self._compilers.close()
        for lane in self._lanes:
            lane.worker.kill()

    def _new_bench(self, gpu: int) -> Worker[Work, Outcome]:
        worker: Worker[Work, Outcome] = Worker(
            f"bench-{gpu}", serve_bench, (self._setup, gpu), self._limits.open_s
        )
        return worker

    def _release(self, recipe: object) -> None:
        """Let go the work that waited for a kernel; a race goes on without those that failed."""
        failed = self._compilers.failure((recipe,))
        for work in self._wanted_by.pop(recipe, ()):
            blocked = self._blocked.get(work)
            if blocked is None:
                continue
            blocked.missing.discard(recipe)
            if failed is not None and not isinstance(work, Race):
                del self._blocked[work]
                self._failed.append(Done(lane=blocked.lane, work=work, outcome=failed))
            elif not blocked.missing:
                del self._blocked[work]
                self._lanes[blocked.lane].queue.append(work)

    def _feed_lanes(self) -> None:
        for lane in self._lanes:
            if lane.worker.ready and lane.worker.job is None and lane.queue:
                work = lane.queue.popleft()
                lane.worker.send(work, self._limits.of(work))

    def _hear_lane(self, number: int, lane: _Lane) -> list[Done]:
        work = lane.worker.job
        try:
            message = lane.worker.receive()
        except (EOFError, TimeoutError) as error:
            self._replace(lane, str(error))
            if work is None:
                return []
            failed = self._after_death(lane, work, error)
            return [] if failed is None else [Done(lane=number, work=work, outcome=failed)]
        if isinstance(message, Broken):
            raise AdvisorError(f"GPU {lane.gpu} cannot be used for tuning: {message.text}")
        if isinstance(message, Opened):
            self._opened(lane, message)
            return []
        lane.worker.job = None
        lane.deaths = 0
        return [] if work is None else [Done(lane=number, work=work, outcome=message)]

    def _replace(self, lane: _Lane, last_words: str) -> None:
        lane.deaths += 1
        if lane.deaths > _MOST_DEATHS:
            raise AdvisorError(
                f"the worker of GPU {lane.gpu} died {lane.deaths} times in a row ({last_words}): "
                "look at the GPU (nvidia-smi, dmesg); what was measured is in the journal"
            )
        lane.worker.kill()
        lane.worker = self._new_bench(lane.gpu)

    def _after_death(self, lane: _Lane, work: Work, error: Exception) -> Failed | None:
        """Queue the work of a dead worker once more; return why it is given up, if it is."""
        if isinstance(error, TimeoutError):
            text = f"took over {self._limits.of(work):.0f} s"
            return Failed(failure=Failure.HUNG, text=text)
        self._tries[work] = self._tries.get(work, 0) + 1
        if self._tries[work] >= _TRIES:
            return Failed(failure=Failure.CRASHED, text=str(error))
        lane.queue.appendleft(work)
        return None

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
