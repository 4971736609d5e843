"""From running aggregates of schedulers to the serving facts of a run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import regex

from advisor.facts.hits import rank_order
from advisor.facts.model import LoadBucket, ReplicaLoad, Serving
from advisor.facts.replica import Load, Replica
from advisor.facts.tally import Distribution, kendall

LEAST_TREND_LINES = 120
LEAST_REPLICA_PREFILLS = 20
_LEAST_TREND_BINS = 12
_DATA_PARALLEL = regex.compile(r"\bDP(\d+)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decline:
    ratio: float
    trend: float
    length_ratio: float | None
    lines: int


def summarise(
    replicas: Mapping[str, Replica],
    *,
    duration_s: float | None,
    cap: int | None,
    captured: int | None,
    retractions: int,
) -> Serving:
    """Join the schedulers: sums and shares over all lines, maxima over all schedulers."""
    every = tuple(replicas.values())
    loads = [load for replica in every for load in replica.loads.values()]
    decodes = sum(replica.decodes for replica in every)
    eager = [load for load in loads if load.eager]
    usage, mamba = _joined(r.usage for r in every), _joined(r.mamba for r in every)
    tokens = sum(replica.new_tokens + replica.cached_tokens for replica in every)
    cached = sum(replica.cached_tokens for replica in every)
    decline = _decline(every)
    shares = _shares(replicas)
    named = {name: _named(every, name) for name in _NAMED}
    return Serving(
        decode_lines=decodes,
        prefill_lines=sum(replica.prefills for replica in every),
        duration_s=duration_s,
        max_running=max((load.running for load in loads), default=None),
        mean_running=_mean((load.running * load.lines for load in loads), decodes),
        max_queue=max(replica.queue_maximum for replica in every),
        queued_share=_share(sum(load.queued for load in loads), decodes),
        queued_at_cap_share=_share(_queued_at(loads, cap), decodes),
        max_token_usage=usage.maximum,
        mean_token_usage=usage.mean,
        full_usage_share=_share(usage.full, decodes),
        max_mamba_usage=mamba.maximum,
        mean_mamba_usage=mamba.mean,
        max_swa_usage=named["swa_usage"].maximum,
        mean_swa_usage=named["swa_usage"].mean,
        max_gpu_tier_usage=named["gpu_usage"].maximum,
        max_cpu_tier_usage=named["cpu_usage"].maximum,
        token_usage_when_queued=_joined(r.queued_usage for r in every).mean,
        mamba_usage_when_queued=_joined(r.queued_mamba for r in every).mean,
        eager_decode_lines=sum(load.eager for load in eager) if decodes else None,
        eager_share=_share(sum(load.eager for load in eager), decodes),
        eager_min_running=min((load.running for load in eager), default=None),
        eager_max_running=max((load.running for load in eager), default=None),
        eager_beyond_captured_lines=_beyond(eager, captured),
        eager_beyond_captured_share=_share(_beyond(eager, captured) or 0, decodes)
        if captured is not None
        else None,
        graph_max_running=max(
            (load.running for load in loads if load.eager < load.lines), default=None
        ),
        mean_gen_tokens_per_s=_mean((load.rate_total for load in loads), decodes),
        max_gen_tokens_per_s=max(r.rate_maximum for r in every) if decodes else None,
        buckets=_buckets(loads),
        mean_accept_length=named["accept_len"].mean,
        mean_accept_rate=named["accept_rate"].mean,
        accept_lines=named["accept_len"].count or None,
        mean_occupancy_ratio=_ratio(named["occupancy"].mean),
        cached_ratio=cached / tokens if tokens else None,
        prefilled_tokens=tokens,
        cached_tokens=cached,
        reused_prefills=sum(replica.reused for replica in every),
        cold_prefills=sum(replica.cold for replica in every),
        cold_large_prefills=sum(replica.cold_large for replica in every),
        prefix_swings=sum(replica.swings for replica in every),
        retracted=_most(every, "retracted"),
        retractions=retractions or None,
        max_prealloc_queue=_most(every, "prealloc"),
        max_transfer_queue=_most(every, "transfer"),
        max_bootstrap_queue=_most(every, "bootstrap"),
        max_inflight_queue=_most(every, "inflight"),
        stalls=sum(replica.gaps.stalls for replica in every),
        longest_stall_s=max(r.gaps.longest_stall_s for r in every) or None,
        idle_s=min(replica.gaps.idle_s for replica in every),
        decline_ratio=None if decline is None else decline.ratio,
        decline_trend=None if decline is None else decline.trend,
        decline_length_ratio=None if decline is None else decline.length_ratio,
        decline_lines=None if decline is None else decline.lines,
        replicas=shares,
        replica_token_ratio=_spread(shares),
    )


_NAMED = ("swa_usage", "gpu_usage", "cpu_usage", "accept_len", "accept_rate", "occupancy")


def _named(replicas: Iterable[Replica], name: str) -> Distribution:
    found = (replica.distributions.get(name) for replica in replicas)
    return _joined(item for item in found if item is not None)


def _joined(parts: Iterable[Distribution]) -> Distribution:
    whole = Distribution()
    for part in parts:
        whole.merge(part)
    return whole


def _most(replicas: Iterable[Replica], name: str) -> int | None:
    return max((r.maxima[name] for r in replicas if name in r.maxima), default=None)


def _queued_at(loads: Iterable[Load], cap: int | None) -> int:
    return 0 if cap is None else sum(load.queued for load in loads if load.running >= cap)


def _beyond(eager: Iterable[Load], captured: int | None) -> int | None:
    """Count the lines without a graph whose batch is larger than the largest one captured."""
    if captured is None:
        return None
    return sum(load.eager for load in eager if load.running > captured)


def _buckets(loads: Iterable[Load]) -> tuple[LoadBucket, ...]:
    """Group loads by powers of two of the running requests."""
    groups: dict[int, list[Load]] = {}
    for load in loads:
        groups.setdefault(load.running.bit_length(), []).append(load)
    return tuple(_bucket(bits, groups[bits]) for bits in sorted(groups))


def _bucket(bits: int, loads: Collection[Load]) -> LoadBucket:
    lines = sum(load.lines for load in loads)
    return LoadBucket(
        low=1 << (bits - 1) if bits else 0,
        high=(1 << bits) - 1,
        lines=lines,
        mean_tokens_per_s=sum(load.rate_total for load in loads) / lines,
        eager_share=sum(load.eager for load in loads) / lines,
        queued_share=sum(load.queued for load in loads) / lines,
    )


def _decline(replicas: Sequence[Replica]) -> _Decline | None:
    """Compare the last quarter of the throughput with the first, at one size of batch.

    The lines of one scheduler with the same power of two of running requests, where there are
    most of them, are put into bins in their order. None below LEAST_TREND_LINES lines.
    """
    trends = (trend for replica in replicas for trend in replica.trends.values())
    trend = max(trends, key=lambda item: item.lines, default=None)
    if trend is None or trend.lines < LEAST_TREND_LINES or len(trend.bins) < _LEAST_TREND_BINS:
        return None
    quarter = len(trend.bins) // 4
    first, last = trend.bins[:quarter], trend.bins[-quarter:]
    before, after = sum(rate for rate, _ in first), sum(rate for rate, _ in last)
    if before <= 0:
        return None
    held, held_last = sum(tokens for _, tokens in first), sum(tokens for _, tokens in last)
    return _Decline(
        ratio=after / before,
        trend=kendall([rate for rate, _ in trend.bins]),
        length_ratio=held_last / held if held else None,
        lines=trend.lines,
    )


def _shares(replicas: Mapping[str, Replica]) -> tuple[ReplicaLoad, ...]:
    """Return what each DP replica did; empty for a server without DP ranks."""
    named = {rank: item for rank, item in replicas.items() if _DATA_PARALLEL.search(rank)}
    return tuple(_load(rank, named[rank]) for rank in sorted(named, key=rank_order))


def _load(rank: str, replica: Replica) -> ReplicaLoad:
    running = sum(load.running * load.lines for load in replica.loads.values())
    return ReplicaLoad(
        rank=rank,
        decode_lines=replica.decodes,
        prefill_lines=replica.prefills,
        prefilled_tokens=replica.new_tokens,
        mean_running=running / replica.decodes if replica.decodes else None,
        max_token_usage=replica.usage.maximum,
        max_queue=replica.queue_maximum,
    )


def _spread(shares: Sequence[ReplicaLoad]) -> float | None:
    """Return the least prefilled tokens of a replica over the mean; None while that is thin."""
    least = 2
    lines = sum(share.prefill_lines for share in shares)
    total = sum(share.prefilled_tokens for share in shares)
    if len(shares) < least or lines < LEAST_REPLICA_PREFILLS * len(shares) or not total:
        return None
    return min(share.prefilled_tokens for share in shares) * len(shares) / total


def _mean(parts: Iterable[float], count: int) -> float | None:
    return sum(parts) / count if count else None


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _ratio(percent: float | None) -> float | None:
    return None if percent is None else percent / 100
