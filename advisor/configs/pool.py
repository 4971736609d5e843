"""Compile many kernels over the cores, each result at most once."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib import metadata

from advisor.configs.compiler import Resources, compile_launch
from advisor.configs.launch import Fixed
from advisor.configs.store import Job, Store

OnDone = Callable[[int, int], None]
"""Called with how many distinct kernels are done, of how many."""


OLDEST_TRITON = (3, 3)
"""3.2 describes a kernel's constants in another way (`ASTSource`)."""


def triton_version() -> str | None:
    """Return the installed Triton's version without importing it; None without one of use."""
    for name in ("triton", "triton-windows"):
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        major, minor = version.split(".")[:2]
        return version if (int(major), int(minor)) >= OLDEST_TRITON else None
    return None


def compile_all(
    jobs: Sequence[Job], store: Store, *, workers: int | None = None, on_done: OnDone | None = None
) -> Mapping[Job, Resources]:
    """Return the result of every job; those not in the store are compiled and kept there.

    `workers` defaults to the cores this process may use.
    """
    distinct = tuple(dict.fromkeys(jobs))
    results = {job: found for job in distinct if (found := store.get(job)) is not None}
    missing = sorted((job for job in distinct if job not in results), key=_tile, reverse=True)
    if on_done:
        on_done(len(results), len(distinct))
    count = min(workers or len(os.sched_getaffinity(0)), len(missing))
    for job, result in _compiled(missing, count):
        store.put(job, result)
        results[job] = result
        if on_done:
            on_done(len(results), len(distinct))
    return results


def _tile(job: Job) -> int:
    """Return the elements of a job's tile: large ones take longest and go first."""
    sides = dict(job.launch.arguments)
    blocks = (sides.get(f"BLOCK_SIZE_{axis}") for axis in "MN")
    return math.prod(int(one.value or 1) for one in blocks if isinstance(one, Fixed))


def _compiled(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, Resources]]:
    """Yield results as they come; a job that kills its process is a result like another."""
    if not jobs:
        return
    done: set[Job] = set()
    try:
        with _workers(workers) as pool:
            futures = {pool.submit(_compile, job): job for job in jobs}
            for future in as_completed(futures):
                result = future.result()
                done.add(futures[future])
                yield futures[future], result
    except BrokenProcessPool:
        for job in jobs:
            if job not in done:
                yield job, _compile_alone(job)


def _compile_alone(job: Job) -> Resources:
    """Compile in a process of its own, after a neighbour took the shared ones down."""
    try:
        with _workers(1) as pool:
            future: Future[Resources] = pool.submit(_compile, job)
            return future.result()
    except BrokenProcessPool:
        return Resources(shared_bytes=0, error="the compiler's process died")


@contextmanager
def _workers(count: int) -> Iterator[ProcessPoolExecutor]:
    """Start compiling processes; they inherit nothing but the code, and leave nothing behind."""
    context = multiprocessing.get_context("fork")
    with (
        tempfile.TemporaryDirectory(prefix="advisor-triton-") as cache,
        ProcessPoolExecutor(
            max_workers=count, mp_context=context, initializer=_prepare, initargs=(cache,)
        ) as pool,
    ):
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _prepare(cache: str) -> None:
    """Set a worker up: its own Triton cache, and silence for the compiler's dumps."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["TRITON_CACHE_DIR"] = cache
    os.environ["TRITON_STORE_BINARY_ONLY"] = "1"
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def _compile(job: Job) -> Resources:
    return compile_launch(job.source, job.launch, job.sm)
