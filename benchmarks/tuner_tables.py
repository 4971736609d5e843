"""Write recorded measurements as compact tables for simulations: one file per GEMM and batch.

    python benchmarks/tuner_tables.py truth.json exhaustive.json ... -o tests/fixtures/tuner

Takes results of tuner_truth.py (both GEMMs apart) and tables with `columns` and `rows` (both GEMMs
with one tile). At most four samples of each tile are kept, in us; none means it could not run.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from pathlib import Path

from advisor.tuner.simulate import read_tables
from advisor.tuner.work import trial_from_key

COLUMNS = [
    "BLOCK_SIZE_M",
    "BLOCK_SIZE_N",
    "BLOCK_SIZE_K",
    "GROUP_SIZE_M",
    "num_warps",
    "num_stages",
    "USE_TMA",
]
KEPT = 4
LABEL = re.compile(r"E=(\d+) N=(\d+) K=(\d+) top-k (\d+) (.+)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="+", type=Path)
    parser.add_argument("-o", "--out", required=True, type=Path)
    options = parser.parse_args()
    for source in options.sources:
        document = json.loads(source.read_text(encoding="utf-8"))
        if "tables" in document:
            from_truth(document, options.out)
        else:
            from_exhaustive(source, document, options.out)


def from_truth(document: dict[str, dict[str, list[float]]], out: Path) -> None:
    identity = document["identity"]
    match = LABEL.fullmatch(str(identity["problem"]))
    if match is None:
        raise SystemExit(f"unknown problem {identity['problem']}")
    meta = dict(zip(("E", "N", "K", "topk"), map(int, match.groups()[:4]), strict=True))
    rows: dict[tuple[int, str], list[list[object]]] = {}
    for key, samples in document["tables"].items():
        trial = trial_from_key(key)
        if trial is not None:
            tile = trial.tile
            numbers = [
                tile.block_m,
                tile.block_n,
                tile.block_k,
                tile.group_m,
                tile.warps,
                tile.stages,
                tile.tma,
            ]
            kept = [round(sample, 2) for sample in samples[:KEPT]]
            rows.setdefault((trial.tokens, str(trial.gemm)), []).append([*numbers, kept])
    for (tokens, gemm), table in rows.items():
        head = {"meta": meta | {"gpu": identity["device"], "triton": identity["triton"]}}
        write(out / f"h200_{gemm}_{tokens}.json.gz", head | {"M": tokens, "gemm": gemm}, table)


def from_exhaustive(source: Path, document: dict[str, object], out: Path) -> None:
    (table,) = read_tables(source)
    rows = [
        [
            *(tile.block_m, tile.block_n, tile.block_k, tile.group_m, tile.warps, tile.stages),
            tile.tma,
            [round(sample, 2) for sample in samples[:KEPT]],
        ]
        for tile, samples in table.samples.items()
    ]
    head = {"meta": document["meta"], "M": table.tokens}
    write(out / f"h200_both_{table.tokens}.json.gz", head, rows)


def write(path: Path, head: dict[str, object], rows: list[list[object]]) -> None:
    body = head | {"columns": [*COLUMNS, "us_samples"], "rows": rows}
    text = json.dumps(body, separators=(",", ":"))
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{path}: {len(rows)} tiles, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
