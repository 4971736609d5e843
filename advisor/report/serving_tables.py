"""The tables on serving: load, throughput by batch size, DP replicas."""

from __future__ import annotations

from advisor.facts.model import RunFacts
from advisor.report.quantities import counted, duration, percent, thousands
from advisor.report.tables import Block, Row, count, known, most, ratio

_FEWEST_REPLICAS = 2


def serving_block(run: RunFacts) -> Block:
    """Show load, queue, caches and pauses over the whole log."""
    serving = run.serving
    if not serving.decode_lines and not serving.prefill_lines:
        return Block(title="Serving", rows=())
    accepted = serving.mean_accept_length
    rows = [
        most("Running requests", serving.max_running),
        most("Queued requests", serving.max_queue),
        _throughput(run),
        ratio("KV cache in use, most", serving.max_token_usage),
        ratio("State pool in use, most", serving.max_mamba_usage),
        ratio("Sliding window in use, most", serving.max_swa_usage),
        ratio("Decode without a CUDA graph", serving.eager_share),
        ratio("Prefix cache hits", serving.cached_ratio),
        None
        if accepted is None
        else Row(label="Accept length", value=f"{accepted:.2f} on average"),
        count("Requests retracted", serving.retractions or None),
        _stalls(run),
        _decline(run),
    ]
    seen = [
        counted(serving.decode_lines or 0, "decode line"),
        counted(serving.prefill_lines or 0, "prefill line"),
    ]
    span = "" if serving.duration_s is None else f" over {duration(serving.duration_s)}"
    return Block(title="Serving", rows=known(rows), note=f"{' and '.join(seen)}{span}")


def _throughput(run: RunFacts) -> Row | None:
    serving = run.serving
    if serving.mean_gen_tokens_per_s is None:
        return None
    peak = serving.max_gen_tokens_per_s
    highest = "" if peak is None else f", at most {thousands(peak)}"
    mean = thousands(serving.mean_gen_tokens_per_s)
    return Row(label="Generated tokens per second", value=f"{mean} on average{highest}")


def _stalls(run: RunFacts) -> Row | None:
    serving = run.serving
    if not serving.stalls:
        return None
    longest = serving.longest_stall_s
    value = counted(serving.stalls, "pause")
    if longest is not None:
        value += f", the longest {duration(longest)}"
    return Row(label="Stalls while requests waited", value=value)


def _decline(run: RunFacts) -> Row | None:
    """Show the end against the beginning where the log is long enough for it."""
    ratio_of_ends = run.serving.decline_ratio
    if ratio_of_ends is None:
        return None
    value = f"{percent(ratio_of_ends)} of the first"
    return Row(label="Throughput of the last quarter", value=value)


def throughput_block(run: RunFacts) -> Block:
    """Show the throughput of one scheduler by the number of running requests."""
    buckets = run.serving.buckets
    highest = max((bucket.mean_tokens_per_s for bucket in buckets), default=0.0)
    rows = tuple(
        Row(
            label=_bucket(bucket.low, bucket.high, bucket.lines, bucket.eager_share),
            value=thousands(bucket.mean_tokens_per_s),
            share=bucket.mean_tokens_per_s / highest if highest else None,
        )
        for bucket in buckets
    )
    return Block(
        title="Throughput by running requests",
        rows=rows,
        note="tokens per second of one scheduler",
    )


def _bucket(low: int, high: int, lines: int, eager_share: float) -> str:
    requests = f"{low}" if low == high else f"{low}–{high}"
    eager = f", {percent(eager_share)} without a graph" if eager_share else ""
    return f"{requests} ({counted(lines, 'line')}{eager})"


def replica_block(run: RunFacts) -> Block:
    """Show how the load was spread over DP replicas; one alone says nothing."""
    replicas = run.serving.replicas
    total = sum(replica.prefilled_tokens for replica in replicas)
    if len(replicas) < _FEWEST_REPLICAS or not total:
        return Block(title="DP replicas", rows=())
    rows = tuple(
        Row(
            label=replica.rank or "main",
            value=thousands(replica.prefilled_tokens),
            share=replica.prefilled_tokens / total,
        )
        for replica in replicas
    )
    return Block(title="DP replicas", rows=rows, note="prompt tokens computed")
