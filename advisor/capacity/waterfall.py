"""Where the memory of one GPU went.

Follows the lines of SGLang 0.5.3 to 0.5.23 `model_executor/model_runner.py` and the pool modules:
distributed init, weights, pools, graphs, and the free memory of the scheduler's summary. All of
them print GiB although they say GB.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from advisor.capacity.inputs import GIB


class Basis(StrEnum):
    """How an amount is known."""

    LOGGED = "logged"
    DERIVED = "derived"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaterfallInputs:
    """Amounts of one rank in GiB; None is what the log does not say.

    Attributes:
        total_gib: Of the GPU.
        before_weights_gib: Free before loading.
        distributed_gib: Taken by the communication libraries.
        weights_gib: Printed by the loader; else the difference of free memory.
        kv_gib: Keys and values together.
        draft_state_gib: Intermediate states of speculative decoding.
        draft_weights_gib: Draft model, where it is loaded by itself.
        free_after_start_gib: `available_gpu_mem` of the scheduler's line, or the last free amount.
    """

    total_gib: float | None = None
    distributed_gib: float | None = None
    before_weights_gib: float | None = None
    after_weights_gib: float | None = None
    weights_gib: float | None = None
    kv_gib: float | None = None
    state_gib: float | None = None
    draft_state_gib: float | None = None
    after_pools_gib: float | None = None
    decode_graph_gib: float | None = None
    prefill_graph_gib: float | None = None
    draft_weights_gib: float | None = None
    draft_kv_gib: float | None = None
    draft_graph_gib: float | None = None
    free_after_start_gib: float | None = None
    mem_fraction_static: float | None = None
    max_total_num_tokens: int | None = None
    kv_cell_bytes: int | None = None
    max_running_requests: int | None = None
    context_length: int | None = None
    draft_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """One step of the waterfall."""

    name: str
    gib: float
    basis: Basis


@dataclass(frozen=True, slots=True, kw_only=True)
class SumCheck:
    """Two ways to the same amount.

    Attributes:
        agrees: They differ by no more than the printed digits and small allocations explain.
    """

    name: str
    expected_gib: float
    found_gib: float
    agrees: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """Memory of one rank from total to free.

    Attributes:
        amounts: In the order of allocation, free memory last; they add up to the total when it is
            known.
        activation_reserve_gib: What the static fraction keeps out of the pools, for graphs and
            activations: part of the free memory and of the graphs, not an amount of its own.
        missing: Fields without which the sum cannot be closed.
    """

    total_gib: float | None
    amounts: tuple[Amount, ...]
    activation_reserve_gib: float | None
    checks: tuple[SumCheck, ...]
    missing: tuple[str, ...]


_TOLERANCE_GIB = 0.1
_POOL_TOLERANCE_GIB = 0.25
_SLOT_INDEX_BYTES = 4
_EXTRA_CONTEXT_TOKENS = 4
_LOGGED_STEPS = (
    ("KV cache", "kv_gib"),
    ("state cache", "state_gib"),
    ("draft states", "draft_state_gib"),
    ("decode graphs", "decode_graph_gib"),
    ("prefill graphs", "prefill_graph_gib"),
    ("draft weights", "draft_weights_gib"),
    ("draft KV cache", "draft_kv_gib"),
    ("draft graphs", "draft_graph_gib"),
)


def memory_waterfall(inputs: WaterfallInputs) -> Waterfall:
    """Return the steps from total to free; what no line names is derived as the rest.

    The rest is negative when start-up gave memory back, as a draft model does that then shares
    the target's embeddings.
    """
    steps = (
        *_before_weights(inputs),
        *_weights(inputs),
        *_logged(inputs),
        *_token_table(inputs),
    )
    free, start = inputs.free_after_start_gib, _start(inputs)
    if free is not None and start is not None:
        rest = start - sum(step.gib for step in steps) - free
        name = "other buffers" if rest > 0 else "released during start-up"
        other = Amount(name=name, gib=round(rest, 2), basis=Basis.DERIVED)
        steps = (*steps, other) if abs(rest) >= _TOLERANCE_GIB / 10 else steps
    if free is not None:
        steps = (*steps, Amount(name="free", gib=free, basis=Basis.LOGGED))
    return Waterfall(
        total_gib=inputs.total_gib,
        amounts=steps,
        activation_reserve_gib=_reserve(inputs),
        checks=tuple(_checks(inputs)),
        missing=_missing(inputs),
    )


def _start(inputs: WaterfallInputs) -> float | None:
    return inputs.before_weights_gib if inputs.total_gib is None else inputs.total_gib


def _before_weights(inputs: WaterfallInputs) -> Iterator[Amount]:
    total, before, distributed = (
        inputs.total_gib,
        inputs.before_weights_gib,
        inputs.distributed_gib,
    )
    if total is None:
        return
    if before is not None:
        gib = total - before - (distributed or 0.0)
        name = "CUDA context and other processes"
        yield Amount(name=name, gib=round(gib, 2), basis=Basis.DERIVED)
    if distributed:
        yield Amount(name="communication", gib=distributed, basis=Basis.LOGGED)


def _weights(inputs: WaterfallInputs) -> Iterator[Amount]:
    before, after = inputs.before_weights_gib, inputs.after_weights_gib
    if inputs.weights_gib is not None:
        yield Amount(name="weights", gib=inputs.weights_gib, basis=Basis.LOGGED)
    elif before is not None and after is not None:
        yield Amount(name="weights", gib=round(before - after, 2), basis=Basis.DERIVED)


def _logged(inputs: WaterfallInputs) -> Iterator[Amount]:
    for name, field in _LOGGED_STEPS:
        gib = getattr(inputs, field)
        if gib:
            yield Amount(name=name, gib=gib, basis=Basis.LOGGED)


def _token_table(inputs: WaterfallInputs) -> Iterator[Amount]:
    """Yield the table of token positions: a 4-byte index for each request and position.

    Source: SGLang `mem_cache/memory_pool.py` (ReqToTokenPool).
    """
    gib = _token_table_gib(inputs)
    if gib >= _TOLERANCE_GIB / 10:
        yield Amount(name="token table", gib=round(gib, 2), basis=Basis.DERIVED)


def _token_table_gib(inputs: WaterfallInputs) -> float:
    requests, context = inputs.max_running_requests, inputs.context_length
    if requests is None or context is None:
        return 0.0
    positions = context + _EXTRA_CONTEXT_TOKENS + (inputs.draft_tokens or 0)
    return (requests + 1) * positions * _SLOT_INDEX_BYTES / GIB


def _reserve(inputs: WaterfallInputs) -> float | None:
    if inputs.before_weights_gib is None or inputs.mem_fraction_static is None:
        return None
    return round(inputs.before_weights_gib * (1 - inputs.mem_fraction_static), 2)


def _checks(inputs: WaterfallInputs) -> Iterator[SumCheck]:
    before, after, weights = (
        inputs.before_weights_gib,
        inputs.after_weights_gib,
        inputs.weights_gib,
    )
    if before is not None and after is not None and weights is not None:
        yield _check("free before and after loading", before - after, weights, _TOLERANCE_GIB)
    if inputs.max_total_num_tokens and inputs.kv_cell_bytes and inputs.kv_gib is not None:
        pool = inputs.max_total_num_tokens * inputs.kv_cell_bytes / GIB
        yield _check("tokens times bytes per token", pool, inputs.kv_gib, _TOLERANCE_GIB)
    pools = inputs.after_pools_gib
    if after is not None and pools is not None and inputs.kv_gib is not None:
        held = inputs.kv_gib + (inputs.state_gib or 0.0) + (inputs.draft_state_gib or 0.0)
        held += _token_table_gib(inputs)
        yield _check("free before and after the pools", after - pools, held, _POOL_TOLERANCE_GIB)
    reserve = _reserve(inputs)
    if reserve is not None and pools is not None:
        yield _check("pools fill the static share", reserve, pools, _POOL_TOLERANCE_GIB * 4)


def _check(name: str, expected: float, found: float, tolerance: float) -> SumCheck:
    return SumCheck(
        name=name,
        expected_gib=round(expected, 2),
        found_gib=round(found, 2),
        agrees=abs(expected - found) <= tolerance,
    )


def _missing(inputs: WaterfallInputs) -> tuple[str, ...]:
    needed = ("total_gib", "before_weights_gib", "kv_gib", "free_after_start_gib")
    absent = tuple(name for name in needed if getattr(inputs, name) is None)
    if inputs.weights_gib is None and inputs.after_weights_gib is None:
        absent += ("weights_gib",)
    return absent
