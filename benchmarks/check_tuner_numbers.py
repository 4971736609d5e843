"""Check, on a GPU, that what the tuner times is computed right, for every kind of weights.

    python benchmarks/check_tuner_numbers.py --sglang DIR -o numbers.json

For Advisor's kernel and each given SGLang's: both GEMMs of small shapes, tiles of all heights with and
without TMA, one rank of several, at several batch sizes, against float64. Kernels are compiled by all
cores; two kinds of weights run at a time.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.configs.names import ExpertDtype
from advisor.configs.problem import Gemm, MoeProblem, target_of_gpu
from advisor.configs.source import KernelSource, bundled_source, server_source
from advisor.tuner.bench import GpuSetup
from advisor.tuner.gpus import local_gpus
from advisor.tuner.kernels import Kernels
from advisor.tuner.pool import LocalPool
from advisor.tuner.problem import label
from advisor.tuner.routing import Routing
from advisor.tuner.space import Tile, tma_serves
from advisor.tuner.work import Entrant, Failed, Outcome, Race, Raced, Timed

AT_A_TIME = 2
BATCH_SIZES = (1, 7, 1000)
LARGEST_ERROR_RATIO = 0.006
PLAIN = MoeProblem(experts=16, width=256, hidden=512, top_k=4)
FP8, INT8 = ExpertDtype.FP8_W8A8, ExpertDtype.INT8_W8A8
PROBLEMS = (
    PLAIN,
    replace(PLAIN, activation="fp16"),
    replace(PLAIN, dtype=FP8),
    replace(PLAIN, dtype=FP8, per_channel=True),
    replace(PLAIN, dtype=FP8, block_shape=(128, 128)),
    replace(PLAIN, dtype=INT8, per_channel=True),
    replace(PLAIN, dtype=INT8, block_shape=(128, 128)),
    replace(PLAIN, experts=4, expert_parallel=4),
    replace(PLAIN, dtype=FP8, block_shape=(128, 128), experts=4, expert_parallel=4),
)
TILES = (
    Tile(16, 64, 64, 1, 4, 3),
    Tile(32, 256, 128, 1, 4, 2),
    Tile(64, 128, 128, 16, 8, 2),
    Tile(128, 64, 64, 32, 4, 4),
)


@dataclass(frozen=True, kw_only=True)
class Check:
    problem: MoeProblem
    source: KernelSource
    name: str
    device: str
    cache: Path
    compilers: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sglang", action="append", default=[], type=Path)
    parser.add_argument("-o", "--out", required=True, type=Path)
    options = parser.parse_args()
    device = local_gpus()[0].name
    sources = [
        ("Advisor", bundled_source()),
        ("Advisor, launched early", bundled_source(early_launch=True)),
    ]
    sources += [(path.parent.name, server_source(path)) for path in options.sglang]
    rows: list[dict[str, object]] = []
    with (
        tempfile.TemporaryDirectory() as cache,
        ProcessPoolExecutor(AT_A_TIME, multiprocessing.get_context("spawn")) as pool,
    ):
        compilers = max(1, (os.cpu_count() or 2) // AT_A_TIME - 1)
        checks = [
            Check(
                problem=problem,
                source=source,
                name=name,
                device=device,
                cache=Path(cache),
                compilers=compilers,
            )
            for name, source in sources
            for problem in PROBLEMS
        ]
        for done in as_completed([pool.submit(run_check, check) for check in checks]):
            rows += done.result()
            options.out.write_text(json.dumps({"device": device, "rows": rows}, indent=1) + "\n")
    wrong = [row for row in rows if not row["right"]]
    worst = max((float(str(row["error_ratio"])) for row in rows if row["right"]), default=0.0)
    print(f"{len(rows)} results, {len(wrong)} wrong or failed, largest deviation {worst:.2g}")
    for row in wrong:
        print(row)
    return bool(wrong)


def run_check(check: Check) -> list[dict[str, object]]:
    target = target_of_gpu(check.device)
    kernels = Kernels(source=check.source, problem=check.problem, target=target, cache=check.cache)
    tma = all(tma_serves(check.problem, gemm, target) for gemm in Gemm)
    races = [Race(tokens=tokens, entrants=entrants(tma=tma)) for tokens in BATCH_SIZES]
    pool = LocalPool(GpuSetup(kernels=kernels, routing=Routing()), (0,), check.compilers)
    rows: list[dict[str, object]] = []
    try:
        for race in races:
            pool.submit(0, race)
        left = len(races)
        while left:
            for done in pool.collect(1.0):
                left -= 1
                if isinstance(done.work, Race):
                    rows += rows_of(check, done.work, done.outcome)
    finally:
        pool.close()
    return rows


def entrants(*, tma: bool) -> tuple[Entrant, ...]:
    """Return pairs of the same height: plain, both with TMA, and each of both alone."""
    pairs = [Entrant(up=tile, down=tile) for tile in TILES]
    if tma:
        for tile in TILES:
            loaded = replace(tile, tma=True)
            pairs += [
                Entrant(up=loaded, down=loaded),
                Entrant(up=tile, down=loaded),
                Entrant(up=loaded, down=tile),
            ]
    return tuple(pairs)


def rows_of(check: Check, race: Race, outcome: Outcome) -> list[dict[str, object]]:
    failed = [outcome] * len(race.entrants)
    answers = outcome.answers if isinstance(outcome, Raced) else failed
    return [
        {
            "kernel": check.name,
            "problem": label(check.problem),
            "tokens": race.tokens,
            "tiles": entrant.key,
            "error_ratio": answer.error_ratio if isinstance(answer, Timed) else None,
            "failed": answer.text if isinstance(answer, Failed) else None,
            "right": isinstance(answer, Timed)
            and answer.error_ratio is not None
            and answer.error_ratio < LARGEST_ERROR_RATIO,
        }
        for entrant, answer in zip(race.entrants, answers, strict=True)
    ]


if __name__ == "__main__":
    raise SystemExit(main())
