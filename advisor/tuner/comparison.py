"""Search strategies side by side on a recorded table, as text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from advisor.configs.problem import Gemm, MoeProblem, Target, target_of_gpu
from advisor.errors import InputError
from advisor.tuner.effort import EFFORTS
from advisor.tuner.prior import Prior, shipped_prior
from advisor.tuner.search import GuidedSearch, RandomSearch, Strategy
from advisor.tuner.simulate import Curve, Table, problem_of_table, read_tables, simulate
from advisor.tuner.space import legal_tiles

_RECORDED_ON = "H200"
_GUIDED = (5, 64)
_RANDOM = (50, 200)
"""Repetitions, and measurements in each."""


def compare_strategies(path: Path, prior: Prior | None = None) -> str:
    """Return how the guided search, without and with the prior, fares against random search.

    Raises:
        InputError: If the file holds no recorded measurements, or does not tell their shape.
    """
    tables = read_tables(path)
    problem = problem_of_table(path)
    target = target_of_gpu(_RECORDED_ON)
    head = (
        f"{len(tables)} recorded table(s) of {path.name}: measurements until within 2 % "
        "and 1 % of the best (median), then best found / best there is (mean, worst); the shipped prior may know this shape"
    )
    lines = [head]
    for table in tables:
        for name, start in strategies(table, problem, target, prior or shipped_prior()).items():
            repetitions, budget = _GUIDED if name.startswith("guided") else _RANDOM
            curve = simulate(table, name, start, repetitions=repetitions, budget=budget)
            lines.append(curve_line(curve))
    return "\n".join(lines) + "\n"


def strategies(
    table: Table, problem: MoeProblem, target: Target, prior: Prior
) -> dict[str, Callable[[int], Strategy]]:
    """Return what is compared: by name, how to start it for a repetition.

    Raises:
        InputError: If no recorded tile can run.
    """
    gemm = table.gemm or Gemm.UP
    tiles = [
        tile
        for tile in legal_tiles(problem, gemm, table.tokens, target, tma=table.tma)
        if tile in table.samples
    ]
    if not tiles:
        raise InputError(f"{table.name}: none of the recorded tiles can run with this shape")
    effort = replace(EFFORTS["thorough"], evaluations=_GUIDED[1])
    scores = prior.scores(tiles, problem, gemm, table.tokens, target.sm)
    valid = [tile for tile, samples in table.samples.items() if samples]
    return {
        "guided": lambda _: GuidedSearch(tiles, scores, effort),
        "guided, no prior": lambda _: GuidedSearch(tiles, [1.0] * len(tiles), effort),
        "random, valid only": lambda seed: RandomSearch(valid, seed),
        "random, whole grid": lambda seed: RandomSearch(list(table.samples), seed),
    }


def curve_line(curve: Curve) -> str:
    """Return one strategy's figures in one line."""
    within = ", ".join(
        f"{ratio - 1:.0%} after {count:.0f}" if count else f"{ratio - 1:.0%} never"
        for ratio, count in curve.within
    )
    ratios = ", ".join(f"{count}: {mean:.3f} ({worst:.3f})" for count, mean, worst in curve.ratios)
    return f"{curve.table:>16}  {curve.strategy:<20} {within:<28} {ratios}"
