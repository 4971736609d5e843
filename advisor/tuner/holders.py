"""Whose processes hold a GPU: a scheduler's process is ended by stopping its server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

PROC = Path("/proc")
_DEEPEST = 32
_TITLE = "sglang::"


def holder(process: str, proc: Path = PROC) -> str:
    """Return who must stop so that a process (`pid name`, as nvidia-smi lists it) leaves a GPU.

    For a process of an SGLang server that is the server. Where its ancestors cannot be seen, as
    from a container, the process itself is named.
    """
    pid, _, name = process.partition(" ")
    server = None
    at = pid
    for _ in range(_DEEPEST):
        if not at.isdecimal() or at == "0":
            break
        if _serves(_words(proc / at)):
            server = at
        at = _parent(proc / at)
    if server is not None:
        return f"the SGLang server, process {server}"
    return f"process {pid} {name}".rstrip()


def _serves(words: Sequence[str]) -> bool:
    """Say whether a command line, in words, is that of a server or of one of its processes."""
    names = [word.rpartition("/")[2] for word in words]
    serve = any(name == "sglang" and "serve" in names[at + 1 :] for at, name in enumerate(names))
    return serve or any(word.startswith(("sglang.launch_server", _TITLE)) for word in words)


def _words(process: Path) -> list[str]:
    try:
        text = (process / "cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return []
    return text.split("\x00")


def _parent(process: Path) -> str:
    """Return the parent's number; the name before it may hold spaces and brackets."""
    try:
        text = (process / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    return fields[1] if len(fields) > 1 else ""
