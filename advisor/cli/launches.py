"""Launch commands on the command line: typed out, or in the files that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from advisor.errors import ConfigError, InputError

if TYPE_CHECKING:
    from advisor.knowledge.environment import Environment
    from advisor.preflight.inputs.command import ServerCommand
    from advisor.sources.shell import Word

_SHOWN_CHARACTERS = 80
_NAME = "launch command"


def commands(
    launch: Sequence[str], server: str | None, *, may_be_none: bool = False
) -> list[ServerCommand]:
    """Return the servers of a command line, or of the files that are given instead.

    Raises:
        InputError: If nothing starts a server, or a file cannot be read.
        ConfigError: If no server is called `server`.
    """
    paths = [Path(text) for text in launch]
    if all(path.is_file() for path in paths) or (len(launch) == 1 and looks_like_path(launch[0])):
        return chosen(_in_files(paths, may_be_none=may_be_none), server)
    return chosen([_of_words(launch)], server)


def arguments_of(launch: str, server: str | None) -> tuple[Word, ...]:
    """Return the arguments of the one server of `--args`: a command in one word, or a file.

    Raises:
        InputError: If there is none, or no option in the command.
        ConfigError: If a file starts several and none is chosen.
    """
    if (Path(launch).is_file() and " " not in launch) or looks_like_path(launch):
        found = chosen(_in_files([Path(launch)], may_be_none=False), server)
        if len(found) > 1:
            names = ", ".join(command.name for command in found)
            raise ConfigError(f"{launch} starts several servers: choose with --server: {names}")
        return found[0].words
    return _in_text(launch)


def looks_like_path(text: str) -> bool:
    """Say whether one word is meant as a file, so that a missing one is told as such."""
    is_word = " " not in text.strip() and not text.startswith("-")
    return is_word and ("/" in text or bool(Path(text).suffix))


def chosen(found: list[ServerCommand], server: str | None) -> list[ServerCommand]:
    """Return the servers whose name holds a text; all without one.

    Raises:
        ConfigError: If none does.
    """
    if server is None:
        return found
    named = [command for command in found if server in command.name]
    if not named:
        names = ", ".join(command.name for command in found)
        raise ConfigError(f"--server {server!r}: the file starts {names}")
    return named


def _in_files(paths: Sequence[Path], *, may_be_none: bool) -> list[ServerCommand]:
    from advisor.preflight.inputs.files import read_file

    return [
        _with_config_file(command, path.parent)
        for path in paths
        for command in read_file(path, may_be_none=may_be_none)
    ]


def _of_words(launch: Sequence[str]) -> ServerCommand:
    from advisor.preflight.inputs.command import of_command_line
    from advisor.preflight.inputs.files import KINDS

    command = of_command_line(launch)
    if command is None:
        raise InputError(
            f"{' '.join(launch)[:_SHOWN_CHARACTERS]!r} starts no SGLang server: give "
            f"`-- python -m sglang.launch_server ...`, `-- sglang serve ...`, or {KINDS}"
        )
    return _with_config_file(command, Path())


def _in_text(text: str) -> tuple[Word, ...]:
    """Read a command that stands in one word of the shell: a server's, or only its options."""
    from advisor.preflight.inputs.command import of_script
    from advisor.sources.shell import split_shell

    servers = of_script(text, source=_NAME)
    if servers:
        return _with_config_file(servers[0], Path()).words
    words = tuple(word for command in split_shell(text, source=_NAME) for word in command.words)
    if not any(word.text.startswith("-") for word in words):
        raise InputError(
            f"--args {text[:_SHOWN_CHARACTERS]!r}: no --option in it, and no such file"
        )
    return words


def _with_config_file(command: ServerCommand, folder: Path) -> ServerCommand:
    from advisor.preflight.inputs.config import with_config_file

    merged, unread = with_config_file(command, folder)
    if unread is not None:
        click.echo(f"advisor: --config: {unread}; its options are not judged", err=True)
    return merged


def environment_of(path: Path | None) -> Environment | None:
    """Return what `advisor probe` wrote to a file; None without one.

    Raises:
        InputError: If it cannot be read or is no environment.
    """
    if path is None:
        return None
    from advisor.knowledge.environment import parse_environment

    try:
        return parse_environment(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
