"""Tune the main shape on one GPU and on several of one machine, locally and through Ray.

    python -m benchmarks.tuner_gpus --groups cold,warm,ray,kill --repeat 2 -o results/

Groups: `cold` starts from an empty kernel cache; `warm` from the kernels of the cold runs; `ray` is warm
through a Ray cluster that each run starts for itself; `kill` is warm on all GPUs, with the process that
holds one of them killed half-way: the worker of a local run, and the actor of a Ray run, which has no
second life. All groups are played before any but the last is repeated, and what is there is written after each
run, so that an end by a time limit loses one run only. `--rehearse` tries it all without a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.tuner_gpus_figures import after_kill, count_results, outcome, read_load, write

SHAPE = "128,768,2048,8"
RELEASE = "0.5.23"
GROUPS = ("cold", "warm", "ray", "kill")
EXPECTED_S = {"cold": 50.0, "warm": 42.0, "ray": 55.0, "kill": 45.0}
PACKAGES = ("torch", "triton", "ray", "sglang-advisor")
STARTUP = """
import time; a = time.perf_counter()
import torch; b = time.perf_counter()
torch.cuda.init(); torch.empty(1, device="cuda"); c = time.perf_counter()
torch.randn(10**9, device="cuda", dtype=torch.bfloat16); torch.cuda.synchronize()
print(b - a, c - b, time.perf_counter() - c)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run to make; `victim` names the process that is killed half-way."""

    group: str
    gpus: int
    ray: bool = False
    victim: str = ""

    @property
    def name(self) -> str:
        where = "ray" if self.ray else "local"
        return f"{self.group} {where} x{self.gpus}" + (f" kill {self.victim}" * bool(self.victim))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--effort", default="normal")
    parser.add_argument("--groups", default=",".join(GROUPS))
    parser.add_argument("--limit", type=float, default=150.0, help="seconds of one run")
    parser.add_argument("--until", type=float, default=560.0, help="begin no run that ends later")
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("-o", "--out", required=True, type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    start_s = time.monotonic()
    document: dict[str, Any] = {"machine": machine(rehearse=options.rehearse), "runs": []}
    with tempfile.TemporaryDirectory(prefix="tuner-gpus-") as folder:
        kernels = Path(folder) / "kernels"
        for case in cases(options.groups.split(","), options.gpus, options.repeat):
            left_s = options.until - (time.monotonic() - start_s)
            if left_s < EXPECTED_S[case.group] and not options.rehearse:
                run: dict[str, Any] = {"case": case.name, "skipped": f"{left_s:.0f} s left"}
            else:
                run = play(case, options, Path(folder), kernels, document["runs"])
            document["runs"].append(run)
            brief = {
                name: run[name] for name in ("case", "wall_s", "exit", "skipped") if name in run
            }
            print(f"{time.monotonic() - start_s:6.1f} s", brief, flush=True)
            write(options.out, document)
    print((options.out / "tuner_gpus.md").read_text(encoding="utf-8"))


def cases(groups: Sequence[str], gpus: int, repeat: int) -> Iterator[Case]:
    """Give every group once, then again; a cold run comes first in any case, to fill the cache."""
    if "cold" not in groups:
        yield Case(group="cold", gpus=1)
    for turn in range(repeat):
        for group in (group for group in ("cold", "warm", "ray") if group in groups):
            for count in (1, gpus):
                yield Case(group=group, gpus=count, ray=group == "ray")
        if "kill" in groups and not turn:
            yield Case(group="kill", gpus=gpus, victim="worker")
            yield Case(group="kill", gpus=gpus, ray=True, victim="actor")


def play(
    case: Case, options: argparse.Namespace, folder: Path, kernels: Path, runs: list[dict[str, Any]]
) -> dict[str, Any]:
    """Make one run and say how it went; a run over its time is ended and marked."""
    out = Path(tempfile.mkdtemp(dir=folder))
    cache = out / "cache" if case.group == "cold" else kernels
    cache.mkdir(exist_ok=True)
    before = len(list(cache.iterdir()))
    there_before = set(processes())
    load = sampler(out / "load") if not options.rehearse else None
    start_s, started_at = time.monotonic(), time.time()
    with (out / "log").open("wb") as log:
        process = subprocess.Popen(
            command(case, options, out, cache),
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment(case, rehearse=options.rehearse),
            start_new_session=True,
        )
        end_s = start_s + options.limit
        killed = (
            kill_half_way(case, process, out / "journal", half_way(runs), end_s)
            if case.victim
            else None
        )
        code = wait(process, end_s - time.monotonic())
    wall_s = time.monotonic() - start_s
    if load is not None:
        load.kill()
        load.wait()
    run: dict[str, Any] = {
        "case": case.name,
        "wall_s": round(wall_s, 2),
        "exit": code,
        "over_time": code is None,
        "kernels_before": before,
        "kernels_made": len(list(cache.iterdir())) - before,
        "left_over": left_over(there_before),
        "log_end": "" if code == 0 else (out / "log").read_text(errors="replace")[-1500:],
    }
    if killed is not None:
        run["killed"] = killed
    with suppress(OSError, ValueError, sqlite3.Error, KeyError):
        run |= outcome(out, runs)
        begin, end = run.pop("begin"), run.pop("end")
        run["first_answer_s"] = round(begin - started_at, 2)
        run["closing_s"] = round(started_at + wall_s - end, 2)
        run["load"] = read_load(out / "load", begin, end)
    if killed and "at" in killed:
        run["after_kill"] = after_kill(out / "journal", killed["at"])
    if case.group == "cold":
        shutil.copytree(cache, kernels, dirs_exist_ok=True)
    shutil.rmtree(out, ignore_errors=True)
    return run


def command(case: Case, options: argparse.Namespace, out: Path, cache: Path) -> list[str]:
    """Return the command; forced, for the run before may still be giving its memory back."""
    words = [sys.executable, "-m", "advisor", "tune", "--shape", SHAPE, "-o", str(out), "--force"]
    words += ["--journal", str(out / "journal"), "--cache", str(cache), "--effort", options.effort]
    words += ["--sglang-version", RELEASE]
    words += [part for gpu in range(case.gpus) for part in ("--gpu", str(gpu))]
    return [*words, *["--rehearse"] * options.rehearse, *["--ray", "local"] * case.ray]


def environment(case: Case, *, rehearse: bool) -> dict[str, str]:
    """Let a Ray cluster have as many GPUs (a rehearsal: CPUs) as the run is to use."""
    there = dict(os.environ)
    if case.ray:
        there["RAY_OVERRIDE_RESOURCES"] = json.dumps({"CPU" if rehearse else "GPU": case.gpus})
        there["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(case.gpus)))
    return there


def wait(process: subprocess.Popen[bytes], limit_s: float) -> int | None:
    """Return the exit code; None if the process had to be ended, first politely."""
    with suppress(subprocess.TimeoutExpired):
        return process.wait(max(1.0, limit_s))
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(15)
    for pid in [*children_of(process.pid, deep=True), process.pid]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    return None


def half_way(runs: list[dict[str, Any]]) -> int:
    return next((int(run["measured"]) for run in runs if run.get("measured")), 1600) // 2


def kill_half_way(
    case: Case, process: subprocess.Popen[bytes], journal: Path, count: int, end_s: float
) -> dict[str, Any]:
    """Kill the first worker, or the actor, once so many results are in the journal."""
    while (there := count_results(journal)) < count:
        if process.poll() is not None or time.monotonic() > end_s:
            return {"nobody": f"the run ended, or its time did, with {there} results"}
        time.sleep(0.02)
    actors = actors_below(process.pid) if case.ray else [process.pid]
    victims = actors if case.victim == "actor" else [pid for one in actors for pid in benches(one)]
    if not victims:
        return {"nobody": "no such process was found"}
    at = time.time()
    os.kill(victims[0], signal.SIGKILL)
    return {
        "what": case.victim,
        "pid": victims[0],
        "of": victims,
        "at": at,
        "results": there,
    }


def actors_below(pid: int) -> list[int]:
    """Return Ray's lane actors: they name themselves in their command line."""
    return [one for one in children_of(pid, deep=True) if "LaneActor" in " ".join(words_of(one))]


