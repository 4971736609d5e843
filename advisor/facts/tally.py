"""Running sums over columns of printed numbers, in bounded memory."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from math import isfinite

FULL_USAGE_RATIO = 0.95
MOST_KEYS = 4096
_SMALLEST_TREND_BIN = 8
_MOST_TREND_BINS = 64


@dataclass(slots=True)
class Distribution:
    """Count, sum and maximum of values that repeat much, such as a usage of two decimals.

    `full` counts values at or above FULL_USAGE_RATIO.
    """

    count: int = 0
    total: float = 0.0
    maximum: float | None = None
    full: int = 0

    def add(self, column: Sequence[bytes] | None) -> None:
        """Take the printed values of some lines; None where the lines have no such field."""
        if not column:
            return
        for text, lines in Counter(column).items():
            value = _value(text)
            if value is None:
                continue
            self.count += lines
            self.total += value * lines
            if value >= FULL_USAGE_RATIO:
                self.full += lines
            if self.maximum is None or value > self.maximum:
                self.maximum = value

    def merge(self, other: Distribution) -> None:
        """Take what another one has seen."""
        self.count += other.count
        self.total += other.total
        self.full += other.full
        known = [value for value in (self.maximum, other.maximum) if value is not None]
        self.maximum = max(known, default=None)

    @property
    def mean(self) -> float | None:
        """The mean; None without values."""
        return self.total / self.count if self.count else None


@dataclass(slots=True)
class Trend:
    """Means of consecutive runs of lines: up to 64 bins, joined in pairs when there are more."""

    size: int = _SMALLEST_TREND_BIN
    count: int = 0
    total: float = 0.0
    tokens: int = 0
    bins: list[tuple[float, float]] = field(default_factory=list)

    def close(self) -> None:
        """End the current bin; whoever adds to `count`, `total` and `tokens` calls it in time."""
        self.bins.append((self.total / self.count, self.tokens / self.count))
        self.count, self.total, self.tokens = 0, 0.0, 0
        if len(self.bins) > _MOST_TREND_BINS:
            pairs = zip(self.bins[::2], self.bins[1::2], strict=False)
            self.bins = [((a + c) / 2, (b + d) / 2) for (a, b), (c, d) in pairs]
            self.size *= 2

    @property
    def lines(self) -> int:
        """The lines in whole bins."""
        return len(self.bins) * self.size


def kendall(values: Sequence[float]) -> float:
    """Return Kendall's tau of values against their order: 1 rising, -1 falling, 0 neither.

    >>> kendall([3.0, 2.0, 1.0])
    -1.0
    """
    pairs = len(values) * (len(values) - 1) // 2
    score = sum(
        (later > value) - (later < value)
        for index, value in enumerate(values)
        for later in values[index + 1 :]
    )
    return score / pairs if pairs else 0.0


def where(column: Sequence[bytes] | None, chosen: Sequence[bool]) -> Sequence[bytes] | None:
    """Return the values of the chosen lines."""
    return None if column is None else tuple(compress(column, chosen))


def largest(column: Sequence[bytes] | None) -> int | None:
    """Return the largest whole number of a column; None where there is none."""
    return max((whole(text) for text in set(column or ())), default=None)


def whole(text: bytes) -> int:
    """Read a whole number; 0 for what is none.

    >>> whole(b"17")
    17
    """
    return int(text) if text.isdigit() else 0


def whole_numbers(column: Sequence[bytes]) -> list[int]:
    """Read a column of whole numbers."""
    try:
        return list(map(int, column))
    except ValueError:
        return [whole(text) for text in column]


def numbers(column: Sequence[bytes]) -> list[float]:
    """Read a column of numbers; 0 for what is none."""
    try:
        return list(map(float, column))
    except ValueError:
        return [_number(text) for text in column]


@functools.lru_cache(maxsize=MOST_KEYS)
def _value(text: bytes) -> float | None:
    """Read one of the values that repeat; None for what is no finite number."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None


def _number(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
