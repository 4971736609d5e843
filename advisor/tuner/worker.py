"""One child process that may die: it opens a tool, takes jobs, and answers through a pipe."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from typing import Generic, Protocol, TypeVar

from advisor.tuner.work import Failed, Outcome, Work

J = TypeVar("J")
A = TypeVar("A")

_CLOSING_S = 2.0
_START_PAUSES_S = (0.1, 1.0)


class Bench(Protocol):
    """Measures on one GPU, inside a worker."""

    @property
    def device(self) -> str:
        """Return the GPU's name; workers of one run must agree in it."""

    @property
    def poisoned(self) -> bool:
        """Say whether the GPU context is lost and the worker must be replaced."""

    def measure(self, work: Work) -> Outcome:
        """Time a piece of work; whatever goes wrong is an answer, not an exception."""


class Setup(Protocol):
    """What a pool needs to know about measuring; it is pickled into every worker."""

    def recipes(self, work: Work) -> tuple[object, ...]:
        """Return what must be compiled before a piece of work; equal recipes are made once."""

    def compile(self, recipe: object) -> Failed | None:
        """Compile one recipe into the shared cache, without a GPU; say why if it fails."""

    def open(self, gpu: int) -> Bench:
        """Take a GPU and return its bench."""


@dataclass(frozen=True, slots=True)
class Opened:
    """First message of a worker: it is ready."""

    device: str


@dataclass(frozen=True, slots=True)
class Broken:
    """First message of a worker that could not open its tool."""

    text: str


class Worker(Generic[J, A]):
    """A process of its own with one job at a time and a time limit for it."""

    def __init__(
        self,
        name: str,
        target: Callable[..., None],
        arguments: tuple[object, ...],
        open_limit_s: float,
    ) -> None:
        """Start the process; it answers first with `Opened` or `Broken`, or is overdue."""
        context = multiprocessing.get_context("forkserver")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=target, args=(theirs, *arguments), name=name, daemon=True
        )
        self._start(context)
        theirs.close()
        self.name = name
        self.job: J | None = None
        self.ready = False
        self._deadline_s = time.monotonic() + open_limit_s

    def _start(self, context: ForkServerContext) -> None:
        """Start the process, even if the one that it is forked from dies (of an import ahead)."""
        for pause_s in _START_PAUSES_S:
            try:
                with _interrupts_held():
                    return self.process.start()
            except (EOFError, OSError):
                context.set_forkserver_preload([])
                time.sleep(pause_s)
        with _interrupts_held():
            return self.process.start()

    def send(self, job: J, limit_s: float) -> None:
        """Give the worker a job; a dead worker shows at the next `receive`."""
        self.job = job
        self._deadline_s = time.monotonic() + limit_s
        try:
            self.connection.send(job)
        except (BrokenPipeError, OSError):
            self._deadline_s = float("inf")

    def receive(self) -> A | Opened | Broken:
        """Return the next message.

        Raises:
            EOFError: If the worker is dead.
            TimeoutError: If its job has taken longer than the limit.
        """
        if self.overdue() and not self.connection.poll():
            raise TimeoutError
        try:
            message: A | Opened | Broken = self.connection.recv()
        except (EOFError, OSError) as error:
            raise EOFError(self.last_words()) from error
        self._deadline_s = float("inf")
        return message

    def last_words(self) -> str:
        """Return how the process ended."""
        self.process.join(_CLOSING_S)
        code = self.process.exitcode
        if code is not None and code < 0:
            return f"worker died by {signal.Signals(-code).name}"
        return f"worker ended with exit code {code}"

    def overdue(self) -> bool:
        """Say whether the job in hand has taken longer than its limit."""
        return time.monotonic() > self._deadline_s

    def end(self) -> None:
        """Order the process to end, without waiting for it: one that holds a GPU takes a while."""
        self.process.kill()

    def kill(self) -> None:
        """End the process at once."""
        self.end()
        self.process.join(_CLOSING_S)
        self.connection.close()


def import_ahead(*modules: str) -> None:
    """Import modules where workers are forked from, in the background; none of them touches a GPU.

    Importing torch takes seconds, in which the plan can be made. Without effect once a worker ran.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(modules))
    with _interrupts_held():
        forkserver.ensure_running()


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back while a process starts, which would print a traceback of its own."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def serve_bench(connection: Connection, setup: Setup, gpu: int) -> None:
    """Measure until the pipe closes, whether by an end or by a kill: the body of a bench worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        bench = setup.open(gpu)
    except Exception as error:  # noqa: BLE001  (whatever the GPU stack raises becomes the answer)
        connection.send(Broken(f"{type(error).__name__}: {error}".splitlines()[0]))
        return
    with contextlib.suppress(EOFError, OSError):
        connection.send(Opened(bench.device))
        while not bench.poisoned:
            connection.send(bench.measure(connection.recv()))


def serve_compiler(connection: Connection, setup: Setup) -> None:
    """Compile until the pipe closes: the body of a compile worker.

    It sees no GPU, so that it takes no GPU memory, and yields to the bench for the CPU.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.nice(5)
    with contextlib.suppress(EOFError, OSError):
        connection.send(Opened("compiler"))
        while True:
            connection.send(setup.compile(connection.recv()))
