"""A model's config.json as preflight needs it: sizes, attention, experts, quantisation.

Field names as in Hugging Face's configurations; a `text_config` (or `language_config`) with the
language model's own fields wins over the top level, as in SGLang's `get_hf_text_config`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.configs.models import MoeModel, model_of, read_object
from advisor.errors import InputError
from advisor.preflight.config_fields import Finder, Json
from advisor.preflight.model_shapes import (
    LatentShape,
    LinearShape,
    VisionShape,
    latent_shape,
    linear_shape,
    vision_shape,
)

_LARGEST_BYTES = 16 << 20
_INDEX = "model.safetensors.index.json"
_EXPERT_FIELDS = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")
_LINEAR_FIELDS = (
    "linear_num_value_heads",
    "mamba_d_state",
    "mamba_num_heads",
    "linear_attn_config",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """What config.json says; None where it does not.

    Attributes:
        moe: The routed experts; None for dense models and where `moe_problem` says why.
        experts: Routed experts; 0 for a dense model.
        gated_attention: The query projection makes a gate as well (Qwen3-Next, Qwen3.5).
        shared_intermediate: Width of all shared experts of a layer together.
        dense_layers: Layers without experts (`first_k_dense_replace`, `mlp_only_layers`).
        draft_layers: Multi-token prediction layers in the checkpoint, which the target skips.
        weight_block: `quantization_config.weight_block_size`, as (n, k).
        quantisation: `quant_method` of the checkpoint; None for plain weights.
        quantisation_format: `format` of a compressed-tensors checkpoint.
        hybrid: Has linear-attention or mamba layers.
        linear_shape: Sizes of gated delta nets (Qwen3-Next, Qwen3.5).
        delta_attention: The linear layers are Kimi delta attention (KDA).
        multimodal: Takes images beside text, by its class and a vision section.
        linear_layers: How many; None if not said.
        weight_bytes: Total size in the checkpoint's index, if it lies beside config.json.
    """

    origin: str
    architecture: str | None
    moe: MoeModel | None
    moe_problem: str | None
    experts: int
    hidden: int | None
    layers: int | None
    heads: int | None
    kv_heads: int | None
    head_dim: int | None
    v_head_dim: int | None
    latent_shape: LatentShape | None
    index_head_dim: int | None
    gated_attention: bool
    intermediate: int | None
    expert_intermediate: int | None
    shared_intermediate: int
    dense_layers: int
    draft_layers: int
    vocabulary: int | None
    tied_embeddings: bool
    context_length: int | None
    quantisation: str | None
    quantisation_bits: int | None
    weight_block: tuple[int, int] | None
    quantisation_format: str | None
    hybrid: bool
    linear_shape: LinearShape | None
    delta_attention: bool
    multimodal: bool
    linear_layers: int | None
    sliding_window: bool
    vision: VisionShape | None
    weight_bytes: int | None

    @property
    def top_k(self) -> int | None:
        """Return the experts per token; None for a dense or unreadable model."""
        return self.moe.top_k if self.moe is not None else None

    @property
    def latent(self) -> bool:
        """Say whether attention is latent (MLA)."""
        return self.latent_shape is not None

    @property
    def gated_delta(self) -> bool:
        """Say whether the linear layers are gated delta nets, SGLang's "hybrid GDN"."""
        return self.linear_shape is not None

    @property
    def full_layers(self) -> int | None:
        """Return the layers with full attention."""
        if self.layers is None or not self.hybrid:
            return self.layers
        return None if self.linear_layers is None else self.layers - self.linear_layers


def read_model_config(path: Path, quantization: str | None = None) -> ModelConfig:
    """Read a config.json or the folder that holds it.

    Args:
        path: The file or its folder.
        quantization: The server's `--quantization`.

    Raises:
        InputError: If it cannot be read or is no JSON object.
    """
    file = path / "config.json" if path.is_dir() else path
    document = read_object(file, largest_bytes=_LARGEST_BYTES)
    return parse_model_config(
        document, origin=str(file), quantization=quantization, weight_bytes=_index_bytes(file)
    )


