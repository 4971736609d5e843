"""Knobs for the bounds that are no state pool: the request itself, its estimate, the tokens."""

from __future__ import annotations

import math

from advisor.capacity.inputs import GIB
from advisor.capacity.knobs import Knob, Situation
from advisor.capacity.pools import fixed_slots, full_memory_ratio, slot_pool
from advisor.capacity.releases import RequestedBound, StateSizing
from advisor.capacity.state_knobs import fraction_knob, highest_fraction, reserve_text
from advisor.capacity.values import LimitName

REQUEST_LIMITS = (
    LimitName.REQUESTED,
    LimitName.SPECULATIVE_DEFAULT,
    LimitName.DEEPSEEK_V4_DEFAULT,
)
_TOKEN_LIMITS = (
    LimitName.HALF_OF_TOKENS,
    LimitName.KV_MEMORY,
    LimitName.MAX_TOTAL_TOKENS,
)
_REQUESTS_PER_CONTEXT = 512
_MOST_ESTIMATED = 4096
_SLOT_INDEX_BYTES = 4
_EXTRA_CONTEXT_TOKENS = 4


def running_requests(now: Situation) -> Knob | None:
    """Ask for more requests than the default, the user or the estimate allow."""
    estimate_bypassed = (
        now.blocked_by(LimitName.TOKEN_ESTIMATE)
        and now.setting.rules.requested_bound is not RequestedBound.ESTIMATE
    )
    if not now.blocked_by(*REQUEST_LIMITS) and not estimate_bypassed:
        return None
    workers = now.setting.inputs.data_parallel_workers
    changed = (*REQUEST_LIMITS, LimitName.TOKEN_ESTIMATE) if estimate_bypassed else REQUEST_LIMITS
    value = _most_requests(now)
    if value <= now.current:
        return None
    stop = now.stop(value, *changed)
    if value < now.target:
        stop = f"the draft states of {value + 1} requests leave too few state slots for them"
    return Knob(
        flag="--max-running-requests",
        value=str(value * workers),
        reaches=now.reach(value, *changed),
        formula=f"{value} requests" + (f" * {workers} DP workers" if workers > 1 else ""),
        stops_at=stop,
        cost_bytes=_request_bytes(now, value),
        cost="token tables and draft states of the added requests; each one gets less of the GPU",
    )


def context_length(now: Situation) -> Knob | None:
    """Shorten the context so that the estimate rises; only between its floor and ceiling."""
    limit, inputs = now.limit(LimitName.TOKEN_ESTIMATE), now.setting.inputs
    tokens, context = inputs.max_total_num_tokens, inputs.context_length
    if limit is None or limit.value is None or tokens is None or context is None:
        return None
    if not now.blocked_by(LimitName.TOKEN_ESTIMATE) or now.target > _MOST_ESTIMATED:
        return None
    shorter = tokens * _REQUESTS_PER_CONTEXT // now.target
    if not 0 < shorter < context:
        return None
    return Knob(
        flag="--context-length",
        value=str(shorter),
        reaches=now.reach(now.target, LimitName.TOKEN_ESTIMATE),
        formula=f"{tokens} tokens * {_REQUESTS_PER_CONTEXT} // {now.target} requests = {shorter}",
        stops_at=now.stop(now.target, LimitName.TOKEN_ESTIMATE),
        cost_bytes=0,
        cost=f"requests longer than {shorter} tokens are refused",
    )


def total_tokens(now: Situation) -> Knob | None:
    """Raise the user's own cap on the token pool."""
    inputs, needed = now.setting.inputs, _tokens_needed(now)
    tokens, cap = inputs.max_total_num_tokens, inputs.max_total_tokens
    if needed is None or tokens is None or cap is None:
        return None
    if cap // inputs.page_size * inputs.page_size != tokens:
        return None
    memory = now.limit(LimitName.KV_MEMORY)
    stop = now.stop(_bound_of(now, needed), *_TOKEN_LIMITS)
    if memory is not None and memory.low < needed:
        needed, stop = memory.low, f"the memory ends there: {memory.formula}"
    if needed <= tokens:
        return None
    cell = inputs.kv_cell_bytes
    return Knob(
        flag="--max-total-tokens",
        value=str(needed),
        reaches=_reached(now, needed),
        formula=_needed_text(now, needed),
        stops_at=stop,
        cost_bytes=None if cell is None else (needed - tokens) * cell,
        cost="taken from the memory that is free after start",
    )


