"""A setup with GPUs of two kinds; a module of its own, so that workers can import it."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.tuner.rehearsal import Rehearsal, RehearsalBench


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedGpus(Rehearsal):
    """Every GPU is its own kind."""

    def open(self, gpu: int) -> RehearsalBench:
        bench = RehearsalBench(self)
        bench.device = f"kind {gpu}"
        return bench
