"""Find the few lines of a block that can matter: one pass for all literals at once."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import hyperscan


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A physical line that holds at least one of the scanner's literals.

    `start` and `end` are byte offsets in the block, the newline excluded; `literals` are indexes
    into the scanner's list, each once, in ascending order.
    """

    start: int
    end: int
    literals: tuple[int, ...]


@functools.lru_cache(maxsize=8)
def _database(searched: tuple[tuple[int, str], ...]) -> hyperscan.Database:
    """Compile numbered literals, at the first search for them."""
    import hyperscan

    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[text.encode() for _, text in searched],
        ids=[number for number, _ in searched],
        elements=len(searched),
        flags=[0] * len(searched),
        literal=True,
    )
    return database


class Scanner:
    """Search blocks of whole lines for many literals at once (hyperscan, about 0.5 GB/s)."""

    def __init__(self, literals: Sequence[str], *, passed_over: Sequence[str] = ()) -> None:
        self.literals = tuple(literals)
        self._searched = tuple(
            (number, text) for number, text in enumerate(self.literals) if text not in passed_over
        )

    def without(self, literals: Sequence[str]) -> Scanner:
        """Return a scanner that passes some literals over; the indexes stay the same."""
        return Scanner(self.literals, passed_over=literals)

    def candidates(self, block: bytes) -> Iterator[Candidate]:
        """Yield the lines of a block that hold a literal, in order.

        The block must consist of whole lines.
        """
        if not block or not self._searched:
            return
        start = end = -1
        found: set[int] = set()
        for position, literal in self._matches(block):
            if position > end:
                if found:
                    yield Candidate(start=start, end=end, literals=tuple(sorted(found)))
                start = block.rfind(b"\n", 0, position) + 1
                end = block.find(b"\n", position - 1)
                end = len(block) if end < 0 else end
                found = set()
            found.add(literal)
        if found:
            yield Candidate(start=start, end=end, literals=tuple(sorted(found)))

    def _matches(self, block: bytes) -> list[tuple[int, int]]:
        """List (end offset, literal) of all matches, by end offset."""
        matches: list[tuple[int, int]] = []
        append = matches.append

        def collect(literal: int, _start: int, end: int, _flags: int, _context: object) -> None:
            append((end, literal))

        _database(self._searched).scan(block, match_event_handler=collect)
        return matches
