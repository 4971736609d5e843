"""A made-up GPU: the whole machinery can be tried without one, on a laptop or a Ray cluster.

Latencies come from a roofline with a penalty per tile; they are the same in every process. Chosen
tiles can kill or hang their worker, as real ones do.
"""

from __future__ import annotations

import hashlib
import math
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from advisor.configs.estimate import estimate_shared_bytes
from advisor.configs.problem import Gemm, MoeProblem, extent
from advisor.tuner.problem import touched_weight_bytes
from advisor.tuner.space import Tile
from advisor.tuner.work import Failed, Failure, Outcome, Race, Raced, Timed, Trial, Work

DEVICE = "Rehearsal GPU"
_BYTES_PER_US = 4.3e6
_OPERATIONS_PER_US = 700e6
_SAMPLES = 5
_SM = 90
_SHARED_MEMORY_BYTES = 232_448


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """A setup whose measurements are computed.

    Attributes:
        delay_s: How long a measurement seems to take.
        diary: File to which each finished measurement adds its key and process; None for none.
        deadly: Share of tiles (0..1) that kill their worker, every time.
        hanging: Share of tiles that never answer.
    """

    problem: MoeProblem
    delay_s: float = 0.0
    diary: Path | None = None
    deadly: float = 0.0
    hanging: float = 0.0

    def recipes(self, work: Work) -> tuple[object, ...]:
        """Return the tiles themselves."""
        if isinstance(work, Trial):
            return ((work.gemm, work.tile),)
        parts = (part for entrant in work.entrants for part in entrant.parts())
        return tuple((part.gemm, part.tile) for part in parts)

    def compile(self, recipe: object) -> Failed | None:
        """Refuse what an H200 could not hold."""
        if not isinstance(recipe, tuple):
            raise TypeError(f"not a recipe of this setup: {recipe!r}")
        tile = recipe[1]
        need = estimate_shared_bytes(self.problem, tile.entry(), _SM)
        if need <= _SHARED_MEMORY_BYTES:
            return None
        return Failed(failure=Failure.RESOURCES, text=f"needs {need} bytes of shared memory")

    def open(self, gpu: int) -> RehearsalBench:  # noqa: ARG002  (all made-up GPUs are equal)
        """Return the made-up GPU."""
        return RehearsalBench(self)


class RehearsalBench:
    """The bench of a made-up GPU."""

    device = DEVICE
    poisoned = False

    def __init__(self, setup: Rehearsal) -> None:
        self._setup = setup

    def measure(self, work: Work) -> Outcome:
        """Compute a latency, or die."""
        if self._setup.delay_s:
            time.sleep(self._setup.delay_s)
        outcome = self._race(work) if isinstance(work, Race) else self._trial(work)
        self._write(work)
        return outcome

    def _trial(self, trial: Trial) -> Timed:
        self._maybe_die(trial)
        return Timed(samples_us=self._samples(trial.tokens, trial.gemm, trial.tile))

    def _race(self, race: Race) -> Raced:
        answers = [
            Timed(
                samples_us=tuple(
                    sum(parts)
                    for parts in zip(
                        *(
                            self._samples(race.tokens, part.gemm, part.tile)
                            for part in entrant.parts()
                        ),
                        strict=True,
                    )
                ),
                error_ratio=0.0,
            )
            for entrant in race.entrants
        ]
        return Raced(answers=tuple(answers))

    def _samples(self, tokens: int, gemm: Gemm, tile: Tile) -> tuple[float, ...]:
        centre = latency_us(self._setup.problem, gemm, tokens, tile)
        return tuple(centre * (1 + 0.001 * (place - _SAMPLES // 2)) for place in range(_SAMPLES))

    def _maybe_die(self, trial: Trial) -> None:
        luck = _share(f"luck/{trial.key}")
        if luck < self._setup.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        if luck > 1 - self._setup.hanging:
            signal.pause()

    def _write(self, work: Work) -> None:
        if self._setup.diary is not None:
            with self._setup.diary.open("a", encoding="utf-8") as diary:
                diary.write(f"{work.key} {os.getpid()}\n")


def latency_us(problem: MoeProblem, gemm: Gemm, tokens: int, tile: Tile) -> float:
    """Return a plausible latency: roofline, padding, and how well the tile suits the shape."""
    columns, depth = extent(problem, gemm)
    rows = tokens * problem.top_k / problem.all_experts
    blocks = max(1.0, math.ceil(rows / tile.block_m))
    padded = blocks * tile.block_m * min(problem.experts, tokens * problem.top_k)
    memory_us = touched_weight_bytes(problem, gemm, tokens) / _BYTES_PER_US
    compute_us = 2 * padded * columns * depth / _OPERATIONS_PER_US
    best = (max(16.0, min(128.0, rows)), 128.0 if rows > 16 else 64.0, 64.0)  # noqa: PLR2004
    misfit = sum(
        abs(math.log2(have / want))
        for have, want in zip((tile.block_m, tile.block_n, tile.block_k), best, strict=True)
    )
    misfit += 0.3 * abs(tile.stages - 4) + (0.2 if tile.group_m not in (1, 16) else 0.0)
    wobble = 0.01 * _share(f"{problem.width}/{gemm}/{tile.key}")
    return (3.0 + max(memory_us, compute_us) + 0.3 * compute_us) * (1 + 0.06 * misfit + wobble)


def _share(text: str) -> float:
    """Return a number from 0 to 1 that only depends on the text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") / 2**32
