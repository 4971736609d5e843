"""`advisor tune`: options in, config files and a report out."""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from advisor.errors import EXIT_INTERRUPTED, ConfigError

if TYPE_CHECKING:
    from advisor.tuner.output import Tuned
    from advisor.tuner.pool import Pool
    from advisor.tuner.request import TuneRequest
    from advisor.tuner.session import Session

_BUDGET = re.compile(r"(\d+(?:\.\d+)?)\s*([smh]?)")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "": 60.0}
_LINE_EVERY_S = 30.0
_LONGEST_NUMBER = 9
_LIKELY_TILES = 64


def _duration(_context: click.Context, _option: click.Parameter, value: str | None) -> float | None:
    """Return the seconds of 10m, 90s or 1h; a bare number is minutes."""
    if value is None:
        return None
    match = _BUDGET.fullmatch(value.strip())
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if seconds < 1:
        raise click.BadParameter(f"{value!r} is no duration; write 10m, 90s or 1h")
    return seconds


def _sizes(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> tuple[int, ...] | None:
    """Return whole numbers that were separated by commas."""
    if value is None:
        return None
    parts = [part.strip() for part in value.split(",")]
    if not all(part.isdecimal() and len(part) <= _LONGEST_NUMBER for part in parts):
        raise click.BadParameter(f"{value!r}: write whole numbers separated by commas")
    return tuple(int(part) for part in parts)


_FOLDER = click.Path(file_okay=False, path_type=Path)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("tune")
@click.option(
    "--from",
    "log",
    type=_FILE,
    metavar="LOG",
    help="Tune the first shape that this server log reports without a file of its own.",
)
@click.option(
    "--model", type=click.Path(path_type=Path), metavar="PATH", help="Model folder or config.json."
)
@click.option(
    "--tp", "--tp-size", "tp", type=click.IntRange(min=1), default=1, help="The server's --tp-size."
)
@click.option(
    "--ep", "--ep-size", "ep", type=click.IntRange(min=1), default=1, help="The server's --ep-size."
)
@click.option(
    "--shape",
    callback=_sizes,
    metavar="E,N,K,TOPK",
    help="In place of a model: experts and width of one rank, hidden size, experts per token.",
)
@click.option(
    "--dtype",
    type=click.Choice(["bf16", "fp16", "fp8_w8a8", "int8_w8a8"]),
    help="Weights, with --shape. Default: bf16.",
)
@click.option(
    "--block-shape",
    callback=_sizes,
    metavar="N,K",
    help="Quantisation block of fp8 or int8 weights, with --shape.",
)
@click.option(
    "--batch-sizes",
    callback=_sizes,
    metavar="M,...",
    help="In tokens. Default: the 18 of SGLang's tuner.",
)
@click.option(
    "--gpu",
    "gpus",
    multiple=True,
    metavar="N|NAME",
    help="GPU number, repeatable (default: all idle ones); a name where the GPU is elsewhere.",
)
@click.option(
    "--effort",
    type=click.Choice(["quick", "normal", "thorough"]),
    default="normal",
    show_default=True,
    help="How many tiles to measure.",
)
@click.option(
    "--budget", callback=_duration, metavar="10m", help="Stop then, with the best so far."
)
@click.option(
    "--sglang", type=_FOLDER, metavar="DIR", help="The server's sglang/ folder, if not beside us."
)
@click.option("--sglang-version", metavar="V", help="Follow the rules of this release.")
@click.option("--today", type=_FILE, metavar="FILE", help="Config file that the server uses now.")
@click.option(
    "--kernel",
    type=click.Choice(["auto", "server", "bundled"]),
    default="auto",
    show_default=True,
    help="Whose kernel to time; auto: the server's if SGLang is found.",
)
@click.option(
    "--routing",
    default="uniform",
    show_default=True,
    metavar="uniform|zipf|FILE",
    help="How tokens choose experts; FILE: a JSON list of one load per expert.",
)
@click.option("-o", "--out", type=_FOLDER, default=Path("advisor-tune"), show_default=True)
@click.option(
    "--journal",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Measurements. Default: a file per problem in the results folder.",
)
@click.option("--cache", type=_FOLDER, help="Compiled kernels; the folder may travel.")
@click.option("--compilers", type=click.IntRange(min=1), help="Compile processes.")
@click.option(
    "--ray",
    is_flag=False,
    flag_value="auto",
    metavar="[ADDRESS]",
    help="Use every GPU of a Ray cluster.",
)
@click.option("--dry-run", is_flag=True, help="Print the plan and stop.")
@click.option("--force", is_flag=True, help="Measure even if the GPU is in use.")
@click.option("--precompile", is_flag=True, help="Only compile likely kernels; needs no GPU.")
@click.option(
    "--simulate", type=_FILE, help="Judge the search on a recorded table or journal; needs no GPU."
)
@click.option(
    "--rehearse", is_flag=True, help="Go through it with a made-up GPU; the files mean nothing."
)
def tune_command(
    *,
    log: Path | None,
    model: Path | None,
    tp: int,
    ep: int,
    shape: tuple[int, ...] | None,
    dtype: str | None,
    block_shape: tuple[int, ...] | None,
    batch_sizes: tuple[int, ...] | None,
    gpus: tuple[str, ...],
    effort: str,
    budget: float | None,
    sglang: Path | None,
    sglang_version: str | None,
    today: Path | None,
    kernel: str,
    routing: str,
    out: Path,
    journal: Path | None,
    cache: Path | None,
    compilers: int | None,
    ray: str | None,
    dry_run: bool,
    force: bool,
    precompile: bool,
    simulate: Path | None,
    rehearse: bool,
) -> int:
    r"""Generate the MoE kernel configs that a server lacks, on the GPU it runs on.

    Searches both expert GEMMs at every batch size and keeps each measurement in a journal: the
    same command continues after any end. An entry that is not faster than what the server uses
    now, beyond noise, is not changed, and the report says so.

    \b
    Examples:
      advisor tune --from server.log --budget 10m
      advisor tune --model Qwen3-30B-A3B --tp 1 --dry-run
      advisor tune --shape 256,256,7168,8 --dtype fp8_w8a8 --block-shape 128,128 --budget 10m
      advisor tune --shape 128,768,2048,8 --precompile --gpu H200 --cache kernels
    """
    if simulate is not None:
        return _simulate(simulate)
    from advisor.tuner.request import TuneRequest, session_of

    request = TuneRequest(
        log=log,
        model=model,
        tensor_parallel=tp,
        expert_parallel=ep,
        shape=shape,
        dtype=dtype,
        block_shape=block_shape,
        batch_sizes=batch_sizes,
        gpus=gpus,
        effort=effort,
        budget_s=budget,
        sglang=sglang,
        sglang_version=sglang_version,
        today=today,
        kernel=kernel,
        routing=routing,
        out=out,
        journal=journal,
        cache=cache,
        compilers=compilers,
        rehearse=rehearse,
        away=precompile
        or ((dry_run or ray is not None) and any(not gpu.isdecimal() for gpu in gpus)),
    )
    session = session_of(request)
    if precompile:
        return _precompile(session)
    if dry_run:
        return _plan(session, out)
    return _tune(session, request, ray=ray, force=force)


def _simulate(path: Path) -> int:
    from advisor.tuner.comparison import compare_strategies

    click.echo(compare_strategies(path), nl=False)
    return 0


def _plan(session: Session, out: Path) -> int:
    from advisor.tuner.request import busy_gpus
    from advisor.tuner.session import plan_text

    click.echo(plan_text(session, out))
    for line in busy_gpus(session):
        click.echo(f"{line}: stop that first, choose another with --gpu, or --force")
    return 0


def _precompile(session: Session) -> int:
    from advisor.tuner.bench import GpuSetup
    from advisor.tuner.precompile import likely_trials, precompile

    setup = GpuSetup(kernels=session.kernels, routing=session.routing)
    trials = likely_trials(session.plan(), _LIKELY_TILES)
    with _display() as show:
        total, failed = precompile(
            setup, trials, session.compilers, lambda done, wanted: show(done, wanted, "kernels")
        )
    click.echo(f"{total - failed} kernels in {session.cache}; {failed} do not fit {session.device}")
    click.echo("carry that folder to the GPU machine and tune there with --cache FOLDER")
    return 0


def _tune(session: Session, request: TuneRequest, *, ray: str | None, force: bool) -> int:
    from advisor.tuner.request import busy_gpus

    busy = busy_gpus(session)
    if busy and not force:
        raise ConfigError(
            f"{busy[0]}: measuring there would disturb both; stop it, choose another GPU with "
            "--gpu N, or insist with --force"
        )
    for line in busy:
        click.echo(f"advisor: {line}; figures will be noisy", err=True)
    pool = _pool(session, request, ray)
    try:
        with _display() as show:
            tuned = session.execute(
                pool,
                lambda progress: show(
                    progress.done, progress.total, f"batch sizes, {progress.measured} measurements"
                ),
            )
    finally:
        pool.close()
    _write(request.out, tuned)
    _say(request.out, tuned)
    return EXIT_INTERRUPTED if tuned.result.stopped == "interrupt" else 0


def _pool(session: Session, request: TuneRequest, ray: str | None) -> Pool:
    from advisor.tuner.bench import GpuSetup
    from advisor.tuner.pool import LocalPool
    from advisor.tuner.precompile import relocate
    from advisor.tuner.rehearsal import Rehearsal
    from advisor.tuner.worker import Setup

    setup: Setup = GpuSetup(kernels=session.kernels, routing=session.routing)
    if request.rehearse:
        setup = Rehearsal(problem=session.problem)
    else:
        relocate(session.cache)
    if ray is not None:
        from advisor.tuner.ray_pool import RayPool

        cluster = RayPool(setup, ray, gpus_needed=not request.rehearse)
        if cluster.device != session.device:
            raise ConfigError(
                f"the cluster's GPUs are {cluster.device!r}, not {session.device!r}: name them with "
                "--gpu NAME"
            )
        return cluster
    return LocalPool(setup, session.gpus, session.compilers)


def _write(out: Path, tuned: Tuned) -> None:
    from advisor.cli.output import write_atomically
    from advisor.tuner.output import documents

    for relative, text in documents(tuned).items():
        path = out / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)


