"""Running aggregates of the Prefill and Decode lines of every release, in bounded memory.

One line per DP replica (and pipeline stage) that prints; the decode line comes every
`--decode-log-interval` steps, 40 by default (managers/scheduler_metrics_mixin.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from advisor.facts.hits import Hit, seconds_between
from advisor.facts.model import Serving
from advisor.sources.records import Evidence

FULL_USAGE_RATIO = 0.95
LARGE_PREFILL_TOKENS = 4096
_REUSED_RATIO = 0.5
_COLD_RATIO = 0.1
_MOST_BUCKETS = 4096


@dataclass(slots=True)
class Mean:
    """A running mean and maximum."""

    count: int = 0
    total: float = 0.0
    maximum: float | None = None

    def add(self, value: float | None) -> None:
        """Take one value; None is passed over."""
        if value is None:
            return
        self.count += 1
        self.total += value
        self.maximum = value if self.maximum is None else max(self.maximum, value)

    @property
    def mean(self) -> float | None:
        """The mean; None without values."""
        return self.total / self.count if self.count else None


@dataclass(slots=True)
class ServingCollector:
    """Adds up serving lines; `result` gives shares, means and maxima."""

    _began: datetime | None = None
    _ended: datetime | None = None
    _decodes: int = 0
    _prefills: int = 0
    _queued: int = 0
    _full: int = 0
    _eager: int = 0
    _eager_running: list[int] = field(default_factory=list)
    _graph_running: Mean = field(default_factory=Mean)
    _running: Mean = field(default_factory=Mean)
    _queue: Mean = field(default_factory=Mean)
    _usage: Mean = field(default_factory=Mean)
    _mamba: Mean = field(default_factory=Mean)
    _swa: Mean = field(default_factory=Mean)
    _queued_usage: Mean = field(default_factory=Mean)
    _queued_mamba: Mean = field(default_factory=Mean)
    _queued_running: dict[int, int] = field(default_factory=dict)
    _rate: Mean = field(default_factory=Mean)
    _accept: Mean = field(default_factory=Mean)
    _retracted: Mean = field(default_factory=Mean)
    _new_tokens: int = 0
    _cached_tokens: int = 0
    _reused: int = 0
    _cold: int = 0
    _cold_large: int = 0
    _swings: int = 0
    _warm_before: bool = False
    evidence: dict[str, Evidence] = field(default_factory=dict)

    def take(self, hit: Hit) -> None:
        """Add one Prefill or Decode line."""
        if hit.key == "decode-batch":
            self._see(hit)
            self._take_decode(hit)
        elif hit.key == "prefill-batch":
            self._see(hit)
            self._take_prefill(hit)

    def _see(self, hit: Hit) -> None:
        if hit.record.time is not None:
            self._began = self._began or hit.record.time
            self._ended = hit.record.time

    def _take_decode(self, hit: Hit) -> None:
        self._decodes += 1
        self.evidence["serving.decode_lines"] = hit.record.evidence()
        running, queue = hit.integer("running") or 0, hit.integer("queue") or 0
        usage = hit.number("usage") if "usage" in hit.values else hit.number("full_usage")
        mamba = hit.number("mamba_usage")
        for mean, value in (
            (self._running, float(running)),
            (self._queue, float(queue)),
            (self._usage, usage),
            (self._mamba, mamba),
            (self._swa, hit.number("swa_usage")),
            (self._rate, hit.number("gen_tps")),
            (self._accept, hit.number("accept_len")),
            (self._retracted, hit.number("retracted")),
        ):
            mean.add(value)
        self._full += usage is not None and usage >= FULL_USAGE_RATIO
        if queue:
            self.evidence["serving.max_queue"] = hit.record.evidence()
            self._queued += 1
            self._queued_usage.add(usage)
            self._queued_mamba.add(mamba)
            if running in self._queued_running or len(self._queued_running) < _MOST_BUCKETS:
                self._queued_running[running] = self._queued_running.get(running, 0) + 1
        self._take_graph(hit, running)

    def _take_graph(self, hit: Hit, running: int) -> None:
        if hit.values.get("graph") == "True":
            self._graph_running.add(float(running))
        elif hit.values.get("graph") == "False":
            self._eager += 1
            self.evidence["serving.eager_share"] = hit.record.evidence()
            known = [*self._eager_running, running]
            self._eager_running = [min(known), max(known)]

    def _take_prefill(self, hit: Hit) -> None:
        self._prefills += 1
        new, cached = hit.integer("new_token") or 0, hit.integer("cached_token") or 0
        self._new_tokens += new
        self._cached_tokens += cached
        self._queue.add(hit.number("queue"))
        total = new + cached
        if not total:
            return
        self._reused += cached >= total * _REUSED_RATIO
        is_large_cold = cached <= total * _COLD_RATIO and total >= LARGE_PREFILL_TOKENS
        self._cold += cached <= total * _COLD_RATIO
        self._cold_large += is_large_cold
        if is_large_cold:
            self.evidence["serving.cold_large_prefills"] = hit.record.evidence()
        self._take_swing(hit, cold=is_large_cold, warm=cached >= LARGE_PREFILL_TOKENS)

    def _take_swing(self, hit: Hit, *, cold: bool, warm: bool) -> None:
        """Follow one conversation: warm, then cold; several at a time tell nothing."""
        if hit.integer("running") or hit.integer("new_seq") != 1:
            self._warm_before = False
        elif cold:
            self._swings += self._warm_before
            self._warm_before = False
        elif warm:
            self._warm_before = True

    def result(self, *, cap: int | None) -> Serving:
        """Return the aggregates; `cap` is max_running_requests, where known."""
        if not self._decodes and not self._prefills:
            return Serving()
        tokens = self._new_tokens + self._cached_tokens
        return Serving(
            decode_lines=self._decodes,
            prefill_lines=self._prefills,
            duration_s=seconds_between(self._began, self._ended),
            max_running=_whole(self._running.maximum),
            max_queue=_whole(self._queue.maximum),
            queued_share=_share(self._queued, self._decodes),
            queued_at_cap_share=_share(self._queued_at(cap), self._decodes),
            max_token_usage=self._usage.maximum,
            mean_token_usage=self._usage.mean,
            full_usage_share=_share(self._full, self._decodes),
            max_mamba_usage=self._mamba.maximum,
            max_swa_usage=self._swa.maximum,
            token_usage_when_queued=self._queued_usage.mean,
            mamba_usage_when_queued=self._queued_mamba.mean,
            eager_decode_lines=self._eager if self._decodes else None,
            eager_share=_share(self._eager, self._decodes),
            eager_min_running=self._eager_running[0] if self._eager_running else None,
            eager_max_running=self._eager_running[1] if self._eager_running else None,
            graph_max_running=_whole(self._graph_running.maximum),
            mean_gen_tokens_per_s=self._rate.mean,
            max_gen_tokens_per_s=self._rate.maximum,
            mean_accept_length=self._accept.mean,
            cached_ratio=self._cached_tokens / tokens if tokens else None,
            reused_prefills=self._reused,
            cold_prefills=self._cold,
            cold_large_prefills=self._cold_large,
            prefix_swings=self._swings,
            retracted=_whole(self._retracted.maximum),
        )

    def _queued_at(self, cap: int | None) -> int:
        if cap is None:
            return 0
        return sum(count for running, count in self._queued_running.items() if running >= cap)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
