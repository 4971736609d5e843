"""The formats of a report and what they may depend on besides it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from advisor.diagnosis import Report
from advisor.report import document

_NARROWEST, _WIDEST = 40, 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How a report for people is laid out; machine formats ignore it."""

    width: int = 100
    colour: bool = False
    quiet: bool = False

    @classmethod
    def of_terminal(cls, *, width: int | None, to_file: bool, quiet: bool) -> Style:
        """Take the terminal's width and whether colour is wanted (NO_COLOR, FORCE_COLOR)."""
        columns = width or max(_NARROWEST, min(shutil.get_terminal_size().columns, _WIDEST))
        forced = bool(os.environ.get("FORCE_COLOR"))
        plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        colour = (forced or sys.stdout.isatty()) and not plain and not to_file
        return cls(width=columns, colour=colour, quiet=quiet)


Renderer = Callable[[Report, Style], str]


def _json(report: Report, _style: Style) -> str:
    return document.render(report)


FORMATS: Mapping[str, Renderer] = {
    "json": _json,
}
