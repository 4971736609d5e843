"""Why this many requests and tokens: the log's numbers put into SGLang's own arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from packaging.version import Version

from advisor.capacity import (
    CapacityInputs,
    CapacityReport,
    Knob,
    Limit,
    LimitName,
    StateStrategy,
    advice,
    known_releases,
    limits,
    token_limits,
)
from advisor.facts.literals import Value
from advisor.facts.memory import MemoryCollector
from advisor.facts.model import (
    CapacityFacts,
    CapacityKnob,
    CapacityLimit,
    ChangedArgument,
    Parallel,
    Serving,
)
from advisor.facts.plausible import plausible
from advisor.facts.rank_memory import RankMemory
from advisor.knowledge.ranges import VersionRange

_GIB = 1 << 30
_CELL_STEPS = (1024, 512, 256, 128, 64)
_SPECULATIVE_DEFAULT = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacitySources:
    """The facts that go into the arithmetic. `args` are the dumped arguments, `requested` those of a given launch command."""

    capacity: CapacityFacts
    memory: MemoryCollector
    args: Mapping[str, Value] | None
    requested: Mapping[str, Value] | None
    dumped: bool
    changed: tuple[ChangedArgument, ...]
    releases: VersionRange | None
    parallel: Parallel
    model_class: str | None
    serving: Serving


def explain(sources: CapacitySources) -> CapacityFacts:
    """Add every limit, the one that binds, the next one, and what to turn, to the logged values."""
    facts = sources.capacity
    if facts.max_running_requests is None and facts.max_total_num_tokens is None:
        return facts
    inputs = plausible(capacity_inputs(sources))
    report, tokens = limits(inputs), token_limits(inputs)
    binding, chosen = report.binding, report.chosen
    by_state = binding is not None and binding.name is LimitName.STATE_SLOTS
    target, reason = _target(facts, sources, inputs)
    knobs = advice(report, target) if target is not None else ()
    return replace(
        facts,
        slots_per_request=chosen.slots_per_request
        if by_state and chosen is not None
        else facts.slots_per_request,
        state_slots=inputs.state_slots,
        state_bytes=None if inputs.state_bytes is None else round(inputs.state_bytes),
        kv_cell_bytes=inputs.kv_cell_bytes,
        limits=_shown(report),
        binding_limit=None if binding is None else binding.name.value,
        binding_formula=None if binding is None else binding.formula,
        next_limit=None if report.next_limit is None else report.next_limit.name.value,
        next_limit_value=None if report.next_limit is None else report.next_limit.value,
        next_formula=None if report.next_limit is None else report.next_limit.formula,
        recomputed=None if chosen is None else chosen.value,
        verdict=report.verdict.value,
        verdict_reason=report.reason,
        releases=() if chosen is None else chosen.releases,
        token_limits=_shown(tokens),
        token_binding_limit=None if tokens.binding is None else tokens.binding.name.value,
        token_verdict=tokens.verdict.value,
        token_verdict_reason=tokens.reason,
        target=target if knobs else None,
        target_reason=reason if knobs else None,
        knobs=tuple(_knob(knob, _assumption(knob, sources)) for knob in knobs),
    )


def capacity_inputs(sources: CapacitySources) -> CapacityInputs:
    """Collect what the log says of one worker."""
    args = sources.args if sources.args is not None and sources.dumped else {}
    facts, ranks = sources.capacity, tuple(sources.memory.ranks.values())
    rank = next((item for item in ranks if item.mamba_ssm_gib is not None), None)
    algorithm = args.get("speculative_algorithm")
    return CapacityInputs(
        version_range=_range(sources.releases),
        arguments_known=sources.dumped,
        max_running_requests=_requested(sources, args),
        max_total_num_tokens=facts.max_total_num_tokens,
        max_total_tokens=_integer(args, "max_total_tokens"),
        context_length=facts.context_length,
        page_size=_integer(args, "page_size") or 1,
        data_parallel_workers=(sources.parallel.data or 1) if sources.parallel.dp_attention else 1,
        tensor_parallel_size=sources.parallel.tensor or 1,
        pipeline_parallel_size=sources.parallel.pipeline or 1,
        chunked_prefill_size=facts.chunked_prefill_size,
        speculative_algorithm=algorithm if isinstance(algorithm, str) else None,
        draft_tokens=_integer(args, "speculative_num_draft_tokens"),
        speculative_steps=_integer(args, "speculative_num_steps"),
        speculative_topk=_integer(args, "speculative_eagle_topk"),
        deepseek_v4="DeepseekV4" in (sources.model_class or ""),
        sliding_window=sources.memory.sliding_window,
        hybrid=_is_hybrid(ranks),
        radix_cache=_opposite(args, "disable_radix_cache"),
        state_strategy=_strategy(args),
        overlap_schedule=_opposite(args, "disable_overlap_schedule"),
        replay_state=args.get("enable_linear_replayssm_spec") is True
        or args.get("enable_gdn_replayssm_spec") is True,
        state_slots=None if rank is None else rank.mamba_slots,
        max_mamba_cache_size=_integer(args, "max_mamba_cache_size"),
        full_memory_ratio=_number(args, "mamba_full_memory_ratio"),
        mem_fraction_static=_number(args, "mem_fraction_static"),
        memory_before_weights_gib=_least(item.before_weights_gib for item in ranks),
        memory_after_weights_gib=_least(item.before_pools_gib for item in ranks),
        reserved_gib=sources.memory.reserved_gib,
        kv_cell_bytes=kv_cell(ranks, _integer(args, "page_size") or 1),
        state_bytes=None if rank is None else _per_slot(rank, rank.mamba_state_gib),
        recurrent_state_bytes=None if rank is None else _per_slot(rank, rank.mamba_ssm_gib),
        state_dtype=_state_dtype(args, dumped=sources.dumped),
        free_after_start_gib=facts.available_gpu_gib,
        logged_max_running_requests=facts.max_running_requests,
    )


def kv_cell(ranks: tuple[RankMemory, ...], page_size: int) -> int | None:
    """Return the bytes of one token from a pool's tokens and size.

    The size is printed with two decimals, so the result is the one multiple of a power of two
    (64 bytes or more) that fits; None where several do.
    """
    pools = [pool for rank in ranks for pool in rank.pools if not pool.draft]
    if not pools or len({pool.tokens for pool in pools}) > 1 or not pools[0].tokens:
        return None
    tokens, gib = pools[0].tokens + page_size, ranks[0].pool_gib(draft=False)
    if gib is None or tokens <= 0:
        return None
    error = 0.01 * _GIB / tokens
    exact = gib * _GIB / tokens
    for step in _CELL_STEPS:
        first = -int(-(exact - error) // step) * step
        fitting = range(first, int(exact + error) + 1, step)
        if len(fitting) == 1:
            return fitting[0]
        if len(fitting) > 1:
            return None
    return None


def _requested(sources: CapacitySources, args: Mapping[str, Value]) -> int | None:
    """Return --max-running-requests as the user gave it.

    The dump shows SGLang's own default with speculative decoding. The line that says so stands
    before the dump; it is missing before 0.5.6 and in logs that were cut, so that a dumped value
    equal to the default counts as the default unless the launch command is known.
    """
    if sources.requested is not None:
        return _integer(sources.requested, "max_running_requests")
    value = args.get("max_running_requests")
    for change in sources.changed:
        if change.name == "max_running_requests":
            value = None if change.requested == change.effective else change.requested
    if args.get("speculative_algorithm") and value == _SPECULATIVE_DEFAULT:
        return None
    return value if isinstance(value, int) else None


def _target(
    facts: CapacityFacts, sources: CapacitySources, inputs: CapacityInputs
) -> tuple[int | None, str | None]:
    """Return how many requests of one worker are wanted, and why; None if no more are."""
    now, asked = facts.max_running_requests, facts.requested_max_running_requests
    if now is None:
        return None, None
    if asked is not None and asked // inputs.data_parallel_workers > now:
        return asked // inputs.data_parallel_workers, "requested"
    queue = sources.serving.max_queue
    if queue and sources.serving.queued_at_cap_share:
        return now + queue, "queue"
    return None, None


def _shown(report: CapacityReport) -> tuple[CapacityLimit, ...]:
    return tuple(_limit(limit) for limit in report.limits)


def _limit(limit: Limit) -> CapacityLimit:
    return CapacityLimit(
        name=limit.name.value,
        value=limit.value,
        low=limit.low,
        high=limit.high,
        binds=limit.binds,
        formula=limit.formula,
        inputs=limit.inputs,
        missing=limit.missing,
    )


def _assumption(knob: Knob, sources: CapacitySources) -> str:
    """Say what a knob's arithmetic takes for granted."""
    if knob.flag != "--mamba-ssm-dtype" or (sources.args or {}).get("mamba_ssm_dtype"):
        return ""
    return "; counts on float32 states, the default unless the model's config names another type"


