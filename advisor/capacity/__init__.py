"""Pure arithmetic of SGLang's capacity and memory, for the releases 0.5.3 to 0.5.23.

Plain frozen inputs in, plain frozen results out; nothing here reads a log. The tables and their
sources stand in `advisor/data/capacity.yaml`.

- `limits(CapacityInputs) -> CapacityReport`: max_running_requests with every bound.
- `token_limits(CapacityInputs) -> CapacityReport`: the same for max_total_num_tokens.
- `advice(CapacityReport, target) -> tuple[Knob, ...]`: what to turn, how far and what it costs.
- `default_mem_fraction_static`, `chunked_prefill_default`, `decode_graph_max_batch_default`,
  `prefill_graph_buckets`, `activation_reserve_mib`: what SGLang chooses by GPU memory.
- `kv_cell_bytes(KvShape)`, `state_bytes_of_pool`: bytes of one token and of one state.
- `memory_waterfall(WaterfallInputs) -> Waterfall`: where one GPU's memory went.
- `memory_direction(MemoryFailure) -> Direction`: raise, lower or leave the static fraction.
- `releases_for`, `known_releases`: which known releases stand for a version or a range.
"""

from __future__ import annotations

from advisor.capacity.advice import advice
from advisor.capacity.concurrency import limits
from advisor.capacity.defaults import (
    chunked_prefill_default,
    decode_graph_max_batch_default,
    prefill_graph_buckets,
)
from advisor.capacity.direction import Direction, FailedStep, MemoryFailure, Turn, memory_direction
from advisor.capacity.inputs import CapacityInputs, StateStrategy
from advisor.capacity.knobs import Knob
from advisor.capacity.releases import known_releases, releases_for
from advisor.capacity.static_fraction import (
    DisaggregationRole,
    ReserveTerm,
    StaticFraction,
    StaticFractionInputs,
    activation_reserve_mib,
    default_mem_fraction_static,
)
from advisor.capacity.tokens import KvShape, kv_cell_bytes, state_bytes_of_pool, token_limits
from advisor.capacity.values import Candidate, CapacityReport, Limit, LimitName, Verdict
from advisor.capacity.waterfall import (
    Amount,
    Basis,
    SumCheck,
    Waterfall,
    WaterfallInputs,
    memory_waterfall,
)

__all__ = [
    "Amount",
    "Basis",
    "Candidate",
    "CapacityInputs",
    "CapacityReport",
    "Direction",
    "DisaggregationRole",
    "FailedStep",
    "Knob",
    "KvShape",
    "Limit",
    "LimitName",
    "MemoryFailure",
    "ReserveTerm",
    "StateStrategy",
    "StaticFraction",
    "StaticFractionInputs",
    "SumCheck",
    "Turn",
    "Verdict",
    "Waterfall",
    "WaterfallInputs",
    "activation_reserve_mib",
    "advice",
    "chunked_prefill_default",
    "decode_graph_max_batch_default",
    "default_mem_fraction_static",
    "known_releases",
    "kv_cell_bytes",
    "limits",
    "memory_direction",
    "memory_waterfall",
    "prefill_graph_buckets",
    "releases_for",
    "state_bytes_of_pool",
    "token_limits",
]
