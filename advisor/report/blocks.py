"""The tables of a report for people: capacity, memory, start-up, serving and what surrounds them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from advisor.facts.model import MoeLookup, MoeOutcome, RunFacts
from advisor.report.prose import one_line
from advisor.report.quantities import duration
from advisor.report.resource_tables import capacity_block, knob_block, memory_block
from advisor.report.serving_tables import replica_block, serving_block, throughput_block
from advisor.report.tables import Block, Row, known


def blocks(run: RunFacts) -> tuple[Block, ...]:
    """Return the blocks that have something to show, in the order in which they are read."""
    made = (make(run) for make in _BLOCKS)
    return tuple(replace(block, note=one_line(block.note)) for block in made if block.rows)


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
    capacity_block,
    knob_block,
    memory_block,
    serving_block,
    throughput_block,
    replica_block,
    _startup,
    _moe,
    _changed,
)
