"""How many bytes a model's weights take on one GPU: from the checkpoint's index, else from its sizes.

The count from sizes covers embeddings, attention, dense and expert layers; norms, biases, vision
towers and draft layers are what the error bars are for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from advisor.preflight.model_config import ModelConfig

GIB = 1 << 30
_HALF_BYTES = 2.0
_BYTES_PER_WEIGHT: Mapping[str, float] = {
    "fp8": 1.01,
    "modelopt": 0.57,
    "modelopt_fp8": 1.01,
    "modelopt_fp4": 0.57,
    "nvfp4": 0.57,
    "mxfp4": 0.54,
    "mxfp8": 1.04,
    "w8a8_fp8": 1.01,
    "w8a8_int8": 1.01,
    "w4afp8": 0.54,
    "awq": 0.55,
    "awq_marlin": 0.55,
    "gptq": 0.55,
    "gptq_marlin": 0.55,
}
"""Bytes of a quantised weight with its scales: group 128 for 4-bit integers, 16 for nvfp4, 32 for mx."""

_INDEX_ERROR_RATIO = 0.03
_COUNT_ERROR_RATIO = 0.1
_ROUGH_ERROR_RATIO = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightEstimate:
    """Bytes of weights on one GPU: expected, and how far off that may be as a ratio."""

    bytes_: float
    error_ratio: float
    basis: str

    @property
    def low_gib(self) -> float:
        """Return the least that they may take."""
        return self.bytes_ * (1 - self.error_ratio) / GIB

    @property
    def gib(self) -> float:
        """Return what they are expected to take."""
        return self.bytes_ / GIB

    @property
    def high_gib(self) -> float:
        """Return the most that they may take."""
        return self.bytes_ * (1 + self.error_ratio) / GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """How many ranks share the weights: `attention` those of the attention, `pipeline` the layers."""

    tensor: int
    attention: int
    pipeline: int


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
    counted = _counts(model)
    if model.weight_bytes is not None and not online:
        total = float(model.weight_bytes)
        share = _attention_share(counted)
        basis = "Weights: total_size of the checkpoint's index"
        return _shared(total, share, split, _INDEX_ERROR_RATIO, basis)
    if counted is None:
        return f"{model.origin} lacks the sizes to count the weights from"
    method = quantization if online else model.quantisation
    weight_bytes = _HALF_BYTES if method is None else _bytes_of(method, model)
    if weight_bytes is None:
        return f"the size of {method} weights is not known"
    embeddings, attention, rest = counted
    quantised = (attention if method != "mxfp4" else 0.0) + rest
    plain = embeddings + attention + rest - quantised
    total = plain * _HALF_BYTES + quantised * weight_bytes
    rough = model.latent or model.hybrid or model.vision_layers is not None
    ratio = _ROUGH_ERROR_RATIO if rough else _COUNT_ERROR_RATIO
    kind = method or "16-bit"
    billions = (embeddings + attention + rest) / 1e9
    basis = f"Weights: about {billions:.1f} billion {kind} parameters counted from config.json"
    return _shared(total, attention / (embeddings + attention + rest), split, ratio, basis)


def _bytes_of(method: str, model: ModelConfig) -> float | None:
    if model.quantisation_bits is not None and method in {"gptq", "awq", "auto-round"}:
        return model.quantisation_bits / 8 * 1.1
    return _BYTES_PER_WEIGHT.get(method)


def _shared(
    total: float, attention: float, split: Split, error_ratio: float, basis: str
) -> WeightEstimate:
    on_rank = total * attention / split.attention + total * (1 - attention) / split.tensor
    return WeightEstimate(bytes_=on_rank / split.pipeline, error_ratio=error_ratio, basis=basis)


def _attention_share(counted: tuple[float, float, float] | None) -> float:
    return counted[1] / sum(counted) if counted is not None else 0.1


def _counts(model: ModelConfig) -> tuple[float, float, float] | None:
    """Return parameters of embeddings, attention and feed-forward layers; None if a size lacks."""
    hidden, layers, heads = model.hidden, model.layers, model.heads
    if hidden is None or layers is None or heads is None or model.vocabulary is None:
        return None
    embeddings = model.vocabulary * hidden * (1 if model.tied_embeddings else 2)
    head_dim = model.head_dim or hidden // heads
    key_heads = model.kv_heads or heads
    attention = hidden * head_dim * (2 * heads + 2 * key_heads)
    if model.latent:
        attention = hidden * head_dim * heads * 2
    dense = 3 * hidden * model.intermediate if model.intermediate is not None else None
    if not model.experts:
        return None if dense is None else (embeddings, attention * layers, dense * layers)
    width = model.moe.width if model.moe is not None else model.expert_intermediate
    if width is None:
        return None
    routed = 3 * hidden * width * (model.experts + model.shared_experts)
    dense_part = (dense or 0) * model.dense_layers
    return embeddings, attention * layers, routed * (layers - model.dense_layers) + dense_part
