"""From a problem and a GPU to a plan: spaces, prior scores, and what the server runs today."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from advisor.configs.defaults import default_entry
from advisor.configs.loaders import DownRule, Loader
from advisor.configs.lookup import Lookup, Outcome
from advisor.configs.problem import Gemm, MoeProblem, Target
from advisor.knowledge.gpus import find_gpu
from advisor.tuner.batch import Pair, References, Space
from advisor.tuner.effort import Effort
from advisor.tuner.prior import Prior
from advisor.tuner.problem import config_name, padding_traffic_bytes
from advisor.tuner.run import Plan
from advisor.tuner.space import GRID, Tile, legal_tiles, tile_of, tma_serves

_SLOW_GB_S = 1000


def make_plan(  # noqa: PLR0913  (all of them needed, four keyword-only)
    problem: MoeProblem,
    target: Target,
    batch_sizes: Sequence[int],
    *,
    loader: Loader,
    prior: Prior,
    effort: Effort,
    today: Lookup | None = None,
) -> Plan:
    """Return the plan for all batch sizes.

    Args:
        problem: The shape.
        target: The GPU.
        batch_sizes: In tokens.
        loader: The rules of the server's SGLang release.
        prior: What wins elsewhere.
        effort: How much to measure.
        today: What the server finds on its disk; None if that is not known.
    """
    return Plan(
        spaces={tokens: _spaces(problem, target, tokens, loader, prior) for tokens in batch_sizes},
        references={
            tokens: references_of(problem, target, tokens, loader, today) for tokens in batch_sizes
        },
        effort=effort,
        one_tile=loader.down is DownRule.NONE,
    )


def tma_gemms(problem: MoeProblem, target: Target, loader: Loader) -> tuple[Gemm, ...]:
    """Return the GEMMs whose tiles are tried with TMA, too."""
    ranks = problem.expert_parallel > 1
    understood = {
        Gemm.UP: loader.up_tma_understood,
        Gemm.DOWN: loader.down is not DownRule.NONE and (loader.sorted_ranks or not ranks),
    }
    return tuple(gemm for gemm in Gemm if understood[gemm] and tma_serves(problem, gemm, target))


def references_of(
    problem: MoeProblem, target: Target, tokens: int, loader: Loader, today: Lookup | None
) -> References:
    """Return what the server runs for a batch: by its files, if it has any, and by default."""
    name = config_name(problem, target.name, Gemm.UP, loader)
    built_in = tile_of(
        default_entry(name, tokens, loader, shared_memory_bytes=target.shared_memory_bytes)
    )
    default = Pair(up=built_in, down=built_in)
    outcomes = (today.up, today.down) if today else (None, None)
    of_up, of_down = (_tile_from(outcome, tokens) for outcome in outcomes)
    if of_up is None and of_down is None:
        return References(default=default)
    up = of_up or built_in
    found = Pair(up=up, down=_with_height(of_down or up, up.block_m))
    return References(default=default, today=found)


def _tile_from(outcome: Outcome | None, tokens: int) -> Tile | None:
    if outcome is None or outcome.table is None or not outcome.table.entries:
        return None
    return tile_of(outcome.table.nearest(tokens)[1])


def _with_height(tile: Tile, block_m: int) -> Tile:
    """Return the tile with up's BLOCK_SIZE_M, which the server forces on down."""
    return replace(tile, block_m=block_m)


def _spaces(
    problem: MoeProblem, target: Target, tokens: int, loader: Loader, prior: Prior
) -> Mapping[Gemm, Space]:
    with_tma = tma_gemms(problem, target, loader)
    spaces = {}
    for gemm in Gemm:
        tiles = legal_tiles(problem, gemm, tokens, target, tma=gemm in with_tma)
        scores = prior.scores(tiles, problem, gemm, tokens, target.sm)
        charged = gemm is Gemm.DOWN and not loader.padding_skipped
        tma_us = _padding_us(problem, target, tokens) if charged else {}
        spaces[gemm] = Space(tiles=tiles, scores=tuple(scores), tma_us=tma_us)
    return spaces


def _padding_us(problem: MoeProblem, target: Target, tokens: int) -> Mapping[int, float]:
    """Return how long the activation takes over rows that only pad, by BLOCK_SIZE_M.

    A down GEMM with TMA takes its inputs sorted and padded; releases before 0.5.22 compute the
    padding too. An estimate by memory traffic, not a measurement.
    """
    gpu = find_gpu(target.name)
    bandwidth_gb_s = (gpu.bandwidth_gb_s if gpu else None) or _SLOW_GB_S
    return {
        block_m: padding_traffic_bytes(problem, tokens, block_m) / (bandwidth_gb_s * 1e3)
        for block_m in GRID[0]
    }
