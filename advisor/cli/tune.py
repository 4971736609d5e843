"""`advisor tune`: options in, config files and a report out."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from advisor.cli.launches import environment_of
from advisor.errors import MissingExtraError

if TYPE_CHECKING:
    from advisor.tuner.request import TuneRequest

_BUDGET = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*([smh]?)", re.ASCII)
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "": 60.0}
_LONGEST_NUMBER = 9
_EPILOG = """\b
Examples:
  advisor tune --from server.log --env env.json --dry-run
  advisor tune --model Qwen3-30B-A3B --tp 1 --budget 10m
  advisor tune --shape 256,256,7168,8 --dtype fp8_w8a8 --block-shape 128,128
  advisor tune --shape 128,768,2048,8 --precompile --gpu H200 --cache kernels
"""


def _duration(_context: click.Context, _option: click.Parameter, value: str | None) -> float | None:
    """Return the seconds of 10m, 90s or 1h; a bare number is minutes."""
    if value is None:
        return None
    match = _BUDGET.fullmatch(value.strip())
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if seconds < 1:
        raise click.BadParameter(f"{value!r} is no time of a second or more; write 10m, 90s or 1h")
    return seconds


def _sizes(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> tuple[int, ...] | None:
    """Return whole numbers that were separated by commas."""
    if value is None:
        return None
    parts = [part.strip() for part in value.split(",")]
    if not all(
        part.isascii() and part.isdecimal() and len(part) <= _LONGEST_NUMBER for part in parts
    ):
        raise click.BadParameter(f"{value!r}: write whole numbers separated by commas")
    return tuple(int(part) for part in parts)


_FOLDER = click.Path(file_okay=False, path_type=Path)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("tune", epilog=_EPILOG)
@click.option(
    "--from",
    "log",
    metavar="LOG",
    help="Tune what this server log reports as missing: a file, a folder, a glob, or - for stdin;"
    " read as by diagnose.",
)
@click.option(
    "--env",
    "env_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="What `advisor probe` wrote on the server's machine.",
)
@click.option(
    "--model",
    "models",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="PATH",
    help="Model folder, config.json, or ORG/NAME in the Hugging Face cache. With --from repeatable;"
    " default: the models that the log names.",
)
@click.option(
    "--tp",
    "--tp-size",
    "tp",
    type=click.IntRange(min=1),
    default=1,
    help="The server's --tp-size, with --model.",
)
@click.option(
    "--ep",
    "--ep-size",
    "ep",
    type=click.IntRange(min=1),
    default=1,
    help="The server's --ep-size, with --model or --shape.",
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
    "--budget",
    callback=_duration,
    metavar="10m",
    help="Stop then, with the best so far. Several shapes share it.",
)
@click.option(
    "--sglang", type=_FOLDER, metavar="DIR", help="The server's sglang/ folder, if not beside us."
)
@click.option("--sglang-version", metavar="V", help="Follow the rules of this release.")
@click.option(
    "--today", type=_FILE, metavar="FILE", help="The shape's config file that the server uses now."
)
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
@click.option(
    "-o",
    "--out",
    type=_FOLDER,
    default=Path("advisor-tune"),
    show_default=True,
    help="Results folder.",
)
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
    log: str | None,
    env_file: Path | None,
    models: tuple[Path, ...],
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
    """Generate the MoE kernel configs that a server lacks, on the GPU it runs on.

    Searches both expert GEMMs at every batch size and keeps each measurement in a journal: the
    same command continues after any end. An entry that is not faster than what the server uses
    now, beyond noise, is not changed, and the report says so.

    --from tunes every missing shape, of target and draft model, in a folder each where there are
    several. One that cannot be tuned is told and passed over. Exit codes: 0 all others were tuned,
    2 none could be or one failed, 130 after Ctrl-C, which ends all.
    """
    if not dry_run:
        _check_numpy()
    if simulate is not None:
        return _simulate(simulate)
    from advisor.cli.tune_runs import plan_all, precompile_all, tune_all
    from advisor.tuner.contradictions import check_together
    from advisor.tuner.gpus import is_gpu_number
    from advisor.tuner.request import TuneRequest

    request = TuneRequest(
        models=models,
        tensor_parallel=tp,
        expert_parallel=ep,
        shape=shape,
        dtype=dtype,
        block_shape=block_shape,
        environment=environment_of(env_file),
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
        away=precompile or ((dry_run or ray is not None) and not all(map(is_gpu_number, gpus))),
        dry_run=dry_run,
    )
    check_together(request, log=log is not None, precompile=precompile, ray=ray is not None)
    requests = (request,) if log is None else _from_log(request, log)
    if dry_run:
        return plan_all(requests)
    if precompile:
        return precompile_all(requests)
    return tune_all(requests, ray=ray, force=force)


def _from_log(request: TuneRequest, log: str) -> tuple[TuneRequest, ...]:
    """Return a request for each shape that a log lacks."""
    from advisor.cli.tune_log import server_runs
    from advisor.tuner.fromlog import missing_in_runs
    from advisor.tuner.request import requests_for

    return requests_for(request, missing_in_runs(server_runs(log), log))


def _check_numpy() -> None:
    if importlib.util.find_spec("numpy") is None:
        raise MissingExtraError("advisor tune", "tune")


def _simulate(path: Path) -> int:
    from advisor.tuner.comparison import compare_strategies

    click.echo(compare_strategies(path), nl=False)
    return 0
