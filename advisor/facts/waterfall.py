"""Where each rank's memory went, and which way --mem-fraction-static has to go after it ran out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import regex

from advisor.capacity import (
    FailedStep,
    MemoryFailure,
    StaticFractionInputs,
    WaterfallInputs,
    activation_reserve_mib,
    default_mem_fraction_static,
    memory_direction,
    memory_waterfall,
    releases_for,
)
from advisor.facts.hits import rank_order
from advisor.facts.literals import Value
from advisor.facts.memory import MemoryCollector
from advisor.facts.model import (
    CapacityFacts,
    Failure,
    GpuFacts,
    MemoryCheck,
    MemoryFacts,
    MemoryStep,
    Parallel,
    RankUse,
)
from advisor.facts.rank_memory import RankMemory, Stage, total
from advisor.knowledge.ranges import VersionRange

_ALLOCATION = regex.compile(
    r"out of memory\. Tried to allocate (?P<want>[\d.]+) (?P<unit>[KMG]iB)"
    r"(?:\. GPU \d+ has a total capacity of (?P<total>[\d.]+) GiB"
    r" of which (?P<free>[\d.]+) (?P<free_unit>[KMG]iB) is free)?"
)
_OUT_OF_MEMORY = regex.compile(r"(?:CUDA|HIP) out of memory|CUDA error: out of memory")
_NO_ROOM = ("Not enough memory. Please try to increase", "Loaded weights leave no GPU memory")
_PER_GIB: Mapping[str, int] = {"KiB": 1 << 20, "MiB": 1 << 10, "GiB": 1}
_STEPS: Mapping[Stage, FailedStep] = {
    Stage.WEIGHTS: FailedStep.WEIGHTS,
    Stage.POOLS: FailedStep.POOL,
    Stage.STANDING: FailedStep.GRAPHS,
    Stage.GRAPHS: FailedStep.GRAPHS,
    Stage.CAPTURED: FailedStep.RUNTIME,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySources:
    """The facts that explain the memory.

    `args` are the dumped arguments; `served` says that the server got to answer requests.
    """

    memory: MemoryCollector
    facts: MemoryFacts
    capacity: CapacityFacts
    args: Mapping[str, Value] | None
    releases: VersionRange | None
    parallel: Parallel
    gpu: GpuFacts
    failure: Failure
    served: bool


def explain_memory(sources: MemorySources) -> MemoryFacts:
    """Add the waterfall, the use of each rank and the direction to the logged amounts."""
    if not sources.memory.ranks:
        return sources.facts
    name, rank = sources.memory.tightest
    inputs = _waterfall_inputs(sources, rank)
    fall = memory_waterfall(inputs)
    facts = replace(
        sources.facts,
        total_gib=inputs.total_gib,
        reserve_gib=fall.activation_reserve_gib,
        graphs_gib=total(rank.decode_graph_gib, rank.prefill_graph_gib, rank.draft_graph_gib),
        free_gib=inputs.free_after_start_gib,
        waterfall=tuple(
            MemoryStep(name=step.name, gib=step.gib, basis=step.basis.value)
            for step in fall.amounts
        ),
        checks=tuple(
            MemoryCheck(
                name=check.name,
                expected_gib=check.expected_gib,
                found_gib=check.found_gib,
                agrees=check.agrees,
            )
            for check in fall.checks
        ),
        waterfall_missing=fall.missing,
        ranks=tuple(
            _use(label, sources.memory.ranks[label])
            for label in sorted(sources.memory.ranks, key=rank_order)
            if sources.memory.ranks[label].before_weights_gib is not None
        ),
    )
    return _with_direction(sources, facts, name)


def _waterfall_inputs(sources: MemorySources, rank: RankMemory) -> WaterfallInputs:
    capacity, args = sources.capacity, sources.args or {}
    return WaterfallInputs(
        total_gib=_total_gib(sources),
        distributed_gib=rank.distributed_gib,
        before_weights_gib=rank.before_weights_gib,
        after_weights_gib=rank.after_weights_gib,
        weights_gib=rank.weights_gib,
        kv_gib=rank.pool_gib(draft=False),
        state_gib=rank.mamba_state_gib,
        draft_state_gib=rank.mamba_intermediate_gib or None,
        after_pools_gib=rank.after_pools_gib,
        decode_graph_gib=rank.decode_graph_gib,
        prefill_graph_gib=rank.prefill_graph_gib,
        draft_weights_gib=rank.draft_weights_gib,
        draft_kv_gib=rank.pool_gib(draft=True),
        draft_graph_gib=rank.draft_graph_gib,
        free_after_start_gib=rank.last_gib,
        mem_fraction_static=_number(args, "mem_fraction_static"),
        max_total_num_tokens=capacity.max_total_num_tokens,
        kv_cell_bytes=capacity.kv_cell_bytes,
        max_running_requests=capacity.max_running_requests,
        context_length=capacity.context_length,
        draft_tokens=_integer(args, "speculative_num_draft_tokens"),
    )


def _use(label: str, rank: RankMemory) -> RankUse:
    return RankUse(
        rank=label,
        before_weights_gib=rank.before_weights_gib,
        weights_gib=rank.weights_gib,
        kv_gib=rank.pool_gib(draft=False),
        state_gib=total(rank.mamba_state_gib, rank.mamba_intermediate_gib),
        draft_gib=total(rank.draft_weights_gib, rank.pool_gib(draft=True)),
        graphs_gib=total(rank.decode_graph_gib, rank.prefill_graph_gib, rank.draft_graph_gib),
        free_gib=rank.last_gib,
    )


def _with_direction(sources: MemorySources, facts: MemoryFacts, tightest: str) -> MemoryFacts:
    failure = _memory_failure(sources, facts, tightest)
    if failure is None:
        return facts
    direction = memory_direction(failure)
    return replace(
        facts,
        failed_step=failure.step.value,
        wanted_gib=failure.requested_gib,
        failed_free_gib=failure.free_gib,
        fraction_turn=direction.turn.value,
        fraction_target=direction.ratio,
        fraction_least=direction.least_ratio,
        fraction_most=direction.most_ratio,
        fraction_why=direction.why,
    )


def _memory_failure(
    sources: MemorySources, facts: MemoryFacts, tightest: str
) -> MemoryFailure | None:
    """Return what is known of the failure; None if memory did not run out, or at no known step."""
    text = " ".join(_messages(sources.failure))
    step = _step(sources, text, tightest)
    if step is None:
        return None
    found = _ALLOCATION.search(text, timeout=1.0)
    return MemoryFailure(
        step=step,
        mem_fraction_static=_number(sources.args or {}, "mem_fraction_static"),
        total_gib=_total_gib(sources),
        before_weights_gib=facts.before_weights_gib,
        after_weights_gib=facts.after_weights_gib,
        after_pools_gib=facts.after_pools_gib,
        requested_gib=None if found is None else _gib(found["want"], found["unit"]),
        free_gib=None if found is None else _gib(found["free"], found["free_unit"]),
        reserve_gib=_reserve_gib(sources),
        context_length=sources.capacity.context_length
        or _integer(sources.args or {}, "context_length"),
        kv_cell_bytes=sources.capacity.kv_cell_bytes,
    )


def _step(sources: MemorySources, text: str, tightest: str) -> FailedStep | None:
    if any(words in text for words in _NO_ROOM):
        return FailedStep.NO_ROOM_FOR_POOL
    if _OUT_OF_MEMORY.search(text, timeout=1.0) is None:
        return None
    if sources.served:
        return FailedStep.RUNTIME
    evidence = sources.failure.evidence
    label = evidence.ranks[0] if evidence is not None and evidence.ranks else tightest
    rank = sources.memory.ranks.get(label) or sources.memory.ranks[tightest]
    return _STEPS.get(rank.stage)


def _messages(failure: Failure) -> Iterable[str]:
    return (text for text in (failure.message, failure.outer_message) if text is not None)


def _reserve_gib(sources: MemorySources) -> float | None:
    """Return what SGLang's own choice of the fraction keeps free beside the static share."""
    args, memory = sources.args, sources.gpu.memory_gib
    chunk = _integer(args or {}, "chunked_prefill_size") or sources.capacity.chunked_prefill_size
    release = _release(sources.releases)
    if args is None or memory is None or release is None:
        ranks = (sources.parallel.tensor or 1) * (sources.parallel.pipeline or 1)
        return None if chunk is None else activation_reserve_mib(chunk, ranks=ranks) / 1024
    algorithm = args.get("speculative_algorithm")
    inputs = StaticFractionInputs(
        gpu_memory_mib=round(memory * 1024),
        tensor_parallel_size=sources.parallel.tensor or 1,
        pipeline_parallel_size=sources.parallel.pipeline or 1,
        chunked_prefill_size=chunk,
        decode_graph_max_batch=_integer(args, "cuda_graph_max_bs"),
        dp_attention=bool(sources.parallel.dp_attention),
        data_parallel_workers=(sources.parallel.data or 1) if sources.parallel.dp_attention else 1,
        speculative_algorithm=algorithm if isinstance(algorithm, str) else None,
        draft_tokens=_integer(args, "speculative_num_draft_tokens"),
        max_running_requests=_integer(args, "max_running_requests"),
    )
    return default_mem_fraction_static(release, inputs).reserved_mib / 1024


def _release(releases: VersionRange | None) -> str | None:
    if releases is None or releases.first is None:
        return None
    last = releases.last or releases.first
    return next(iter(reversed(releases_for(str(last), None))), None)


def _total_gib(sources: MemorySources) -> float | None:
    for text in _messages(sources.failure):
        found = _ALLOCATION.search(text, timeout=1.0)
        if found is not None and found["total"] is not None:
            return float(found["total"])
    return sources.gpu.memory_gib


def _gib(text: str | None, unit: str | None) -> float | None:
    return None if text is None or unit is None else float(text) / _PER_GIB[unit]


def _integer(args: Mapping[str, Value], name: str) -> int | None:
    value = args.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(args: Mapping[str, Value], name: str) -> float | None:
    value = args.get(name)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
