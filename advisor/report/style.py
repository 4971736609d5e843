"""What a report may depend on besides its content: width, colour, and where its files lie."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, field

from advisor.report.places import Repository

NARROWEST, WIDEST = 40, 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How a report is laid out.

    `width`, `colour`, `ascii_only` and `quiet` are for people. `category` keeps the uploads of two
    servers apart (SARIF), `anchor` is the file of the repository that alerts attach to where the
    log itself is not in it, and `repository` turns names of logs into paths below its root.
    """

    width: int = 100
    colour: bool = False
    ascii_only: bool = False
    quiet: bool = False
    category: str | None = None
    anchor: str | None = None
    repository: Repository = field(default_factory=Repository)

    @classmethod
    def of_terminal(cls, *, width: int | None, to_file: bool, quiet: bool) -> Style:
        """Take the terminal's width and whether colour is wanted (NO_COLOR, FORCE_COLOR)."""
        columns = width or max(NARROWEST, min(shutil.get_terminal_size().columns, WIDEST))
        forced = bool(os.environ.get("FORCE_COLOR"))
        plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        return cls(
            width=columns,
            colour=(forced or sys.stdout.isatty()) and not plain and not to_file,
            ascii_only=not to_file and not _speaks_unicode(sys.stdout.encoding),
            quiet=quiet,
        )


def _speaks_unicode(encoding: str | None) -> bool:
    try:
        "×–█…".encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True
