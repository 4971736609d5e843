"""From a model and its parallelism to the config file's name and the kernel's problem."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.configs.models import MoeModel
from advisor.configs.names import ExpertDtype, MoeConfigName
from advisor.configs.problem import MoeProblem
from advisor.errors import ConfigError

_OLDEST_FUSING_SM = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallelism:
    """How the server splits the experts.

    Attributes:
        tensor: `--tp-size`.
        expert: `--ep-size`; divides the tensor parallel ranks.
        redundant: `--ep-num-redundant-experts`, over all ranks.
        fuse_shared: None for the server's own rule; False for `--disable-shared-experts-fusion`,
            DeepEP, or when the log says that the fusion is disabled.
    """

    tensor: int = 1
    expert: int = 1
    redundant: int = 0
    fuse_shared: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeShape:
    """What one rank computes.

    Attributes:
        name: Of the up file.
        notes: What was assumed, and when the file is not read at all.
    """

    name: MoeConfigName
    problem: MoeProblem
    notes: tuple[str, ...] = ()


def moe_shape(model: MoeModel, split: Parallelism, *, device: str, sm: int | None) -> MoeShape:
    """Return the shape of one rank; `device` as in file names, `sm` of the GPU if known.

    Raises:
        ConfigError: If the sizes do not divide.
    """
    moe_tensor = _divide(split.tensor, split.expert, "--tp-size", "--ep-size")
    routed = _divide(model.experts, split.expert, "the experts", "--ep-size")
    redundant = _divide(split.redundant, split.expert, "the redundant experts", "--ep-size")
    width = _divide(model.width, moe_tensor, "the expert width", "--tp-size / --ep-size")
    fused, fused_note = _fused(model, split, sm)
    kind = model.quantisation
    packed = kind.dtype is ExpertDtype.INT4_W4A16
    name = MoeConfigName(
        experts=routed + redundant + fused,
        width=_divide(width, 2, "the int4 expert width", "2") if packed else width,
        device=device,
        dtype=kind.dtype,
        block_shape=kind.block_shape,
        per_channel=kind.per_channel,
    )
    problem = MoeProblem(
        experts=name.experts,
        width=width,
        hidden=model.hidden,
        top_k=model.top_k + fused,
        dtype=kind.dtype,
        block_shape=kind.block_shape,
        per_channel=kind.per_channel,
        group_size=kind.group_size,
        activation=kind.activation,
        gated=model.gated,
        expert_parallel=split.expert,
    )
    notes = (fused_note, kind.note, _second(model))
    return MoeShape(name=name, problem=problem, notes=tuple(note for note in notes if note))


def _divide(value: int, by: int, what: str, by_what: str) -> int:
    if by < 1 or value % by:
        raise ConfigError(f"{what} ({value}) must be divisible by {by_what} ({by})")
    return value // by


def _fused(model: MoeModel, split: Parallelism, sm: int | None) -> tuple[int, str | None]:
    """Return the fused shared experts of a rank, and what was decided about them."""
    if not model.fusable_shared or split.fuse_shared is False:
        return 0, None
    if split.fuse_shared is None and split.expert > 1:
        return 0, "shared expert not fused: expert parallelism on NVIDIA GPUs"
    if split.fuse_shared is None and sm is not None and sm < _OLDEST_FUSING_SM:
        return 0, "shared expert not fused: compute capability below 8.0"
    return model.fusable_shared, (
        "the shared expert is fused (E and top-k are one higher); not so with "
        "--disable-shared-experts-fusion, DeepEP or batch overlap"
    )


def _second(model: MoeModel) -> str | None:
    if model.second is None:
        return None
    return (
        f"a second group of {model.second[0]} experts of width {model.second[1]} has its own file"
    )
