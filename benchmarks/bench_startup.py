"""How long the command takes to start, and to diagnose a short log.

    python -m benchmarks.bench_startup

Prints the best of several runs of `advisor --version` and of `advisor diagnose` with 300 lines,
each in a process of its own, beside the time of an empty Python.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.make_serving_log import write

_RUN = "import sys; from advisor.cli.main import run; sys.exit(run(sys.argv[1:]))"
_LINES = 300
VERSION_LIMIT_S, DIAGNOSE_LIMIT_S = 0.15, 0.4


def best_of(repeats: int, command: list[str]) -> float:
    """Return the best wall time of a command."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        subprocess.run(command, capture_output=True, check=False)
        times.append(time.perf_counter() - begin)
    return min(times)


def main() -> int:
    """Time the three commands and return 1 where a limit is passed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    with tempfile.TemporaryDirectory() as name:
        log = Path(name) / "short.log"
        write(log, 1, seed=1)
        lines = log.read_text(encoding="utf-8").splitlines(keepends=True)
        log.write_text("".join(lines[:_LINES]), encoding="utf-8")
        python = [sys.executable, "-c"]
        empty = best_of(repeats, [*python, "pass"])
        version = best_of(repeats, [*python, _RUN, "--version"])
        diagnose = best_of(repeats, [*python, _RUN, "diagnose", str(log)])
    print(f"python -c pass     {empty:6.3f} s")
    print(f"advisor --version  {version:6.3f} s  limit {VERSION_LIMIT_S:g}")
    print(f"advisor diagnose   {diagnose:6.3f} s  limit {DIAGNOSE_LIMIT_S:g} ({_LINES} lines)")
    return int(version > VERSION_LIMIT_S or diagnose > DIAGNOSE_LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
