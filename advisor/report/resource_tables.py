"""The tables on capacity and memory: what limits the requests, and where the memory went."""

from __future__ import annotations

from advisor.facts.model import RunFacts
from advisor.report.quantities import counted, gib, thousands
from advisor.report.tables import Block, Row, count, known, size

_VERIFIED = "verified"


def capacity_block(run: RunFacts) -> Block:
    """Show the scheduler's limits, what sets them and what would set them next."""
    capacity = run.capacity
    following = _words(capacity.next_limit)
    if following and capacity.next_limit_value is not None:
        following = f"{following}, {thousands(capacity.next_limit_value)}"
    rows = [
        count("Requests at a time", capacity.max_running_requests),
        _explained("Limited by", _words(capacity.binding_limit), capacity.binding_formula),
        _explained("Next limit", following, capacity.next_formula),
        _doubt(capacity.verdict, capacity.verdict_reason),
        count("KV cache tokens", capacity.max_total_num_tokens),
        *(
            _explained("Pool limited by", _words(limit.name), limit.formula)
            for limit in capacity.token_limits
            if limit.binds
        ),
        count("Context length", capacity.context_length),
        count("Chunked prefill", capacity.chunked_prefill_size),
        count("Prefill token limit", capacity.max_prefill_tokens),
    ]
    per_worker = run.parallel.dp_attention
    return Block(title="Capacity", rows=known(rows), note="per DP worker" if per_worker else "")


def _words(name: str | None) -> str:
    return (name or "").replace("_", " ")


def _explained(label: str, name: str, formula: str | None) -> Row | None:
    if not name:
        return None
    return Row(label=label, value=f"{name}: {formula}" if formula else name)


def _doubt(verdict: str | None, reason: str | None) -> Row | None:
    """Show how the recomputed limit stands to the logged one, unless they agree."""
    if verdict is None or verdict == _VERIFIED:
        return None
    return Row(label="Recomputed", value=f"{verdict}: {reason}" if reason else verdict)


def knob_block(run: RunFacts) -> Block:
    """Show what to turn for more requests, with what each costs."""
    capacity = run.capacity
    rows: list[Row] = []
    for knob in capacity.knobs:
        size_words = gib(knob.cost_gib) if knob.cost_gib else ""
        cost = " ".join(part for part in (size_words, knob.cost) if part)
        parts = (counted(knob.reaches, "request"), cost, knob.stops_at)
        rows.append(
            Row(
                label=f"{knob.flag} {knob.value}".rstrip(),
                value="; ".join(part for part in parts if part),
            )
        )
    goal = "" if capacity.target is None else f"to reach {thousands(capacity.target)}"
    return Block(title="More requests at a time", rows=tuple(rows), note=goal)


def memory_block(run: RunFacts) -> Block:
    """Show where the memory of the tightest rank went."""
    memory = run.memory
    rank = f" on {memory.tightest_rank}" if memory.tightest_rank else ""
    if not memory.waterfall:
        return _logged_memory(run, rank)
    total = (
        memory.total_gib or memory.before_weights_gib or sum(step.gib for step in memory.waterfall)
    )
    rows = [
        size(step.name[:1].upper() + step.name[1:], step.gib, total) for step in memory.waterfall
    ]
    note = f"of {gib(total)}{rank}" if total else ""
    return Block(title="Memory", rows=known(rows), note=note)


def _logged_memory(run: RunFacts, rank: str) -> Block:
    memory, graphs = run.memory, run.graphs
    total = memory.before_weights_gib
    kv_detail = [
        "" if memory.kv_tokens is None else f"{thousands(memory.kv_tokens)} tokens",
        (memory.kv_dtype or "").removeprefix("torch."),
    ]
    slots = "" if memory.mamba_slots is None else counted(memory.mamba_slots, "slot")
    rows = [
        size("Weights", memory.weights_gib, total),
        size("Draft weights", memory.draft_weights_gib, total),
        size("KV cache", memory.kv_gib, total, ", ".join(part for part in kv_detail if part)),
        size("State pool", memory.mamba_gib, total, slots),
        size("Decode graphs", graphs.decode_gib, total),
        size("Prefill graphs", graphs.prefill_gib, total),
        size("Free at the end", run.capacity.available_gpu_gib, total),
    ]
    note = "" if total is None else f"of {gib(total)} free before the weights{rank}"
    return Block(title="Memory", rows=known(rows), note=note)
