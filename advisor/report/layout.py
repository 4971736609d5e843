"""Text laid out for a terminal: wrapped, cut, drawn as bars, coloured; all without a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import regex

from advisor.report.prose import one_line, paragraphs
from advisor.report.style import Style

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_TO_ASCII = str.maketrans(
    {"·": "-", "×": "x", "–": "-", "…": "~", "█": "#", "�": "?"}
    | dict.fromkeys(_EIGHTHS[1:5], "")
    | dict.fromkeys(_EIGHTHS[5:8], "#")
)


class Tone(StrEnum):
    """Colours by meaning, as parameters of an SGR sequence; red to cyan read on dark and light."""

    ERROR = "1;31"
    WARNING = "1;33"
    NOTE = "36"
    STRONG = "1"
    FAINT = "2"
    COMMAND = "32"


@dataclass(frozen=True, slots=True, kw_only=True)
class Canvas:
    """Writes lines of a given width, with or without colour."""

    style: Style

    def paint(self, text: str, tone: Tone) -> str:
        """Colour a text where the style wants colour."""
        return f"\x1b[{tone.value}m{text}\x1b[0m" if self.style.colour and text else text

    def wrapped(self, text: str, *, indent: int, first: str | None = None) -> list[str]:
        """Wrap a text of several paragraphs; `first` stands before its first line.

        Flags and other hyphenated words stay whole; a word longer than the line is broken.
        """
        lines: list[str] = []
        margin = " " * indent
        for item in paragraphs(text):
            bullet = f"{item.bullet} " if item.bullet else ""
            start = margin if lines or first is None else first
            lines += textwrap.wrap(
                item.text,
                width=max(self.style.width, indent + 12),
                initial_indent=start + bullet,
                subsequent_indent=margin + " " * len(bullet),
                break_on_hyphens=False,
            )
        return lines

    def cut(self, text: str, room: int) -> str:
        """Cut a text to columns; wide characters count twice."""
        from rich.cells import cell_len, set_cell_size

        folded = one_line(text)
        if cell_len(folded) <= room:
            return folded
        return set_cell_size(folded, max(1, room - 1)).rstrip() + "…"

    def rows(self, cells: Sequence[tuple[str, str, float | None]], *, indent: int) -> list[str]:
        """Lay out labels, values and bars in columns; long labels are cut, long values wrapped."""
        label_width = min(max((len(label) for label, _, _ in cells), default=0), self._label_room)
        barred = [value for _, value, share in cells if share is not None]
        value_width = max((len(value) for value in barred), default=0)
        bar_room = self.style.width - indent - label_width - value_width - 4
        lines: list[str] = []
        for label, value, share in cells:
            name = self.cut(label, label_width).ljust(label_width)
            start = " " * indent + name + "  "
            if not barred:
                lines += self.wrapped(value, indent=len(start), first=start) or [start.rstrip()]
                continue
            bar = bar_of(share or 0.0, min(bar_room, 40))
            lines.append(f"{start}{value.rjust(value_width)}  {bar}".rstrip())
        return lines

    @property
    def _label_room(self) -> int:
        return max(20, self.style.width * 3 // 5)

    def finished(self, lines: Sequence[str]) -> str:
        """Join lines to the text of a report.

        A line that would begin with `::` is a command to the runner of some forges, and gets a
        space for the second colon.
        """
        text = "\n".join(lines).rstrip("\n") + "\n"
        text = regex.sub(r"(?m)^((?:[ \t]|\x1b\[[0-9;]*m)*)::", r"\1: ", text, timeout=5.0)
        if not self.style.ascii_only:
            return text
        return text.translate(_TO_ASCII).encode("ascii", "replace").decode("ascii")


def bar_of(share: float, columns: int) -> str:
    """Draw a share (0..1) as a bar in eighths of a column.

    >>> bar_of(0.5, 8)
    '████'
    """
    eighths = round(min(max(share, 0.0), 1.0) * max(columns, 0) * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")
