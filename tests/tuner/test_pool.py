from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from advisor.configs.problem import Gemm, MoeProblem
from advisor.errors import AdvisorError
from advisor.tuner.pool import Done, Limits, LocalPool
from advisor.tuner.precompile import Compiled, precompile, relocate
from advisor.tuner.rehearsal import Rehearsal
from advisor.tuner.space import Tile
from advisor.tuner.work import Failed, Failure, Timed, Trial, Work

pytestmark = pytest.mark.slow
PROBLEM = MoeProblem(experts=16, width=256, hidden=1024, top_k=4)
FITS, TOO_LARGE = Tile(16, 64, 64, 1, 4, 3), Tile(128, 256, 256, 1, 8, 5)
RUNNER = Path(__file__).parent / "rehearsed_run.py"


def trial(tile: Tile = FITS, tokens: int = 64) -> Trial:
    return Trial(tokens=tokens, gemm=Gemm.UP, tile=tile)


@contextmanager
def open_pool(setup: Rehearsal, lanes: int = 1, **limits: float) -> Iterator[LocalPool]:
    pool = LocalPool(setup, range(lanes), 1, Limits(**limits))
    try:
        yield pool
    finally:
        pool.close()


def finish(pool: LocalPool, count: int) -> list[Done]:
    done: list[Done] = []
    while len(done) < count:
        done += pool.collect(1.0)
    return done


def test_work_is_compiled_measured_and_answered() -> None:
    with open_pool(Rehearsal(problem=PROBLEM)) as pool:
        pool.submit(0, trial())
        (done,) = finish(pool, 1)
    assert isinstance(done.outcome, Timed)
    assert pool.device == "Rehearsal GPU"


def test_what_cannot_be_compiled_never_reaches_the_gpu(tmp_path: Path) -> None:
    with open_pool(Rehearsal(problem=PROBLEM, diary=tmp_path / "diary")) as pool:
        pool.submit(0, trial(TOO_LARGE))
        (done,) = finish(pool, 1)
        pool.submit(0, trial(TOO_LARGE, tokens=128))
        (again,) = finish(pool, 1)
    for one in (done, again):
        assert isinstance(one.outcome, Failed)
        assert one.outcome.failure is Failure.RESOURCES
    assert not (tmp_path / "diary").exists()


def test_a_tile_that_kills_its_worker_twice_has_failed_and_the_next_one_runs() -> None:
    with open_pool(Rehearsal(problem=PROBLEM, deadly=1.0)) as pool:
        pool.submit(0, trial())
        pool.submit(0, trial(tokens=128))
        done = finish(pool, 2)
    for one in done:
        assert isinstance(one.outcome, Failed)
        assert one.outcome.failure is Failure.CRASHED
        assert "SIGKILL" in one.outcome.text


def test_a_tile_that_hangs_is_given_up() -> None:
    with open_pool(Rehearsal(problem=PROBLEM, hanging=1.0), trial_s=0.3) as pool:
        pool.submit(0, trial())
        (done,) = finish(pool, 1)
    assert isinstance(done.outcome, Failed)
    assert done.outcome.failure is Failure.HUNG


