"""Carry out what `advisor tune` was asked for: one shape, or one after the other those of a log."""

from __future__ import annotations

import importlib.util
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from advisor.cli.tune_files import make_folder, write_results
from advisor.cli.tune_progress import progress
from advisor.errors import (
    EXIT_CLEAN,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    AdvisorError,
    ConfigError,
    MissingExtraError,
)
from advisor.tuner.bench import GpuSetup
from advisor.tuner.output import Tuned, config_paths
from advisor.tuner.pool import LocalPool, Pool
from advisor.tuner.precompile import likely_trials, precompile, relocate
from advisor.tuner.problem import label
from advisor.tuner.rehearsal import Rehearsal
from advisor.tuner.report import conclusions, effort_line
from advisor.tuner.request import Prepared, TuneRequest, busy_gpus, prepare, with_budget
from advisor.tuner.session import Session, plan_text
from advisor.tuner.worker import Setup, import_ahead

_LIKELY_TILES = 64
_SHORTEST_BUDGET_S = 1.0
_MAKE_ROOM = "stop that first, choose another GPU with --gpu N, or insist with --force"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """A shape that can be tuned."""

    request: TuneRequest
    prepared: Prepared

    @property
    def session(self) -> Session:
        return self.prepared.session


def _tasks(requests: Sequence[TuneRequest], *, err: bool) -> tuple[_Task, ...]:
    """Prepare all; of several, one that cannot be tuned is told and passed over.

    Raises:
        AdvisorError: If none can be.
    """
    tasks: list[_Task] = []
    for request in requests:
        try:
            tasks.append(_Task(request=request, prepared=prepare(request)))
        except AdvisorError as error:
            if len(requests) == 1:
                raise
            click.echo(_cannot(request, error), err=err)
    if not tasks:
        raise ConfigError(f"none of the {len(requests)} missing shapes can be tuned, as said above")
    share_s = (requests[0].budget_s or 0.0) / len(tasks)
    return tuple(_with_share(task, share_s) for task in tasks)


def _cannot(request: TuneRequest, error: AdvisorError) -> str:
    name = request.missing.name.file_name if request.missing else "this shape"
    return f"advisor: cannot tune {name}: {error}"


def plan_all(requests: Sequence[TuneRequest]) -> int:
    """Print what would be done."""
    tasks = _tasks(requests, err=False)
    if len(requests) > 1:
        total_s = sum(_bounded_s(task.session) for task in tasks)
        click.echo(
            f"{len(requests)} shapes lack files, {len(tasks)} can be tuned: "
            f"about {max(1, round(total_s / 60))} min in all"
        )
    for task in tasks:
        if len(requests) > 1:
            click.echo()
        click.echo(plan_text(task.session, task.request.out))
        for note in task.prepared.notes:
            click.echo(note)
    busy = busy_gpus(tasks[0].session)
    if busy:
        click.echo("\n".join((*busy[:-1], f"{busy[-1]}: {_MAKE_ROOM}")))
    return 0


def _bounded_s(session: Session) -> float:
    """Return how long a session takes at most, as far as can be told."""
    return min(session.expected_s(), session.budget_s or session.expected_s())


def precompile_all(requests: Sequence[TuneRequest]) -> int:
    """Compile the likely kernels of all shapes into the cache.

    Raises:
        AdvisorError: If none can be tuned, or a kernel is lacking for another reason than its size.
    """
    import_ahead("triton", "advisor.tuner.bench")
    for task in _tasks(requests, err=True):
        session = task.session
        make_folder(session.cache)
        setup = GpuSetup(kernels=session.kernels, routing=session.routing)
        trials = likely_trials(session.plan(), _LIKELY_TILES)
        with progress() as show:
            compiled = precompile(
                setup, trials, session.compilers, lambda done, all_: show(done, all_, "kernels")
            )
        unfit = f"; {compiled.unfit} do not fit {session.device}" if compiled.unfit else ""
        click.echo(f"{compiled.made} kernels in {session.cache}{unfit}")
        if compiled.broken:
            raise AdvisorError(
                f"{compiled.broken} kernels could not be compiled into {session.cache}: "
                f"{compiled.reason}"
            )
    click.echo("carry that folder to the GPU machine and tune there with --cache FOLDER")
    return EXIT_CLEAN


