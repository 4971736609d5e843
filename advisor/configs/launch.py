"""The arguments with which SGLang launches the kernel, as far as the compiler sees them.

Read in `invoke_fused_moe_kernel` and `fused_experts` of 0.4.6.post5 to 0.5.23. Triton specialises a
kernel on constants, pointer types, integers equal to 1 and integers divisible by 16; nothing else of
the launch enters the binary.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from advisor.configs.entries import Entry
from advisor.configs.names import ExpertDtype
from advisor.configs.problem import Gemm, MoeProblem, extent
from advisor.configs.source import EARLY_SWITCH, KernelSource, Parameter
from advisor.errors import InputError

_SWAP_ROWS_BELOW = 64
_SWAP_COLUMNS_FROM = 64
_HOPPER = (90, 99)
_GENERIC = 17
"""Stands for an integer that is neither 1 nor divisible by 16."""

Constant = int | bool | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """A tensor of one element type in Triton's spelling, its address divisible by 16."""

    element: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """A TMA descriptor that loads blocks of one shape."""

    element: str
    block: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Integer:
    """A run-time integer; only whether it is 1 or divisible by 16 counts."""

    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """A compile-time constant; `compute_type` is the name of a Triton type."""

    value: Constant


Argument = Pointer | Descriptor | Integer | Fixed


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Everything that determines one compiled kernel, beside its source and the GPU.

    Attributes:
        arguments: Name and argument in the kernel's own order.
        options: Triton's options (warps, stages) that are not its defaults.
    """

    arguments: tuple[tuple[str, Argument], ...]
    options: tuple[tuple[str, int | bool], ...]


def is_grouped(problem: MoeProblem) -> bool:
    """Say whether the server takes its kernel for grouped 4-bit and 8-bit weights."""
    weight_only = {ExpertDtype.INT4_W4A16, ExpertDtype.INT8_W8A16}
    return problem.dtype in weight_only and problem.group_size is not None


def launch_of(
    source: KernelSource, problem: MoeProblem, gemm: Gemm, entry: Entry, sm: int
) -> Launch:
    """Return the launch of one GEMM with one entry.

    Raises:
        InputError: If this kernel has a parameter that no read release has.
    """
    early = launches_early(source, sm)
    values = (
        _grouped(problem, gemm, entry) if is_grouped(problem) else _main(problem, gemm, entry, sm)
    ) | {EARLY_SWITCH: Fixed(value=early), "GDC_EARLY": Fixed(value=early)}
    arguments = tuple(
        (parameter.name, _bind(parameter, values, source)) for parameter in source.parameters
    )
    options: dict[str, int | bool] = {"num_warps": entry.warps, "num_stages": entry.stages}
    options |= dict(entry.options)
    if early:
        options["launch_pdl"] = True
    return Launch(arguments=arguments, options=tuple(options.items()))


def launches_early(source: KernelSource, sm: int) -> bool:
    """Say whether a kernel is launched before its predecessor has ended on a GPU."""
    return source.early_launch and sm >= _HOPPER[0]


def _bind(parameter: Parameter, values: Mapping[str, Argument], source: KernelSource) -> Argument:
    if parameter.name in values:
        return values[parameter.name]
    if parameter.default is not None:
        return Fixed(value=ast.literal_eval(parameter.default))
    raise InputError(
        f"{source.path}: the kernel has a parameter {parameter.name!r} that Advisor does not know "
        "(an SGLang newer than 0.5.23?); verify with the bundled kernel instead"
    )


def _shared(problem: MoeProblem, gemm: Gemm, entry: Entry) -> dict[str, Argument]:
    """Return what the main and the grouped kernel have in common."""
    n, k = extent(problem, gemm)
    down = gemm is Gemm.DOWN
    return {
        "c_ptr": Pointer(element=_compute_type(problem)),
        "topk_weights_ptr": Pointer(element="fp32"),
        "sorted_token_ids_ptr": Pointer(element="i32"),
        "expert_ids_ptr": Pointer(element="i32"),
        "num_tokens_post_padded_ptr": Pointer(element="i32"),
        "N": Integer(value=n),
        "K": Integer(value=k),
        "EM": Integer(value=_GENERIC),
        "num_valid_tokens": Integer(value=_GENERIC),
        "stride_am": Integer(value=k),
        "stride_ak": Integer(value=1),
        "stride_cm": Integer(value=n),
        "stride_cn": Integer(value=1),
        "BLOCK_SIZE_M": Fixed(value=entry.block_m),
        "BLOCK_SIZE_N": Fixed(value=entry.block_n),
        "BLOCK_SIZE_K": Fixed(value=entry.block_k),
        "GROUP_SIZE_M": Fixed(value=entry.group_m),
        "MUL_ROUTED_WEIGHT": Fixed(value=down),
        "top_k": Fixed(value=1 if down else problem.top_k),
        "compute_type": Fixed(value=_compute_type(problem)),
        "even_Ks": Fixed(value=k % entry.block_k == 0),
        "use_int8_w8a16": Fixed(value=problem.dtype is ExpertDtype.INT8_W8A16),
        "filter_expert": Fixed(value=problem.expert_parallel > 1),
    }


def _main(problem: MoeProblem, gemm: Gemm, entry: Entry, sm: int) -> dict[str, Argument]:
    n, k = extent(problem, gemm)
    a_element, b_element = _elements(problem)
    tma_b = bool(entry.use_tma)
    tma_a = tma_b and gemm is Gemm.DOWN
    block = problem.block_shape or (0, 0)
    values = _shared(problem, gemm, entry) | _scales(problem, n, k)
    values |= {
        "a_ptr": Pointer(element=a_element),
        "b_ptr": Pointer(element=b_element),
        "bias_ptr": Fixed(value=None),
        "add_mask_ptr": Fixed(value=None),
        "a_desc": _descriptor(a_element, (entry.block_m, entry.block_k), used=tma_a),
        "b_desc": _descriptor(b_element, (1, entry.block_n, entry.block_k), used=tma_b),
        "stride_be": Integer(value=n * k),
        "stride_bk": Integer(value=1),
        "stride_bn": Integer(value=k),
        "stride_bias_e": Integer(value=0),
        "stride_bias_n": Integer(value=0),
        "group_n": Fixed(value=block[0]),
        "group_k": Fixed(value=block[1]),
        "use_fp8_w8a8": Fixed(value=problem.dtype is ExpertDtype.FP8_W8A8),
        "use_int8_w8a8": Fixed(value=problem.dtype is ExpertDtype.INT8_W8A8),
        "per_channel_quant": Fixed(value=problem.per_channel),
        "c_sorted": Fixed(value=False),
        "swap_ab": Fixed(value=swaps_operands(problem, entry, sm)),
        "ROUTER_TOPK": Fixed(value=problem.top_k if gemm is Gemm.DOWN else 1),
    }
    switches = ("FUSE_ADD_TO_OUTPUT", "MASK_OUTPUT", "FUSE_SUM_ALL_REDUCE", "LORA_PRESERVE_BASE")
    return values | {name: Fixed(value=False) for name in switches}


def _scales(problem: MoeProblem, n: int, k: int) -> dict[str, Argument]:
    """Return scale pointers and strides: absent, per tensor, per channel or per block."""
    strides = dict.fromkeys(("asm", "ask", "bse", "bsk", "bsn"), 0)
    if problem.block_shape:
        groups = -(-k // problem.block_shape[1])
        rows = -(-n // problem.block_shape[0])
        strides = {"asm": groups, "ask": 1, "bse": rows * groups, "bsk": 1, "bsn": groups}
    elif problem.per_channel:
        strides = {"asm": 1, "ask": 1, "bse": n, "bsk": 1, "bsn": 1}
    elif problem.dtype is ExpertDtype.INT8_W8A16:
        strides |= {"bse": n, "bsn": 1}
    quantised = problem.dtype not in {None, ExpertDtype.FLOAT32}
    scale: Argument = Pointer(element="fp32") if quantised else Fixed(value=None)
    a_scale = Fixed(value=None) if problem.dtype is ExpertDtype.INT8_W8A16 else scale
    return {"a_scale_ptr": a_scale, "b_scale_ptr": scale} | {
        f"stride_{name}": Integer(value=value) for name, value in strides.items()
    }


def _grouped(problem: MoeProblem, gemm: Gemm, entry: Entry) -> dict[str, Argument]:
    n, k = extent(problem, gemm)
    four_bits = problem.dtype is ExpertDtype.INT4_W4A16
    stored = k // 2 if four_bits else k
    group = problem.group_size or k
    groups = max(1, k // group)
    return _shared(problem, gemm, entry) | {
        "a_ptr": Pointer(element=_compute_type(problem)),
        "b_ptr": Pointer(element="u8"),
        "b_scale_ptr": Pointer(element=_compute_type(problem)),
        "b_zp_ptr": Fixed(value=None),
        "N": Fixed(value=n),
        "K": Fixed(value=k),
        "stride_be": Integer(value=n * stored),
        "stride_bk": Integer(value=1),
        "stride_bn": Integer(value=stored),
        "stride_bse": Integer(value=n * groups),
        "stride_bsk": Integer(value=1),
        "stride_bsn": Integer(value=groups),
        "stride_bze": Integer(value=0),
        "stride_bzk": Integer(value=0),
        "stride_bzn": Integer(value=0),
        "group_size": Fixed(value=group),
        "has_zp": Fixed(value=False),
        "use_int4_w4a16": Fixed(value=four_bits),
    }


def _descriptor(element: str, block: tuple[int, ...], *, used: bool) -> Argument:
    return Descriptor(element=element, block=block) if used else Fixed(value=None)


def swaps_operands(problem: MoeProblem, entry: Entry, sm: int) -> bool:
    """Say whether the server multiplies the transposed tiles (0.5.9 and newer, fp8 on SM90)."""
    hopper = _HOPPER[0] <= sm <= _HOPPER[1]
    small = entry.block_m < _SWAP_ROWS_BELOW and entry.block_n >= _SWAP_COLUMNS_FROM
    return problem.dtype is ExpertDtype.FP8_W8A8 and hopper and small


def _elements(problem: MoeProblem) -> tuple[str, str]:
    """Return the element types of activations and weights in Triton's spelling."""
    compute = _compute_type(problem)
    pairs = {
        ExpertDtype.FP8_W8A8: ("fp8e4nv", "fp8e4nv"),
        ExpertDtype.INT8_W8A8: ("i8", "i8"),
        ExpertDtype.INT8_W8A16: (compute, "i8"),
        ExpertDtype.FLOAT32: ("fp32", "fp32"),
    }
    return pairs.get(problem.dtype, (compute, compute)) if problem.dtype else (compute, compute)


def _compute_type(problem: MoeProblem) -> str:
    return problem.activation