def test_a_worker_killed_from_outside_loses_nothing(tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    with open_pool(Rehearsal(problem=PROBLEM, diary=diary)) as pool:
        pool.submit(0, trial())
        finish(pool, 1)
        os.kill(int(diary.read_text(encoding="utf-8").split()[-1]), signal.SIGKILL)
        pool.submit(0, trial(tokens=128))
        (done,) = finish(pool, 1)
    assert isinstance(done.outcome, Timed)


def test_a_broken_import_ahead_stops_no_worker(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise OSError('libcudart.so.12')", encoding="utf-8")
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so.12')", encoding="utf-8")
    for module, noise in (("broken", True), ("advisor.tuner.ahead", False)):
        finished = subprocess.run(
            [sys.executable, str(RUNNER), str(tmp_path), "--ahead", module],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert "finished" in finished.stdout
        assert ("libcudart" in finished.stderr) == noise


def test_cancelled_work_is_given_back() -> None:
    with open_pool(Rehearsal(problem=PROBLEM, delay_s=0.05)) as pool:
        works: list[Work] = [trial(tokens=tokens) for tokens in (1, 2, 4, 8)]
        for work in works:
            pool.submit(0, work)
        (first,) = finish(pool, 1)[:1]
        dropped = pool.cancel()
    assert first.work not in dropped
    assert set(dropped) < set(works)


def test_gpus_of_two_kinds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    setup = importlib.import_module("mixed_gpus").MixedGpus(problem=PROBLEM)
    with open_pool(setup, lanes=2) as pool:
        pool.submit(0, trial())
        pool.submit(1, trial(tokens=128))
        with pytest.raises(AdvisorError, match="tune each kind by itself"):
            finish(pool, 2)


def test_precompiling_needs_no_gpu_and_counts_what_does_not_fit() -> None:
    trials = (trial(), trial(tokens=128), trial(TOO_LARGE))
    assert precompile(Rehearsal(problem=PROBLEM), trials, 1) == Compiled(made=1, unfit=1)


@dataclass(frozen=True)
class FullDisk(Rehearsal):
    """A setup whose kernels cannot be stored."""

    def compile(self, recipe: object) -> Failed | None:
        return Failed(failure=Failure.COMPILE, text="No space left on device")


def test_kernels_that_cannot_be_stored_are_not_said_to_be_too_large() -> None:
    compiled = precompile(FullDisk(problem=PROBLEM), (trial(), trial(TOO_LARGE)), 1)
    assert compiled == Compiled(made=0, broken=2, reason="No space left on device")


def test_a_cache_that_moved_is_mended(tmp_path: Path) -> None:
    folder = tmp_path / "ABC"
    folder.mkdir()
    group = folder / "__grp__kernel.json"
    group.write_text('{"child_paths": {"kernel.cubin": "/elsewhere/ABC/kernel.cubin"}}')
    assert relocate(tmp_path) == 1
    assert str(folder / "kernel.cubin") in group.read_text()
    assert relocate(tmp_path) == 0


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(RUNNER), str(folder), *options], stdout=subprocess.PIPE, text=True
    )


def run_whole(folder: Path, *options: str) -> str:
    folder.mkdir(exist_ok=True)
    output, _ = start(folder, *options).communicate(timeout=120)
    return output.splitlines()[-1]


def kill_after(folder: Path, lines: int, *, worker: bool = False) -> int:
    """Start a run and kill it, or its worker, after so many lines; return what it had measured."""
    folder.mkdir(exist_ok=True)
    process = start(folder)
    assert process.stdout is not None
    seen = [process.stdout.readline() for _ in range(lines)]
    pid = int(diary_of(folder)[-1].split()[1]) if worker else process.pid
    os.kill(pid, signal.SIGKILL)
    output, _ = process.communicate(timeout=120)
    assert worker == ("finished" in output)
    return int(seen[-1].split()[1])


def diary_of(folder: Path) -> list[str]:
    return (folder / "diary").read_text(encoding="utf-8").splitlines()


def journal_keys(folder: Path) -> set[str]:
    from advisor.tuner.journal import Journal

    with Journal(folder / "journal") as journal:
        return {key for key, _ in journal.results()}


@pytest.mark.parametrize("lines", [1, 60, 150])
def test_a_killed_run_continues_and_ends_the_same(tmp_path: Path, lines: int) -> None:
    run_whole(tmp_path / "whole")
    broken = tmp_path / "broken"
    seen = kill_after(broken, lines, worker=False)
    kept, before = journal_keys(broken), len(diary_of(broken))
    assert len(kept) >= seen
    run_whole(broken)
    again = {line.split()[0] for line in diary_of(broken)[before:]}
    assert not again & kept
    for gemm in Gemm:
        assert (broken / f"{gemm}.json").read_bytes() == (
            tmp_path / "whole" / f"{gemm}.json"
        ).read_bytes()


def test_a_killed_worker_is_replaced_and_the_run_ends_the_same(tmp_path: Path) -> None:
    run_whole(tmp_path / "whole")
    broken = tmp_path / "broken"
    kill_after(broken, 40, worker=True)
    assert len({line.split()[1] for line in diary_of(broken)}) == 2
    for gemm in Gemm:
        assert (broken / f"{gemm}.json").read_bytes() == (
            tmp_path / "whole" / f"{gemm}.json"
        ).read_bytes()


def test_two_lanes_give_the_files_of_one(tmp_path: Path) -> None:
    run_whole(tmp_path / "one")
    run_whole(tmp_path / "two", "--lanes", "2")
    for gemm in Gemm:
        assert (tmp_path / "one" / f"{gemm}.json").read_bytes() == (
            tmp_path / "two" / f"{gemm}.json"
        ).read_bytes()
    workers = [line.split()[1] for line in diary_of(tmp_path / "two")]
    shares = [workers.count(pid) for pid in set(workers)]
    assert len(shares) == 2
    assert min(shares) > 0.25 * sum(shares)