def benches(parent: int) -> list[int]:
    """Return the workers that hold a GPU: as nice as their parent, for compilers are nicer.

    They are children of the process from which all workers are forked.
    """
    return [
        pid
        for server in children_of(parent, deep=False)
        if "multiprocessing.forkserver" in " ".join(words_of(server))
        for pid in children_of(server, deep=False)
        if os.getpriority(os.PRIO_PROCESS, pid) == os.getpriority(os.PRIO_PROCESS, parent)
    ]


def left_over(there_before: set[int]) -> list[str]:
    """Return the workers and actors that outlived their run; they get a moment to end."""
    found: list[str] = []
    for _ in range(20):
        lines = [" ".join(words_of(pid)) for pid in processes() if pid not in there_before]
        found = [
            line[:80]
            for line in lines
            if "multiprocessing.forkserver" in line or line.startswith(("ray::", "raylet"))
        ]
        if not found:
            break
        time.sleep(0.25)
    return found


def processes() -> list[int]:
    return sorted(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def children_of(parent: int, *, deep: bool) -> list[int]:
    below: dict[int, list[int]] = defaultdict(list)
    for pid in processes():
        with suppress(OSError, ValueError, IndexError):
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
            below[int(stat.rpartition(")")[2].split()[1])].append(pid)
    found = list(below[parent])
    if deep:
        for pid in found:
            found += below[pid]
    return found


def words_of(pid: int) -> list[str]:
    with suppress(OSError):
        text = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
        return text.strip("\0").split("\0")
    return []


def sampler(path: Path) -> subprocess.Popen[bytes] | None:
    """Note each GPU's load four times a second; only reads."""
    fields = "timestamp,index,utilization.gpu,clocks.sm,power.draw,memory.used"
    with suppress(OSError), path.open("wb") as target:
        return subprocess.Popen(
            ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits", "-lms", "250"],
            stdout=target,
            stderr=subprocess.DEVNULL,
        )
    return None


def machine(*, rehearse: bool) -> dict[str, Any]:
    """Return versions, GPUs, cores, and what starting costs here, twice (cold and warm files)."""
    found: dict[str, Any] = {
        "at": datetime.now().astimezone().isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cores": len(os.sched_getaffinity(0)),
        "memory": memory(),
    }
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    if rehearse:
        return found
    fields = (
        "index,name,driver_version,memory.total,clocks.sm,clocks.max.sm,clocks.mem,persistence_mode"
    )
    start_s = time.perf_counter()
    found["gpus"] = said(["nvidia-smi", f"--query-gpu={fields}", "--format=csv"])
    found["nvidia_smi_s"] = round(time.perf_counter() - start_s, 2)
    found["topology"] = said(["nvidia-smi", "topo", "-m"])
    for name in ("startup_first", "startup_second"):
        words = said([sys.executable, "-c", STARTUP])
        found[name] = {"import_torch, cuda, randn of 1e9, in s": words}
    start_s = time.perf_counter()
    said([sys.executable, "-m", "advisor", "tune", "--shape", SHAPE, "--dry-run"])
    found["dry_run_s"] = round(time.perf_counter() - start_s, 2)
    return found


def memory() -> str:
    return Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()[0]


def said(words: list[str]) -> list[str]:
    try:
        answer = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [str(error)]
    return (answer.stdout or answer.stderr[-500:]).strip().splitlines()


if __name__ == "__main__":
    main()
