"""The run: batch sizes over GPUs, a journal under it, and a choice for each at the end."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from advisor.configs.problem import Gemm
from advisor.tuner.batch import BatchSearch, References, Space
from advisor.tuner.decide import (
    Choice,
    Origin,
    decide_raced,
    decide_screened,
    keep_unmeasured,
)
from advisor.tuner.effort import Effort
from advisor.tuner.journal import Journal
from advisor.tuner.pool import Done, Pool
from advisor.tuner.work import Failed, Failure, Outcome, Race, Trial, Work

ROOT_EVERY = 4
"""Every fourth batch size starts from the prior alone; the others also from their neighbours."""

_JOBS_PER_LANE = 4
_POLL_S = 0.5
_FINAL_S = 1.5
_LARGEST_RESERVE_RATIO = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to search, decided before the first measurement.

    Attributes:
        spaces: Space of each GEMM by batch size.
        references: What the server would run without tuning, by batch size.
        one_tile: Both GEMMs must share one tile (SGLang before 0.5.6).
    """

    spaces: Mapping[int, Mapping[Gemm, Space]]
    references: Mapping[int, References]
    effort: Effort
    one_tile: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where the run is.

    Attributes:
        done: Batch sizes decided.
        total: All batch sizes.
        measured: Pieces of work measured in this run; those read from the journal do not count.
        failed: Of these, the ones without a latency.
    """

    done: int
    total: int
    measured: int
    failed: int
    elapsed_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The choices, one per batch size, and what they cost.

    Attributes:
        stopped: Why the run ended early: `budget`, `interrupt`; empty if it did not.
        replayed: Outcomes taken from the journal.
    """

    choices: tuple[Choice, ...]
    measured: int
    failed: int
    replayed: int
    elapsed_s: float
    stopped: str = ""


class _Stage(Enum):
    WAITING = auto()
    SCREENING = auto()
    HEATS = auto()
    FINAL = auto()
    DONE = auto()


_MOVABLE = (_Stage.SCREENING, _Stage.HEATS)
"""Stages that another follows, which may run on another GPU: pairs are compared within one race."""


@dataclass(slots=True)
class _Job:
    tokens: int
    parents: tuple[int, ...]
    lane: int = -1
    stage: _Stage = _Stage.WAITING
    search: BatchSearch | None = None
    race: Race | None = None
    choice: Choice | None = None
    pending: set[str] = field(default_factory=set)


