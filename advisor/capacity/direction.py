"""Which way --mem-fraction-static has to go after memory ran out, and how far."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from advisor.capacity.inputs import GIB


class FailedStep(StrEnum):
    """The step that ran out of memory."""

    WEIGHTS = "weights"
    NO_ROOM_FOR_POOL = "no_room_for_pool"
    POOL = "pool"
    GRAPHS = "graphs"
    RUNTIME = "runtime"


class Turn(StrEnum):
    """What to do with --mem-fraction-static."""

    RAISE = "raise"
    LOWER = "lower"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFailure:
    """What is known of a server that ran out of memory; None is what the log does not say.

    Attributes:
        step: `NO_ROOM_FOR_POOL` is SGLang's own refusal after loading (weights fill the static
            share); `POOL` an allocation that failed while pools, or a draft's pool, were made.
        reserve_gib: What must stay free beside the static share, from
            `default_mem_fraction_static` (`reserved_mib` / 1024) or `activation_reserve_mib`.
        after_pools_gib: Free memory when the pools stood.
        requested_gib: Of the allocation that failed, with `free_gib` at that moment.
    """

    step: FailedStep
    mem_fraction_static: float | None = None
    total_gib: float | None = None
    before_weights_gib: float | None = None
    after_weights_gib: float | None = None
    after_pools_gib: float | None = None
    requested_gib: float | None = None
    free_gib: float | None = None
    reserve_gib: float | None = None
    context_length: int | None = None
    kv_cell_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Direction:
    """Advice on --mem-fraction-static.

    Attributes:
        ratio: The value to set; None where the numbers do not give one.
        least_ratio: Below it the weights leave no room for one context; None if unknown.
        most_ratio: Above it less than the reserve stays free; None if unknown.
    """

    turn: Turn
    ratio: float | None
    least_ratio: float | None
    most_ratio: float | None
    why: str


# A GPU of which more than this share is taken before loading is shared with another process.
_TAKEN_SHARE = 0.1


def memory_direction(failure: MemoryFailure) -> Direction:
    """Say which way the static fraction has to go, bounded by weights and by the reserve."""
    taken = _taken_before(failure)
    if taken is not None:
        return _neither(failure, taken)
    match failure.step:
        case FailedStep.WEIGHTS:
            text = "loading the weights needs no static share: more GPUs, or smaller weights"
            return _neither(failure, text)
        case FailedStep.NO_ROOM_FOR_POOL:
            return _raise(failure)
        case FailedStep.POOL | FailedStep.GRAPHS | FailedStep.RUNTIME:
            return _lower(failure)


def least_static_ratio(failure: MemoryFailure) -> float | None:
    """Return the least fraction that leaves KV for one context: 1 - (free - KV) / before."""
    before, after = failure.before_weights_gib, failure.after_weights_gib
    if not before or after is None:
        return None
    context = (failure.context_length or 0) * (failure.kv_cell_bytes or 0) / GIB
    return math.ceil((1 - (after - context) / before) * 1000) / 1000


def most_static_ratio(failure: MemoryFailure) -> float | None:
    """Return the largest fraction that keeps the reserve free: 1 - reserve / before."""
    before, reserve = failure.before_weights_gib, failure.reserve_gib
    if not before or reserve is None:
        return None
    return math.floor((1 - reserve / before) * 1000) / 1000


def _raise(failure: MemoryFailure) -> Direction:
    least, most = least_static_ratio(failure), most_static_ratio(failure)
    if least is not None and least >= (1.0 if most is None else most):
        ends = "" if most is None else f", but {most:.3f} is the most that keeps the reserve free"
        text = f"weights and one context need a fraction of {least:.3f}{ends}: more GPUs, or less"
        return _neither(failure, f"{text} weight memory")
    why = "the weights fill the static share"
    if least is not None:
        why += f": {_loaded(failure)} of weights need at least {least:.3f}"
    return _direction(failure, Turn.RAISE, most if most is not None else least, why)


def _lower(failure: MemoryFailure) -> Direction:
    least, start = least_static_ratio(failure), failure.mem_fraction_static
    short = _shortfall_gib(failure)
    if start is None or short is None or not failure.before_weights_gib:
        text = "what is left beside the static share was too little"
        return _direction(failure, Turn.LOWER, None, text)
    ratio = math.floor((start - short / failure.before_weights_gib) * 1000) / 1000
    why = f"{_where(failure)}: {short:.2f} GiB more must stay free"
    if least is not None and ratio < least:
        text = f"{why}, but the weights and one context need {least:.3f}: smaller chunks or graphs"
        return _neither(failure, text)
    return _direction(failure, Turn.LOWER, ratio, why)


def _shortfall_gib(failure: MemoryFailure) -> float | None:
    """Return how much more must stay free, by the step.

    While pools are made the rest of the reserve is still to come; for graphs the reserve has to be
    free once the pools stand; at run time the allocation itself has to fit.
    """
    requested, free = failure.requested_gib, failure.free_gib
    wanting = None if requested is None or free is None else max(0.0, requested - free)
    reserve, pools = failure.reserve_gib, failure.after_pools_gib
    match failure.step:
        case FailedStep.POOL:
            return None if wanting is None else wanting + (reserve or 0.0)
        case FailedStep.GRAPHS if reserve is not None and pools is not None:
            return max(reserve - pools, wanting or 0.0) or None
        case _:
            return wanting or None


def _where(failure: MemoryFailure) -> str:
    names = {
        FailedStep.POOL: "a pool did not fit",
        FailedStep.GRAPHS: "graph capture ran out of memory",
        FailedStep.RUNTIME: "a forward pass ran out of memory",
    }
    text = names.get(failure.step, "memory ran out")
    if failure.requested_gib is None or failure.free_gib is None:
        return text
    return f"{text} ({failure.requested_gib:.2f} GiB wanted, {failure.free_gib:.2f} GiB free)"


def _loaded(failure: MemoryFailure) -> str:
    before, after = failure.before_weights_gib or 0.0, failure.after_weights_gib or 0.0
    return f"{before - after:.2f} GiB"


def _taken_before(failure: MemoryFailure) -> str | None:
    total, before = failure.total_gib, failure.before_weights_gib
    if total is None or before is None or total - before <= total * _TAKEN_SHARE:
        return None
    return (
        f"{total - before:.2f} of {total:.2f} GiB were taken before loading:"
        " find the other process on this GPU"
    )


def _neither(failure: MemoryFailure, why: str) -> Direction:
    return _direction(failure, Turn.NEITHER, None, why)


def _direction(failure: MemoryFailure, turn: Turn, ratio: float | None, why: str) -> Direction:
    return Direction(
        turn=turn,
        ratio=ratio,
        least_ratio=least_static_ratio(failure),
        most_ratio=most_static_ratio(failure),
        why=why,
    )
