"""Write results: to stdout, or to a file through a temporary one."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from advisor.errors import InputError


def emit(text: str, output: Path | None) -> None:
    """Print a result, or write it to a file so that no half-written one is ever seen."""
    if output is None:
        # As bytes: the formats are UTF-8 whatever the locale, and carry colours where wanted.
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
    else:
        write_atomically(output, text)


def write_atomically(path: Path, text: str) -> None:
    """Write a file: temporary file beside it, fsync, rename.

    Raises:
        InputError: If the folder does not exist or cannot be written.
    """
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.chmod(0o644)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
