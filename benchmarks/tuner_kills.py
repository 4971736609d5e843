"""Kill a tuning run (made-up GPU) at random moments, continue it, and compare with a whole run.

    python benchmarks/tuner_kills.py --kills 50 -o benchmarks/results

Each round kills either the whole run or its bench worker with SIGKILL. Checked: the files that come
out are those of an undisturbed run, and nothing that was in the journal is measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from advisor.tuner.journal import Journal

RUNNER = Path(__file__).parent.parent / "tests" / "tuner" / "rehearsed_run.py"
FILES = ("up.json", "down.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One kill; `again` counts journalled work that was repeated, `in_flight` work cut short."""

    victim: str
    identical: bool
    again: int
    in_flight: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--out", required=True, type=Path)
    options = parser.parse_args()
    generator = random.Random(options.seed)  # noqa: S311  (no secret)
    with TemporaryDirectory() as folder:
        whole = Path(folder) / "whole"
        finish(start(whole))
        measurements = len(diary(whole))
        rounds = [
            play_round(Path(folder) / str(number), whole, generator, measurements)
            for number in range(options.kills)
        ]
    results = {
        "kills": len(rounds),
        "of_the_run": sum(one.victim == "run" for one in rounds),
        "of_the_worker": sum(one.victim == "worker" for one in rounds),
        "measurements_of_a_whole_run": measurements,
        "identical_files": sum(one.identical for one in rounds),
        "measured_again_though_journalled": sum(one.again for one in rounds),
        "measured_twice_in_flight_at_the_kill": sum(one.in_flight for one in rounds),
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "tuner_kills.json").write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))


def play_round(folder: Path, whole: Path, generator: random.Random, measurements: int) -> Round:
    victim = generator.choice(["run", "worker"])
    process = start(folder)
    for _ in range(generator.randint(1, measurements - 1)):
        if process.stdout is not None:
            process.stdout.readline()
    pid = process.pid if victim == "run" else int(diary(folder)[-1].split()[1])
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        victim = "nobody (already finished)"
    finish(process)
    kept, before = journalled(folder), len(diary(folder))
    if victim == "run":
        finish(start(folder))
    lines = [line.split()[0] for line in diary(folder)]
    again = set(lines[before:]) & kept if victim == "run" else set()
    return Round(
        victim=victim,
        identical=all((folder / f).read_bytes() == (whole / f).read_bytes() for f in FILES),
        again=len(again),
        in_flight=len(lines) - len(set(lines)),
    )


def start(folder: Path) -> subprocess.Popen[str]:
    folder.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, str(RUNNER), str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> None:
    process.communicate(timeout=300)


def diary(folder: Path) -> list[str]:
    return (folder / "diary").read_text(encoding="utf-8").splitlines()


def journalled(folder: Path) -> set[str]:
    with Journal(folder / "journal") as journal:
        return {key for key, _ in journal.results()}


if __name__ == "__main__":
    main()
