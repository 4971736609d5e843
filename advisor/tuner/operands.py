"""Weights, activations and scales on a device, and the reference result of single rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from advisor.configs.names import ExpertDtype
from advisor.configs.problem import Gemm, MoeProblem, extent
from advisor.tuner.problem import weight_bytes

_COLD_BYTES = 256 * 2**20
_LARGEST_INT8 = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """One GEMM's weights.

    Attributes:
        values: `[copies, experts, columns, depth]`; more than one copy where one would stay in the
            L2 cache between launches.
        scales: fp32 `[experts]`, `[experts, columns]` or `[experts, columns / n, depth / k]`; None
            for bf16 and fp16.
    """

    values: Any
    scales: Any | None

    @property
    def copies(self) -> int:
        """Return how many copies there are."""
        return int(self.values.shape[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Activations:
    """One GEMM's inputs: values `[rows, depth]`, scales `[1]`, `[rows, 1]` or `[rows, depth / k]`."""

    values: Any
    scales: Any | None


def storage_type(problem: MoeProblem) -> Any:
    """Return torch's type of weights and quantised activations."""
    import torch

    types = {ExpertDtype.FP8_W8A8: torch.float8_e4m3fn, ExpertDtype.INT8_W8A8: torch.int8}
    return types[problem.dtype] if problem.dtype else output_type(problem)


def output_type(problem: MoeProblem) -> Any:
    """Return torch's type of results."""
    import torch

    return torch.float16 if problem.activation == "fp16" else torch.bfloat16


def make_weights(problem: MoeProblem, gemm: Gemm, device: str) -> Weights:
    """Make random weights; scales are small, so that results stay near one."""
    import torch

    columns, depth = extent(problem, gemm)
    copies = max(1, -(-_COLD_BYTES // weight_bytes(problem, gemm)))
    values = torch.empty(
        (copies, problem.experts, columns, depth), dtype=storage_type(problem), device=device
    )
    for copy in values:
        for expert in copy:
            expert.copy_(_random((columns, depth), problem, device))
    return Weights(values=values, scales=_weight_scales(problem, columns, depth, device))


def make_activations(problem: MoeProblem, gemm: Gemm, rows: int, device: str) -> Activations:
    """Make random inputs of one GEMM."""
    import torch

    depth = extent(problem, gemm)[1]
    values = _random((rows, depth), problem, device).to(storage_type(problem))
    if problem.dtype is None:
        return Activations(values=values, scales=None)
    if problem.block_shape:
        shape: tuple[int, ...] = (rows, -(-depth // problem.block_shape[1]))
    else:
        shape = (rows, 1) if problem.per_channel else (1,)
    return Activations(values=values, scales=torch.rand(shape, device=device) + 0.5)


def _random(shape: tuple[int, ...], problem: MoeProblem, device: str) -> Any:
    import torch

    values = torch.randn(shape, device=device)
    if problem.dtype is ExpertDtype.INT8_W8A8:
        return (values * 30).clamp(-_LARGEST_INT8, _LARGEST_INT8).to(torch.int8)
    return values


def _weight_scales(problem: MoeProblem, columns: int, depth: int, device: str) -> Any | None:
    import torch

    if problem.dtype is None:
        return None
    shape: tuple[int, ...] = (problem.experts,)
    if problem.block_shape:
        block_n, block_k = problem.block_shape
        shape = (problem.experts, -(-columns // block_n), -(-depth // block_k))
    elif problem.per_channel:
        shape = (problem.experts, columns)
    return (torch.rand(shape, device=device) + 0.5) * 0.01


def reference_row(
    problem: MoeProblem, weights: Weights, inputs: Activations, copy: int, place: tuple[int, int]
) -> Any:
    """Return one row of the result in float64: `place` is (row of the inputs, expert)."""
    row, expert = place
    left = _dequantised_input(problem, inputs, row)
    right = _dequantised_weight(problem, weights, copy, expert)
    return right @ left


def _dequantised_input(problem: MoeProblem, inputs: Activations, row: int) -> Any:
    values = inputs.values[row].double()
    if inputs.scales is None:
        return values
    if problem.block_shape:
        scales = inputs.scales[row].repeat_interleave(problem.block_shape[1])[: len(values)]
        return values * scales
    return values * (inputs.scales[row, 0] if problem.per_channel else inputs.scales[0])


def _dequantised_weight(problem: MoeProblem, weights: Weights, copy: int, expert: int) -> Any:
    values = weights.values[copy, expert].double()
    if weights.scales is None:
        return values
    scales = weights.scales[expert]
    if problem.block_shape:
        block_n, block_k = problem.block_shape
        spread = scales.repeat_interleave(block_n, 0).repeat_interleave(block_k, 1)
        return values * spread[: values.shape[0], : values.shape[1]]
    return values * (scales[:, None] if problem.per_channel else scales)
