"""What is tuned: the two expert GEMMs of one MoE layer on one kind of GPU."""

from __future__ import annotations

import re

from advisor.configs.loaders import Loader
from advisor.configs.names import ExpertDtype, MoeConfigName, device_in_file_name
from advisor.configs.problem import Gemm, MoeProblem, extent
from advisor.errors import ConfigError, InputError

SGLANG_BATCH_SIZES = (
    1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 1536, 2048, 3072, 4096,
)  # fmt: skip
"""The batch sizes of SGLang's own tuner (benchmark/kernels/fused_moe_triton), in tokens."""

TUNABLE_DTYPES = frozenset({None, ExpertDtype.FP8_W8A8, ExpertDtype.INT8_W8A8})
_LARGEST_DIMENSION = 2**20
_LARGEST_EXPERTS = 4096
_LARGEST_BATCH = 2**18
_SMALLEST_BLOCK = 16
_SMALLEST_DEPTH = 64
_LABEL = re.compile(
    r"E=(\d{1,9}) N=(\d{1,9}) K=(\d{1,9}) top-k (\d{1,9}) (bf16|fp16|fp8_w8a8|int8_w8a8)"
    r"(?: block \[(\d{1,9}), (\d{1,9})\])?( per channel)?(?: of (\d{1,9}) ranks)?( ungated)?"
)


def check_problem(problem: MoeProblem) -> MoeProblem:
    """Return the problem if the tuner can run it.

    Raises:
        ConfigError: If a size is out of range, or the weights are of a kind that it cannot make.
    """
    if problem.dtype not in TUNABLE_DTYPES or problem.group_size is not None:
        raise ConfigError(
            f"cannot tune {problem.dtype} weights: bf16, fp16, fp8_w8a8 and int8_w8a8 can be; "
            "use SGLang's own tuner for this file"
        )
    for name, value, largest in (
        ("E", problem.experts, _LARGEST_EXPERTS),
        ("N", problem.width, _LARGEST_DIMENSION),
        ("K", problem.hidden, _LARGEST_DIMENSION),
        ("--ep-size", problem.expert_parallel, _LARGEST_EXPERTS),
        ("top-k", problem.top_k, problem.all_experts),
    ):
        if not 0 < value <= largest:
            raise ConfigError(f"{name}={value} must lie between 1 and {largest}")
    if problem.block_shape is not None:
        _check_block_shape(problem, problem.block_shape)
    return problem


def _check_block_shape(problem: MoeProblem, block_shape: tuple[int, int]) -> None:
    if problem.element_bytes != 1:
        raise ConfigError("a block shape needs fp8 or int8 weights; add --dtype fp8_w8a8")
    if any(size < _SMALLEST_BLOCK or size & (size - 1) for size in block_shape):
        raise ConfigError(f"block shape {list(block_shape)}: powers of two from 16 on")
    if block_shape[1] < _SMALLEST_DEPTH:
        raise ConfigError(
            f"block shape {list(block_shape)}: BLOCK_SIZE_K must divide its {block_shape[1]}, and "
            f"SGLang's tuner tries none below {_SMALLEST_DEPTH}; leave this shape to the built-in tile"
        )
    for name, size in (("N", problem.width), ("K", problem.hidden)):
        if size % block_shape[0] or size % block_shape[1]:
            raise ConfigError(
                f"{name}={size} is no multiple of the block shape {list(block_shape)}: SGLang "
                "refuses such a split; check E, N, K or the tensor parallel size"
            )


def weight_bytes(problem: MoeProblem, gemm: Gemm) -> int:
    """Return the size of all experts' weights of a GEMM."""
    columns, depth = extent(problem, gemm)
    return problem.experts * columns * depth * problem.element_bytes


def touched_weight_bytes(problem: MoeProblem, gemm: Gemm, tokens: int) -> int:
    """Return the weights that a batch reads on average, if every expert is as likely as another."""
    untouched_ratio = (1.0 - problem.top_k / problem.all_experts) ** tokens
    return round(weight_bytes(problem, gemm) * (1.0 - untouched_ratio))


def padded_rows(problem: MoeProblem, tokens: int, block_m: int) -> int:
    """Return the length of the sorted row list, EM, as SGLang's moe_align_block_size sizes it."""
    rows = tokens * problem.top_k
    if rows < problem.experts + 1:
        return rows * block_m
    return rows + (problem.experts + 1) * (block_m - 1)


def padding_traffic_bytes(problem: MoeProblem, tokens: int, block_m: int) -> int:
    """Return what the activation between the GEMMs reads and writes for rows that only pad.

    It reads gate and up and writes one of them; 8-bit inputs of the down GEMM are then quantised.
    """
    padding = padded_rows(problem, tokens, block_m) - tokens * problem.top_k
    values = (3 if problem.gated else 2) * 2
    if problem.element_bytes == 1:
        values += 2 + 1
    return padding * problem.width * values


def config_name(problem: MoeProblem, device: str, gemm: Gemm, loader: Loader) -> MoeConfigName:
    """Return the file that a release looks for; `device` is torch's name of the GPU."""
    return MoeConfigName(
        experts=problem.experts,
        width=problem.width,
        device=device_in_file_name(device),
        dtype=problem.dtype,
        block_shape=problem.block_shape,
        per_channel=problem.per_channel and loader.per_channel_in_name,
        down=gemm is Gemm.DOWN,
    )


def label(problem: MoeProblem) -> str:
    """Return the shape in one line, as in reports: `E=128 N=768 K=2048 top-k 8 bf16`.

    With expert parallelism `of 4 ranks` follows: E is what one rank holds. `ungated` follows where
    the up GEMM makes no gate.
    """
    block = f" block {list(problem.block_shape)}" if problem.block_shape else ""
    channel = " per channel" if problem.per_channel else ""
    ranks = f" of {problem.expert_parallel} ranks" if problem.expert_parallel > 1 else ""
    ungated = "" if problem.gated else " ungated"
    return (
        f"E={problem.experts} N={problem.width} K={problem.hidden} top-k {problem.top_k} "
        f"{problem.dtype or problem.activation}{block}{channel}{ranks}{ungated}"
    )


def problem_of_label(text: str) -> MoeProblem:
    """Parse what `label` writes.

    Raises:
        InputError: If it is something else.
    """
    match = _LABEL.fullmatch(text)
    if match is None:
        raise InputError(f"{text!r} is not the label of a MoE problem")
    experts, width, hidden, top_k = (int(size) for size in match.group(1, 2, 3, 4))
    kind = match[5]
    return MoeProblem(
        experts=experts,
        width=width,
        hidden=hidden,
        top_k=top_k,
        dtype=None if kind in {"bf16", "fp16"} else ExpertDtype(kind),
        block_shape=(int(match[6]), int(match[7])) if match[6] else None,
        per_channel=match[8] is not None,
        activation=kind if kind == "fp16" else "bf16",
        gated=match[10] is None,
        expert_parallel=int(match[9] or 1),
    )


def check_batch_sizes(batch_sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return batch sizes in tokens, sorted and without doubles.

    Raises:
        ConfigError: If there is none, or one is out of range.
    """
    if not batch_sizes:
        raise ConfigError("no batch size to tune: give at least one")
    for tokens in batch_sizes:
        if not 0 < tokens <= _LARGEST_BATCH:
            raise ConfigError(f"batch size {tokens} must lie between 1 and {_LARGEST_BATCH}")
    return tuple(sorted(set(batch_sizes)))