def token_fraction(now: Situation) -> Knob | None:
    """Raise the static share until the KV cache holds enough tokens."""
    inputs, needed, highest = now.setting.inputs, _tokens_needed(now), highest_fraction(now)
    tokens, cell, start = (
        inputs.max_total_num_tokens,
        inputs.kv_cell_bytes,
        inputs.mem_fraction_static,
    )
    before = inputs.memory_before_weights_gib
    if needed is None or highest is None or inputs.max_total_tokens == tokens:
        return None
    if tokens is None or cell is None or start is None or before is None:
        return None
    share = _kv_share(now)
    if share is None:
        return None
    wanted = start + (needed - tokens) * cell / share / GIB / before
    fraction = min(highest, math.ceil(wanted * 1000) / 1000)
    if fraction <= start:
        return None
    gained = tokens + int((fraction - start) * before * GIB * share // cell)
    enough = gained >= needed
    bound = _bound_of(now, min(gained, needed))
    stop = now.stop(bound, *_TOKEN_LIMITS) if enough else reserve_text(now)
    return fraction_knob(now, fraction, now.reach(bound, *_TOKEN_LIMITS), stop)


def _tokens_needed(now: Situation) -> int | None:
    if now.blocked_by(LimitName.HALF_OF_TOKENS):
        return 2 * now.target
    if now.blocked_by(LimitName.MAX_TOTAL_TOKENS, LimitName.KV_MEMORY):
        return now.target
    return None


def _reached(now: Situation, tokens: int) -> int:
    return now.reach(_bound_of(now, tokens), *_TOKEN_LIMITS)


def _bound_of(now: Situation, tokens: int) -> int:
    """Return what so many tokens allow: requests, or tokens in a token report."""
    return tokens if now.limit(LimitName.KV_MEMORY) is not None else tokens // 2


def _needed_text(now: Situation, needed: int) -> str:
    if now.limit(LimitName.KV_MEMORY) is not None:
        return f"{needed} tokens"
    return f"{needed // 2} requests * 2 = {needed} tokens"


def _kv_share(now: Situation) -> float | None:
    """Return the part of added static memory that reaches the KV cache."""
    if not now.setting.inputs.is_hybrid or fixed_slots(now.setting) is not None:
        return 1.0
    ratio = full_memory_ratio(now.setting.inputs)
    return None if ratio is None else 1 / (1 + ratio)


def _most_requests(now: Situation) -> int:
    """Return the target, or less where draft states come off the budget before the slots."""
    low, high = now.current, now.target
    while low < high:
        middle = (low + high + 1) // 2
        left = _state_limit_after(now, middle)
        low, high = (middle, high) if left is None or left >= middle else (low, middle - 1)
    return low


def _state_limit_after(now: Situation, requests: int) -> int | None:
    """Return the state pool's bound when draft states of more requests come off first.

    None where that does not move it.
    """
    setting = now.setting
    drafts, ratio = setting.inputs.reserved_draft_tokens, full_memory_ratio(setting.inputs)
    reserved = setting.rules.sizing is StateSizing.RESERVE_FIRST and setting.inputs.is_hybrid
    asked = setting.requested_per_worker
    if not reserved or not drafts or ratio is None or asked is None:
        return None
    if fixed_slots(setting) is not None:
        return None
    lost = math.ceil((requests - asked) * drafts * ratio / (1 + ratio))
    return max(0, slot_pool(setting).low - lost) // setting.slots


def _request_bytes(now: Situation, requests: int) -> int | None:
    """Return the added token table (4 bytes a position) and draft states."""
    inputs = now.setting.inputs
    if inputs.context_length is None:
        return None
    drafts = inputs.reserved_draft_tokens
    row = (inputs.context_length + _EXTRA_CONTEXT_TOKENS + drafts) * _SLOT_INDEX_BYTES
    states = 0.0
    if inputs.is_hybrid and drafts:
        if inputs.state_bytes is None:
            return None
        states = inputs.state_bytes * drafts
    return round((requests - now.current) * (row + states))
