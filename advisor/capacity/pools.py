"""Sizes of the state pool and of the token pool, from free memory and the memory ratio.

Transcribed from SGLang 0.5.3 and 0.5.6 `model_executor/model_runner.py` (`profile_max_num_token`,
`handle_max_mamba_cache`), 0.5.9 to 0.5.14 `model_executor/model_runner_kv_cache_mixin.py`
(`handle_max_mamba_cache`), 0.5.16 to 0.5.23 `mem_cache/kv_cache_configurator.py`
(`_profile_available_bytes`, `_handle_max_mamba_cache`). Not covered: unified memory pools, fused
draft states, post-capture sizing, and the linear-replay ring of 0.5.16 and later.
"""

from __future__ import annotations

from dataclasses import dataclass

from advisor.capacity.inputs import GIB, CapacityInputs
from advisor.capacity.releases import ReleaseRules, StateSizing, table

_BUDGET_FIELDS = ("memory_before_weights_gib", "memory_after_weights_gib", "mem_fraction_static")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One set of rules and assumptions under which the inputs are read.

    Attributes:
        requested: `max_running_requests` after SGLang's defaults, undivided; None if unset or
            unknown.
        slots: State slots per request; 1 means that the radix cache is off.
    """

    rules: ReleaseRules
    inputs: CapacityInputs
    requested: int | None
    slots: int = 1

    @property
    def requested_per_worker(self) -> int | None:
        """Return the requested value of one worker."""
        if self.requested is None:
            return None
        share = self.requested // self.inputs.data_parallel_workers
        return max(self.rules.requested_floor, share)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPool:
    """State slots of one worker, as a range, with the arithmetic."""

    low: int
    high: int | None
    formula: str
    inputs: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def static_budget_gib(inputs: CapacityInputs) -> tuple[float, float] | None:
    """Return the memory for pools, free - before * (1 - fraction), as the printed lines allow.

    None if one of the three inputs is missing.
    """
    before, after = inputs.memory_before_weights_gib, inputs.memory_after_weights_gib
    if before is None or after is None or inputs.mem_fraction_static is None:
        return None
    error = inputs.memory_rounding_gib
    share = 1 - inputs.mem_fraction_static
    low = (after - error) - (before + error) * share
    high = (after + error) - (before - error) * share
    return low - inputs.memory_drift_gib - inputs.reserved_gib, high - inputs.reserved_gib


def missing_budget_fields(inputs: CapacityInputs) -> tuple[str, ...]:
    """Return the fields that `static_budget_gib` lacks."""
    return tuple(name for name in _BUDGET_FIELDS if getattr(inputs, name) is None)


def full_memory_ratio(inputs: CapacityInputs) -> float | None:
    """Return `--mamba-full-memory-ratio`, or its default when the arguments were read."""
    if inputs.full_memory_ratio is None and inputs.arguments_known:
        return float(str(table("default_full_memory_ratio")))
    return inputs.full_memory_ratio


def slot_pool(setting: Setting) -> SlotPool:
    """Return the state slots: as logged, else by flags, else by the memory ratio."""
    inputs = setting.inputs
    if inputs.state_slots is not None:
        count = inputs.state_slots
        return SlotPool(low=count, high=count, formula=f"{count} slots", inputs=("state_slots",))
    if not inputs.arguments_known:
        return SlotPool(low=0, high=None, formula="unknown slots", missing=("state_slots",))
    return fixed_slots(setting) or _ratio_slots(setting)


def kv_budget_gib(setting: Setting) -> tuple[float, float] | None:
    """Return what the KV cache gets after the state pool; None if an input is missing."""
    rest = static_budget_gib(setting.inputs)
    if rest is None or not setting.inputs.is_hybrid:
        return rest
    slots = slot_pool(setting)
    state = setting.inputs.state_bytes
    if state is None or slots.high is None or setting.inputs.replay_state:
        return None
    low = rest[0] - state_pool_bytes(setting, slots=slots.high, state_bytes=state) / GIB
    high = rest[1] - state_pool_bytes(setting, slots=slots.low, state_bytes=state) / GIB
    # The size of a state that was read off the pool's line is off by that line's rounding.
    error = 2 * setting.inputs.memory_rounding_gib
    return low - error, high + error


def state_pool_bytes(setting: Setting, *, slots: int, state_bytes: float) -> float:
    """Return what the release charges for state slots and draft states."""
    drafts = setting.inputs.reserved_draft_tokens
    requests = setting.requested_per_worker or 0
    match setting.rules.sizing:
        case StateSizing.REQUESTS:
            return slots * state_bytes
        case StateSizing.RADIX_OR_REQUESTS:
            return slots * state_bytes * (1 + drafts)
        case StateSizing.RESERVE_FIRST:
            return state_bytes * requests * drafts + slots * state_bytes
        case StateSizing.JOINT:
            served = min(requests, slots // setting.slots)
            return state_bytes * served * drafts + slots * state_bytes
        case StateSizing.JOINT_PADDED:
            served = min(requests, slots // setting.slots) + 1
            return state_bytes * served * drafts + (slots + 1) * state_bytes


def slots_in(setting: Setting, *, budget_gib: float, ratio: float, state_bytes: float) -> int:
    """Return the slots that the memory ratio gives out of a budget.

    0.5.6 divides by the workers for gated-delta-net models only; other models are taken alike.
    """
    drafts = setting.inputs.reserved_draft_tokens
    if setting.rules.sizing is StateSizing.RESERVE_FIRST:
        requests = setting.requested_per_worker or 0
        budget_gib -= state_bytes * requests * drafts / GIB
    share = budget_gib * ratio / (1 + ratio) * GIB
    match setting.rules.sizing:
        case StateSizing.REQUESTS | StateSizing.RESERVE_FIRST:
            return int(share // state_bytes)
        case StateSizing.RADIX_OR_REQUESTS:
            whole = int(share // state_bytes // (1 + drafts))
            return whole // setting.inputs.data_parallel_workers
        case StateSizing.JOINT:
            return int(share // (state_bytes * (1 + drafts / setting.slots)))
        case StateSizing.JOINT_PADDED:
            padded = share - state_bytes * (1 + drafts)
            return int(padded // (state_bytes * (1 + drafts / setting.slots)))


def fixed_slots(setting: Setting) -> SlotPool | None:
    """Return the slots that flags fix; None where the memory ratio decides."""
    inputs, sizing = setting.inputs, setting.rules.sizing
    radix_off = setting.slots == 1
    if sizing is StateSizing.REQUESTS or (sizing is StateSizing.RADIX_OR_REQUESTS and radix_off):
        return _slots_by_flags(setting)
    if inputs.max_mamba_cache_size is not None and sizing is not StateSizing.RADIX_OR_REQUESTS:
        return _shared(inputs.max_mamba_cache_size, inputs, "max_mamba_cache_size", 0)
    if radix_off and setting.requested is not None:
        floor = setting.rules.requested_floor
        return _shared(setting.requested, inputs, "max_running_requests", floor)
    return None


def _slots_by_flags(setting: Setting) -> SlotPool:
    inputs = setting.inputs
    if inputs.max_mamba_cache_size is not None:
        return _shared(inputs.max_mamba_cache_size, inputs, "max_mamba_cache_size", 0)
    if setting.requested is not None:
        return _shared(setting.requested, inputs, "max_running_requests", 0)
    return _shared(int(str(table("state_slots_without_request"))), inputs, None, 0)


def _shared(total: int, inputs: CapacityInputs, field: str | None, floor: int) -> SlotPool:
    workers = inputs.data_parallel_workers
    count = max(floor, total // workers)
    formula = f"{count} slots" if workers == 1 else f"{total} slots // {workers} workers = {count}"
    return SlotPool(low=count, high=count, formula=formula, inputs=(field,) if field else ())


def _ratio_slots(setting: Setting) -> SlotPool:
    inputs = setting.inputs
    budget, ratio, state = static_budget_gib(inputs), full_memory_ratio(inputs), inputs.state_bytes
    used = (*_BUDGET_FIELDS, "state_bytes", "full_memory_ratio")
    if budget is None or ratio is None or state is None or inputs.replay_state:
        missing = missing_budget_fields(inputs)
        missing += ("state_bytes",) if state is None else ()
        formula = "slots by --mamba-full-memory-ratio"
        return SlotPool(low=0, high=None, formula=formula, missing=missing or ("state_slots",))
    low, high = (
        max(0, slots_in(setting, budget_gib=part, ratio=ratio, state_bytes=state))
        for part in budget
    )
    formula = (
        f"{budget[1]:.2f} GiB for pools, ratio {ratio:g}, {state / 2**20:.2f} MiB a state: "
        f"{_span(low, high)} slots"
    )
    return SlotPool(low=low, high=high, formula=formula, inputs=used)


def _span(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"
