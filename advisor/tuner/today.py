"""What the server has today: its SGLang if that is on this machine, and the files that it finds."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

from advisor.configs.entries import ConfigTable
from advisor.configs.files import read_config
from advisor.configs.loaders import DownRule, Loader
from advisor.configs.lookup import Lookup, Outcome, Request, Source, lookup
from advisor.configs.names import MoeConfigName
from advisor.configs.trees import ConfigFiles, DiskFiles, SglangTree, open_tree
from advisor.errors import ConfigError, InputError
from advisor.tuner.server import OVERLAY_VARIABLE, Server


def find_tree(
    named: Path | None, version: str | None, server: Server
) -> tuple[SglangTree | None, str | None]:
    """Return the server's SGLang and what is doubtful about it.

    The named one; else the one of the server's log or probe, or that installed beside us, where
    nothing speaks against its release.

    Raises:
        InputError: If the named folder holds none.
    """
    if named is not None:
        tree = open_tree(named, version=version)
        return tree, None if server.may_run(tree.version) else _other_release(tree, server)
    doubt = None
    for place in _places(server):
        try:
            tree = open_tree(place, version=version)
        except InputError:
            continue
        if server.may_run(tree.version):
            return tree, None
        doubt = f"{_other_release(tree, server)}; not used unless named with --sglang"
    return None, doubt


def _places(server: Server) -> Iterator[Path]:
    yield from server.packages
    found = importlib.util.find_spec("sglang")
    yield from map(Path, list(found.submodule_search_locations or ())[:1] if found else ())


def _other_release(tree: SglangTree, server: Server) -> str:
    runs = server.releases.describe() if server.releases else "another"
    return f"{tree.package} is SGLang {tree.version}, the server's is {runs}"


def find_today(
    wanted: Request, tree: SglangTree | None, loader: Loader, server: Server
) -> Lookup | None:
    """Return what the server finds, in its overlay or its bundled files; None if not known.

    Raises:
        ConfigError: If the look-up itself stops the server.
    """
    files = _files(tree, server)
    if files is None:
        return None
    found = lookup(wanted, files, loader)
    if found.up.source is Source.CRASH:
        raise ConfigError(f"the server's own look-up stops: {found.up.reason}; mend that first")
    return found


def _files(tree: SglangTree | None, server: Server) -> ConfigFiles | None:
    """Return the files that the server sees: this shell's variable counts before its log."""
    variable = os.environ.get(OVERLAY_VARIABLE)
    if variable:
        return DiskFiles(folder=Path(variable))
    if server.overlay is not None:
        return DiskFiles(folder=server.overlay) if server.overlay.is_dir() else None
    return tree.files if tree else None


def check_launch(today: Lookup | None, loader: Loader) -> None:
    """Refuse an up file with USE_TMA, which the kernel of a release before 0.5.18 does not know.

    Raises:
        ConfigError: If the server finds such a file.
    """
    table = today.up.table if today else None
    if today is None or table is None or loader.up_tma_understood:
        return
    if any(entry.use_tma is not None for _, entry in table.entries):
        raise ConfigError(
            f"{today.up.path}: USE_TMA in an up file stops SGLang before 0.5.18 at the launch; take "
            "it out first, or say which release runs with --sglang-version"
        )


def today_of_file(path: Path, wanted: MoeConfigName, loader: Loader) -> Lookup:
    """Return the look-up of a server that finds just this file and its sibling.

    Args:
        path: The up file, or the down file beside it.
        wanted: The up file's name for the shape that is tuned.
        loader: The rules of the server's release.

    Raises:
        InputError: If it is no config file.
        ConfigError: If it is of another shape or GPU, or holds no entry.
    """
    file = read_config(path)
    if file.name.for_down(down=False) != wanted:
        raise ConfigError(
            f"--today {path} is of another shape or GPU: the server would look for "
            f"{wanted.file_name}"
        )
    up, down = (file.sibling, file.table) if file.name.down else (file.table, file.sibling)
    for table in (up, down):
        if table is not None and not table.entries:
            problems = "".join(f": {problem}" for problem in table.problems[:1])
            raise ConfigError(f"--today {path}: no entry that a server could use{problems}")
    return Lookup(
        up=_outcome(up, path, Source.DEFAULT),
        down=None
        if loader.down is DownRule.NONE
        else _outcome(down, path, Source.REUSED_UP if up else Source.DEFAULT),
        lines=(),
    )


def _outcome(table: ConfigTable | None, path: Path, otherwise: Source) -> Outcome:
    if table is None:
        return Outcome(source=otherwise, wanted=None)
    return Outcome(source=Source.EXACT, wanted=None, path=str(path), table=table)
