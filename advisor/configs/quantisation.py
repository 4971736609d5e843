"""How a model's quantisation shows in its config file's name."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from advisor.configs.names import ExpertDtype
from advisor.errors import InputError
from advisor.resources import read_data

DATA_FILE = "moe_architectures.yaml"
_FOUR_BITS = 4
_BYTE_BITS = 8

Json = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantisation:
    """The expert weights' types.

    Attributes:
        dtype: None for bf16 and fp16.
        group_size: Elements that share a scale, for 4-bit and grouped 8-bit weights.
        activation: `bf16` or `fp16`; a float32 checkpoint is served in fp16 (`--dtype auto`).
        note: Why the config file may not be read at all; None if it is.
    """

    dtype: ExpertDtype | None = None
    block_shape: tuple[int, int] | None = None
    per_channel: bool = False
    group_size: int | None = None
    activation: str = "bf16"
    note: str | None = None


def read_quantisation(config: Json, *, origin: str, flag: str | None = None) -> Quantisation:
    """Return the quantisation of a parsed config.json; `flag` is `--quantization` of the server.

    Raises:
        InputError: If the method is not known.
    """
    text = config.get("text_config")
    levels = [config, text] if isinstance(text, dict) else [config]
    found = [level.get("quantization_config") for level in levels]
    section: Json = next((one for one in found if isinstance(one, dict)), {})
    types = [str(level.get("torch_dtype") or level.get("dtype") or "") for level in levels]
    activation = "fp16" if {"float16", "float32"} & set(types) else "bf16"
    method = str(flag or section.get("quant_method") or "")
    if not method:
        return Quantisation(activation=activation)
    if method in {"compressed-tensors", "compressed_tensors"}:
        return _compressed(section, origin, activation)
    row = next((row for row in _rows() if method in cast("Sequence[str]", row["methods"])), None)
    if row is None:
        raise InputError(
            f"{origin}: quantisation {method!r} is unknown; give --dtype and --block-shape yourself"
        )
    return _by_row(row, section, origin, activation)


@functools.cache
def _rows() -> Sequence[Json]:
    data = cast("Json", read_data(DATA_FILE))
    return cast("Sequence[Json]", data["quantisations"])


def _by_row(row: Json, section: Json, origin: str, activation: str) -> Quantisation:
    if "none" in row:
        return Quantisation(activation=activation, note=str(row["none"]))
    note = str(row["note"]) if "note" in row else None
    if "group" in row:
        group = _positive(section.get(str(row["group"])), origin, str(row["group"]))
        return _grouped(section.get("bits", _FOUR_BITS), group, origin, activation, note)
    return Quantisation(
        dtype=ExpertDtype(str(row["dtype"])),
        block_shape=_block(section.get(str(row.get("block"))), origin),
        per_channel=bool(row.get("per_channel")),
        activation=activation,
        note=note,
    )


def _grouped(
    bits: object, group: int, origin: str, activation: str, note: str | None
) -> Quantisation:
    dtypes = {_FOUR_BITS: ExpertDtype.INT4_W4A16, _BYTE_BITS: ExpertDtype.INT8_W8A16}
    dtype = dtypes.get(bits) if isinstance(bits, int) else None
    if dtype is None:
        raise InputError(f"{origin}: {bits!r} weight bits have no fused-MoE kernel; 4 or 8 have")
    return Quantisation(dtype=dtype, group_size=group, activation=activation, note=note)


def _compressed(section: Json, origin: str, activation: str) -> Quantisation:
    """Read a compressed-tensors section: the first group's weights decide."""
    groups = section.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, dict) else None
    weights = first.get("weights") if isinstance(first, dict) else None
    if not isinstance(weights, dict):
        raise InputError(f"{origin}: compressed-tensors without config_groups.*.weights")
    bits, kind = weights.get("num_bits"), weights.get("type")
    inputs = first.get("input_activations") if isinstance(first, dict) else None
    if bits == _BYTE_BITS and inputs:
        dtype = ExpertDtype.FP8_W8A8 if kind == "float" else ExpertDtype.INT8_W8A8
        return Quantisation(
            dtype=dtype,
            block_shape=_block(weights.get("block_structure"), origin),
            per_channel=weights.get("strategy") == "channel",
            activation=activation,
        )
    group = weights.get("group_size")
    return _grouped(bits, _positive(group, origin, "group_size"), origin, activation, None)


def _block(value: object, origin: str) -> tuple[int, int] | None:
    if value is None:
        return None
    sizes = value if isinstance(value, list) else []
    if len(sizes) != len(("n", "k")):
        raise InputError(f"{origin}: the quantisation block must be two sizes")
    return (_positive(sizes[0], origin, "block"), _positive(sizes[1], origin, "block"))


def _positive(value: object, origin: str, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise InputError(f"{origin}: {field} of the quantisation must be a whole number above zero")
    return value
