"""Keep what no server can have out of the arithmetic: logs are torn, edited and hostile."""

from __future__ import annotations

from dataclasses import replace

from advisor.capacity import CapacityInputs

_LARGEST = 1e12
_POSITIVE = (
    "max_running_requests",
    "max_total_num_tokens",
    "max_total_tokens",
    "context_length",
    "draft_tokens",
    "speculative_steps",
    "speculative_topk",
    "state_slots",
    "max_mamba_cache_size",
    "full_memory_ratio",
    "mem_fraction_static",
    "memory_before_weights_gib",
    "memory_after_weights_gib",
    "kv_cell_bytes",
    "state_bytes",
    "recurrent_state_bytes",
    "logged_max_running_requests",
)
_COUNTS = (
    "page_size",
    "data_parallel_workers",
    "tensor_parallel_size",
    "pipeline_parallel_size",
)


def plausible(inputs: CapacityInputs) -> CapacityInputs:
    """Return the inputs without numbers that are zero, negative or beyond any machine.

    Such a number becomes unknown; a count becomes 1.
    """
    unknown = {name: None for name in _POSITIVE if not _is_size(getattr(inputs, name))}
    counts = {name: 1 for name in _COUNTS if not _is_size(getattr(inputs, name))}
    if inputs.mem_fraction_static is not None and inputs.mem_fraction_static > 1:
        unknown["mem_fraction_static"] = None
    return replace(inputs, **unknown, **counts)  # type: ignore[arg-type]  # names of its fields


def _is_size(value: float | None) -> bool:
    return value is None or 0 < value <= _LARGEST
