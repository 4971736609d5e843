"""A tuning run with a made-up GPU, for tests that kill it: prints a line per measurement.

python rehearsed_run.py FOLDER [--lanes N] [--ahead MODULE]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from advisor.configs.loaders import loader_of_version
from advisor.configs.problem import Gemm, MoeProblem, target_of_gpu
from advisor.tuner.effort import Effort
from advisor.tuner.journal import Journal
from advisor.tuner.output import config_text
from advisor.tuner.planning import make_plan
from advisor.tuner.pool import LocalPool
from advisor.tuner.prior import Prior
from advisor.tuner.rehearsal import Rehearsal
from advisor.tuner.run import Progress, Run
from advisor.tuner.worker import import_ahead

PROBLEM = MoeProblem(experts=16, width=256, hidden=1024, top_k=4)
BATCH_SIZES = (1, 16, 64, 256, 1024, 4096)
EFFORT = Effort(seeds=6, evaluations=12, round_size=3, worthwhile_ratio=0.0, finalists=2)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--deadly", type=float, default=0.0)
    parser.add_argument("--ahead", default="")
    options = parser.parse_args()
    if options.ahead:
        import_ahead(options.ahead)
    folder: Path = options.folder
    plan = make_plan(
        PROBLEM,
        target_of_gpu("H200"),
        BATCH_SIZES,
        loader=loader_of_version("0.5.23"),
        prior=Prior(winners={}),
        effort=EFFORT,
    )
    setup = Rehearsal(problem=PROBLEM, diary=folder / "diary", deadly=options.deadly)
    pool = LocalPool(setup, range(options.lanes), 1)
    with Journal(folder / "journal") as journal:
        journal.identify({"problem": "rehearsal"})
        result = Run(plan, pool, journal, on_progress=tell).tune()
    pool.close()
    for gemm in Gemm:
        (folder / f"{gemm}.json").write_text(config_text(result.choices, gemm), encoding="utf-8")
    print(f"finished {result.measured} {result.replayed} {result.failed}", flush=True)  # noqa: T201


def tell(progress: Progress) -> None:
    print(f"measured {progress.measured}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
