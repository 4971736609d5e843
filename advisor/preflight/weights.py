"""How many bytes a model's weights take on one GPU: from the checkpoint's index, else counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from advisor.preflight.model_config import ModelConfig
from advisor.preflight.parameters import Parameters, count_parameters

GIB = 1 << 30
_HALF_BYTES = 2.0
_BYTES_PER_WEIGHT: Mapping[str, float] = {
    "fp8": 1.0,
    "modelopt_fp8": 1.0,
    "w8a8_fp8": 1.0,
    "w8a8_int8": 1.0,
    "mxfp8": 1 + 1 / 32,
    "nvfp4": 0.5 + 1 / 16,
    "modelopt_fp4": 0.5 + 1 / 16,
    "modelopt": 0.5 + 1 / 16,
    "mxfp4": 0.5 + 1 / 32,
    "w4afp8": 0.5 + 2 / 128,
    "awq": 0.5 + 2.5 / 128,
    "awq_marlin": 0.5 + 2.5 / 128,
    "gptq": 0.5 + 2.5 / 128,
    "gptq_marlin": 0.5 + 2.5 / 128,
}
"""Bytes of a quantised weight with its scales, by the formats: one byte for each 16 (nvfp4) or 32
(mx) weights, a 16-bit scale and a 4-bit zero for each 128 (4-bit integers). The single scale of a
matrix, row or 128 x 128 block of fp8 is too small to count."""

_PLAIN_ATTENTION = frozenset(
    {"mxfp4", "modelopt", "nvfp4", "modelopt_fp4", "w4afp8", "awq", "gptq"}
)
"""Formats whose checkpoints often keep attention in 16 bits."""

_ERROR_RATIO = 0.02
_ROUGH_ERROR_RATIO = 0.15
_INDEX_ERROR_RATIO = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightEstimate:
    """Bytes of weights on one GPU: the least and the most that they may be."""

    low_bytes: float
    high_bytes: float
    basis: str

    @property
    def low_gib(self) -> float:
        """Return the least that they may take."""
        return self.low_bytes / GIB

    @property
    def gib(self) -> float:
        """Return the middle of the two."""
        return (self.low_bytes + self.high_bytes) / 2 / GIB

    @property
    def high_gib(self) -> float:
        """Return the most that they may take."""
        return self.high_bytes / GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """How many ranks share the weights: `attention` those of the attention, `pipeline` the layers."""

    tensor: int
    attention: int
    pipeline: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Widths:
    """Bytes of one weight: of attention projections, and of feed-forward layers."""

    attention: float
    feed_forward: float


def estimate_weights(
    model: ModelConfig, split: Split, quantization: str | None
) -> WeightEstimate | str:
    """Return the weights of one GPU, or why they cannot be estimated.

    Args:
        model: The config.json.
        split: The ranks.
        quantization: The server's `--quantization`; it may quantise plain weights while loading.
    """
    online = quantization is not None and model.quantisation is None
    counted = count_parameters(model)
    if counted is None:
        return f"{model.origin} lacks the sizes to count the weights from"
    method = quantization if online else model.quantisation
    widths = _widths(method, model)
    if model.weight_bytes is not None and not online:
        return _indexed(model, counted, split, widths)
    if widths is None:
        return f"the size of {method} weights is not known"
    least, most = widths
    error = _ERROR_RATIO if counted.exact else _ROUGH_ERROR_RATIO
    billions = counted.total / 1e9
    kind = method or "16-bit"
    return WeightEstimate(
        low_bytes=_on_rank(model, counted, split, least) * (1 - error),
        high_bytes=_on_rank(model, counted, split, most) * (1 + error),
        basis=f"Weights: about {billions:.1f} billion {kind} parameters counted from config.json",
    )


def _indexed(
    model: ModelConfig, counted: Parameters, split: Split, widths: tuple[_Widths, _Widths] | None
) -> WeightEstimate:
    """Share the checkpoint's size as the counted parts are shared.

    The layers for multi-token prediction are in the checkpoint, but the target does not load them.
    """
    plain = _Widths(attention=_HALF_BYTES, feed_forward=_HALF_BYTES)
    least, _ = widths or (plain, plain)
    whole = Split(tensor=1, attention=1, pipeline=1)
    share = _on_rank(model, counted, split, least) / _on_rank(model, counted, whole, least)
    size = float(model.weight_bytes or 0)
    layers = model.layers or 1
    target = size * layers / (layers + model.draft_layers)
    return WeightEstimate(
        low_bytes=target * share * (1 - _INDEX_ERROR_RATIO),
        high_bytes=size * share * (1 + _INDEX_ERROR_RATIO),
        basis="Weights: total_size of the checkpoint's index",
    )


def _on_rank(model: ModelConfig, counted: Parameters, split: Split, widths: _Widths) -> float:
    """Return the bytes on one rank, with the embeddings of one end of the pipeline."""
    copies = split.attention / min(split.attention, model.kv_heads or split.attention)
    attention = (counted.heads + counted.keys * copies) / split.attention + counted.latent
    layers = attention * widths.attention
    layers += counted.feed_forward / split.tensor * widths.feed_forward
    layers += counted.routers * _HALF_BYTES
    ends = (counted.embeddings / split.tensor + counted.vision) * _HALF_BYTES
    return layers / split.pipeline + ends


def _widths(method: str | None, model: ModelConfig) -> tuple[_Widths, _Widths] | None:
    """Return the least and the most that weights take, or None for an unknown format."""
    if method is None:
        plain = _Widths(attention=_HALF_BYTES, feed_forward=_HALF_BYTES)
        return plain, plain
    width = _width(method, model)
    if width is None:
        return None
    least = _Widths(attention=width, feed_forward=width)
    may_be_plain = method in _PLAIN_ATTENTION
    most = _Widths(attention=_HALF_BYTES if may_be_plain else width, feed_forward=width)
    return least, most


def _width(method: str, model: ModelConfig) -> float | None:
    if method == "compressed-tensors" and "nvfp4" in (model.quantisation_format or ""):
        return _BYTES_PER_WEIGHT["nvfp4"]
    if model.quantisation_bits is not None and method in {"gptq", "awq", "auto-round"}:
        return model.quantisation_bits / 8 + 2.5 / 128
    return _BYTES_PER_WEIGHT.get(method)
