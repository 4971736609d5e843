"""The tables of a report for people: capacity, memory, start-up, serving and what surrounds them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from advisor.facts.model import MoeLookup, MoeOutcome, RunFacts
from advisor.report.prose import one_line
from advisor.report.quantities import counted, duration, gib, thousands
from advisor.report.serving_tables import replica_block, serving_block, throughput_block
from advisor.report.tables import Block, Row, count, known, size


def blocks(run: RunFacts) -> tuple[Block, ...]:
    """Return the blocks that have something to show, in the order in which they are read."""
    made = (make(run) for make in _BLOCKS)
    return tuple(replace(block, note=one_line(block.note)) for block in made if block.rows)


def _capacity(run: RunFacts) -> Block:
    capacity = run.capacity
    rows = [
        count("Requests at a time", capacity.max_running_requests),
        count("KV cache tokens", capacity.max_total_num_tokens),
        count("Context length", capacity.context_length),
        count("Chunked prefill", capacity.chunked_prefill_size),
        count("Prefill token limit", capacity.max_prefill_tokens),
    ]
    per_worker = run.parallel.dp_attention
    return Block(title="Capacity", rows=known(rows), note="per DP worker" if per_worker else "")


def _memory(run: RunFacts) -> Block:
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
    rank = f" on {memory.tightest_rank}" if memory.tightest_rank else ""
    note = "" if total is None else f"of {gib(total)} free before the weights{rank}"
    return Block(title="Memory", rows=known(rows), note=note)


def _startup(run: RunFacts) -> Block:
    phases = run.startup.phases
    timed = [phase.seconds for phase in phases if phase.seconds is not None]
    whole = max([run.startup.ready_s or 0.0, *timed], default=0.0)
    rows: list[Row | None] = [
        Row(
            label=f"{phase.name[:1].upper()}{phase.name[1:]}",
            value="did not finish" if phase.seconds is None else duration(phase.seconds),
            share=None if phase.seconds is None or not whole else phase.seconds / whole,
        )
        for phase in phases
    ]
    startup = run.startup
    if startup.shards_total and startup.shards_done != startup.shards_total:
        value = f"{startup.shards_done} of {startup.shards_total}"
        rows.append(Row(label="Checkpoint shards", value=value))
    note = "" if startup.ready_s is None else f"of {duration(startup.ready_s)} until ready"
    return Block(title="Start-up", rows=known(rows), note=note)


def _moe(run: RunFacts) -> Block:
    rows = [
        Row(label=look.projection.capitalize(), value=f"{_outcome(look)}: {look.file_name}")
        for look in run.moe.lookups
    ]
    triton = f"for Triton {run.moe.triton}" if run.moe.triton else ""
    return Block(title="MoE kernel configs", rows=tuple(dict.fromkeys(rows)), note=triton)


def _outcome(look: MoeLookup) -> str:
    match look.outcome:
        case MoeOutcome.EXACT:
            return "found"
        case MoeOutcome.FALLBACK:
            return f"found for Triton {look.used_triton or 'another version'} only"
        case MoeOutcome.REUSE_UP:
            return "none; the one for up is used"
        case MoeOutcome.DEFAULT:
            return "none; default tiles"
        case MoeOutcome.DETERMINISTIC:
            return "not looked up: deterministic mode"


def _changed(run: RunFacts) -> Block:
    rows = tuple(
        Row(
            label=change.name,
            value=f"{change.effective}"
            + ("" if change.requested is None else f" instead of {change.requested}"),
        )
        for change in run.changed_args
    )
    return Block(title="Set by SGLang itself", rows=rows)


_BLOCKS: tuple[Callable[[RunFacts], Block], ...] = (
    _capacity,
    _memory,
    serving_block,
    throughput_block,
    replica_block,
    _startup,
    _moe,
    _changed,
)
