"""The tables of a report for people: capacity, memory, start-up, serving and what surrounds them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from advisor.facts.model import MoeLookup, MoeOutcome, RunFacts
from advisor.report.prose import one_line
from advisor.report.resource_tables import capacity_block, knob_block, memory_block
from advisor.report.serving_tables import replica_block, serving_block, throughput_block
from advisor.report.startup_tables import startup_block
from advisor.report.tables import Block, Row


def blocks(run: RunFacts) -> tuple[Block, ...]:
    """Return the blocks that have something to show, in the order in which they are read."""
    made = (make(run) for make in _BLOCKS)
    return tuple(replace(block, note=one_line(block.note)) for block in made if block.rows)


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
    startup_block,
    _moe,
    _changed,
)
