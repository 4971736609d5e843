"""The result as an SVG: how much slower than tuned the default and today's entries are."""

from __future__ import annotations

import math
from collections.abc import Sequence

from advisor.tuner.decide import Choice

_WIDTH, _HEIGHT = 760, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 20, 36, 56
_SERIES = (("default", "#c44e52"), ("today", "#dd8452"), ("chosen", "#4c72b0"))
_SMALLEST_TOP = 1.1


def plot_svg(choices: Sequence[Choice]) -> str:
    """Return a plot of latency over that of the chosen pair, by batch size."""
    rows = [choice for choice in choices if choice.chosen_us]
    lines: dict[str, list[float | None]] = {
        "default": _ratios(rows, [choice.default_us for choice in rows]),
        "today": _ratios(rows, [choice.today_us for choice in rows]),
        "chosen": [1.0 for _ in rows],
    }
    top = max([_SMALLEST_TOP, *(value for line in lines.values() for value in line if value)])
    parts = [*_axes([choice.tokens for choice in rows], top)]
    for place, (name, colour) in enumerate(_SERIES):
        points = [
            (_x(index, len(rows)), _y(value, top))
            for index, value in enumerate(lines[name])
            if value is not None
        ]
        if points:
            parts += _line(points, colour)
            parts.append(_text(_LEFT + 12 + 110 * place, 20, name, colour=colour, anchor="start"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'font-family="sans-serif" font-size="12">\n<rect width="{_WIDTH}" height="{_HEIGHT}" '
        'fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _ratios(rows: Sequence[Choice], values: Sequence[float | None]) -> list[float | None]:
    return [
        None if value is None or not choice.chosen_us else value / choice.chosen_us
        for choice, value in zip(rows, values, strict=True)
    ]


def _x(index: int, count: int) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (index + 0.5) / max(1, count)


def _y(value: float, top: float) -> float:
    floor = 0.95
    return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * (value - floor) / (top - floor)


def _axes(batch_sizes: Sequence[int], top: float) -> list[str]:
    step = 0.05 if top < 1.3 else 0.1 if top < 1.8 else 0.25  # noqa: PLR2004  (readable ticks)
    parts = []
    for tick in range(math.floor((top - 1.0) / step) + 1):
        value = 1.0 + tick * step
        height = _y(value, top)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{height:.1f}" y2="{height:.1f}" '
            'stroke="#ddd"/>'
        )
        parts.append(_text(_LEFT - 6, height + 4, f"{value:.2f}", anchor="end"))
    for index, tokens in enumerate(batch_sizes):
        parts.append(_text(_x(index, len(batch_sizes)), _HEIGHT - _BOTTOM + 18, str(tokens)))
    parts.append(_text(_WIDTH / 2, _HEIGHT - 12, "batch size in tokens"))
    parts.append(_text(_WIDTH - _RIGHT, 20, "latency over the chosen pair", anchor="end"))
    return parts


def _line(points: Sequence[tuple[float, float]], colour: str) -> list[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
    return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>', *dots]


def _text(x: float, y: float, text: str, *, colour: str = "#333", anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}">{text}</text>'
