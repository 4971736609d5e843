"""`advisor configs verify`, `repair` and `nearest`: files against a GPU."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from pathlib import Path

import click

from advisor.cli.config_options import (
    ShapeOptions,
    compile_options,
    find_target,
    find_tree,
    format_option,
    problem_options,
    problems_of,
    shape_options,
    target_options,
    tree_options,
)
from advisor.cli.config_progress import compiling
from advisor.cli.config_views import (
    changes_json,
    changes_text,
    nearest_json,
    nearest_text,
    reports_json,
    reports_text,
)
from advisor.cli.output import write_atomically
from advisor.configs.files import ConfigFile, read_config, verify_files
from advisor.configs.loaders import Loader, loader_of_version
from advisor.configs.nearest import Wanted, nearest_configs
from advisor.configs.problem import Target
from advisor.configs.repair import repair_file
from advisor.configs.trees import SglangTree, listed_configs
from advisor.configs.verify import Verifier
from advisor.errors import EXIT_CLEAN, EXIT_FINDINGS, ConfigError


@click.command(
    "verify",
    epilog="Example: advisor configs verify 'E=128,N=768,device_name=NVIDIA_B200.json' "
    "--gpu 'RTX PRO 6000'",
)
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="FILE...")
@target_options
@tree_options
@click.option("--bundled", is_flag=True, help="Verify the files that the install bundles.")
@click.option("--only", metavar="GLOB", help="Of the bundled files, only names that match.")
@problem_options
@compile_options
@format_option
@click.pass_context
def verify_command(
    context: click.Context,
    /,
    *,
    files: tuple[Path, ...],
    gpu: str | None,
    sm: int | None,
    sglang: Path | None,
    sglang_version: str | None,
    bundled: bool,
    only: str | None,
    estimate: bool,
    jobs: int | None,
    format_: str,
    **_: object,
) -> int:
    """Say for every entry whether it fits a GPU, without that GPU.

    Each entry is compiled for the target with the server's own kernel (--sglang DIR) or a bundled
    one of the same tiling; without Triton, shared memory is estimated. Exit code 1: an entry does
    not fit, or the server would refuse the file.
    """
    tree = find_tree(sglang, sglang_version)
    configs = tuple(_bundled(tree, only)) if bundled else tuple(read_config(one) for one in files)
    if not configs:
        raise ConfigError("which files? name config files, or add --bundled with --sglang DIR")
    target = _target(gpu, sm, configs)
    verifier = _verifier(target, tree, estimate=estimate, jobs=jobs)
    with compiling(quiet=format_ == "json") as on_done:
        reports = verify_files(
            configs,
            verifier,
            loader=_loader(tree, sglang_version),
            problem_of=problems_of(context),
            on_done=on_done,
        )
    if format_ == "json":
        click.echo(reports_json(reports, verifier))
    else:
        click.echo(reports_text(reports, verifier))
    return EXIT_CLEAN if all(report.clean for report in reports) else EXIT_FINDINGS


@click.command(
    "repair",
    epilog="Example: advisor configs repair 'E=16,N=1024,device_name=NVIDIA_B200.json' "
    "--gpu 'RTX PRO 6000' -o mended.json",
)
@click.argument("file", type=click.Path(path_type=Path))
@target_options
@tree_options
@problem_options
@compile_options
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write the mended file there; a folder keeps the name. Default: print it.",
)
@format_option
@click.pass_context
def repair_command(
    context: click.Context,
    /,
    *,
    file: Path,
    gpu: str | None,
    sm: int | None,
    sglang: Path | None,
    sglang_version: str | None,
    estimate: bool,
    jobs: int | None,
    output: Path | None,
    format_: str,
    **_: object,
) -> int:
    """Replace entries that do not fit by the nearest that do: fewer stages, then smaller tiles.

    Everything else stays as it is. Every new entry is verified. The mended file goes to stdout,
    what changed to stderr; with -o, what changed goes to stdout.
    """
    config = read_config(file)
    tree = find_tree(sglang, sglang_version)
    target = _target(gpu, sm, (config,))
    verifier = _verifier(target, tree, estimate=estimate, jobs=jobs)
    with compiling(quiet=format_ == "json") as on_done:
        repair = repair_file(config, verifier, problem_of=problems_of(context), on_done=on_done)
    if output is not None:
        place = output / file.name if output.is_dir() else output
        write_atomically(place, repair.text)
    if format_ == "json":
        click.echo(changes_json(repair, target))
        return EXIT_CLEAN
    if output is None:
        click.echo(repair.text, nl=False)
    click.echo(changes_text(repair, target), err=output is None)
    return EXIT_CLEAN


@click.command(
    "nearest",
    epilog="Example: advisor configs nearest --experts 128 --width 384 --gpu 'RTX PRO 6000 Max-Q' "
    "--triton 3.6.0 --sglang /opt/venv/lib/python3.12/site-packages/sglang",
)
@shape_options
@tree_options
@click.option("--triton", metavar="VERSION", required=True, help="The server's Triton version.")
@click.option("--limit", type=click.IntRange(min=1, max=100), default=5, show_default=True)
@compile_options
@format_option
@click.pass_context
def nearest_command(
    context: click.Context,
    /,
    *,
    sglang: Path | None,
    sglang_version: str | None,
    triton: str,
    limit: int,
    estimate: bool,
    jobs: int | None,
    format_: str,
    **_: object,
) -> int:
    """Rank the files that may stand in for a missing one, each verified for the GPU."""
    tree = find_tree(sglang, sglang_version)
    if tree is None:
        raise ConfigError("whose files? add --sglang DIR")
    options = ShapeOptions.of(context)
    name = options.name()
    target = find_target(context.params["gpu"], None, name.device)
    verifier = _verifier(target, tree, estimate=estimate, jobs=jobs)
    wanted = Wanted(name=name, triton=triton, problem=options.problem())
    with compiling(quiet=format_ == "json") as on_done:
        found = nearest_configs(
            wanted, listed_configs(tree.files), tree.files, verifier, limit=limit, on_done=on_done
        )
    if format_ == "json":
        click.echo(nearest_json(wanted, found, tree.files.root))
    else:
        click.echo(nearest_text(wanted, found, tree.files.root, target))
    return EXIT_CLEAN if found else EXIT_FINDINGS


def _bundled(tree: SglangTree | None, only: str | None) -> Iterator[ConfigFile]:
    if tree is None:
        raise ConfigError("--bundled needs --sglang DIR")
    root = Path(tree.files.root) / "configs"
    for config in listed_configs(tree.files):
        if only is None or fnmatch.fnmatchcase(config.name.file_name, only):
            yield read_config(root / config.path)


def _target(gpu: str | None, sm: int | None, configs: tuple[ConfigFile, ...]) -> Target:
    devices = {config.name.device for config in configs}
    return find_target(gpu, sm, devices.pop() if len(devices) == 1 else None)


def _verifier(
    target: Target, tree: SglangTree | None, *, estimate: bool, jobs: int | None
) -> Verifier:
    package = tree.package if tree else None
    return Verifier(target=target, package=package, estimate=estimate, workers=jobs)


def _loader(tree: SglangTree | None, version: str | None) -> Loader | None:
    if tree is not None:
        return tree.loader
    return loader_of_version(version) if version else None
