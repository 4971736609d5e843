"""The tables of a report for people: capacity, memory, start-up, serving and what surrounds them.

A block without rows is not shown. `share` (0..1) is the length of a row's bar.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from advisor.facts.model import MoeLookup, MoeOutcome, RunFacts, Serving
from advisor.report.prose import one_line
from advisor.report.quantities import counted, duration, gib, percent, thousands

_NARROW_VALUE = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a block."""

    label: str
    value: str
    share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One table of a report; `note` says what its numbers refer to."""

    title: str
    rows: tuple[Row, ...]
    note: str = ""

    @property
    def has_bars(self) -> bool:
        """Whether any row is drawn as a bar."""
        return any(row.share is not None for row in self.rows)

    @property
    def is_wide(self) -> bool:
        """Whether its values are too long to stand beside another block."""
        return any(len(row.value) > _NARROW_VALUE for row in self.rows)


def blocks(run: RunFacts) -> tuple[Block, ...]:
    """Return the blocks that have something to show, in the order in which they are read."""
    made = (make(run) for make in _BLOCKS)
    return tuple(replace(block, note=one_line(block.note)) for block in made if block.rows)


def _capacity(run: RunFacts) -> Block:
    capacity = run.capacity
    rows = [
        _count("Requests at a time", capacity.max_running_requests),
        _count("KV cache tokens", capacity.max_total_num_tokens),
        _count("Context length", capacity.context_length),
        _count("Chunked prefill", capacity.chunked_prefill_size),
        _count("Prefill token limit", capacity.max_prefill_tokens),
    ]
    per_worker = run.parallel.dp_attention
    return Block(title="Capacity", rows=_known(rows), note="per DP worker" if per_worker else "")


def _memory(run: RunFacts) -> Block:
    memory, graphs = run.memory, run.graphs
    total = memory.before_weights_gib
    kv_detail = [
        "" if memory.kv_tokens is None else f"{thousands(memory.kv_tokens)} tokens",
        (memory.kv_dtype or "").removeprefix("torch."),
    ]
    slots = "" if memory.mamba_slots is None else counted(memory.mamba_slots, "slot")
    rows = [
        _size("Weights", memory.weights_gib, total),
        _size("Draft weights", memory.draft_weights_gib, total),
        _size("KV cache", memory.kv_gib, total, ", ".join(part for part in kv_detail if part)),
        _size("State pool", memory.mamba_gib, total, slots),
        _size("Decode graphs", graphs.decode_gib, total),
        _size("Prefill graphs", graphs.prefill_gib, total),
        _size("Free at the end", run.capacity.available_gpu_gib, total),
    ]
    rank = f" on {memory.tightest_rank}" if memory.tightest_rank else ""
    note = "" if total is None else f"of {gib(total)} free before the weights{rank}"
    return Block(title="Memory", rows=_known(rows), note=note)


def _startup(run: RunFacts) -> Block:
    phases = run.startup.phases
    known = [phase.seconds for phase in phases if phase.seconds is not None]
    whole = max([run.startup.ready_s or 0.0, *known], default=0.0)
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
    return Block(title="Start-up", rows=_known(rows), note=note)


def _serving(run: RunFacts) -> Block:
    serving = run.serving
    if not serving.decode_lines and not serving.prefill_lines:
        return Block(title="Serving", rows=())
    rows = [
        _most("Running requests", serving.max_running),
        _most("Queued requests", serving.max_queue),
        _throughput(serving),
        _ratio("KV cache in use, most", serving.max_token_usage),
        _ratio("State pool in use, most", serving.max_mamba_usage),
        _ratio("Sliding window in use, most", serving.max_swa_usage),
        _ratio("Decode without a CUDA graph", serving.eager_share),
        _ratio("Prefix cache hits", serving.cached_ratio),
        None
        if serving.mean_accept_length is None
        else Row(
            label="Accepted draft tokens", value=f"{serving.mean_accept_length:.2f} on average"
        ),
        _count("Requests retracted", serving.retracted or None),
    ]
    seen = [
        counted(serving.decode_lines or 0, "decode line"),
        counted(serving.prefill_lines or 0, "prefill line"),
    ]
    span = "" if serving.duration_s is None else f" over {duration(serving.duration_s)}"
    return Block(title="Serving", rows=_known(rows), note=f"{' and '.join(seen)}{span}")


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


def _count(label: str, value: int | None) -> Row | None:
    return None if value is None else Row(label=label, value=thousands(value))


def _most(label: str, value: int | None) -> Row | None:
    if value is None:
        return None
    return Row(label=label, value=f"up to {thousands(value)}" if value else "none")


def _ratio(label: str, value: float | None) -> Row | None:
    return None if value is None else Row(label=label, value=percent(value))


def _size(label: str, value: float | None, total: float | None, detail: str = "") -> Row | None:
    if value is None:
        return None
    share = min(1.0, max(0.0, value / total)) if total else None
    return Row(label=f"{label} ({detail})" if detail else label, value=gib(value), share=share)


def _throughput(serving: Serving) -> Row | None:
    if serving.mean_gen_tokens_per_s is None:
        return None
    most = serving.max_gen_tokens_per_s
    peak = "" if most is None else f", at most {thousands(most)}"
    mean = thousands(serving.mean_gen_tokens_per_s)
    return Row(label="Generated tokens per second", value=f"{mean} on average{peak}")


def _known(rows: list[Row | None]) -> tuple[Row, ...]:
    return tuple(row for row in rows if row is not None)


_BLOCKS: tuple[Callable[[RunFacts], Block], ...] = (
    _capacity,
    _memory,
    _serving,
    _startup,
    _moe,
    _changed,
)
