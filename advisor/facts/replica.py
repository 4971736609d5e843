"""What the serving lines of one scheduler add up to: one per DP replica (and pipeline stage)."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import compress, repeat

from advisor.facts.tally import (
    MOST_KEYS,
    Distribution,
    Trend,
    largest,
    numbers,
    where,
    whole,
    whole_numbers,
)
from advisor.sources.records import parse_time
from advisor.sources.serving_lines import ServingKind, ServingLines

LARGE_PREFILL_TOKENS = 4096
LONG_GAP_S = 10.0
_MOST_EXAMPLES = 16
_COLD_FACTOR = 9  # at most a tenth came from the cache
_USAGES = ("usage", "full_usage")
_DISTRIBUTIONS = (
    "swa_usage",
    "gpu_usage",
    "cpu_usage",
    "accept_len",
    "accept_rate",
    "occupancy",
    "prealloc_usage",
)
_MAXIMA = ("retracted", "prealloc", "transfer", "bootstrap", "inflight")


@dataclass(slots=True)
class Load:
    """The decode lines with one number of running requests."""

    running: int
    trend: Trend
    lines: int = 0
    rate_total: float = 0.0
    eager: int = 0
    queued: int = 0


@dataclass(slots=True)
class Gaps:
    """Long pauses between the serving lines of one scheduler.

    A pause after a second in which requests waited is a stall; any other is idle time, as far as
    the lines tell.
    """

    stalls: int = 0
    longest_stall_s: float = 0.0
    stall_end: bytes = b""
    idle_s: float = 0.0
    _last: datetime | None = None
    _last_text: bytes = b""
    _waiting: bool = False

    def add(self, parts: Sequence[ServingLines]) -> None:
        """Take lines that follow those before, of one kind or of both."""
        waiting: set[bytes] = set()
        for part in parts:
            waiting.update(compress(part.times, map(b"0".__ne__, part.columns["queue"])))
        times = dict.fromkeys(parts[0].times)
        for part in parts[1:]:
            times.update(dict.fromkeys(part.times))
        for text in times if len(parts) == 1 else sorted(times):
            if text != self._last_text:
                self._step(text)
            self._waiting = self._waiting or text in waiting

    def _step(self, text: bytes) -> None:
        time = parse_time(text.decode("ascii", "replace"))
        if time is None:
            return
        if self._last is not None:
            seconds = (time - self._last).total_seconds()
            if seconds >= LONG_GAP_S:
                self._note(seconds, text)
        self._last, self._last_text, self._waiting = time, text, False

    def _note(self, seconds: float, text: bytes) -> None:
        if not self._waiting:
            self.idle_s += seconds
            return
        self.stalls += 1
        if seconds > self.longest_stall_s:
            self.longest_stall_s = seconds
            self.stall_end = text


@dataclass(slots=True)
class Replica:
    """Running aggregates of one scheduler."""

    decodes: int = 0
    eager: int = 0
    prefills: int = 0
    loads: dict[bytes, Load] = field(default_factory=dict)
    trends: dict[int, Trend] = field(default_factory=dict)
    usage: Distribution = field(default_factory=Distribution)
    mamba: Distribution = field(default_factory=Distribution)
    queued_usage: Distribution = field(default_factory=Distribution)
    queued_mamba: Distribution = field(default_factory=Distribution)
    rate_maximum: float = 0.0
    distributions: dict[str, Distribution] = field(default_factory=dict)
    maxima: dict[str, int] = field(default_factory=dict)
    queue_maximum: int = 0
    new_tokens: int = 0
    cached_tokens: int = 0
    reused: int = 0
    cold: int = 0
    cold_large: int = 0
    cold_examples: list[tuple[int, int]] = field(default_factory=list)
    swings: int = 0
    gaps: Gaps = field(default_factory=Gaps)
    _warm_before: bool = False

    def add(self, parts: Sequence[ServingLines]) -> None:
        """Take lines that follow those before; each part is in order."""
        self.gaps.add(parts)
        for lines in parts:
            self._add(lines)

    def _add(self, lines: ServingLines) -> None:
        columns = lines.columns
        self.queue_maximum = max(self.queue_maximum, largest(columns["queue"]) or 0)
        for name in _MAXIMA:
            if name in columns:
                most = largest(columns[name]) or 0
                self.maxima[name] = max(self.maxima.get(name, 0), most)
        if lines.kind is ServingKind.DECODE:
            self._add_decodes(lines)
        else:
            self._add_prefills(lines)

    def _add_decodes(self, lines: ServingLines) -> None:
        columns = lines.columns
        self.decodes += len(lines)
        usage = next((columns[name] for name in _USAGES if name in columns), None)
        mamba = columns.get("mamba_usage")
        self.usage.add(usage)
        self.mamba.add(mamba)
        for name in _DISTRIBUTIONS:
            if name in columns:
                self.distributions.setdefault(name, Distribution()).add(columns[name])
        queued = list(map(b"0".__ne__, columns["queue"]))
        if any(queued):
            self.queued_usage.add(where(usage, queued))
            self.queued_mamba.add(where(mamba, queued))
        self._add_loads(lines, queued)

    def _add_loads(self, lines: ServingLines, queued: list[bool]) -> None:
        columns = lines.columns
        tokens = columns.get("tokens") or columns.get("full_tokens")
        rates = numbers(columns["gen_tps"])
        self.eager += sum(map(b"True".__ne__, columns["graph"]))
        self.rate_maximum = max(self.rate_maximum, *rates)
        get = self.loads.get
        for running, graph, rate, waits, held in zip(
            columns["running"],
            columns["graph"],
            rates,
            queued,
            whole_numbers(tokens) if tokens else repeat(0),
            strict=False,
        ):
            load = get(running) or self._load(running)
            load.lines += 1
            load.rate_total += rate
            if graph != b"True":
                load.eager += 1
            if waits:
                load.queued += 1
            trend = load.trend
            trend.count += 1
            trend.total += rate
            trend.tokens += held
            if trend.count >= trend.size:
                trend.close()

    def _load(self, running: bytes) -> Load:
        """Return the load of a number of running requests; beyond a bound the last one is used."""
        if len(self.loads) >= MOST_KEYS:
            running = next(reversed(self.loads))
        if running not in self.loads:
            count = whole(running)
            trend = self.trends.setdefault(count.bit_length(), Trend())
            self.loads[running] = Load(running=count, trend=trend)
        return self.loads[running]

    def _add_prefills(self, lines: ServingLines) -> None:
        columns = lines.columns
        self.prefills += len(lines)
        new, cached = whole_numbers(columns["new_token"]), whole_numbers(columns["cached_token"])
        self.new_tokens += sum(new)
        self.cached_tokens += sum(cached)
        empty = sum(map(operator.not_, map(operator.or_, new, cached))) if 0 in new else 0
        self.reused += sum(map(operator.ge, cached, new)) - empty
        cold = list(map(operator.ge, new, map(_COLD_FACTOR.__mul__, cached)))
        self.cold += sum(cold) - empty
        sizes = map(operator.add, compress(new, cold), compress(cached, cold))
        large = sum(map(operator.le, repeat(LARGE_PREFILL_TOKENS), sizes))
        if large and len(self.cold_examples) < _MOST_EXAMPLES:
            pairs = zip(new, cached, strict=True)
            self.cold_examples.append(next(pair for pair in pairs if _cold(*pair)))
        self.cold_large += large
        if b"0" in columns["running"]:
            self._follow(lines, new, cached)
        else:
            self._warm_before = False

    def _follow(self, lines: ServingLines, new: list[int], cached: list[int]) -> None:
        """Follow one conversation: warm, then cold; several at a time tell nothing."""
        columns = lines.columns
        for running, sequences, one, other in zip(
            columns["running"], columns["new_seq"], new, cached, strict=True
        ):
            if running != b"0" or sequences != b"1":
                self._warm_before = False
            elif _cold(one, other):
                self.swings += self._warm_before
                self._warm_before = False
            elif other >= LARGE_PREFILL_TOKENS:
                self._warm_before = True


def _cold(new: int, cached: int) -> bool:
    """Whether a prefill is large and found next to nothing in the prefix cache."""
    return new >= _COLD_FACTOR * cached and new + cached >= LARGE_PREFILL_TOKENS
