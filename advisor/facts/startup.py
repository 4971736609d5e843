"""How far a start came: phases with their begin and end, and where the log stops."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from advisor.facts.hits import Hit, seconds_between
from advisor.facts.model import Phase, Startup
from advisor.facts.phases import Interval, PhaseCollector
from advisor.sources.records import Evidence, Record


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
    _phases: PhaseCollector = field(default_factory=PhaseCollector)
    _timings: Hit | None = None
    _ready: Record | None = None
    _listening: bool = False
    _shards: tuple[int, int, float] | None = None
    _shard_evidence: Evidence | None = None
    _deepgemm: _Warmup = field(default_factory=_Warmup)
    _late_shapes: set[tuple[tuple[str, str], ...]] = field(default_factory=set)

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
        self._phases.take(hit)
        if hit.key == "server-ready":
            self._ready = self._ready or hit.record
        elif hit.key == "uvicorn-running":
            self._listening = True
        elif hit.key == "shards-progress":
            self._take_shards(hit)
        elif hit.key == "startup-timings":
            self._timings = hit
        elif hit.key in {"deepgemm-compile-shape", "deepgemm-warmup-progress"}:
            self._take_deepgemm(hit)

    def _take_deepgemm(self, hit: Hit) -> None:
        if self._ready is None:
            self._deepgemm.take(hit)
        elif hit.key == "deepgemm-compile-shape":
            self._late_shapes.add(tuple(sorted(hit.values.items())))

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
        open_phase = None if self._ready is not None else self._phases.last_open
        done, total, shards_s = self._shards or (None, None, None)
        return Startup(
            began=self.first_time,
            last_seen=self.last_time,
            ready=self._ready is not None,
            ready_s=seconds_between(self.first_time, self._ready.time) if self._ready else None,
            listening=self._listening,
            last_phase=next(reversed(self._phases.intervals), None),
            open_phase=open_phase,
            open_phase_s=self._open_seconds(open_phase),
            distributed_begun=distributed is not None,
            distributed_done=distributed is not None and distributed.end is not None,
            load_s=None if loading is None else loading.seconds,
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
            deepgemm_late_shapes=len(self._late_shapes),
            process_s=self._seconds("process start"),
            kv_allocation_s=self._kv_seconds(),
            decode_capture_s=self._seconds("CUDA graph capture"),
            prefill_capture_s=self._seconds("prefill graph capture"),
            draft_capture_s=self._seconds("draft graph capture"),
            autotune_s=self._seconds("FlashInfer autotune"),
            compile_s=self._seconds("graph compilation"),
            warmup_s=self._seconds("warm-up request"),
            once_s=self._once_seconds(),
            untold_s=self._untold_seconds(),
            phases=tuple(self._phase(item) for item in self._phases.intervals.values()),
        )

    @property
    def shard_evidence(self) -> Evidence | None:
        """The newest line of the checkpoint shard bar."""
        return self._shard_evidence

    def evidence_of(self, name: str) -> Evidence | None:
        """Where a phase begins."""
        interval = self._phases.get(name)
        return None if interval is None else interval.begin.evidence()

    def _open_seconds(self, name: str | None) -> float | None:
        interval = None if name is None else self._phases.get(name)
        return None if interval is None else seconds_between(interval.begin.time, self.last_time)

    def _phase(self, interval: Interval) -> Phase:
        phase = interval.phase()
        if phase.name == "DeepGEMM compilation":
            return replace(phase, seconds=self._deepgemm.seconds(self.last_time))
        return phase

    def _seconds(self, name: str) -> float | None:
        interval = self._phases.get(name)
        return None if interval is None else interval.seconds

    def _kv_seconds(self) -> float | None:
        """Return the time of the pools: as the server sums it up (0.5.18 and later), or by time."""
        told = None if self._timings is None else self._timings.number("kv")
        return self._seconds("KV allocation") if told is None else told

    def _once_seconds(self) -> float | None:
        """Return the time that a warm cache saves; None where no such phase was seen."""
        phases = [self._phase(item) for item in self._phases.intervals.values()]
        once = [phase.seconds for phase in phases if phase.once and phase.seconds is not None]
        return sum(once) if once else None

    def _untold_seconds(self) -> float | None:
        """Return the time until ready that no phase accounts for."""
        if self._ready is None:
            return None
        whole = seconds_between(self.first_time, self._ready.time)
        phases = self._phases.intervals.values()
        known = sum(item.seconds or 0.0 for item in phases if not item.lines.nested)
        return None if whole is None else max(0.0, whole - known)


def _after_shards(loading: Interval | None, shards_s: float | None) -> float | None:
    """Return what weight loading took beyond the finished bar that counts its shards."""
    load_s = None if loading is None else loading.seconds
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
