"""Time every tile of the space at a few batch sizes, and put chosen pairs beside the true best.

    python benchmarks/tuner_truth.py --shape 128,768,2048,8 --batch-sizes 1,64,1024 \
        --chosen run-a/tune-report.json --chosen run-b/tune-report.json -o truth/

Needs a GPU; of several, one times the up and another the down GEMMs. `--sglang DIR` also times a sample of tiles with the kernel of that SGLang, to see
whether Advisor's own kernel ranks tiles as the server's does. All measurements go to a journal;
an interrupted run continues.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import cast

from advisor.configs.entries import ConfigTable, parse_table
from advisor.configs.problem import Gemm
from advisor.configs.source import server_source
from advisor.tuner.batch import Pair
from advisor.tuner.bench import GpuSetup
from advisor.tuner.journal import Journal
from advisor.tuner.pairing import paired
from advisor.tuner.pool import LocalPool
from advisor.tuner.request import TuneRequest, session_of
from advisor.tuner.run import Plan
from advisor.tuner.session import Session
from advisor.tuner.space import Tile, tile_of
from advisor.tuner.work import Entrant, Outcome, Race, Raced, Timed, Trial, Work

FINALISTS = 10
PER_HEIGHT = 3
RACES = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", required=True)
    parser.add_argument("--batch-sizes", default="1,64,1024")
    parser.add_argument("--chosen", action="append", default=[], type=Path)
    parser.add_argument("--sglang", action="append", default=[], type=Path)
    parser.add_argument("--sample", type=int, default=48)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--release", default="0.5.23", help="whose tiles are in the space")
    parser.add_argument("--kernel-of", type=Path, help="time this SGLang's kernel, not Advisor's")
    parser.add_argument("-o", "--out", required=True, type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    session = session_of(
        TuneRequest(
            shape=numbers(options.shape),
            batch_sizes=numbers(options.batch_sizes),
            out=options.out,
            cache=options.cache,
            kernel="server" if options.kernel_of else "bundled",
            sglang=options.kernel_of,
            sglang_version=options.release,
        )
    )
    plan = session.plan()
    chosen = {path.parent.name: read_chosen(path) for path in options.chosen}
    results = measure_truth(session, plan, chosen, options.out / "truth.journal")
    results["ranking"] = [
        rank(session, plan, package, options.sample, options.out) for package in options.sglang
    ]
    text = json.dumps(results, indent=1)
    (options.out / "truth.json").write_text(text + "\n", encoding="utf-8")
    print(
        json.dumps({name: value for name, value in results.items() if name != "tables"}, indent=1)
    )


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def read_chosen(path: Path) -> dict[int, Pair]:
    entries = json.loads(path.read_text(encoding="utf-8"))["entries"]
    return {
        entry["tokens"]: Pair(up=read_tile(entry["up"]), down=read_tile(entry["down"]))
        for entry in entries
    }


def read_tile(fields: dict[str, int]) -> Tile:
    table: ConfigTable = parse_table(json.dumps({"1": fields}), "a report")
    return tile_of(table.entries[0][1])


def measure_truth(
    session: Session, plan: Plan, chosen: dict[str, dict[int, Pair]], path: Path
) -> dict[str, object]:
    setup = GpuSetup(kernels=session.kernels, routing=session.routing)
    pool = LocalPool(setup, session.gpus, session.compilers)
    batches: list[dict[str, object]] = []
    try:
        with Journal(path) as journal:
            journal.identify(session.identity())
            measure(pool, journal, every_trial(plan))
            batches = [judge(pool, journal, plan, tokens, chosen) for tokens in session.batch_sizes]
            tables = {key: list(samples) for key, samples in samples_of(journal)}
    finally:
        pool.close()
    return {"identity": session.identity(), "batches": batches, "tables": tables}


def every_trial(plan: Plan) -> list[Trial]:
    return [
        Trial(tokens=tokens, gemm=gemm, tile=tile)
        for tokens, spaces in plan.spaces.items()
        for gemm, space in spaces.items()
        for tile in space.tiles
    ]


def samples_of(journal: Journal) -> Iterable[tuple[str, tuple[float, ...]]]:
    for key, outcome in journal.results():
        if key.startswith("screen/"):
            yield key, outcome.samples_us if isinstance(outcome, Timed) else ()


def measure(pool: LocalPool, journal: Journal, works: Sequence[Work]) -> None:
    left = {work.key: work for work in works if journal.find(work) is None}
    for work in left.values():
        pool.submit(lane_of(pool, work), work)
    while left:
        for done in pool.collect(1.0):
            journal.record(done.work, done.outcome, "gpu")
            left.pop(done.work.key, None)


def lane_of(pool: LocalPool, work: Work) -> int:
    """Return where to measure: a table comes from one GPU, for two of a kind differ a little."""
    down = isinstance(work, Trial) and work.gemm is Gemm.DOWN
    return pool.lanes[-1 if down else 0]


def judge(
    pool: LocalPool,
    journal: Journal,
    plan: Plan,
    tokens: int,
    chosen: dict[str, dict[int, Pair]],
) -> dict[str, object]:
    """Race the best of the whole space, then the best pairs against the chosen ones."""
    screened = {gemm: screened_us(journal, plan, tokens, gemm) for gemm in Gemm}
    singles = [
        *(Entrant(up=tile) for tile in finalists(screened[Gemm.UP])),
        *(Entrant(down=tile) for tile in finalists(screened[Gemm.DOWN])),
    ]
    heats = Race(tokens=tokens, entrants=tuple(singles))
    measure(pool, journal, [heats])
    times = medians(heats, journal.find(heats))
    sums = {
        Pair(up=up.up, down=down.down): up_us + down_us
        for up, up_us in times.items()
        for down, down_us in times.items()
        if up.up and down.down and up.up.block_m == down.down.block_m
    }
    best = sorted(sums, key=lambda pair: sums[pair])[:4]
    picked = {name: pairs[tokens] for name, pairs in chosen.items() if tokens in pairs}
    default = plan.references[tokens].default
    entrants = dict.fromkeys(pair.entrant for pair in [*best, *picked.values(), default])
    rounds = []
    for turn in range(RACES):
        race = Race(tokens=tokens, entrants=tuple(entrants) + (default.entrant,) * turn)
        measure(pool, journal, [race])
        rounds.append(medians(race, journal.find(race)))
    truths = [min(one[pair.entrant] for pair in best) for one in rounds]
    return {
        "tokens": tokens,
        "tiles": {str(gemm): len(values) for gemm, values in screened.items()},
        "best_us": [round(truth, 3) for truth in truths],
        "best": best[0].entrant.key,
        "default_ratio": ratios(default, rounds, truths),
        "chosen_ratio": {name: ratios(pair, rounds, truths) for name, pair in picked.items()},
    }


def screened_us(journal: Journal, plan: Plan, tokens: int, gemm: Gemm) -> dict[Tile, float]:
    found = {}
    for tile in plan.spaces[tokens][gemm].tiles:
        outcome = journal.find(Trial(tokens=tokens, gemm=gemm, tile=tile))
        if isinstance(outcome, Timed):
            found[tile] = outcome.median_us
    return found


def finalists(values: dict[Tile, float]) -> list[Tile]:
    order = sorted(values, key=lambda tile: values[tile])
    chosen = dict.fromkeys(order[:FINALISTS])
    for height in sorted({tile.block_m for tile in order}):
        chosen |= dict.fromkeys([tile for tile in order if tile.block_m == height][:PER_HEIGHT])
    return list(chosen)


def ratios(
    pair: Pair, rounds: Sequence[dict[Entrant, float]], truths: Sequence[float]
) -> list[float]:
    return [round(one[pair.entrant] / truth, 4) for one, truth in zip(rounds, truths, strict=True)]


def medians(race: Race, outcome: Outcome | None) -> dict[Entrant, float]:
    """Return latencies compared round by round."""
    answers = dict(zip(race.entrants, cast("Raced", outcome).answers, strict=True))
    return {entrant: run.latency_us for entrant, run in paired(answers).items()}


def rank(session: Session, plan: Plan, package: Path, sample: int, out: Path) -> dict[str, object]:
    """Time a sample of tiles with a server's kernel; correlate with Advisor's own."""
    theirs = replace(session, source=server_source(package))
    pool = LocalPool(
        GpuSetup(kernels=theirs.kernels, routing=theirs.routing), theirs.gpus, theirs.compilers
    )
    generator = random.Random(0)  # noqa: S311  (no secret)
    trials = [
        Trial(tokens=tokens, gemm=gemm, tile=tile)
        for tokens, spaces in plan.spaces.items()
        for gemm, space in spaces.items()
        for tile in generator.sample(space.tiles, min(sample, len(space.tiles)))
    ]
    rows = []
    try:
        with (
            Journal(out / f"server-{package.parent.name}.journal") as journal,
            Journal(out / "truth.journal") as own,
        ):
            journal.identify(theirs.identity())
            measure(pool, journal, trials)
            for trial in trials:
                left, right = own.find(trial), journal.find(trial)
                if isinstance(left, Timed) and isinstance(right, Timed):
                    rows.append((trial, left.median_us, right.median_us))
    finally:
        pool.close()
    return {
        "sglang": package.parent.name,
        "groups": [
            {
                "tokens": tokens,
                "gemm": str(gemm),
                "tiles": len(group),
                "rank_correlation": round(
                    spearman([r[1] for r in group], [r[2] for r in group]), 4
                ),
                "server_over_own": round(median(row[2] / row[1] for row in group), 4),
            }
            for tokens in plan.spaces
            for gemm in Gemm
            if (group := [row for row in rows if (row[0].tokens, row[0].gemm) == (tokens, gemm)])
        ],
    }


def spearman(left: Sequence[float], right: Sequence[float]) -> float:
    places = [
        {index: place for place, index in enumerate(sorted(range(len(v)), key=v.__getitem__))}
        for v in (left, right)
    ]
    count = len(left)
    squared = sum((places[0][index] - places[1][index]) ** 2 for index in range(count))
    return 1 - 6 * squared / (count * (count**2 - 1))


if __name__ == "__main__":
    main()