def tune_all(requests: Sequence[TuneRequest], *, ray: str | None, force: bool) -> int:
    """Tune one shape after the other; the time that one leaves over goes to the next.

    Raises:
        AdvisorError: If none can be tuned, a GPU is in use, or the only shape fails.
    """
    if ray is None and not requests[0].rehearse:
        import_ahead("advisor.tuner.ahead", "triton", "advisor.tuner.bench")
    tasks = _tasks(requests, err=True)
    _check_free(tasks[0].session, force=force)
    end_s = time.monotonic() + (tasks[0].request.budget_s or 0.0)
    failed = False
    for place, task in enumerate(tasks):
        left = len(tasks) - place
        if len(requests) > 1:
            click.echo(f"shape {place + 1} of {len(tasks)}: {label(task.session.problem)}")
        try:
            tuned = _tune(_with_share(task, (end_s - time.monotonic()) / left), ray)
        except AdvisorError as error:
            if len(requests) == 1:
                raise
            click.echo(_cannot(task.request, error), err=True)
            failed = True
            continue
        if tuned.result.stopped == "interrupt":
            _say_not_begun(tasks[place + 1 :])
            return EXIT_INTERRUPTED
    return EXIT_USAGE if failed else EXIT_CLEAN


def _check_free(session: Session, *, force: bool) -> None:
    """Refuse GPUs that somebody uses.

    Raises:
        ConfigError: If one is in use, without force.
    """
    busy = busy_gpus(session)
    if busy and not force:
        more = f" and {len(busy) - 1} more" if len(busy) > 1 else ""
        raise ConfigError(f"{busy[0]}{more}: measuring there would disturb both; {_MAKE_ROOM}")
    for line in busy:
        click.echo(f"advisor: {line}; figures will be noisy", err=True)


def _with_share(task: _Task, share_s: float) -> _Task:
    if task.request.budget_s is None:
        return task
    session = with_budget(task.session, task.request, max(_SHORTEST_BUDGET_S, share_s))
    return replace(task, prepared=replace(task.prepared, session=session))


def _say_not_begun(tasks: Sequence[_Task]) -> None:
    if tasks:
        names = "; ".join(label(task.session.problem) for task in tasks)
        click.echo(f"advisor: not begun: {names}", err=True)


def _tune(task: _Task, ray: str | None) -> Tuned:
    for note in task.prepared.notes:
        click.echo(f"advisor: {note}", err=True)
    make_folder(task.request.out)
    pool = _pool(task.session, rehearse=task.request.rehearse, ray=ray)
    try:
        with progress() as show:
            tuned = task.session.execute(
                pool,
                lambda now: show(now.done, now.total, f"batch sizes, {now.measured} measurements"),
            )
    finally:
        pool.close()
    write_results(task.request.out, tuned)
    _say(task.request.out, tuned)
    return tuned


def _pool(session: Session, *, rehearse: bool, ray: str | None) -> Pool:
    setup: Setup = GpuSetup(kernels=session.kernels, routing=session.routing)
    if rehearse:
        setup = Rehearsal(problem=session.problem)
    elif ray is None and importlib.util.find_spec("torch") is None:
        raise MissingExtraError("advisor tune", "tune")
    else:
        make_folder(session.cache)
        relocate(session.cache)
    if ray is not None:
        from advisor.tuner.ray_pool import RayPool

        cluster = RayPool(setup, ray, gpus_needed=not rehearse)
        if cluster.device != session.device:
            raise ConfigError(
                f"the cluster's GPUs are {cluster.device!r}, not {session.device!r}: name them with "
                "--gpu NAME"
            )
        return cluster
    return LocalPool(setup, session.gpus, session.compilers)


def _say(out: Path, tuned: Tuned) -> None:
    click.echo(effort_line(tuned.result))
    for line in conclusions(tuned.result, tuned.conditions):
        click.echo(f"- {line}")
    paths = [str(out / path) for path in config_paths(tuned).values()]
    for path in paths:
        click.echo(path)
    click.echo(f"{out / 'tune-report.md'} (.html, .svg, .json)")
    if tuned.result.stopped:
        click.echo("the same command, with more time, continues from the journal")
    if tuned.conditions.made_up:
        return
    quoted = shlex.join(paths)
    click.echo(
        f"install and prove: advisor configs install {quoted} --into moe-configs "
        f"--triton {tuned.triton} --hidden-size {tuned.problem.hidden} "
        f"--top-k {tuned.problem.top_k} --sglang DIR"
    )