def parse_model_config(
    config: Json, *, origin: str, quantization: str | None = None, weight_bytes: int | None = None
) -> ModelConfig:
    """Return what a parsed config.json says."""
    find = Finder(config)
    experts = find.size(*_EXPERT_FIELDS) or 0
    moe, problem = _moe(config, origin, quantization) if experts else (None, None)
    names = config.get("architectures")
    heads, hidden = find.size("num_attention_heads"), find.size("hidden_size")
    head_dim = find.size("head_dim")
    if head_dim is None and heads and hidden:
        head_dim = hidden // heads
    linear_layers = _linear_layers(find)
    vision = vision_shape(config)
    return ModelConfig(
        origin=origin,
        architecture=str(names[0]) if isinstance(names, list) and names else None,
        moe=moe,
        moe_problem=problem,
        experts=experts,
        hidden=hidden,
        layers=find.size("num_hidden_layers"),
        heads=heads,
        kv_heads=find.size("num_key_value_heads") or heads,
        head_dim=head_dim,
        v_head_dim=find.size("v_head_dim"),
        latent_shape=latent_shape(find),
        index_head_dim=find.size("index_head_dim"),
        gated_attention=find.value("attn_output_gate") is True or _is_next(names),
        intermediate=find.size("intermediate_size"),
        expert_intermediate=find.size("moe_intermediate_size"),
        shared_intermediate=_shared_width(find),
        dense_layers=_dense_layers(find),
        draft_layers=find.size("num_nextn_predict_layers", "mtp_num_hidden_layers") or 0,
        vocabulary=find.size("vocab_size"),
        tied_embeddings=find.value("tie_word_embeddings") is True,
        context_length=find.size("max_position_embeddings"),
        quantisation=_quantisation(find),
        quantisation_bits=_bits(find),
        weight_block=_block(find),
        quantisation_format=_format(find),
        hybrid=any(find.value(field) is not None for field in _LINEAR_FIELDS),
        linear_shape=linear_shape(find, linear_layers),
        delta_attention=bool(find.section("linear_attn_config").get("kda_layers")),
        multimodal=vision is not None and _takes_images(names),
        linear_layers=linear_layers,
        sliding_window=find.size("sliding_window") is not None
        and find.value("use_sliding_window") is not False,
        vision=vision,
        weight_bytes=weight_bytes,
    )


def _index_bytes(file: Path) -> int | None:
    """Return the total size of the weights from the index beside config.json."""
    try:
        index = read_object(file.parent / _INDEX, largest_bytes=_LARGEST_BYTES)
    except InputError:
        return None
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    return int(total) if isinstance(total, (int, float)) and total > 0 else None


def _moe(config: Json, origin: str, quantization: str | None) -> tuple[MoeModel | None, str | None]:
    try:
        return model_of(config, origin=origin, quantization=quantization), None
    except InputError as error:
        return None, str(error)


def _quantisation(find: Finder) -> str | None:
    section = find.section("quantization_config")
    method = section.get("quant_method") or section.get("quant_algo")
    return str(method).lower() if method else None


def _format(find: Finder) -> str | None:
    value = find.section("quantization_config").get("format")
    return value if isinstance(value, str) else None


def _is_next(names: object) -> bool:
    return isinstance(names, list) and any("Qwen3Next" in str(name) for name in names)


def _shared_width(find: Finder) -> int:
    """Return the width of the shared experts: of their own, else of as many routed ones."""
    own = find.size("shared_expert_intermediate_size")
    if own is not None:
        return own
    width = find.size("moe_intermediate_size") or 0
    return width * (find.size("n_shared_experts", "num_shared_experts") or 0)


def _dense_layers(find: Finder) -> int:
    listed = find.value("mlp_only_layers")
    if isinstance(listed, list):
        return len(listed)
    return find.size("first_k_dense_replace") or 0


def _takes_images(names: object) -> bool:
    return isinstance(names, list) and any("ForConditionalGeneration" in str(n) for n in names)


def _bits(find: Finder) -> int | None:
    bits = find.section("quantization_config").get("bits")
    return bits if isinstance(bits, int) and not isinstance(bits, bool) else None


def _block(find: Finder) -> tuple[int, int] | None:
    block = find.section("quantization_config").get("weight_block_size")
    pair = 2
    if isinstance(block, Sequence) and not isinstance(block, str) and len(block) == pair:
        numbers = [item for item in block if isinstance(item, int) and item > 0]
        return (numbers[0], numbers[1]) if len(numbers) == pair else None
    return None


def _linear_layers(find: Finder) -> int | None:
    """Count the layers without full attention, by `layer_types` or the interval."""
    kinds = find.value("layer_types")
    if isinstance(kinds, list):
        return sum(kind in {"linear_attention", "mamba"} for kind in kinds)
    layers, interval = find.size("num_hidden_layers"), find.size("full_attention_interval")
    return layers - layers // interval if layers and interval else None
