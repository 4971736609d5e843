"""Tune the main shape on one GPU and on several, each from a cold cache and repeated.

    python benchmarks/tuner_gpus.py --gpus 2 --repeat 2 -o results/

Says for each run the wall time, how evenly the GPUs were used and how long each idled at the end. The
last run kills one GPU's worker half-way. `--ray` does the same through a Ray cluster (the address, or
`local`); `--rehearse` tries the script without a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

SHAPE = "128,768,2048,8"
HALF_WAY = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--effort", default="normal")
    parser.add_argument("--ray")
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("-o", "--out", required=True, type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    runs = []
    for count in (1, options.gpus):
        runs += [tune(options, count, kill=False) for _ in range(options.repeat)]
    runs.append(tune(options, options.gpus, kill=True))
    first = runs[0]["entries"]
    for run in runs:
        run["same_entries_as_first"] = sum(
            a == b for a, b in zip(first, run["entries"], strict=True)
        )
        print({name: value for name, value in run.items() if name != "entries"}, flush=True)
    (options.out / "tuner_gpus.json").write_text(json.dumps(runs, indent=1) + "\n")


def tune(options: argparse.Namespace, count: int, *, kill: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        command = [sys.executable, "-m", "advisor", "tune", "--shape", SHAPE, "-o", str(out)]
        command += ["--cache", str(out / "cache"), "--effort", options.effort]
        command += ["--journal", str(out / "journal")]
        command += [part for gpu in range(count) for part in ("--gpu", str(gpu))]
        command += ["--rehearse"] if options.rehearse else []
        command += ["--ray", options.ray] if options.ray else []
        start_s = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        killed = kill_worker(process.pid, out / "journal") if kill else None
        code = process.wait()
        wall_s = time.monotonic() - start_s
        report = json.loads((out / "tune-report.json").read_text(encoding="utf-8"))
        return {
            "gpus": count,
            "ray": options.ray,
            "killed": killed,
            "exit": code,
            "wall_s": round(wall_s, 2),
            "measured": report["measured"],
            "failed": report["failed"],
            "lanes": lanes(out / "journal"),
            "entries": [(entry["up"], entry["down"]) for entry in report["entries"]],
        }


def kill_worker(parent: int, journal: Path) -> int | None:
    """Kill the first process that holds a GPU (a rehearsal: any child), half-way through."""
    while count_results(journal) < HALF_WAY:
        if not Path(f"/proc/{parent}").exists():
            return None
        time.sleep(0.05)
    listed = (
        subprocess.run(
            ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=False,
        )
        if holds_gpus()
        else None
    )
    pids = listed.stdout.split() if listed else []
    if not pids:
        return None
    os.kill(int(pids[0]), signal.SIGKILL)
    return int(pids[0])


def holds_gpus() -> bool:
    return any(Path(folder, "nvidia-smi").is_file() for folder in os.get_exec_path())


def count_results(journal: Path) -> int:
    if not journal.is_file():
        return 0
    try:
        with closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT count(*) FROM results").fetchone()[0])
    except sqlite3.Error:
        return 0


def lanes(journal: Path) -> dict[str, dict[str, float]]:
    """Return, for each GPU, its measurements and how long before the end it had its last answer."""
    with closing(sqlite3.connect(journal)) as database:
        rows = database.execute(
            "SELECT lane, count(*), max(at) FROM results GROUP BY lane"
        ).fetchall()
    ends = {lane: datetime.fromisoformat(last).timestamp() for lane, _, last in rows}
    latest = max(ends.values())
    return {
        lane: {"measurements": count, "idle_at_end_s": round(latest - ends[lane], 2)}
        for lane, count, _ in rows
    }


if __name__ == "__main__":
    main()
