"""Kernels compiled ahead, on a machine that needs no GPU, into a cache that may travel."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path

from advisor.configs.problem import Gemm
from advisor.tuner.pool import LocalPool
from advisor.tuner.run import Plan
from advisor.tuner.work import Trial
from advisor.tuner.worker import Setup

_POLL_S = 1.0


def likely_trials(plan: Plan, per_gemm: int) -> tuple[Trial, ...]:
    """Return the trials that a run most probably makes: references, then the best scores."""
    trials: list[Trial] = []
    for tokens, spaces in plan.spaces.items():
        pairs = plan.references[tokens].pairs
        for gemm, space in spaces.items():
            known = [pair.up if gemm is Gemm.UP else pair.down for pair in pairs]
            order = sorted(range(len(space.tiles)), key=lambda place: -space.scores[place])
            best = (space.tiles[place] for place in order[:per_gemm])
            tiles = dict.fromkeys(chain(known, best))
            trials += [Trial(tokens=tokens, gemm=gemm, tile=tile) for tile in tiles]
    return tuple(trials)


def precompile(
    setup: Setup,
    trials: tuple[Trial, ...],
    compilers: int,
    on_done: Callable[[int, int], None] = lambda _done, _total: None,
) -> tuple[int, int]:
    """Compile the kernels of trials; return how many there are and how many cannot be made."""
    pool = LocalPool(setup, (), compilers)
    try:
        for trial in trials:
            pool.prepare(trial)
        done, total, failed = pool.kernels
        while done < total:
            pool.collect(_POLL_S)
            done, total, failed = pool.kernels
            on_done(done, total)
        return total, failed
    finally:
        pool.close()


def relocate(cache: Path) -> int:
    """Mend the absolute paths inside a Triton cache that has moved; return how many it mended.

    Triton keeps beside each kernel a list of its files by absolute path and takes a kernel whose
    files are not there for absent.
    """
    mended = 0
    for group in cache.glob("*/__grp__*.json"):
        try:
            children = json.loads(group.read_text(encoding="utf-8"))["child_paths"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        here = {name: str(group.parent / name) for name in children}
        if here != children:
            group.write_text(json.dumps({"child_paths": here}), encoding="utf-8")
            mended += 1
    return mended
