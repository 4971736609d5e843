"""Shared memory of the fused-MoE kernel by formula, for machines without Triton.

Found by compiling the bundled kernel with Triton 3.6.0 over the whole tuning grid (M 16 to 256, N 32
to 256, K 32 to 256, 4 and 8 warps, 2 to 5 stages) for SM80, SM90, SM100 and SM120; the tests compare
it with the compiler. Only some tiles of BLOCK_SIZE_K 32 on SM8x need more than is said here, for the
output, and stay far below the limit; and where 16 does not divide K, less is needed. Another Triton may differ: these figures are called estimates.
"""

from __future__ import annotations

from advisor.configs.entries import Entry
from advisor.configs.launch import is_grouped, swaps_operands
from advisor.configs.names import ExpertDtype
from advisor.configs.problem import MoeProblem

_WARP_SIZE = 32
_SCALE_BYTES = 4
_MATRIX_BARRIER_BYTES = 16
_TMA_BARRIER_BYTES = 8
_WIDENED_BYTES = 2
"""Narrow weights pass through shared memory once, widened to the activations' type."""
_MATRIX_ROWS = 64
"""Rows from which a tile runs on the warp-group or tensor-memory matrix units."""

_HOPPER = range(90, 100)
_BLACKWELL_DATA_CENTRE = range(100, 120)


def estimate_shared_bytes(problem: MoeProblem, entry: Entry, sm: int) -> int:
    """Return the shared memory that a block will ask for, in bytes, in either GEMM."""
    buffers = _buffers(problem, entry, sm)
    needed = buffers * entry.block_m * entry.block_k * problem.element_bytes
    needed += _weight_bytes(problem, entry, buffers) + _conversion_bytes(problem, entry, sm)
    if _tensor_memory(problem, entry, sm):
        needed += _MATRIX_BARRIER_BYTES
    if entry.use_tma:
        needed += _TMA_BARRIER_BYTES * buffers
    return needed


def _weight_bytes(problem: MoeProblem, entry: Entry, buffers: int) -> int:
    elements = entry.block_n * entry.block_k
    widened = elements * _WIDENED_BYTES
    if problem.dtype is ExpertDtype.INT4_W4A16:
        return widened
    if problem.dtype is not ExpertDtype.INT8_W8A16:
        return buffers * elements * problem.element_bytes
    in_flight = max(1, entry.stages - 1)
    passes = is_grouped(problem) or buffers > in_flight
    return in_flight * elements + (widened if passes else 0)


def _buffers(problem: MoeProblem, entry: Entry, sm: int) -> int:
    """Return how many tiles are in flight: one more where the matrix unit reads shared memory."""
    direct = _tensor_memory(problem, entry, sm) or _warp_groups(problem, entry, sm)
    return entry.stages if direct else max(1, entry.stages - 1)


def _warp_groups(problem: MoeProblem, entry: Entry, sm: int) -> bool:
    tall = entry.block_m >= _MATRIX_ROWS or swaps_operands(problem, entry, sm)
    return sm in _HOPPER and tall


def _tensor_memory(problem: MoeProblem, entry: Entry, sm: int) -> bool:
    integer = problem.dtype is ExpertDtype.INT8_W8A8
    return sm in _BLACKWELL_DATA_CENTRE and entry.block_m >= _MATRIX_ROWS and not integer


def _conversion_bytes(problem: MoeProblem, entry: Entry, sm: int) -> int:
    """Return the scratch that block scales take on their way into the accumulator's layout."""
    if problem.block_shape is None:
        return 0
    threads = _WARP_SIZE * entry.warps
    columns = entry.block_n if entry.block_n > problem.block_shape[0] else 0
    if sm in _BLACKWELL_DATA_CENTRE:
        return _SCALE_BYTES * (columns + (entry.block_m if entry.block_m > threads else 0))
    return _SCALE_BYTES * max(columns, entry.block_m if entry.block_m >= threads else 0)