def _say(out: Path, tuned: Tuned) -> None:
    from advisor.tuner.output import config_paths
    from advisor.tuner.report import conclusions

    result = tuned.result
    click.echo(f"{result.measured} measurements, {result.replayed} from the journal")
    for line in conclusions(result, tuned.conditions):
        click.echo(f"- {line}")
    paths = [str(out / path) for path in config_paths(tuned).values()]
    for path in paths:
        click.echo(path)
    click.echo(f"{out / 'tune-report.md'} (.html, .svg, .json)")
    quoted = " ".join(f"'{path}'" for path in paths)
    click.echo(
        f"install and prove: advisor configs install {quoted} --into moe-configs "
        f"--triton {tuned.triton} --hidden-size {tuned.problem.hidden} "
        f"--top-k {tuned.problem.top_k} --sglang DIR"
    )


@contextlib.contextmanager
def _display() -> Iterator[Callable[[int, int, str], None]]:
    """Show progress on stderr: a bar on a terminal, a line every half minute elsewhere."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("starting", total=None)

        def show(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=what)

        yield show


def _lines() -> Callable[[int, int, str], None]:
    start_s = time.monotonic()
    last_s = [start_s]

    def show(done: int, total: int, what: str) -> None:
        now_s = time.monotonic()
        if now_s - last_s[0] >= _LINE_EVERY_S:
            last_s[0] = now_s
            click.echo(f"advisor: {now_s - start_s:.0f} s: {done} of {total} {what}", err=True)

    return show
