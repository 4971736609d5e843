"""SGLang's defaults by GPU memory: prefill chunk and CUDA graph sizes.

Sources: SGLang 0.5.3 to 0.5.18 `server_args.py` (`_handle_gpu_memory_settings`), 0.5.20 and 0.5.23
`arg_groups/memory_hook.py`; the tables and their spans stand in `advisor/data/capacity.yaml`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from advisor.capacity.releases import Row, row, table

_MIB_PER_GIB = 1024
_WIDE_TENSOR_PARALLEL = 4
_BUCKET_STEP_ABOVE = 512


def chunked_prefill_default(release: str, gpu_memory_mib: int | None) -> int:
    """Return the default --chunked-prefill-size of a known release."""
    span = row("chunked_prefill_size", release)
    if gpu_memory_mib is None:
        return cast("int", span["unknown"])
    return cast("int", _tier(span, gpu_memory_mib)["tokens"])


def decode_graph_max_batch_default(
    release: str,
    gpu_memory_mib: int | None,
    *,
    tensor_parallel_size: int = 1,
    max_running_requests: int | None = None,
) -> int:
    """Return the default largest decode graph of a known release.

    0.5.23 lowers it to the user's own --max-running-requests; the speculative 48 is set later and
    does not count.
    """
    span = row("decode_graph_max_batch", release)
    if gpu_memory_mib is None:
        batch = cast("int", span["unknown"])
    else:
        pair = cast("Sequence[int]", _tier(span, gpu_memory_mib)["batch"])
        batch = pair[tensor_parallel_size >= _WIDE_TENSOR_PARALLEL]
    if span.get("limited_by_request") and max_running_requests is not None:
        return min(batch, max_running_requests)
    return batch


def prefill_graph_buckets(largest: int) -> int:
    """Return how many token counts a prefill graph is captured for (0.5.9 and later)."""
    count, start = 0, 0
    for last, step in cast("Sequence[Sequence[int]]", table("prefill_graph_buckets")):
        count += max(0, (min(last, largest) - start) // step)
        start = last
    return count + max(0, (largest - start) // _BUCKET_STEP_ABOVE)


def _tier(span: Row, gpu_memory_mib: int) -> Mapping[str, object]:
    tiers = cast("Sequence[Mapping[str, object]]", span["tiers"])
    return next(
        tier
        for tier in tiers
        if "below_gib" not in tier or gpu_memory_mib < cast("int", tier["below_gib"]) * _MIB_PER_GIB
    )
