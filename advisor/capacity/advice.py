"""Choose the knobs for a target."""

from __future__ import annotations

from collections.abc import Callable

from advisor.capacity.knobs import Knob, Situation, situation
from advisor.capacity.state_knobs import (
    cache_size,
    half_state,
    lazy_buffer,
    memory_ratio,
    no_radix_cache,
    static_fraction,
)
from advisor.capacity.token_knobs import (
    context_length,
    running_requests,
    token_fraction,
    total_tokens,
)
from advisor.capacity.values import CapacityReport, LimitName

# Cheapest and safest first.
STATE_KNOBS: tuple[Callable[[Situation], Knob | None], ...] = (
    memory_ratio,
    cache_size,
    lazy_buffer,
    half_state,
    static_fraction,
    no_radix_cache,
)
OTHER_KNOBS: tuple[Callable[[Situation], Knob | None], ...] = (
    running_requests,
    total_tokens,
    token_fraction,
    context_length,
)


def advice(report: CapacityReport, target: int) -> tuple[Knob, ...]:
    """Return what to turn so that a worker reaches the target, cheapest first.

    Empty when the target is reached, when the report is not settled, or when nothing that is known
    can be turned. Each blocking bound gets its own knobs; where two bounds block, one knob of each
    is needed, and `stops_at` says so. For a report of `token_limits` the target is tokens.
    """
    now = situation(report, target)
    if now is None or report.binding is None:
        return ()
    state = STATE_KNOBS if now.blocked_by(LimitName.STATE_SLOTS) else ()
    offered = (knob(now) for knob in (*state, *OTHER_KNOBS))
    return tuple(knob for knob in offered if knob is not None)
