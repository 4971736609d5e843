"""How long a large serving log takes, against `rg -c` with the same literals.

    python -m benchmarks.bench_reading --mib 512

Makes the log if it is not given, then runs both by turns, each in a process of its own, and prints
the best wall time of each, their ratio, and the memory of Advisor. Runs by turns share whatever
else the machine does.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from advisor.diagnosis import PatternIndex, patterns_of
from advisor.rules.load import load_rules
from benchmarks.make_serving_log import write

RATIO_LIMIT = 6.0
MEMORY_LIMIT_MIB = 200
_DIAGNOSE = """
import resource, sys
from advisor.cli.main import run
code = run(["diagnose", sys.argv[1], "--format", "json", "-o", sys.argv[2]])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
sys.exit(code)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Best wall time of a command, and what it last printed."""

    seconds: float
    output: str


def literals(path: Path) -> int:
    """Write the literals that the product looks for, one a line, and return their number."""
    found = PatternIndex(patterns_of(load_rules(()))).scanner.literals
    path.write_text("\n".join(found) + "\n", encoding="utf-8")
    return len(found)


def timed(command: list[str], best: Timing | None) -> Timing:
    """Run a command and keep the better of two timings."""
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begin
    if done.returncode not in {0, 1}:
        raise SystemExit(f"{command[0]} failed: {done.stderr.strip()}")
    output = done.stdout.strip()
    return Timing(seconds=min(seconds, best.seconds) if best else seconds, output=output)


def compare(log: Path, folder: Path, repeats: int) -> int:
    """Time both on one log, print the figures, and return 1 where a limit is passed."""
    count = literals(folder / "literals.txt")
    search = ["rg", "-c", "-F", "-f", str(folder / "literals.txt"), str(log)]
    diagnose = [sys.executable, "-c", _DIAGNOSE, str(log), str(folder / "report.json")]
    rg: Timing | None = None
    advisor: Timing | None = None
    for _ in range(repeats):
        rg = timed(search, rg)
        advisor = timed(diagnose, advisor)
    if rg is None or advisor is None:
        raise SystemExit("--repeats must be at least 1")
    ratio, memory = advisor.seconds / rg.seconds, int(advisor.output.split()[-1])
    print(f"log            {log.stat().st_size / 2**20:8.0f} MiB, {rg.output} lines with a literal")
    print(f"rg -c          {rg.seconds:8.2f} s  ({count} literals)")
    print(f"advisor        {advisor.seconds:8.2f} s  whole command, best of {repeats}")
    print(f"ratio          {ratio:8.2f}    limit {RATIO_LIMIT:g}")
    print(f"memory         {memory:8d} MiB  limit {MEMORY_LIMIT_MIB}")
    return int(ratio > RATIO_LIMIT or memory > MEMORY_LIMIT_MIB)


def main() -> int:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--log", type=Path, help="use this log instead of a made one")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if shutil.which("rg") is None:
        raise SystemExit("rg (ripgrep) is not installed")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = options.log or folder / "serving.log"
        if options.log is None:
            write(log, options.mib << 20, seed=1)
        return compare(log, folder, options.repeats)


if __name__ == "__main__":
    sys.exit(main())
