"""Where evidence lies: names short enough to read, paths that a repository's tools can follow."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

import regex

from advisor.report.prose import one_line
from advisor.sources.records import Evidence

_RANK = regex.compile(r"(?P<label>[A-Z_]+)(?P<number>\d+)")
_NAMED_RANKS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """The checkout that reports refer to.

    `root` is its absolute path (empty: unknown), `folder` the working folder below it.
    """

    root: str = ""
    folder: str = ""

    def path(self, source: str) -> str:
        """Return a source's path below the root with forward slashes.

        A source outside the repository keeps its file name alone: tools of a forge cannot follow
        absolute paths, and would show those of the runner.

        >>> Repository(root="/repo", folder="ci").path("logs/a.log")
        'ci/logs/a.log'
        >>> Repository(root="/repo").path("/var/log/a.log")
        'a.log'
        """
        name = source.replace("\\", "/")
        if name.startswith("/"):
            inside = bool(self.root) and posixpath.normpath(name).startswith(f"{self.root}/")
            path = posixpath.relpath(name, self.root) if inside else posixpath.basename(name)
        else:
            path = posixpath.normpath(posixpath.join(self.folder, name))
        return (posixpath.basename(path) if path.startswith("..") else path) or "log"

    def uri(self, source: str) -> str:
        """Return the path as a relative URI reference."""
        return quote(self.path(source), safe="/!$&'()*+,;=@-._~")


def shortened(name: str, room: int) -> str:
    """Cut the front of a name that is too long: its end tells files apart.

    >>> shortened("/var/log/pods/llm-0/server.log", 18)
    '…/llm-0/server.log'
    """
    name = one_line(name)
    if len(name) <= room:
        return name
    tail = name[len(name) - room + 1 :]
    slash = tail.find("/")
    return "…" + (tail[slash:] if 0 <= slash < len(tail) - 1 else tail)


def repeats(place: Evidence) -> str:
    """Say how often a message came and from where; empty for one of the main process.

    >>> repeats(Evidence(source="a", line=1, text="", count=8, ranks=("TP0", "TP1", "TP2")))
    '×8, ranks TP0–TP2'
    """
    parts = [f"×{place.count}"] if place.count > 1 else []
    if place.ranks:
        word = "rank" if len(place.ranks) == 1 else "ranks"
        parts.append(f"{word} {ranks_in_words(place.ranks)}")
    return one_line(", ".join(parts))


def ranks_in_words(ranks: Sequence[str]) -> str:
    """Write ranks as people do: a run of neighbours as a range, many as some and a number.

    >>> ranks_in_words(["TP0", "TP1", "TP2", "TP3"])
    'TP0–TP3'
    >>> ranks_in_words(["TP0", "TP2"])
    'TP0, TP2'
    """
    matches = [_RANK.fullmatch(rank) for rank in ranks]
    labels = {match["label"] for match in matches if match is not None}
    if None not in matches and len(labels) == 1:
        numbers = sorted({int(match["number"]) for match in matches if match is not None})
        if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:  # noqa: PLR2004  (a range starts at three)
            label = labels.pop()
            return f"{label}{numbers[0]}–{label}{numbers[-1]}"
    if len(ranks) > _NAMED_RANKS + 1:
        rest = len(ranks) - _NAMED_RANKS
        return f"{', '.join(ranks[:_NAMED_RANKS])} and {rest} more"
    return ", ".join(ranks)
