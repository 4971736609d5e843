"""Serving lines of a run, added up: part of the facts (see advisor/facts/model.py)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBucket:
    """The decode lines with `low` to `high` running requests; throughput is that of one scheduler."""

    low: int
    high: int
    lines: int
    mean_tokens_per_s: float
    eager_share: float
    queued_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLoad:
    """What one DP replica (and pipeline stage) did; `prefilled_tokens` without cached ones."""

    rank: str
    decode_lines: int
    prefill_lines: int
    prefilled_tokens: int
    mean_running: float | None
    max_token_usage: float | None
    max_queue: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """Aggregates of the Prefill and Decode lines; ratios are 0..1.

    A `share` is a share of decode lines. `eager_*` counts decode lines that ran without a CUDA
    graph. Values are per printing rank (one per DP replica), all replicas taken together.
    `prefix_swings` counts, while one request at a time is prefilled, how often a large prefill
    that reused nothing follows one that reused a large prefix.

    `prefilled_tokens` counts new and cached prompt tokens. `mean_accept_rate` is printed from
    0.5.6 on, and leaves the bonus token out from 0.5.12 on. `mean_occupancy_ratio` is printed from
    0.5.12 on. `retracted` is the retraction queue of a PD decode server, `retractions` counts the
    requests put back because the KV pool was full.

    `stalls` counts pauses of 10 s and more between the lines of a scheduler that had requests
    waiting; `idle_s` is the time in such pauses with none waiting, of the busiest scheduler.

    `decline_ratio` is the mean throughput of the last quarter of the run over that of the first,
    in the range of batch sizes (a power of two) that one scheduler printed most often;
    `decline_trend` is Kendall's tau over the run (-1 falls steadily), `decline_length_ratio` the
    same ratio for the cached tokens of the batch. All None below 120 such lines.

    `replica_token_ratio` is the fewest newly prefilled tokens of a DP replica over the mean of
    all that printed; None below 20 prefill lines per replica.
    """

    decode_lines: int | None = None
    prefill_lines: int | None = None
    duration_s: float | None = None
    max_running: int | None = None
    mean_running: float | None = None
    max_queue: int | None = None
    queued_share: float | None = None
    queued_at_cap_share: float | None = None
    max_token_usage: float | None = None
    mean_token_usage: float | None = None
    full_usage_share: float | None = None
    max_mamba_usage: float | None = None
    mean_mamba_usage: float | None = None
    max_swa_usage: float | None = None
    mean_swa_usage: float | None = None
    max_gpu_tier_usage: float | None = None
    max_cpu_tier_usage: float | None = None
    token_usage_when_queued: float | None = None
    mamba_usage_when_queued: float | None = None
    eager_decode_lines: int | None = None
    eager_share: float | None = None
    eager_min_running: int | None = None
    eager_max_running: int | None = None
    eager_beyond_captured_lines: int | None = None
    eager_beyond_captured_share: float | None = None
    graph_max_running: int | None = None
    mean_gen_tokens_per_s: float | None = None
    max_gen_tokens_per_s: float | None = None
    buckets: tuple[LoadBucket, ...] = ()
    mean_accept_length: float | None = None
    mean_accept_rate: float | None = None
    accept_lines: int | None = None
    mean_occupancy_ratio: float | None = None
    cached_ratio: float | None = None
    prefilled_tokens: int | None = None
    cached_tokens: int | None = None
    reused_prefills: int | None = None
    cold_prefills: int | None = None
    cold_large_prefills: int | None = None
    prefix_swings: int | None = None
    retracted: int | None = None
    retractions: int | None = None
    max_prealloc_queue: int | None = None
    max_transfer_queue: int | None = None
    max_bootstrap_queue: int | None = None
    max_inflight_queue: int | None = None
    stalls: int | None = None
    longest_stall_s: float | None = None
    idle_s: float | None = None
    decline_ratio: float | None = None
    decline_trend: float | None = None
    decline_length_ratio: float | None = None
    decline_lines: int | None = None
    replicas: tuple[ReplicaLoad, ...] = ()
    replica_token_ratio: float | None = None
