"""The environment as text, and the file that holds it."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from advisor.errors import InputError
from advisor.knowledge.environment import Environment, render_environment
from advisor.probe.summary import summarise


def rendered(environment: Environment, format_: str) -> str:
    """Return the environment as `json` or as the summary for a `terminal`."""
    if format_ == "terminal":
        return summarise(environment)
    return json.dumps(render_environment(environment), indent=2) + "\n"


def write_atomically(path: Path, text: str) -> None:
    """Write a file whole or not at all.

    Raises:
        InputError: If its folder cannot be written.
    """
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).replace(path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None
