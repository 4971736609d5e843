"""Probe one machine: find the server's interpreter, run the agent in it, merge the answers."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import as_file, files

from advisor.errors import InputError
from advisor.knowledge.environment import (
    Environment,
    InterpreterSummary,
    ProbeTarget,
    ServerProcess,
    parse_environment,
)
from advisor.knowledge.records import decode_record
from advisor.probe.exchange import Answer, exchange
from advisor.probe.notes import notes_on
from advisor.probe.transports import Transport
from advisor.sources.redaction import HIDDEN, Redactor

# Takes over the variables of the server's process, then leaves stdin to the agent.
_AS_PROCESS = (
    'import os,sys;r=open("/proc/"+sys.argv[1]+"/environ","rb").read();'
    'v=dict(e.split(b"=",1) for e in r.split(bytes(1)) if b"=" in e);'
    'os.execve(sys.executable,[sys.executable,"-"]+sys.argv[2:],v or os.environ)'
)
_SECRET_OPTION = re.compile(r"--?[\w-]*(key|token|secret|passw(or)?d|credentials?)", re.IGNORECASE)
_NO_INTERPRETER = (126, 127)
# The agent's children may use this share of the time that is left; the rest is for the way back.
_AGENT_SHARE = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Which interpreter to probe: a process, a path or venv folder, or whatever is found."""

    pid: int | None = None
    python: str | None = None

    def as_json(self) -> str:
        """Return the argument of the finder."""
        return json.dumps({"pid": self.pid, "python": self.python})


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The interpreter that the finder settled on, and the process whose variables it gets."""

    interpreter: str
    origin: str
    pid: int | None = None
    variables_pid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the finder saw on the machine; `refused` says why it chose nothing."""

    chosen: Chosen | None = None
    refused: str | None = None
    servers: tuple[ServerProcess, ...] = ()
    interpreters: tuple[InterpreterSummary, ...] = ()


def probe(transport: Transport, wish: Wish, limit_s: float) -> Environment:
    """Return the environment of the server on a machine.

    Raises:
        InputError: If the machine, a Python on it or the wanted interpreter cannot be reached.
    """
    deadline = time.monotonic() + limit_s
    found = find(transport, wish, deadline)
    if found.chosen is None:
        raise InputError(f"{transport.target}: {found.refused or 'no interpreter was found'}")
    environment = examine(transport, found.chosen, deadline)
    servers = tuple(replace(s, command=_without_secrets(s.command)) for s in found.servers)
    merged = replace(environment, servers=servers, interpreters=found.interpreters)
    target = ProbeTarget(
        target=transport.target,
        interpreter_origin=found.chosen.origin,
        pid=found.chosen.pid,
        notes=(*_on_variables(found.chosen), *notes_on(merged, found.chosen.interpreter)),
    )
    return replace(merged, probe=target)


def find(transport: Transport, wish: Wish, deadline: float) -> Found:
    """Look for the server's interpreter and its rivals.

    Raises:
        InputError: If there is no Python or no answer.
    """
    answer = None
    for command in transport.searches(wish.as_json(), wish.python):
        answer = _send(command, "finder.py", deadline)
        if not _lacks_python(answer):
            break
    assert answer is not None  # noqa: S101  (there is always one command)
    if _lacks_python(answer):
        raise InputError(
            f"{transport.target}: no Python there: name one with --python PATH, "
            "or probe the image that runs the server"
        )
    try:
        return decode_record(Found, json.loads(_required(transport, answer)), "")
    except (ValueError, RecursionError) as error:
        raise InputError(f"{transport.target}: unreadable answer ({str(error)[:100]})") from None


def examine(transport: Transport, chosen: Chosen, deadline: float) -> Environment:
    """Run the agent in an interpreter, with the variables of its process if it has one.

    Raises:
        InputError: If the interpreter does not run or its answer is not an environment.
    """
    limit_s = f"{max(1.0, (deadline - time.monotonic()) * _AGENT_SHARE):.1f}"
    inside = [chosen.interpreter, "-", limit_s]
    if chosen.variables_pid is not None:
        inside = [chosen.interpreter, "-c", _AS_PROCESS, str(chosen.variables_pid), limit_s]
    answer = _send(transport.command(inside), "agent.py", deadline)
    return parse_environment(_required(transport, answer), transport.target)


def _on_variables(chosen: Chosen) -> tuple[str, ...]:
    if chosen.pid is None or chosen.variables_pid is not None:
        return ()
    return (f"The variables of process {chosen.pid} cannot be read: those of the probe are shown",)


def _send(command: list[str], script: str, deadline: float) -> Answer:
    with as_file(files("advisor.probe").joinpath(script)) as path:
        return exchange(command, path, max(1.0, deadline - time.monotonic()))


def _required(transport: Transport, answer: Answer) -> str:
    document = _document(answer)
    if document is None:
        raise InputError(f"{transport.target}: no answer from the probe: {answer.complaint}")
    return document


def _document(answer: Answer) -> str | None:
    """Return the line of JSON; login scripts may have printed something before it."""
    lines = [line for line in answer.output.splitlines() if line.startswith('{"schema_version"')]
    return lines[-1] if lines else None


def _lacks_python(answer: Answer) -> bool:
    """Whether the far side had nothing to run; kubectl says so with exit status 1."""
    missing = answer.code in _NO_INTERPRETER or "executable file not found" in answer.errors
    return missing and _document(answer) is None


def _without_secrets(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command line with the values of secret options hidden."""
    redactor = Redactor()
    before = ("", *command)
    return tuple(
        HIDDEN if _SECRET_OPTION.fullmatch(option) else redactor.clean(part)
        for option, part in zip(before, command, strict=False)
    )
