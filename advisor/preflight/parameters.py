"""How many parameters a model has, by what shares them, counted from its config.json.

Norms, biases and small vectors are left out: less than one part in a thousand of a model.
"""

from __future__ import annotations

from dataclasses import dataclass

from advisor.preflight.model_config import ModelConfig
from advisor.preflight.model_shapes import LatentShape, LinearShape, VisionShape

_MERGED_PATCHES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Parameters by part, whole model.

    Attributes:
        embeddings: Input and output embeddings, never quantised.
        heads: Projections that are split over the attention ranks.
        keys: Key and value projections, stored at least one head a rank.
        latent: Projections into latent space, on every rank.
        feed_forward: Dense layers and experts, split over the tensor-parallel ranks.
        routers: Expert routers, 16-bit on every rank.
        vision: The vision encoder, 16-bit.
        exact: Every part was counted from fields of its own.
    """

    embeddings: int
    heads: int
    keys: int
    latent: int
    feed_forward: int
    routers: int
    vision: int
    exact: bool

    @property
    def total(self) -> int:
        """Return the sum."""
        parts = (self.embeddings, self.heads, self.keys, self.latent)
        return sum(parts) + self.feed_forward + self.routers + self.vision

    @property
    def attention(self) -> int:
        """Return the parameters of all attention layers."""
        return self.heads + self.keys + self.latent


def count_parameters(model: ModelConfig) -> Parameters | None:
    """Count a model's parameters; None where config.json lacks a size."""
    hidden, layers, vocabulary = model.hidden, model.layers, model.vocabulary
    if hidden is None or layers is None or model.heads is None or vocabulary is None:
        return None
    feed_forward = _feed_forward(model, hidden, layers)
    if feed_forward is None:
        return None
    full = model.full_layers if model.linear_shape is not None else layers
    heads, keys, latent = _attention(model, hidden, model.heads)
    count = full if full is not None else layers
    linear = _linear(model.linear_shape, hidden) if model.linear_shape is not None else 0
    moe_layers = layers - model.dense_layers if model.experts else 0
    return Parameters(
        embeddings=vocabulary * hidden * (1 if model.tied_embeddings else 2),
        heads=heads * count + linear,
        keys=keys * count,
        latent=latent * count,
        feed_forward=feed_forward,
        routers=hidden * model.experts * moe_layers,
        vision=_vision(model.vision, hidden) if model.vision is not None else 0,
        exact=not model.hybrid or (model.linear_shape is not None and full is not None),
    )


def _attention(model: ModelConfig, hidden: int, heads: int) -> tuple[int, int, int]:
    """Return (split over the heads, of keys and values, on every rank) of one layer."""
    if model.latent_shape is not None:
        return _latent(model.latent_shape, hidden, heads)
    head_dim = model.head_dim or hidden // heads
    value_dim = model.v_head_dim or head_dim
    gates = 2 if model.gated_attention else 1
    queries = hidden * heads * head_dim * gates + heads * value_dim * hidden
    return queries, hidden * (model.kv_heads or heads) * (head_dim + value_dim), 0


def _latent(shape: LatentShape, hidden: int, heads: int) -> tuple[int, int, int]:
    """Count latent attention: down-projections are on every rank, the rest by heads."""
    query_in = shape.query_rank or hidden
    split = heads * (
        query_in * (shape.plain_dim + shape.rope_dim)
        + shape.key_rank * (shape.plain_dim + shape.value_dim)
        + shape.value_dim * hidden
    )
    down = hidden * (shape.key_rank + shape.rope_dim + (shape.query_rank or 0))
    return split, 0, down


def _linear(shape: LinearShape, hidden: int) -> int:
    """Count gated delta nets: projections in and out, gates and the convolution."""
    values = shape.value_heads * shape.value_dim
    inward = hidden * (shape.mixed_dim + values + 2 * shape.value_heads)
    return shape.layers * (inward + values * hidden + shape.mixed_dim * shape.kernel)


def _feed_forward(model: ModelConfig, hidden: int, layers: int) -> int | None:
    dense = None if model.intermediate is None else 3 * hidden * model.intermediate
    if not model.experts:
        return None if dense is None else dense * layers
    width = model.moe.width if model.moe is not None else model.expert_intermediate
    if width is None or (dense is None and model.dense_layers):
        return None
    projections = 3 if model.moe is None or model.moe.gated else 2
    experts = projections * hidden * width * model.experts
    shared = 3 * hidden * model.shared_intermediate
    moe = (experts + shared) * (layers - model.dense_layers)
    return moe + (dense or 0) * model.dense_layers


def _vision(shape: VisionShape, hidden: int) -> int:
    """Count attention and feed-forward layers of the encoder, and the merger behind it."""
    layer = 4 * shape.hidden**2 + 2 * shape.hidden * shape.intermediate
    merged = _MERGED_PATCHES * shape.hidden
    return shape.layers * layer + merged * (merged + hidden)