def _knob(knob: Knob, assumption: str) -> CapacityKnob:
    return CapacityKnob(
        flag=knob.flag,
        value=knob.value,
        reaches=knob.reaches,
        formula=knob.formula,
        stops_at=knob.stops_at,
        cost_gib=None if knob.cost_bytes is None else knob.cost_bytes / _GIB,
        cost=knob.cost + assumption,
    )


def _is_hybrid(ranks: tuple[RankMemory, ...]) -> bool | None:
    """Say whether there is a state pool: its line stands before the one that ends the pools."""
    if any(rank.mamba_ssm_gib is not None for rank in ranks):
        return True
    return False if any(rank.after_pools_gib is not None for rank in ranks) else None


def _per_slot(rank: RankMemory, gib: float | None) -> float | None:
    """Return the bytes of one slot; the pool has one slot more than it says."""
    if gib is None or rank.mamba_slots is None:
        return None
    return gib * _GIB / (rank.mamba_slots + 1)


def _strategy(args: Mapping[str, Value]) -> StateStrategy | None:
    for name in ("mamba_radix_cache_strategy", "mamba_scheduler_strategy"):
        value = args.get(name)
        if value in {strategy.value for strategy in StateStrategy}:
            return StateStrategy(str(value))
    return None


def _state_dtype(args: Mapping[str, Value], *, dumped: bool) -> str | None:
    """Return the type of the recurrent state; float32 unless a flag says otherwise."""
    value = args.get("mamba_ssm_dtype")
    if isinstance(value, str):
        return value
    return "float32" if dumped else None


def _range(releases: VersionRange | None) -> tuple[str, str] | None:
    if releases is None:
        return None
    first = releases.first or Version(known_releases()[0])
    last = releases.last or max(first, Version(known_releases()[-1]))
    return str(first), str(last)


def _least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)


def _opposite(args: Mapping[str, Value], name: str) -> bool | None:
    value = args.get(name)
    return not value if isinstance(value, bool) else None


def _integer(args: Mapping[str, Value], name: str) -> int | None:
    value = args.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(args: Mapping[str, Value], name: str) -> float | None:
    value = args.get(name)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
