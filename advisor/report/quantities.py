"""Numbers as people read them."""

from __future__ import annotations

from advisor.rules.wording import duration

__all__ = ["counted", "duration", "gib", "percent", "thousands"]


def gib(value: float) -> str:
    """Write a size, GiB.

    >>> gib(56.893)
    '56.9 GiB'
    """
    return f"{value:.1f} GiB"


def thousands(value: float) -> str:
    """Write a count with spaces between thousands.

    >>> thousands(750511)
    '750 511'
    """
    return f"{value:,.0f}".replace(",", " ")


def percent(ratio: float) -> str:
    """Write a ratio of 0..1; small shares keep a digit.

    >>> percent(0.0094)
    '0.9 %'
    """
    small = 0.1
    value = ratio * 100
    return f"{value:.1f} %" if 0 < ratio < small else f"{value:.0f} %"


def counted(number: int, noun: str) -> str:
    """Write a number with its noun.

    >>> counted(2, "warning")
    '2 warnings'
    """
    return f"{thousands(number)} {noun}" + ("" if number == 1 else "s")
