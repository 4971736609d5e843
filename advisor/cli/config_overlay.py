"""`advisor configs install` and `uninstall`: the overlay folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from advisor.cli.config_options import (
    compile_options,
    device_of,
    find_target,
    find_tree,
    format_option,
    known_gpu,
    problem_options,
    problems_of,
    tree_options,
)
from advisor.cli.config_progress import compiling
from advisor.cli.config_views import install_json, install_text, reports_text
from advisor.configs.entries import read_table
from advisor.configs.files import ConfigFile, FileReport, read_config, verify_files
from advisor.configs.loaders import Loader, loader_of_version
from advisor.configs.names import parse_moe_name
from advisor.configs.overlay import NewConfig, Plan, install_overlay, prove, uninstall_overlay
from advisor.configs.trees import SglangTree
from advisor.configs.verify import Verifier
from advisor.errors import EXIT_CLEAN, EXIT_FINDINGS, ConfigError


@click.command(
    "install",
    epilog="Example: advisor configs install 'E=128,N=768,device_name=NVIDIA_H200.json' "
    "--into /srv/moe --triton 3.6.0 --sglang /opt/venv/lib/python3.12/site-packages/sglang",
)
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE..."
)
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="The overlay folder; new, empty, or an overlay made by this command.",
)
@click.option("--triton", metavar="VERSION", required=True, help="The server's Triton version.")
@tree_options
@click.option("--gpu", metavar="NAME", help="Install under the name of this GPU.")
@click.option("--as", "as_name", metavar="NAME", help="Install the one file under this name.")
@click.option("--link", is_flag=True, help="Link the bundled files instead of copying them.")
@click.option(
    "--alone", is_flag=True, help="Without the bundled files: all other shapes get default tiles."
)
@click.option("--force", is_flag=True, help="Install files that do not fit, too.")
@click.option(
    "--kubernetes", metavar="CLAIM", help="Print the pod's lines for this volume claim as well."
)
@problem_options
@compile_options
@format_option
@click.pass_context
def install_command(
    context: click.Context,
    /,
    *,
    files: tuple[Path, ...],
    into: Path,
    triton: str,
    sglang: Path | None,
    sglang_version: str | None,
    gpu: str | None,
    as_name: str | None,
    link: bool,
    alone: bool,
    force: bool,
    kubernetes: str | None,
    format_: str,
    **_: object,
) -> int:
    """Build an overlay for SGLANG_MOE_CONFIG_DIR and prove that the server will read it.

    The variable replaces the bundled folder, so the overlay holds the bundled files too. The
    installation of SGLang stays as it is.
    """
    tree = find_tree(sglang, sglang_version)
    loader = _loader(tree, sglang_version, alone=alone)
    configs = _renamed(files, as_name, gpu)
    if not force:
        verifier = _verifier(context, configs[0], tree)
        unfit = _unfit(context, configs, verifier, loader)
        if unfit:
            click.echo(reports_text(unfit, verifier), err=True)
            click.echo("nothing installed: repair these files, or add --force", err=True)
            return EXIT_FINDINGS
    overlay = install_overlay(
        Plan(
            folder=into,
            loader=loader,
            triton=triton,
            new=tuple(_new(config) for config in configs),
            bundled=None if alone or tree is None else tree.files.folder,
            sglang=tree.version if tree else sglang_version,
            link=link,
        )
    )
    proofs = prove(overlay, loader)
    render = install_json if format_ == "json" else install_text
    click.echo(render(overlay, proofs, kubernetes))
    return EXIT_CLEAN


@click.command("uninstall", epilog="Example: advisor configs uninstall /srv/moe")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Remove files that were changed since, too.")
def uninstall_command(*, folder: Path, force: bool) -> int:
    """Remove an overlay: exactly the files that install put there."""
    removed = uninstall_overlay(folder, force=force)
    click.echo(f"removed {len(removed)} files from {folder}; unset SGLANG_MOE_CONFIG_DIR")
    return EXIT_CLEAN


def _loader(tree: SglangTree | None, version: str | None, *, alone: bool) -> Loader:
    if tree is not None:
        return tree.loader
    if not alone or version is None:
        raise ConfigError(
            "whose bundled files? add --sglang DIR, or --alone with --sglang-version VERSION"
        )
    return loader_of_version(version)


def _renamed(
    files: tuple[Path, ...], as_name: str | None, gpu: str | None
) -> tuple[ConfigFile, ...]:
    """Return the files under the names that the server will look for.

    With `as_name` the file's own name does not matter.
    """
    if as_name is not None:
        if len(files) != 1:
            raise ConfigError("--as names one file; install the files one by one")
        name = parse_moe_name(as_name)
        configs: tuple[ConfigFile, ...] = (
            ConfigFile(path=files[0], name=name, table=read_table(files[0])),
        )
    else:
        configs = tuple(read_config(file) for file in files)
    if gpu is None:
        return configs
    device = device_of(known_gpu(gpu), gpu)
    return tuple(replace(one, name=replace(one.name, device=device)) for one in configs)


def _new(config: ConfigFile) -> NewConfig:
    text = config.path.read_text(encoding="utf-8")
    return NewConfig(name=config.name, text=text, origin=str(config.path.absolute()))


def _verifier(context: click.Context, config: ConfigFile, tree: SglangTree | None) -> Verifier:
    values = context.params
    return Verifier(
        target=find_target(values["gpu"], None, config.name.device),
        package=tree.package if tree else None,
        estimate=values["estimate"],
        workers=values["jobs"],
    )


def _unfit(
    context: click.Context,
    configs: tuple[ConfigFile, ...],
    verifier: Verifier,
    loader: Loader,
) -> tuple[FileReport, ...]:
    """Return the reports of files that the server could not use."""
    with compiling() as on_done:
        reports = verify_files(
            configs, verifier, loader=loader, problem_of=problems_of(context), on_done=on_done
        )
    return tuple(report for report in reports if not report.clean)
