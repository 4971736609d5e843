"""The table on the start-up: a bar a phase, and what warm caches save."""

from __future__ import annotations

from advisor.facts.model import Phase, RunFacts
from advisor.report.quantities import duration
from advisor.report.tables import Block, Row

_SHORTEST_SHOWN_S = 1.0


def startup_block(run: RunFacts) -> Block:
    """Show the phases in their order, and the time that none of them accounts for."""
    startup = run.startup
    timed = [phase.seconds for phase in startup.phases if phase.seconds is not None]
    whole = max([startup.ready_s or 0.0, *timed], default=0.0)
    rows = [_phase(phase, whole, run) for phase in startup.phases]
    if startup.shards_total and startup.shards_done != startup.shards_total:
        value = f"{startup.shards_done} of {startup.shards_total}"
        rows.append(Row(label="Checkpoint shards", value=value))
    untold = startup.untold_s
    if rows and untold is not None and untold >= _SHORTEST_SHOWN_S:
        share = untold / whole if whole else None
        rows.append(Row(label="In no line of the log", value=duration(untold), share=share))
    notes = [
        "" if startup.ready_s is None else f"of {duration(startup.ready_s)} until ready",
        f"warm caches save {duration(startup.once_s)}" if startup.once_s else "",
    ]
    note = ", ".join(part for part in notes if part)
    return Block(title="Start-up", rows=tuple(rows), note=note)


def _phase(phase: Phase, whole: float, run: RunFacts) -> Row:
    rate = run.startup.load_gib_per_s if phase.name == "weight loading" else None
    details = [
        "once" if phase.once else "",
        f"{rate:.1f} GiB/s" if rate is not None else "",
        f"slowest {phase.slowest_rank}" if phase.slowest_rank else "",
    ]
    detail = ", ".join(part for part in details if part)
    name = f"of which {phase.name}" if phase.nested else phase.name
    label = f"{name[:1].upper()}{name[1:]}" + (f" ({detail})" if detail else "")
    if phase.seconds is None:
        return Row(label=label, value="did not finish")
    share = phase.seconds / whole if whole else None
    value = duration(phase.seconds) if phase.seconds else "under 1 s"
    return Row(label=label, value=value, share=share)
