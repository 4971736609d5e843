"""Compile processes ahead of the GPUs: each kernel is made once, whoever wants it."""

from __future__ import annotations

from collections import deque
from collections.abc import Set as AbstractSet
from multiprocessing.connection import Connection

from advisor.tuner.work import Failed, Failure
from advisor.tuner.worker import Broken, Opened, Setup, Worker, serve_compiler

_TRIES = 2


class Compilers:
    """A number of compile processes with a common queue.

    A process that dies is replaced and its kernel tried once more; one that takes too long is
    killed and its kernel failed.
    """

    def __init__(self, setup: Setup, count: int, *, open_limit_s: float, limit_s: float) -> None:
        """Start the processes; with none of them every kernel counts as there."""
        self._setup = setup
        self._open_limit_s = open_limit_s
        self._limit_s = limit_s
        self._queue: deque[object] = deque()
        self._tries: dict[object, int] = {}
        self._results: dict[object, Failed | None] = {}
        self._workers = [self._start(number) for number in range(count)]

    @property
    def connections(self) -> list[Connection]:
        """Return what to wait for."""
        return [worker.connection for worker in self._workers]

    @property
    def done(self) -> int:
        """Return how many kernels are made, or cannot be."""
        return len(self._results)

    def want(self, recipe: object) -> None:
        """Queue a kernel that is neither made nor on its way."""
        if recipe not in self._results and recipe not in self._tries:
            self._tries[recipe] = 0
            self._queue.append(recipe)

    def missing(self, recipes: tuple[object, ...]) -> set[object]:
        """Return the kernels that are still to be made."""
        if not self._workers:
            return set()
        return {recipe for recipe in recipes if recipe not in self._results}

    def failure(self, recipes: tuple[object, ...]) -> Failed | None:
        """Return why the first of some kernels that failed did so."""
        return next((failed for recipe in recipes if (failed := self._results.get(recipe))), None)

    def feed(self) -> None:
        """Give every idle process a kernel to make."""
        for worker in self._workers:
            if worker.ready and worker.job is None and self._queue:
                worker.send(self._queue.popleft(), self._limit_s)

    def hear(self, ready: AbstractSet[object]) -> list[object]:
        """Take the answers of the connections that have one; return the finished kernels."""
        finished = []
        for place, worker in enumerate(self._workers):
            if worker.connection in ready or worker.overdue():
                recipe = self._hear(place, worker)
                if recipe is not None and recipe in self._results:
                    finished.append(recipe)
        return finished

    def cancel(self) -> None:
        """Forget what no process has begun."""
        for recipe in self._queue:
            del self._tries[recipe]
        self._queue.clear()

    def close(self) -> None:
        """End all processes."""
        for worker in self._workers:
            worker.end()
        for worker in self._workers:
            worker.kill()

    def _start(self, number: int) -> Worker[object, Failed | None]:
        worker: Worker[object, Failed | None] = Worker(
            f"compiler-{number}", serve_compiler, (self._setup,), self._open_limit_s
        )
        return worker

    def _hear(self, place: int, worker: Worker[object, Failed | None]) -> object | None:
        recipe = worker.job
        try:
            message = worker.receive()
        except (EOFError, TimeoutError) as error:
            worker.kill()
            self._workers[place] = self._start(place)
            if recipe is not None:
                self._after_death(recipe, hung=isinstance(error, TimeoutError), text=str(error))
            return recipe
        if isinstance(message, Opened | Broken):
            worker.ready = True
            return None
        worker.job = None
        if recipe is not None:
            self._results[recipe] = message
        return recipe

    def _after_death(self, recipe: object, *, hung: bool, text: str) -> None:
        self._tries[recipe] = self._tries.get(recipe, 0) + 1
        if hung or self._tries[recipe] >= _TRIES:
            what = f"compiling took over {self._limit_s:.0f} s" if hung else text
            self._results[recipe] = Failed(failure=Failure.COMPILE, text=what)
        else:
            self._queue.append(recipe)
