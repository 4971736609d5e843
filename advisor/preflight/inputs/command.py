"""A server command as found in some input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from advisor.facts.launch import ServerStart, server_start
from advisor.sources.shell import ShellCommand, Word, split_shell

COMMAND_LINE = "command line"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCommand:
    """The arguments of one SGLang server and what surrounds them.

    Attributes:
        name: Which server it is, where the input holds several: a service, a container.
        start: How the server is started; its arguments are the words that count.
        variables: Environment variables that the input sets for it.
        image: The container image; its tag may name the release.
        gpu_count: GPUs that the input asks for the container.
        cut_off: Words that look like options but belong to no command: a comment or a missing
            backslash ended it before them.
    """

    name: str
    source: str
    start: ServerStart
    variables: tuple[tuple[str, Word], ...] = ()
    image: Word | None = None
    gpu_count: int | None = None
    cut_off: tuple[Word, ...] = ()

    @property
    def words(self) -> tuple[Word, ...]:
        """Return the arguments of the server."""
        return self.start.arguments


def of_command_line(words: Sequence[str]) -> ServerCommand | None:
    """Return the server that the words of a command line start.

    Words that begin with an option are the server's arguments themselves.
    """
    line = tuple(Word(text=text, source=COMMAND_LINE, line=1) for text in words)
    while line and _is_assignment(line[0].text):
        line = line[1:]
    variables = tuple(
        (name, Word(text=value, source=COMMAND_LINE, line=1))
        for name, _, value in (text.partition("=") for text in words[: len(words) - len(line)])
    )
    start = server_start(line)
    if start is None and line and line[0].text.startswith("--"):
        start = ServerStart(arguments=line)
    if start is None:
        return None
    return ServerCommand(name=COMMAND_LINE, source=COMMAND_LINE, start=start, variables=variables)


def of_script(
    text: str, *, source: str, line: int = 1, variables: Mapping[str, str] | None = None
) -> tuple[ServerCommand, ...]:
    """Return the servers that a shell script starts, numbered where there are several."""
    commands = split_shell(text, source=source, line=line, variables=variables)
    found = [
        (number, start)
        for number, command in enumerate(commands)
        if (start := server_start(command.words)) is not None
    ]
    return tuple(
        ServerCommand(
            name=source if len(found) == 1 else f"{source} server {place}",
            source=source,
            start=start,
            variables=commands[number].variables,
            cut_off=_cut_off(commands[number + 1 :]),
        )
        for place, (number, start) in enumerate(found, start=1)
    )


def _cut_off(following: Sequence[ShellCommand]) -> tuple[Word, ...]:
    """Return the options that stand right behind a command as if they were one."""
    if following and following[0].words[0].text.startswith("--"):
        return following[0].words
    return ()


def _is_assignment(text: str) -> bool:
    name, equals, _ = text.partition("=")
    return bool(equals) and name.isidentifier()
