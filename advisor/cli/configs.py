"""`advisor configs`: the group, and the commands that look things up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from advisor.cli.config_files import nearest_command, repair_command, verify_command
from advisor.cli.config_options import (
    ShapeOptions,
    find_tree,
    format_option,
    shape_options,
    tree_options,
)
from advisor.cli.config_overlay import install_command, uninstall_command
from advisor.cli.config_views import list_json, list_text, lookup_json, lookup_text, seen_text
from advisor.configs.loaders import Loader, loader_of_version
from advisor.configs.loglines import Seen, seen_in_log
from advisor.configs.lookup import Lookup, Request, Source, lookup
from advisor.configs.names import MoeConfigName
from advisor.configs.trees import (
    ConfigFiles,
    DiskFiles,
    SglangTree,
    files_of_release,
    listed_configs,
    release_read_for,
)
from advisor.errors import EXIT_CLEAN, EXIT_FINDINGS, ConfigError


@click.group("configs", epilog="Example: advisor configs verify FILE.json --gpu 'RTX PRO 6000'")
def configs_group() -> None:
    """Look up, verify, repair and install MoE kernel configs."""


@configs_group.command(
    "list", epilog="Example: advisor configs list --sglang-version 0.5.23 --device B200"
)
@tree_options
@click.option("--device", metavar="TEXT", help="Only devices whose name contains this.")
@click.option("--triton", metavar="VERSION", help="Only this Triton folder.")
@format_option
def list_command(
    *,
    sglang: Path | None,
    sglang_version: str | None,
    device: str | None,
    triton: str | None,
    format_: str,
) -> int:
    """List the config files of an SGLang install or release: Triton folder, device, shapes."""
    files = _files(find_tree(sglang, sglang_version), sglang_version, None)
    wanted = (device or "").casefold().replace(" ", "_")
    configs = tuple(
        config
        for config in listed_configs(files)
        if wanted in config.name.device.casefold() and triton in {None, config.triton}
    )
    if format_ == "json":
        click.echo(list_json(configs))
    else:
        click.echo(list_text(configs, each=bool(device or triton)))
    return EXIT_CLEAN if configs else EXIT_FINDINGS


@configs_group.command(
    "lookup",
    epilog="Example: advisor configs lookup --model ./Qwen3-30B-A3B --tp 1 --gpu H200 "
    "--triton 3.6.0 --sglang-version 0.5.12",
)
@click.option(
    "--from",
    "log",
    type=click.Path(path_type=Path),
    metavar="LOG",
    help="Take shapes and Triton version from a server's log.",
)
@shape_options
@tree_options
@click.option("--triton", metavar="VERSION", help="The server's Triton version, such as 3.6.0.")
@click.option(
    "--config-dir",
    metavar="DIR",
    help="Value of SGLANG_MOE_CONFIG_DIR; it replaces the bundled folder.",
)
@click.option("--deterministic", is_flag=True, help="The server runs deterministic inference.")
@format_option
@click.pass_context
def lookup_command(
    context: click.Context,
    /,
    *,
    log: Path | None,
    sglang: Path | None,
    sglang_version: str | None,
    triton: str | None,
    config_dir: str | None,
    deterministic: bool,
    format_: str,
    **_: object,
) -> int:
    """Replay what a server will do to find its MoE config, with the lines it will print."""
    tree = find_tree(sglang, sglang_version)
    version = sglang_version or (tree.version if tree else None)
    options = ShapeOptions.of(context)
    if log is not None:
        seen = seen_in_log(log)
        if version is None and format_ != "json":
            click.echo(seen_text(seen))
            return _exit_of_seen(seen)
        requests = _requests_of_log(seen, triton, options)
    else:
        requests = (_request_of_options(options, triton),)
    if version is None:
        raise ConfigError("which SGLang? add --sglang DIR or --sglang-version VERSION")
    loader = tree.loader if tree else loader_of_version(version)
    files = _files(tree, version, config_dir if loader.triton_folders else None)
    results = tuple(
        (request.name, lookup(_adjusted(request, deterministic=deterministic), files, loader))
        for request in requests
    )
    notes = tuple(_doubts(version, loader, listed=tree is None and config_dir is None))
    if format_ == "json":
        click.echo(lookup_json(results, notes))
    else:
        click.echo(lookup_text(results, (*options.notes, *notes)))
    return EXIT_FINDINGS if any(_unread(result) for _, result in results) else EXIT_CLEAN


def _doubts(version: str, loader: Loader, *, listed: bool) -> Iterator[str]:
    """Yield what is not known for sure about a release that was not read itself."""
    if not loader.certain:
        yield f"the lookup rules of SGLang {version} were not read; those of the release before apply"
    if listed and (known := release_read_for(version)) != version:
        yield f"the files that {version} bundles were not listed; those of {known} stand for them"


def _adjusted(request: Request, *, deterministic: bool) -> Request:
    return Request(
        name=request.name,
        triton=request.triton,
        deterministic=deterministic,
        shared_memory_bytes=request.shared_memory_bytes,
    )


def _request_of_options(options: ShapeOptions, triton: str | None) -> Request:
    if triton is None:
        raise ConfigError(
            "which Triton? add --triton VERSION, as `pip show triton` says on the server"
        )
    gpu = options.gpu
    return Request(
        name=options.name(),
        triton=triton,
        shared_memory_bytes=gpu.shared_memory_bytes if gpu else None,
    )


def _requests_of_log(
    seen: tuple[Seen, ...], triton: str | None, options: ShapeOptions
) -> tuple[Request, ...]:
    names: dict[MoeConfigName, str] = {}
    for one in seen:
        version = triton or one.triton
        if version is None:
            raise ConfigError("the log does not tell the Triton version; add --triton VERSION")
        names.setdefault(one.name.for_down(down=False), version)
    limit = options.gpu.shared_memory_bytes if options.gpu else None
    return tuple(
        Request(name=name, triton=version, shared_memory_bytes=limit)
        for name, version in names.items()
    )


def _files(tree: SglangTree | None, version: str | None, config_dir: str | None) -> ConfigFiles:
    if config_dir is not None:
        return DiskFiles(folder=Path(config_dir), spelled=config_dir)
    if tree is not None:
        return tree.files
    if version is None:
        raise ConfigError("which SGLang? add --sglang DIR or --sglang-version VERSION")
    return files_of_release(version)


def _unread(result: Lookup) -> bool:
    outcomes = (result.up, result.down)
    return result.up.source is Source.DEFAULT or any(
        one is not None and one.source is Source.CRASH for one in outcomes
    )


def _exit_of_seen(seen: tuple[Seen, ...]) -> int:
    missing = any(one.source is Source.DEFAULT and not one.name.down for one in seen)
    return EXIT_FINDINGS if missing else EXIT_CLEAN


for _command in (
    nearest_command,
    verify_command,
    repair_command,
    install_command,
    uninstall_command,
):
    configs_group.add_command(_command)
