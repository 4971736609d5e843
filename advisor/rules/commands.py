"""Whether the command of an action can be pasted as it stands."""

from __future__ import annotations

import shlex

import regex

PROGRAMS = frozenset(
    {
        "advisor",
        "apt-cache",
        "apt-get",
        "cat",
        "cp",
        "curl",
        "df",
        "dmesg",
        "docker",
        "env",
        "export",
        "free",
        "fuser",
        "getent",
        "git",
        "grep",
        "hf",
        "ip",
        "kill",
        "kubectl",
        "ldconfig",
        "ls",
        "lsof",
        "mkdir",
        "mount",
        "mv",
        "nc",
        "numactl",
        "nvcc",
        "nvidia-smi",
        "ping",
        "pip",
        "pkill",
        "ps",
        "py-spy",
        "python",
        "python3",
        "rm",
        "sglang",
        "ss",
        "sysctl",
        "systemctl",
        "taskset",
        "ulimit",
        "unset",
    }
)
_START = regex.compile(r"--[a-z][\w-]*(?:=|$)|[A-Za-z][A-Za-z0-9_]*=")
_PROSE = regex.compile(
    r"\s(?:or|and|instead|then|remove|with|the|of|your|lower|higher)(?:\s|$)"
    r"|…|<[a-z]|\((?:up to|\d|from)|\s\([a-z]|\s/\s|\w,\s|\s{3,}\S"
)
_QUOTED = regex.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"")


def command_problem(command: str) -> str | None:
    """Say why a command cannot be pasted; None if it can.

    A command is lines of shell, or server arguments and variables to add to the launch command.

    >>> command_problem("--mem-fraction-static 0.8 or less")
    "'--mem-fraction-static 0.8 or less' mixes prose into a command"
    >>> command_problem("grep -n 'the first or the last' server.log")
    """
    for line in command.splitlines():
        if _PROSE.search(_QUOTED.sub("_", line)):
            return f"{line!r} mixes prose into a command"
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            return f"{line!r} is no shell command: {error}"
        if words and not (words[0] in PROGRAMS or _START.match(words[0])):
            return f"{line!r} begins with {words[0]!r}, neither a program nor an argument"
    return None
