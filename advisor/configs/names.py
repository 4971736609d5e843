"""The names of SGLang's Triton config files: MoE, dense block GEMM and LoRA.

>>> parse_name("E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8_down.json").down
True
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum

from advisor.errors import InputError

LARGEST_SIZE = 2**31 - 1
_SIZE = r"(0|[1-9][0-9]*)"
_DEVICE = r"[^,/\x00-\x1f\x7f-\x9f]"
_BLOCK_SHAPE = rf",block_shape=\[{_SIZE}, {_SIZE}\]"
_MOE = re.compile(
    rf"E={_SIZE},N={_SIZE},device_name=({_DEVICE}*?)(?:,dtype=(float32|[a-z0-9]+_[a-z0-9]+))?"
    rf"(?:{_BLOCK_SHAPE})?(,per_channel_quant=True)?(_down)?\.json"
)
_GEMM = re.compile(
    rf"N={_SIZE},K={_SIZE},device_name=({_DEVICE}*?),dtype=(fp8_w8a8|int8_w8a8){_BLOCK_SHAPE}\.json"
)
_LORA = re.compile(rf"lora_(shrink|expand),K={_SIZE},R={_SIZE},S={_SIZE},device=({_DEVICE}*)\.json")


class ExpertDtype(StrEnum):
    """What stands behind `dtype=` in a MoE file name; bf16 and fp16 weights have none."""

    FP8_W8A8 = "fp8_w8a8"
    INT8_W8A8 = "int8_w8a8"
    INT8_W8A16 = "int8_w8a16"
    INT4_W4A16 = "int4_w4a16"
    FLOAT32 = "float32"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeConfigName:
    """A fused-MoE file, as `get_config_file_name` of SGLang's Triton runner makes it.

    Attributes:
        experts: Experts held by one rank, fused shared and redundant ones included.
        width: Last dimension of the down weights of one rank: the intermediate size per rank,
            halved where int4 weights are packed in pairs.
        device: Torch's device name with underscores for spaces.
        block_shape: Quantisation block `(n, k)`; left out of the name when either is zero.
        down: Whether the file is for the second GEMM (SGLang 0.5.6 and newer).
    """

    experts: int
    width: int
    device: str
    dtype: ExpertDtype | None = None
    block_shape: tuple[int, int] | None = None
    per_channel: bool = False
    down: bool = False

    @property
    def file_name(self) -> str:
        """Return the name under which SGLang looks for this file."""
        dtype = f",dtype={self.dtype}" if self.dtype else ""
        block = ""
        if self.block_shape and all(self.block_shape):
            block = f",block_shape=[{self.block_shape[0]}, {self.block_shape[1]}]"
        channel = ",per_channel_quant=True" if self.per_channel else ""
        down = "_down" if self.down else ""
        return (
            f"E={self.experts},N={self.width},device_name={self.device}"
            f"{dtype}{block}{channel}{down}.json"
        )

    def for_down(self, *, down: bool) -> MoeConfigName:
        """Return the name of the same shape's down file, or up file."""
        return replace(self, down=down)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockGemmName:
    """A dense block-quantised GEMM file (`N=...,K=...`), fp8 or int8."""

    n: int
    k: int
    device: str
    dtype: ExpertDtype
    block_shape: tuple[int, int]

    @property
    def file_name(self) -> str:
        """Return the name under which SGLang looks for this file."""
        block_n, block_k = self.block_shape
        return (
            f"N={self.n},K={self.k},device_name={self.device},dtype={self.dtype},"
            f"block_shape=[{block_n}, {block_k}].json"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraName:
    """A LoRA csgmv file (SGLang 0.5.12 and newer).

    Attributes:
        stage: `shrink` (by A) or `expand` (by B).
        size: The large dimension K.
        slices: 3 for qkv, 2 for gate and up, else 1.
    """

    stage: str
    size: int
    rank: int
    slices: int
    device: str

    @property
    def file_name(self) -> str:
        """Return the name under which SGLang looks for this file."""
        return (
            f"lora_{self.stage},K={self.size},R={self.rank},S={self.slices},"
            f"device={self.device}.json"
        )


ConfigName = MoeConfigName | BlockGemmName | LoraName


def device_in_file_name(torch_name: str) -> str:
    """Return a torch device name as SGLang writes it into file names."""
    return torch_name.replace(" ", "_")


def parse_name(file_name: str) -> ConfigName:
    """Parse the name (without folder) of a config file.

    Raises:
        InputError: If SGLang never looks for such a name, or a size is zero or absurd.
    """
    if match := _MOE.fullmatch(file_name):
        return _moe_name(match)
    if match := _GEMM.fullmatch(file_name):
        n, k, block_n, block_k = _sizes(file_name, match.group(1, 2, 5, 6))
        return BlockGemmName(
            n=n,
            k=k,
            device=match[3],
            dtype=ExpertDtype(match[4]),
            block_shape=(block_n, block_k),
        )
    if match := _LORA.fullmatch(file_name):
        size, rank, slices = _sizes(file_name, match.group(2, 3, 4))
        return LoraName(stage=match[1], size=size, rank=rank, slices=slices, device=match[5])
    raise InputError(
        f"{file_name!r} is not a name that SGLang looks for; MoE files are named like "
        "E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json"
    )


def parse_moe_name(file_name: str) -> MoeConfigName:
    """Parse the name of a fused-MoE file.

    Raises:
        InputError: If it is not one.
    """
    name = parse_name(file_name)
    if not isinstance(name, MoeConfigName):
        raise InputError(f"{file_name!r} is no fused-MoE config file (E=...,N=...)")
    return name


def _moe_name(match: re.Match[str]) -> MoeConfigName:
    file_name = match.string
    experts, width = _sizes(file_name, match.group(1, 2))
    dtype = match[4]
    if dtype is not None and dtype not in set(map(str, ExpertDtype)):
        raise InputError(
            f"{file_name!r}: dtype={dtype} is unknown; SGLang writes {', '.join(ExpertDtype)}"
        )
    block = _sizes(file_name, match.group(5, 6)) if match[5] else None
    return MoeConfigName(
        experts=experts,
        width=width,
        device=match[3],
        dtype=ExpertDtype(dtype) if dtype else None,
        block_shape=(block[0], block[1]) if block else None,
        per_channel=bool(match[7]),
        down=bool(match[8]),
    )


def _sizes(file_name: str, texts: tuple[str | None, ...]) -> tuple[int, ...]:
    values = tuple(
        int(text) if text and len(text) <= len(str(LARGEST_SIZE)) else 0 for text in texts
    )
    if not all(0 < value <= LARGEST_SIZE for value in values):
        raise InputError(f"{file_name!r}: sizes must lie between 1 and {LARGEST_SIZE}")
    return values
