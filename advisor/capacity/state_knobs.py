"""Knobs that raise the bound of the state pool of hybrid models.

A budget in state units (one state's bytes = 1) needs no byte counts: with the ratio f the pool's
share of n slots is units(n), the whole budget units * (1 + f) / f, and another ratio follows.
"""

from __future__ import annotations

import math
from dataclasses import replace

from advisor.capacity.inputs import GIB, StateStrategy
from advisor.capacity.knobs import Knob, Situation
from advisor.capacity.pools import (
    Setting,
    fixed_slots,
    full_memory_ratio,
    slot_pool,
    slots_in,
    state_pool_bytes,
    static_budget_gib,
)
from advisor.capacity.releases import StateSizing
from advisor.capacity.static_fraction import activation_reserve_mib
from advisor.capacity.values import LimitName
from advisor.knowledge.flags import flag_name

_STATE = LimitName.STATE_SLOTS
_STRATEGY_FLAG = "--mamba-radix-cache-strategy"
_FRACTION_STEP = 0.001
_KV_END = "the KV cache must keep one full context"


def half_state(now: Situation) -> Knob | None:
    """Keep the recurrent state in bfloat16: more slots fit the same share."""
    inputs = now.setting.inputs
    flag = flag_name("--mamba-ssm-dtype", now.release)
    whole, recurrent = inputs.state_bytes, inputs.recurrent_state_bytes
    if flag is None or inputs.state_dtype != "float32" or whole is None or recurrent is None:
        return None
    if fixed_slots(now.setting) is not None:
        return None
    half = whole - recurrent / 2
    slots = int(slot_pool(now.setting).low * whole // half)
    count = slots // now.setting.slots
    return Knob(
        flag=flag,
        value="bfloat16",
        reaches=now.reach(count, _STATE),
        formula=(
            f"{whole / 2**20:.2f} MiB -> {half / 2**20:.2f} MiB a state: {slots} slots"
            f" // {now.setting.slots} per request = {count}"
        ),
        stops_at=now.stop(count, _STATE),
        cost_bytes=0,
        cost="the recurrent state loses precision: check the answers",
    )


def memory_ratio(now: Situation) -> Knob | None:
    """Give the state pool a larger share of the static memory."""
    flag = flag_name("--mamba-full-memory-ratio", now.release)
    ratio = full_memory_ratio(now.setting.inputs)
    if flag is None or ratio is None or fixed_slots(now.setting) is not None:
        return None
    per_request = now.setting.slots
    share = _units(now.setting, slot_pool(now.setting).low)
    budget = share * (1 + ratio) / ratio
    most = _slots_of_units(now.setting, budget - (budget - share) * _context_share(now))
    count = min(now.target, most // per_request)
    needed = _units(now.setting, count * per_request)
    if count <= now.current or needed >= budget:
        return None
    value = math.ceil(needed / (budget - needed) * 100) / 100
    state = now.setting.inputs.state_bytes
    return Knob(
        flag=flag,
        value=f"{value:g}",
        reaches=now.reach(count, _STATE),
        formula=(
            f"{count} requests * {per_request} slots = {count * per_request} slots,"
            f" {needed / budget:.0%} of the pools' memory instead of {share / budget:.0%}"
        ),
        stops_at=_KV_END if count < now.target else now.stop(count, _STATE),
        cost_bytes=None if state is None else round((needed - share) * state),
        cost="taken from the KV cache",
    )


def cache_size(now: Situation) -> Knob | None:
    """Fix the number of state slots."""
    flag = flag_name("--max-mamba-cache-size", now.release)
    overwritten = now.setting.rules.sizing is StateSizing.RADIX_OR_REQUESTS
    if flag is None or (overwritten and now.setting.slots > 1):
        return None
    inputs, slots = now.setting.inputs, slot_pool(now.setting).low
    wanted, ended = now.target * now.setting.slots, ""
    cost = _pool_growth(now.setting, slots, wanted)
    room = _kv_room_bytes(now)
    if cost is not None and room is not None and cost > room:
        wanted = slots + int((wanted - slots) * room / cost)
        wanted -= wanted % now.setting.slots
        cost = _pool_growth(now.setting, slots, wanted)
        ended = _KV_END
    count = wanted // now.setting.slots
    if count <= now.current:
        return None
    workers = inputs.data_parallel_workers
    each = f"{count} requests * {now.setting.slots} slots = {wanted}"
    return Knob(
        flag=flag,
        value=str(wanted * workers),
        reaches=now.reach(count, _STATE),
        formula=each if workers == 1 else f"{each}, * {workers} DP workers",
        stops_at=ended if ended and now.reach(count, _STATE) == count else now.stop(count, _STATE),
        cost_bytes=None if cost is None else round(cost),
        cost="taken from the KV cache",
    )


def lazy_buffer(now: Situation) -> Knob | None:
    """Let a request keep one tracking slot less."""
    flag = flag_name(_STRATEGY_FLAG, now.release)
    lazy = now.setting.rules.slots.extra_buffer_lazy
    if flag is None or lazy is None or now.setting.slots != now.setting.rules.slots.extra_buffer:
        return None
    slots = slot_pool(now.setting).low
    if fixed_slots(now.setting) is None:
        share = _units(now.setting, slots)
        slots = _slots_of_units(replace(now.setting, slots=lazy), share)
    count = slots // lazy
    if count <= now.current:
        return None
    return Knob(
        flag=flag,
        value=StateStrategy.EXTRA_BUFFER_LAZY.value,
        reaches=now.reach(count, _STATE),
        formula=f"{slots} slots // {lazy} per request instead of {now.setting.slots} = {count}",
        stops_at=now.stop(count, _STATE),
        cost_bytes=0,
        cost="needs the overlap schedule",
    )


def no_radix_cache(now: Situation) -> Knob | None:
    """Drop the radix cache: a request then takes one slot."""
    old = now.setting
    if old.slots == 1:
        return None
    new = replace(old, slots=1, inputs=replace(old.inputs, radix_cache=False))
    fixed = fixed_slots(new)
    slots = slot_pool(old).low if fixed is None else fixed.low
    count = slots
    if count <= now.current:
        return None
    before = slot_pool(old).low
    state = old.inputs.state_bytes
    cost = None
    if state is not None:
        cost = state_pool_bytes(new, slots=slots, state_bytes=state) - state_pool_bytes(
            old, slots=before, state_bytes=state
        )
    return Knob(
        flag="--disable-radix-cache",
        value="",
        reaches=now.reach(count, _STATE),
        formula=f"{slots} slots // 1 per request = {count}",
        stops_at=now.stop(count, _STATE),
        cost_bytes=None if cost is None else round(cost),
        cost=_radix_cost(now),
    )


def static_fraction(now: Situation) -> Knob | None:
    """Raise the static share until the pool holds enough slots or activations need the rest."""
    inputs, ratio = now.setting.inputs, full_memory_ratio(now.setting.inputs)
    highest = highest_fraction(now)
    if ratio is None or inputs.state_bytes is None or fixed_slots(now.setting) is not None:
        return None
    start = inputs.mem_fraction_static
    if highest is None or start is None or static_budget_gib(inputs) is None:
        return None
    wanted, slots, fraction = now.target * now.setting.slots, 0, start
    while fraction + _FRACTION_STEP <= highest + 1e-9 and slots < wanted:
        fraction = round(fraction + _FRACTION_STEP, 3)
        raised = replace(inputs, mem_fraction_static=fraction)
        budget = static_budget_gib(raised) or (0.0, 0.0)
        slots = slots_in(
            now.setting, budget_gib=budget[0], ratio=ratio, state_bytes=inputs.state_bytes
        )
    count = slots // now.setting.slots
    if count <= now.current:
        return None
    reached = now.reach(count, _STATE)
    stop = reserve_text(now) if reached == count and slots < wanted else now.stop(count, _STATE)
    return fraction_knob(now, fraction, reached, stop)


def highest_fraction(now: Situation) -> float | None:
    """Return the static share that leaves free what SGLang reserves for activations."""
    inputs = now.setting.inputs
    before, free = inputs.memory_before_weights_gib, inputs.free_after_start_gib
    fraction = inputs.mem_fraction_static
    reserve = reserve_gib(now)
    if before is None or free is None or fraction is None or reserve is None:
        return None
    return math.floor((fraction + (free - reserve) / before) * 1000) / 1000


def reserve_gib(now: Situation) -> float | None:
    """Return the memory that must stay free for activations once graphs are captured."""
    inputs = now.setting.inputs
    if inputs.chunked_prefill_size is None:
        return None
    ranks = inputs.tensor_parallel_size * inputs.pipeline_parallel_size
    return activation_reserve_mib(inputs.chunked_prefill_size, ranks=ranks) / 1024


def reserve_text(now: Situation) -> str:
    """Say what must stay free."""
    free, reserve = now.setting.inputs.free_after_start_gib, reserve_gib(now)
    return f"of {free:.2f} GiB free after start, {reserve:.2f} GiB must stay for activations"


def fraction_knob(now: Situation, fraction: float, reaches: int, stop: str) -> Knob:
    """Return the knob that sets the static share."""
    inputs = now.setting.inputs
    start, before = inputs.mem_fraction_static or 0.0, inputs.memory_before_weights_gib or 0.0
    more = (fraction - start) * before
    return Knob(
        flag="--mem-fraction-static",
        value=f"{fraction:.3f}",
        reaches=reaches,
        formula=f"({fraction:.3f} - {start:.3f}) * {before:.2f} GiB = {more:.2f} GiB for the pools",
        stops_at=stop,
        cost_bytes=round(more * GIB),
        cost="taken from the memory that is free after start",
    )


def _units(setting: Setting, slots: int) -> float:
    drafts = setting.inputs.reserved_draft_tokens
    match setting.rules.sizing:
        case StateSizing.REQUESTS | StateSizing.RESERVE_FIRST:
            return slots
        case StateSizing.RADIX_OR_REQUESTS:
            return slots * (1 + drafts)
        case StateSizing.JOINT:
            return slots * (1 + drafts / setting.slots)
        case StateSizing.JOINT_PADDED:
            return slots * (1 + drafts / setting.slots) + 1 + drafts


def _slots_of_units(setting: Setting, units: float) -> int:
    empty = _units(setting, 0)
    return int((units - empty) // (_units(setting, 1) - empty))


def _pool_growth(setting: Setting, slots: int, wanted: int) -> float | None:
    state = setting.inputs.state_bytes
    if state is None:
        return None
    more = state_pool_bytes(setting, slots=wanted, state_bytes=state)
    return more - state_pool_bytes(setting, slots=slots, state_bytes=state)


def _kv_room_bytes(now: Situation) -> int | None:
    inputs = now.setting.inputs
    tokens, context, cell = (
        inputs.max_total_num_tokens,
        inputs.context_length,
        inputs.kv_cell_bytes,
    )
    if tokens is None or context is None or cell is None:
        return None
    return max(0, tokens - context) * cell


def _context_share(now: Situation) -> float:
    """Return the part of the KV cache that one full context takes; 0 where unknown."""
    tokens, context = now.setting.inputs.max_total_num_tokens, now.setting.inputs.context_length
    return context / tokens if tokens and context else 0.0


def _radix_cost(now: Situation) -> str:
    text = "prefixes are no longer reused"
    strategy = flag_name(_STRATEGY_FLAG, now.release)
    if now.setting.inputs.state_strategy is StateStrategy.EXTRA_BUFFER and strategy is not None:
        text += f"; extra_buffer needs the radix cache, so set {strategy} no_buffer"
    return text
