"""What the capacity formulas take."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

GIB = 1 << 30


class StateStrategy(StrEnum):
    """How the radix cache of a hybrid model keeps states, as SGLang names it."""

    NO_BUFFER = "no_buffer"
    EXTRA_BUFFER = "extra_buffer"
    EXTRA_BUFFER_LAZY = "extra_buffer_lazy"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityInputs:
    """What is known of one worker; None is what the log does not say.

    Attributes:
        version: SGLang's version; `version_range` where only its ends are known.
        arguments_known: The server arguments were read, so that an argument that is None here was
            not set; False means that nobody knows.
        max_running_requests: As requested, before division by workers.
        max_total_num_tokens: Per worker, as the scheduler prints it.
        max_total_tokens: The flag that caps the token pool.
        data_parallel_workers: `dp_size` with DP attention, else 1.
        sliding_window: The model has a sliding-window pool beside the full one.
        hybrid: The model keeps mamba or linear-attention states.
        state_slots: `max_mamba_cache_size` as the pool's line prints it.
        max_mamba_cache_size: The flag, before division by workers.
        replay_state: `--enable-linear-replayssm-spec`, which changes how slots are sized.
        memory_before_weights_gib: Free memory before loading, least over the ranks.
        memory_after_weights_gib: Free memory when the pools are sized, least over the ranks.
        memory_rounding_gib: Half of the last printed digit of the two above.
        memory_drift_gib: What may go between the line after loading and the sizing of the pools;
            up to 0.07 was seen on an H200 with 0.5.12.
        reserved_gib: Taken off the budget by SGLang beforehand (multimodal, 0.5.18 and later).
        kv_cell_bytes: Bytes per token over all layers that keep KV, on one GPU.
        state_bytes: Bytes of one state over all its layers, on one GPU; the recurrent part alone
            is `recurrent_state_bytes`.
        state_dtype: Type of the recurrent state: "float32" or "bfloat16".
        free_after_start_gib: Free memory when the server is ready.
    """

    version: str | None = None
    version_range: tuple[str, str] | None = None
    arguments_known: bool = False
    max_running_requests: int | None = None
    max_total_num_tokens: int | None = None
    max_total_tokens: int | None = None
    context_length: int | None = None
    page_size: int = 1
    data_parallel_workers: int = 1
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    chunked_prefill_size: int | None = None
    speculative_algorithm: str | None = None
    draft_tokens: int | None = None
    speculative_steps: int | None = None
    speculative_topk: int | None = None
    deepseek_v4: bool = False
    sliding_window: bool = False
    hybrid: bool | None = None
    radix_cache: bool | None = None
    state_strategy: StateStrategy | None = None
    overlap_schedule: bool | None = None
    skip_decode_lock: bool = False
    replay_state: bool = False
    state_slots: int | None = None
    max_mamba_cache_size: int | None = None
    full_memory_ratio: float | None = None
    mem_fraction_static: float | None = None
    memory_before_weights_gib: float | None = None
    memory_after_weights_gib: float | None = None
    memory_rounding_gib: float = 0.005
    memory_drift_gib: float = 0.1
    reserved_gib: float = 0.0
    kv_cell_bytes: int | None = None
    state_bytes: float | None = None
    recurrent_state_bytes: float | None = None
    state_dtype: str | None = None
    free_after_start_gib: float | None = None
    logged_max_running_requests: int | None = None

    @property
    def is_hybrid(self) -> bool:
        """Say whether there is a state pool, as far as known."""
        if self.hybrid is not None:
            return self.hybrid
        return self.state_slots is not None or self.state_bytes is not None

    @property
    def speculative(self) -> bool:
        """Say whether speculative decoding is known to be on."""
        return self.speculative_algorithm is not None

    @property
    def reserved_draft_tokens(self) -> int:
        """Return the draft states that each request keeps; 0 without speculative decoding."""
        return (self.draft_tokens or 0) if self.speculative else 0
