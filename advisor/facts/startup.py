"""How far a start came: phases with their begin and end, and where the log stops."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from advisor.facts.hits import Hit, seconds_between
from advisor.facts.model import Phase, Startup
from advisor.sources.records import Evidence, Record

_BEGINS = {
    "torch-distributed-begin": "distributed init",
    "load-weight-begin": "weight loading",
    "graph-begin-old": "CUDA graph capture",
    "graph-begin-new": "CUDA graph capture",
    "graph-piecewise-begin": "prefill graph capture",
    "flashinfer-autotune-begin": "FlashInfer autotune",
}
_ENDS = {
    "torch-distributed-end": "distributed init",
    "load-weight-end": "weight loading",
    "graph-end-old": "CUDA graph capture",
    "graph-end-new": "CUDA graph capture",
    "flashinfer-autotune-end": "FlashInfer autotune",
}


@dataclass(slots=True)
class _Interval:
    begin: Record
    end: Record | None = None
    logged_s: float | None = None
    open_ranks: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Warmup:
    """DeepGEMM's compilation: the lines that begin a shape, and the bars with their own clock."""

    begun: bool = False
    shapes: int = 0
    _first: datetime | None = None
    _last: datetime | None = None
    _closed_bars_s: float = 0.0
    _open_bar_s: float = 0.0

    def take(self, hit: Hit) -> None:
        self.begun = True
        self._first = self._first or hit.record.time
        self._last = hit.record.time or self._last
        if hit.key == "deepgemm-compile-shape":
            self.shapes += 1
            return
        elapsed_s = clock_seconds(hit.values.get("elapsed", ""))
        if elapsed_s < self._open_bar_s:
            self._closed_bars_s += self._open_bar_s
        self._open_bar_s = elapsed_s

    def seconds(self, last_seen: datetime | None) -> float | None:
        """Return the longer of bars and time stamps; bars of several nodes may overlap."""
        spans = [seconds_between(self._first, end) for end in (self._last, last_seen)]
        bars_s = self._closed_bars_s + self._open_bar_s
        if spans[0] is None:
            return bars_s or None
        return max(spans[0], min(bars_s, spans[1] or bars_s))


@dataclass(slots=True)
class StartupCollector:
    """Follows the phases of a start, over all ranks."""

    first_time: datetime | None = None
    last_time: datetime | None = None
    _phases: dict[str, _Interval] = field(default_factory=dict)
    _order: list[str] = field(default_factory=list)
    _ready: Record | None = None
    _listening: bool = False
    _shards: tuple[int, int, float] | None = None
    _shard_evidence: Evidence | None = None
    _deepgemm: _Warmup = field(default_factory=_Warmup)

    @property
    def ready(self) -> bool:
        """Whether the server said that it is ready."""
        return self._ready is not None

    def see(self, time: datetime | None) -> None:
        """Note that a record of this time was read."""
        if time is None:
            return
        self.first_time = self.first_time or time
        self.last_time = time

    def take(self, hit: Hit) -> None:
        """Note a line that begins or ends a phase."""
        if hit.key in _BEGINS:
            self._begin(_BEGINS[hit.key], hit)
        elif hit.key in _ENDS:
            self._end(self._ended_phase(hit), hit)
        elif hit.key == "server-ready":
            self._ready = self._ready or hit.record
        elif hit.key == "uvicorn-running":
            self._listening = True
        elif hit.key == "shards-progress":
            self._take_shards(hit)
        elif hit.key in {"deepgemm-compile-shape", "deepgemm-warmup-progress"}:
            self._deepgemm.take(hit)

    def _ended_phase(self, hit: Hit) -> str:
        if hit.key == "graph-end-old" and "piecewise" in hit.values.get("what", ""):
            return "prefill graph capture"
        return _ENDS[hit.key]

    def _begin(self, name: str, hit: Hit) -> None:
        if name not in self._phases:
            self._phases[name] = _Interval(begin=hit.record)
            self._order.append(name)
        self._phases[name].open_ranks.add(hit.record.rank)

    def _end(self, name: str, hit: Hit) -> None:
        interval = self._phases.get(name)
        if interval is None:
            return
        interval.end = hit.record
        interval.open_ranks.discard(hit.record.rank)
        elapsed = hit.number("elapsed")
        if elapsed is not None:
            interval.logged_s = max(interval.logged_s or 0.0, elapsed)

    def _take_shards(self, hit: Hit) -> None:
        done, total = hit.integer("done"), hit.integer("total")
        if done is None or total is None:
            return
        self._shards = (done, total, clock_seconds(hit.values.get("elapsed", "")))
        self._shard_evidence = hit.record.evidence()

    def result(self) -> Startup:
        """Return the phases in order, the one that never ended, and the time to ready."""
        distributed = self._phases.get("distributed init")
        loading = self._phases.get("weight loading")
        open_phase = self._open_phase()
        done, total, shards_s = self._shards or (None, None, None)
        return Startup(
            began=self.first_time,
            last_seen=self.last_time,
            ready=self._ready is not None,
            ready_s=seconds_between(self.first_time, self._ready.time) if self._ready else None,
            listening=self._listening,
            last_phase=self._order[-1] if self._order else None,
            open_phase=open_phase,
            open_phase_s=self._open_seconds(open_phase),
            distributed_begun=distributed is not None,
            distributed_done=distributed is not None and distributed.end is not None,
            load_s=None if loading is None else _interval_seconds(loading),
            load_begun=loading is not None,
            load_done=loading is not None and loading.end is not None,
            shards_total=total,
            shards_done=done,
            shards_s=shards_s,
            shard_s=shards_s / done if done and shards_s else None,
            after_shards_s=_after_shards(loading, shards_s if done == total else None),
            deepgemm_s=self._deepgemm.seconds(self.last_time),
            deepgemm_begun=self._deepgemm.begun,
            deepgemm_shapes=self._deepgemm.shapes or None,
            phases=tuple(self._phase(name) for name in self._order),
        )

    @property
    def shard_evidence(self) -> Evidence | None:
        """The newest line of the checkpoint shard bar."""
        return self._shard_evidence

    def evidence_of(self, name: str) -> Evidence | None:
        """Where a phase begins."""
        interval = self._phases.get(name)
        return None if interval is None else interval.begin.evidence()

    def _open_phase(self) -> str | None:
        if self._ready is not None:
            return None
        return next((n for n in reversed(self._order) if self._phases[n].end is None), None)

    def _open_seconds(self, name: str | None) -> float | None:
        if name is None:
            return None
        return seconds_between(self._phases[name].begin.time, self.last_time)

    def _phase(self, name: str) -> Phase:
        interval = self._phases[name]
        return Phase(
            name=name,
            began=interval.begin.time,
            seconds=_interval_seconds(interval),
            basis="logged" if interval.logged_s is not None else "timestamps",
            evidence=interval.begin.evidence(),
        )


def _interval_seconds(interval: _Interval) -> float | None:
    if interval.logged_s is not None:
        return interval.logged_s
    return seconds_between(interval.begin.time, interval.end.time) if interval.end else None


def _after_shards(loading: _Interval | None, shards_s: float | None) -> float | None:
    """Return what weight loading took beyond the finished bar that counts its shards."""
    load_s = None if loading is None else _interval_seconds(loading)
    if load_s is None or shards_s is None:
        return None
    return max(load_s - shards_s, 0.0)


def clock_seconds(text: str) -> float:
    """Read a progress bar's clock.

    >>> clock_seconds("1:02:03")
    3723.0
    """
    seconds = 0.0
    for part in text.split(":"):
        seconds = seconds * 60 + float(part or 0)
    return seconds
