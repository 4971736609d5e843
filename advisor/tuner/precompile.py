"""Kernels compiled ahead, on a machine that needs no GPU, into a cache that may travel."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from multiprocessing.connection import wait
from pathlib import Path

from advisor.configs.problem import Gemm
from advisor.tuner.compilers import Compilers
from advisor.tuner.pool import Limits
from advisor.tuner.run import Plan
from advisor.tuner.work import Failure, Trial
from advisor.tuner.worker import Setup

_POLL_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """What became of the kernels.

    Attributes:
        made: Those that are in the cache.
        unfit: Those that the GPU could not hold.
        broken: Those that could not be compiled or stored.
        reason: Why the first of these could not; empty if there is none.
    """

    made: int
    unfit: int = 0
    broken: int = 0
    reason: str = ""


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
    processes: int,
    on_done: Callable[[int, int], None] = lambda _done, _total: None,
) -> Compiled:
    """Compile the kernels of trials."""
    limits = Limits()
    compilers = Compilers(setup, processes, open_limit_s=limits.open_s, limit_s=limits.compile_s)
    recipes = tuple(dict.fromkeys(chain.from_iterable(setup.recipes(trial) for trial in trials)))
    try:
        for recipe in recipes:
            compilers.want(recipe)
        while compilers.done < len(recipes):
            compilers.feed()
            compilers.hear(set(wait(compilers.connections, _POLL_S)))
            on_done(compilers.done, len(recipes))
    finally:
        compilers.close()
    failures = [failed for recipe in recipes if (failed := compilers.failure((recipe,)))]
    broken = [failed for failed in failures if failed.failure is not Failure.RESOURCES]
    return Compiled(
        made=len(recipes) - len(failures),
        unfit=len(failures) - len(broken),
        broken=len(broken),
        reason=broken[0].text if broken else "",
    )


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