class Run:
    """One tuning run over a pool."""

    def __init__(
        self,
        plan: Plan,
        pool: Pool,
        journal: Journal,
        *,
        budget_s: float | None = None,
        on_progress: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        """Prepare a run; `budget_s` counts from now and includes the final races."""
        self._plan = plan
        self._pool = pool
        self._journal = journal
        self._on_progress = on_progress
        self._start_s = time.monotonic()
        self._budget_s = budget_s
        batch_sizes = sorted(plan.spaces)
        self._jobs = {
            tokens: _Job(tokens=tokens, parents=_parents(batch_sizes, place))
            for place, tokens in enumerate(batch_sizes)
        }
        roots = [tokens for tokens in batch_sizes if not self._jobs[tokens].parents]
        others = [tokens for tokens in batch_sizes if self._jobs[tokens].parents]
        self._queue = deque([*reversed(roots), *reversed(others)])
        self._waiting: dict[str, _Job] = {}
        self._measured = self._failed = self._replayed = 0
        self._stopping = ""

    def tune(self) -> Result:
        """Measure until every batch size is decided, time is up, or Ctrl-C."""
        try:
            while not self._finished():
                self._advance()
                for done in self._pool.collect(_POLL_S):
                    self._take(done)
                self._watch_budget()
        except KeyboardInterrupt:
            self._stopping = "interrupt"
        return self._result()

    def _finished(self) -> bool:
        if self._stopping:
            return not any(job.pending for job in self._jobs.values())
        return all(job.stage is _Stage.DONE for job in self._jobs.values())

    def _advance(self) -> None:
        """Move every job as far as it goes without new answers, and fill idle lanes."""
        moving = True
        while moving:
            moving = False
            for job in self._jobs.values():
                if job.lane >= 0 and job.stage is not _Stage.DONE and not job.pending:
                    self._step(job)
                    moving = True
            moving = self._assign() or moving
        self._share_out()

    def _assign(self) -> bool:
        """Begin waiting jobs on the least busy lanes; say whether any was begun."""
        begun = False
        while not self._stopping:
            lane = min(self._pool.lanes, key=self._load)
            if self._load(lane) >= _JOBS_PER_LANE or (job := self._next_ready()) is None:
                break
            self._begin(job, lane)
            begun = True
        return begun

    def _load(self, lane: int) -> int:
        return sum(
            job.lane == lane and job.stage not in (_Stage.WAITING, _Stage.DONE)
            for job in self._jobs.values()
        )

    def _next_ready(self) -> _Job | None:
        for tokens in self._queue:
            job = self._jobs[tokens]
            if all(self._jobs[parent].stage is _Stage.DONE for parent in job.parents):
                self._queue.remove(tokens)
                return job
        return None

    def _share_out(self) -> None:
        """Move jobs between rounds from busy lanes to idler ones, so that no GPU waits at the end."""
        for lane in self._pool.lanes:
            donors = [
                job
                for job in self._jobs.values()
                if job.stage in _MOVABLE and self._load(job.lane) > self._load(lane) + 1
            ]
            if donors:
                max(donors, key=lambda job: (self._load(job.lane), -job.tokens)).lane = lane

    def _begin(self, job: _Job, lane: int) -> None:
        winners = [
            choice.pair
            for parent in job.parents
            if (choice := self._jobs[parent].choice) and choice.origin is Origin.TUNED
        ]
        job.lane = lane
        job.stage = _Stage.SCREENING
        job.search = BatchSearch(
            job.tokens,
            self._plan.spaces[job.tokens],
            self._plan.references[job.tokens],
            self._plan.effort,
            neighbours=tuple(dict.fromkeys(winners)),
            one_tile=self._plan.one_tile,
        )

    def _step(self, job: _Job) -> None:
        """Take a job one step on; all its answers are there."""
        search = job.search
        if search is None:
            raise RuntimeError("a job steps only after it has begun")
        if job.stage is _Stage.SCREENING:
            self._screen(job, search)
        elif job.race is not None:
            raced = self._journal.find(job.race) or _lost(job.race)
            if job.stage is _Stage.HEATS:
                self._race(job, search.final(job.race, raced), _Stage.FINAL)
            else:
                self._decide(job, decide_raced(search, job.race, raced))

    def _screen(self, job: _Job, search: BatchSearch) -> None:
        trials = () if self._stopping else search.next_round()
        for trial in trials:
            self._submit(job, trial)
        if trials:
            return
        heats = search.heats()
        if heats is None:
            self._decide(job, decide_screened(search))
        else:
            self._race(job, heats, _Stage.HEATS)

    def _race(self, job: _Job, race: Race, stage: _Stage) -> None:
        job.race, job.stage = race, stage
        self._submit(job, race)

    def _decide(self, job: _Job, choice: Choice) -> None:
        job.choice, job.stage = choice, _Stage.DONE
        self._on_progress(self._progress())

    def _submit(self, job: _Job, work: Work) -> None:
        known = self._journal.find(work)
        if known is not None:
            self._replayed += 1
            self._apply(job, work, known)
            return
        job.pending.add(work.key)
        self._waiting[work.key] = job
        self._pool.submit(job.lane, work)

    def _take(self, done: Done) -> None:
        job = self._waiting.pop(done.work.key, None)
        if job is None:
            return
        self._journal.record(done.work, done.outcome, self._pool.name(done.lane))
        self._measured += 1
        self._failed += isinstance(done.outcome, Failed)
        job.pending.discard(done.work.key)
        self._apply(job, done.work, done.outcome)
        self._on_progress(self._progress())

    def _apply(self, job: _Job, work: Work, outcome: Outcome) -> None:
        if isinstance(work, Trial) and job.search is not None:
            job.search.take(work, outcome)

    def _watch_budget(self) -> None:
        """Stop screening while there is still time for the final races."""
        if self._budget_s is None:
            return
        left_s = self._budget_s - (time.monotonic() - self._start_s)
        racing = sum(job.stage not in (_Stage.WAITING, _Stage.DONE) for job in self._jobs.values())
        reserve_s = min(
            _FINAL_S * racing / max(1, len(self._pool.lanes)),
            _LARGEST_RESERVE_RATIO * self._budget_s,
        )
        if not self._stopping and left_s < reserve_s:
            self._stop_screening()
        elif self._stopping and left_s < 0:
            self._drop_races()

    def _stop_screening(self) -> None:
        self._stopping = "budget"
        for work in self._pool.cancel():
            job = self._waiting.pop(work.key, None)
            if job is not None:
                job.pending.discard(work.key)
                if isinstance(work, Race):
                    self._race(job, work, job.stage)
        for job in self._jobs.values():
            if job.stage is _Stage.SCREENING and not job.pending:
                self._step(job)

    def _drop_races(self) -> None:
        for job in self._jobs.values():
            if job.stage in (_Stage.HEATS, _Stage.FINAL):
                job.stage = _Stage.SCREENING
                job.pending.clear()

    def _result(self) -> Result:
        return Result(
            choices=tuple(self._choice(job) for job in self._jobs.values()),
            measured=self._measured,
            failed=self._failed,
            replayed=self._replayed,
            elapsed_s=time.monotonic() - self._start_s,
            stopped=self._stopping,
        )

    def _choice(self, job: _Job) -> Choice:
        if job.choice is not None:
            return job.choice
        if job.search is not None:
            return decide_screened(job.search)
        references = self._plan.references[job.tokens]
        origin = Origin.TODAY if references.today else Origin.DEFAULT
        return keep_unmeasured(job.tokens, references.current, origin)

    def _progress(self) -> Progress:
        return Progress(
            done=sum(job.stage is _Stage.DONE for job in self._jobs.values()),
            total=len(self._jobs),
            measured=self._measured,
            failed=self._failed,
            elapsed_s=time.monotonic() - self._start_s,
        )


def _parents(batch_sizes: list[int], place: int) -> tuple[int, ...]:
    """Return the roots on both sides of a batch size; none for a root."""
    if place % ROOT_EVERY == 0:
        return ()
    below = place - place % ROOT_EVERY
    above = below + ROOT_EVERY
    return tuple(batch_sizes[root] for root in (below, above) if root < len(batch_sizes))


def _lost(race: Race) -> Outcome:
    """Stand in for a race whose outcome never came: every entrant failed."""
    return Failed(failure=Failure.CRASHED, text=f"the race at batch {race.tokens} was lost")
