"""The tile configuration that SGLang makes up when it finds no file.

Read in `get_default_config` of 0.4.6.post5 to 0.5.23 (CUDA branch).
"""

from __future__ import annotations

from advisor.configs.entries import Entry
from advisor.configs.loaders import Loader
from advisor.configs.names import ExpertDtype, MoeConfigName

LOW_SHARED_MEMORY_BYTES = 128 * 1024


def default_entry(
    name: MoeConfigName,
    tokens: int,
    loader: Loader,
    *,
    shared_memory_bytes: int | None = None,
    deterministic: bool = False,
) -> Entry:
    """Return the entry that the server uses for a batch when it has no file.

    `shared_memory_bytes` is the GPU's limit per block; None counts as plentiful.
    """
    if deterministic:
        return Entry(block_m=64, block_n=64, block_k=32, group_m=8)
    few = tokens <= name.experts
    if name.dtype is ExpertDtype.FP8_W8A8:
        scarce = shared_memory_bytes is not None and shared_memory_bytes < LOW_SHARED_MEMORY_BYTES
        return _fp8_entry(name, few=few, scarce=scarce and loader.low_memory_fp8_default)
    if few:
        return Entry(block_m=16, block_n=32, block_k=64, group_m=1)
    return Entry(block_m=64, block_n=64, block_k=32, group_m=8)


def _fp8_entry(name: MoeConfigName, *, few: bool, scarce: bool) -> Entry:
    if name.block_shape is not None:
        return _fp8((64, *name.block_shape), group=32, warps=4, stages=3)
    if scarce and few:
        return _fp8((32, 64, 256), group=1, warps=4, stages=4)
    if scarce:
        return _fp8((64, 128, 256), group=64, warps=4, stages=2)
    if few:
        return _fp8((64, 128, 128), group=1, warps=4, stages=4)
    return _fp8((128, 256, 128), group=32, warps=8, stages=4)


def _fp8(block: tuple[int, int, int], *, group: int, warps: int, stages: int) -> Entry:
    return Entry(
        block_m=block[0],
        block_n=block[1],
        block_k=block[2],
        group_m=group,
        num_warps=warps,
        num_stages=stages,
    )
