"""What `tuner_gpus` reads off its runs: how busy each GPU was, how the choices agree, and a table."""

from __future__ import annotations

import json
import math
import sqlite3
from collections import Counter, defaultdict
from contextlib import closing, suppress
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any


def count_results(journal: Path) -> int:
    with suppress(sqlite3.Error), closing(reader(journal)) as database:
        return int(database.execute("SELECT count(*) FROM results").fetchone()[0])
    return 0


def reader(journal: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{journal}?mode=ro", uri=True)


def results_of(journal: Path) -> list[tuple[float, str, str]]:
    """Return when, on which lane and what was measured, in order."""
    with closing(reader(journal)) as database:
        rows = database.execute("SELECT at, lane, work FROM results ORDER BY rowid").fetchall()
    return [(datetime.fromisoformat(at).timestamp(), lane, work) for at, lane, work in rows]


def outcome(out: Path, runs: list[dict[str, Any]]) -> dict[str, Any]:
    report = json.loads((out / "tune-report.json").read_text(encoding="utf-8"))
    rows = results_of(out / "journal")
    begin, end = rows[0][0], rows[-1][0]
    entries = report["entries"]
    first = next((run["entries"] for run in runs if run.get("entries")), entries)
    return {
        "begin": begin,
        "end": end,
        "span_s": round(end - begin, 2),
        "measured": report["measured"],
        "failed": report["failed"],
        "replayed": report["replayed"],
        "stopped": report["stopped"],
        "decided": len(entries),
        "raced": sum(entry["proof"] == "raced" for entry in entries),
        "in_journal": len(rows),
        "lanes": lanes(rows),
        "against_first": against(first, entries),
        "entries": entries,
    }


def lanes(rows: list[tuple[float, str, str]]) -> dict[str, dict[str, float]]:
    """Return how busy each lane was between the run's first and last answer.

    The time between two answers of a lane counts as work up to twice the usual time of such a piece.
    """
    begin, end = rows[0][0], rows[-1][0]
    gaps: dict[str, list[tuple[str, float]]] = defaultdict(list)
    last: dict[str, float] = defaultdict(lambda: begin)
    for at, lane, work in rows:
        kind = "/".join(work.split("/")[:2])
        gaps[lane].append((kind, at - last[lane]))
        last[lane] = at
    usual: dict[str, float] = {}
    for kind in {kind for pairs in gaps.values() for kind, _ in pairs}:
        usual[kind] = median(gap for pairs in gaps.values() for one, gap in pairs if one == kind)
    return {
        lane: {
            "measurements": len(pairs),
            "races": sum(kind.startswith("race") for kind, _ in pairs),
            "busy_share": round(
                sum(min(gap, 2 * usual[kind]) for kind, gap in pairs) / max(end - begin, 1e-9), 3
            ),
            "longest_pause_s": round(max(gap for _, gap in pairs), 2),
            "idle_at_end_s": round(end - last[lane], 2),
        }
        for lane, pairs in sorted(gaps.items())
    }


def after_kill(journal: Path, killed_at: float) -> dict[str, Any]:
    """Return what each lane did before and after a kill, and its longest pause after it."""
    shown: dict[str, Any] = {}
    with suppress(sqlite3.Error, OSError):
        rows = results_of(journal)
        for lane in sorted({lane for _, lane, _ in rows}):
            later = [at for at, one, _ in rows if one == lane and at > killed_at]
            pauses = [b - a for a, b in pairwise([killed_at, *later])]
            before = Counter(one for at, one, _ in rows if at <= killed_at)[lane]
            longest_s = round(max(pauses), 2) if pauses else None
            shown[lane] = {"before": before, "after": len(later), "longest_pause_s": longest_s}
    return shown


def against(first: list[dict[str, Any]], entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Compare a run's choices with the first run's; ratios of latencies, each by its own run.

    `gain_ratios` set each latency against the built-in tile's in the same race, so that what differs
    between GPUs cancels out.
    """
    pairs = list(zip(first, entries, strict=True))
    different = [(a, b) for a, b in pairs if (a["up"], a["down"]) != (b["up"], b["down"])]
    timed = [(a, b) for a, b in pairs if "chosen_us" in a and "chosen_us" in b]
    relative = [(a, b) for a, b in timed if "default_us" in a and "default_us" in b]
    return {
        "same_pairs": len(pairs) - len(different),
        "chosen_us_ratios": spread([b["chosen_us"] / a["chosen_us"] for a, b in timed]),
        "gain_ratios": spread(
            [
                (b["chosen_us"] / b["default_us"]) / (a["chosen_us"] / a["default_us"])
                for a, b in relative
            ]
        ),
        "where_different": {
            str(b["tokens"]): round(b["chosen_us"] / a["chosen_us"], 4)
            for a, b in different
            if (a, b) in timed
        },
    }


def spread(ratios: list[float]) -> dict[str, float]:
    if not ratios:
        return {}
    mean = math.exp(fmean(map(math.log, ratios)))
    return {"least": round(min(ratios), 4), "mean": round(mean, 4), "most": round(max(ratios), 4)}


def read_load(path: Path, begin: float, end: float) -> dict[str, Any]:
    """Return each GPU's load between the run's first and last answer, in percent and MHz."""
    samples: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    for line in lines:
        with suppress(ValueError):
            stamp, gpu, load, clock, *_ = (cell.strip() for cell in line.split(","))
            at = datetime.strptime(stamp, "%Y/%m/%d %H:%M:%S.%f").astimezone().timestamp()
            if begin <= at <= end:
                samples[gpu].append((at, float(load), float(clock)))
    return {
        gpu: {
            "samples": len(rows),
            "load_mean": round(fmean(load for _, load, _ in rows), 1),
            "load_last_3_s": round(
                fmean([load for at, load, _ in rows if at > end - 3] or [0.0]), 1
            ),
            "idle_samples": sum(load == 0 for _, load, _ in rows),
            "sm_mhz_median": median(clock for _, _, clock in rows),
        }
        for gpu, rows in sorted(samples.items())
    }


def write(out: Path, document: dict[str, Any]) -> None:
    """Write all figures and a table of them, each file as a whole."""
    document["speed_up"] = speed_up(document["runs"])
    texts = {
        "tuner_gpus.json": json.dumps(document, indent=1) + "\n",
        "tuner_gpus.md": table(document),
    }
    for name, text in texts.items():
        fresh = out / f".{name}"
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(out / name)


def speed_up(runs: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return one GPU's time over that of all, by group: whole command, and first to last answer."""
    times: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for run in runs:
        name, _, gpus = run["case"].partition(" x")
        if run.get("exit") == 0 and gpus.isdecimal():
            times[name, gpus].append(run)
    shown: dict[str, dict[str, float]] = {}
    for (name, gpus), many in times.items():
        one = times.get((name, "1"))
        if gpus != "1" and one:
            shown[name] = {
                f"{what}_x{gpus}": round(
                    fmean(run[what] for run in one) / fmean(run[what] for run in many), 3
                )
                for what in ("wall_s", "span_s")
            }
    return shown


def table(document: dict[str, Any]) -> str:
    lines = [
        (
            "| run | wall s | of it to the first answer, first to last answer, after it | exit "
            "| measured | in journal | raced | kernels made "
            "| per lane: measurements, busy, idle at end s | GPU load % | same pairs "
            "| chosen us over first |"
        ),
        "|---|---:|---|---:|---:|---:|---:|---:|---|---|---:|---|",
    ]
    for run in document["runs"]:
        if "skipped" in run:
            lines.append(f"| {run['case']} | skipped: {run['skipped']} |" + " |" * 10)
            continue
        each = "; ".join(
            f"{lane}: {one['measurements']}, {one['busy_share']:.0%}, {one['idle_at_end_s']}"
            for lane, one in run.get("lanes", {}).items()
        )
        load = ", ".join(str(one["load_mean"]) for one in run.get("load", {}).values())
        close = run.get("against_first", {})
        ratios = close.get("chosen_us_ratios", {})
        cells = (
            run["case"],
            run["wall_s"],
            ", ".join(str(run.get(name, "")) for name in ("first_answer_s", "span_s", "closing_s")),
            *(run.get(name, "") for name in ("exit", "measured", "in_journal", "raced")),
            run["kernels_made"],
            each,
            load,
            close.get("same_pairs", ""),
            " / ".join(str(value) for value in ratios.values()),
        )
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    kills = [
        f"- {run['case']}: {run.get('killed')}; {run.get('after_kill')}; left over: {run['left_over']}"
        for run in document["runs"]
        if run.get("killed")
    ]
    speeds = [f"- speed-up {name}: {ratios}" for name, ratios in document["speed_up"].items()]
    return "\n".join([*lines, "", *speeds, *kills, f"- {document['machine']}"]) + "\n"
