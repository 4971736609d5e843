"""The results folder of `advisor tune`: made before anything is measured, filled at the end."""

from __future__ import annotations

import tempfile
from pathlib import Path

from advisor.cli.output import write_atomically
from advisor.errors import InputError
from advisor.tuner.output import Tuned, documents


def make_folder(path: Path) -> None:
    """Make a folder, and see that files can be made in it.

    Raises:
        InputError: If that cannot be.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path).close()
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None


def write_results(out: Path, tuned: Tuned) -> None:
    """Write every file of a run.

    Raises:
        InputError: If one cannot be written; none is ever half there.
    """
    texts = {out / relative: text for relative, text in documents(tuned).items()}
    for folder in {path.parent for path in texts}:
        make_folder(folder)
    for path, text in texts.items():
        write_atomically(path, text)
