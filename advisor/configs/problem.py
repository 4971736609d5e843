"""What a fused-MoE kernel is compiled for: the numbers behind a file name, and the target GPU."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from advisor.configs.names import ExpertDtype, MoeConfigName
from advisor.errors import ConfigError
from advisor.knowledge.gpus import find_gpu, gpu_near_misses, shared_memory_bytes

ASSUMED_HIDDEN_SIZE = 4096
ASSUMED_TOP_K = 8
ASSUMED_GROUP_SIZE = 128


class Gemm(StrEnum):
    """Which of the two expert GEMMs."""

    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeProblem:
    """The expert GEMMs of one rank.

    Attributes:
        experts: Experts held by the rank.
        width: Intermediate size per rank in elements (int4 not packed).
        hidden: Hidden size; in no file name.
        top_k: Experts per token; in no file name.
        dtype: Weight and activation types as in the file name; None for bf16 and fp16.
        block_shape: fp8 or int8 quantisation block `(n, k)`; None without.
        group_size: Elements of K that share a scale, for int4 and grouped int8 weights.
        activation: `bf16` or `fp16`.
        gated: Whether the up GEMM makes gate and up (twice the width).
        expert_parallel: Ranks over which the model's experts are spread. A rank meets all tokens,
            and leaves out their choices of other ranks' experts.
    """

    experts: int
    width: int
    hidden: int
    top_k: int
    dtype: ExpertDtype | None = None
    block_shape: tuple[int, int] | None = None
    per_channel: bool = False
    group_size: int | None = None
    activation: str = "bf16"
    gated: bool = True
    expert_parallel: int = 1

    @property
    def all_experts(self) -> int:
        """Return the experts among which a token chooses."""
        return self.experts * self.expert_parallel

    @property
    def element_bytes(self) -> int:
        """Return the bytes of one activation element in the GEMM's tiles."""
        if self.dtype in {ExpertDtype.FP8_W8A8, ExpertDtype.INT8_W8A8}:
            return 1
        return 4 if self.dtype is ExpertDtype.FLOAT32 else 2


def extent(problem: MoeProblem, gemm: Gemm) -> tuple[int, int]:
    """Return (columns, depth) of one expert's weights in a GEMM: N and K."""
    up_columns = 2 * problem.width if problem.gated else problem.width
    return (up_columns, problem.hidden) if gemm is Gemm.UP else (problem.hidden, problem.width)


def problem_of_name(
    name: MoeConfigName,
    *,
    hidden: int | None = None,
    top_k: int | None = None,
    group_size: int | None = None,
) -> MoeProblem:
    """Return the problem behind a file name; what the name does not say is assumed.

    Hidden size (4096), top-k (8) and int4 group size (128) enter the kernel, but of them only
    whether BLOCK_SIZE_K divides the hidden size could change its shared memory.
    """
    packed = name.dtype is ExpertDtype.INT4_W4A16
    return MoeProblem(
        experts=name.experts,
        width=2 * name.width if packed else name.width,
        hidden=hidden or ASSUMED_HIDDEN_SIZE,
        top_k=top_k or ASSUMED_TOP_K,
        dtype=name.dtype,
        block_shape=name.block_shape,
        per_channel=name.per_channel
        or (name.dtype is ExpertDtype.INT8_W8A8 and not name.block_shape),
        group_size=(group_size or ASSUMED_GROUP_SIZE) if packed else group_size,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A GPU to compile for.

    Attributes:
        sm: Compute capability times ten.
        shared_memory_bytes: Most shared memory of one block, after opting in.
        device: The GPU's name in config files; None for a bare capability or several models.
    """

    name: str
    sm: int
    shared_memory_bytes: int
    device: str | None = None


def target_of_gpu(text: str) -> Target:
    """Return the target that a GPU name means.

    Raises:
        ConfigError: If no known GPU is meant; near misses are named.
    """
    gpu = find_gpu(text)
    if gpu is None or gpu.shared_memory_bytes is None:
        near = gpu_near_misses(text)
        hint = (
            f"; did you mean {', '.join(near)}?" if near else "; give --sm instead, like --sm 120"
        )
        raise ConfigError(f"unknown GPU {text!r}{hint}")
    return Target(
        name=gpu.name,
        sm=gpu.sm,
        shared_memory_bytes=gpu.shared_memory_bytes,
        device=gpu.device_name,
    )


def target_of_sm(sm: int) -> Target:
    """Return the target of a compute capability, such as 120.

    Raises:
        ConfigError: If its shared memory limit is not known.
    """
    limit = shared_memory_bytes(sm)
    if limit is None:
        raise ConfigError(f"unknown compute capability {sm}; write it like 90 or 120")
    return Target(name=f"SM{sm}", sm=sm, shared_memory_bytes=limit)
