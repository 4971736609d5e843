"""Capacity and memory of a run: part of the facts (see advisor/facts/model.py)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityLimit:
    """One bound of the concurrency or of the token pool, with its arithmetic.

    `value` is None where only `low` and `high` (None: no end) are known; `missing` names the
    inputs that would settle it. `binds` is None where the inputs do not tell.
    """

    name: str
    value: int | None
    low: int
    high: int | None
    binds: bool | None
    formula: str
    inputs: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityKnob:
    """One flag that raises the concurrency of a worker to `reaches`, with what it costs.

    `value` is empty for a switch; `cost_gib` is memory taken from elsewhere on each GPU, None
    where the inputs do not tell.
    """

    flag: str
    value: str
    reaches: int
    formula: str
    stops_at: str
    cost_gib: float | None
    cost: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityFacts:
    """The scheduler's capacity line; with DP attention the numbers are per worker.

    `slots_per_request` is known where the state pool of a hybrid model sets the limit: the state
    slots that one request takes, so that slots // slots_per_request = max_running_requests.

    `limits` are the bounds of max_running_requests as SGLang computes them, `binding_limit` the
    name of the smallest (requested, speculative_default, deepseek_v4_default, token_estimate,
    half_of_tokens, state_slots), `next_limit` the one behind it. `verdict` says how the recomputed
    value stands to the logged one: verified, contradicts or cannot tell. `token_limits` and its
    kin are the same for max_total_num_tokens (kv_memory, max_total_tokens).

    `knobs` are what to turn to reach `target` requests of one worker, cheapest first;
    `target_reason` is `requested` (more was asked for) or `queue` (requests waited at the limit).
    """

    max_running_requests: int | None = None
    requested_max_running_requests: int | None = None
    max_total_num_tokens: int | None = None
    chunked_prefill_size: int | None = None
    max_prefill_tokens: int | None = None
    context_length: int | None = None
    available_gpu_gib: float | None = None
    slots_per_request: int | None = None
    state_slots: int | None = None
    state_bytes: int | None = None
    kv_cell_bytes: int | None = None
    binding_limit: str | None = None
    binding_formula: str | None = None
    next_limit: str | None = None
    next_limit_value: int | None = None
    next_formula: str | None = None
    recomputed: int | None = None
    verdict: str | None = None
    verdict_reason: str | None = None
    releases: tuple[str, ...] = ()
    limits: tuple[CapacityLimit, ...] = ()
    token_binding_limit: str | None = None
    token_verdict: str | None = None
    token_verdict_reason: str | None = None
    token_limits: tuple[CapacityLimit, ...] = ()
    target: int | None = None
    target_reason: str | None = None
    knobs: tuple[CapacityKnob, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStep:
    """One step of the way from a GPU's memory to what is free; `basis` is logged or derived."""

    name: str
    gib: float
    basis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCheck:
    """Two ways to the same amount."""

    name: str
    expected_gib: float
    found_gib: float
    agrees: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RankUse:
    """What one rank took, GiB.

    `draft_gib` is the draft model with its KV pool, `free_gib` the newest free amount printed.
    """

    rank: str
    before_weights_gib: float | None
    weights_gib: float | None
    kv_gib: float | None
    state_gib: float | None
    draft_gib: float | None
    graphs_gib: float | None
    free_gib: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFacts:
    """Memory of the tightest rank, GiB, in the order in which the log gives it.

    `before_spread_ratio` is the least free memory over the most, over ranks, before the weights.
    `taken_ratio` is the share of the tightest GPU that was taken before the weights.

    `waterfall` leads from the GPU's memory (or, where that is not known, from what was free
    before the weights) to `free_gib`; `reserve_gib` is what --mem-fraction-static keeps out of
    the pools. After memory ran out, `failed_step` says when (weights, no_room_for_pool, pool,
    graphs, runtime) and `fraction_turn` what to do with --mem-fraction-static (raise, lower,
    neither), with the value to set where the numbers give one.
    """

    before_weights_gib: float | None = None
    before_weights_max_gib: float | None = None
    before_spread_ratio: float | None = None
    taken_ratio: float | None = None
    weights_gib: float | None = None
    draft_weights_gib: float | None = None
    draft_kv_gib: float | None = None
    after_weights_gib: float | None = None
    kv_gib: float | None = None
    kv_tokens: int | None = None
    kv_dtype: str | None = None
    mamba_gib: float | None = None
    mamba_slots: int | None = None
    mamba_state_gib: float | None = None
    mamba_intermediate_gib: float | None = None
    after_pools_gib: float | None = None
    tightest_rank: str | None = None
    total_gib: float | None = None
    reserve_gib: float | None = None
    graphs_gib: float | None = None
    free_gib: float | None = None
    waterfall: tuple[MemoryStep, ...] = ()
    waterfall_missing: tuple[str, ...] = ()
    checks: tuple[MemoryCheck, ...] = ()
    ranks: tuple[RankUse, ...] = ()
    failed_step: str | None = None
    wanted_gib: float | None = None
    failed_free_gib: float | None = None
    fraction_turn: str | None = None
    fraction_target: float | None = None
    fraction_least: float | None = None
    fraction_most: float | None = None
    fraction_why: str | None = None
