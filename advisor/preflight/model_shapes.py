"""The sizes of latent attention, linear attention and vision encoders in a config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from advisor.preflight.config_fields import Finder, Json

_VISION_FIELDS = ("vision_config", "visual")
_FLOAT32_BYTES = 4
_HALF_BYTES = 2
_NAMED_LAYERS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentShape:
    """Multi-head latent attention (DeepSeek): ranks of the projections, sizes of a head.

    `query_rank` is None where queries are projected in one step.
    """

    query_rank: int | None
    key_rank: int
    plain_dim: int
    rope_dim: int
    value_dim: int

    @property
    def cached_dim(self) -> int:
        """Return what the KV cache holds of a token in one layer."""
        return self.key_rank + self.rope_dim


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearShape:
    """Gated delta nets (Qwen3-Next, Qwen3.5): heads of the whole model, and how many layers.

    `state_dtype` is `mamba_ssm_dtype` of the config; None where it leaves SGLang's float32.
    """

    layers: int
    value_heads: int
    key_heads: int
    value_dim: int
    key_dim: int
    kernel: int
    state_dtype: str | None

    @property
    def mixed_dim(self) -> int:
        """Return the columns of query, key and value together, which the convolution sees."""
        return self.value_heads * self.value_dim + 2 * self.key_heads * self.key_dim

    def state_bytes(self, ranks: int, dtype: str | None) -> int:
        """Return the bytes of one state over all layers on one of `ranks` GPUs.

        `dtype` is `--mamba-ssm-dtype`. Source: SGLang 0.5.6 to 0.5.23 configs/mamba_utils.py.
        """
        kind = dtype or self.state_dtype or "float32"
        width = _FLOAT32_BYTES if kind == "float32" else _HALF_BYTES
        convolution = self.mixed_dim // ranks * (self.kernel - 1) * _HALF_BYTES
        recurrent = self.value_heads // ranks * self.value_dim * self.key_dim * width
        return self.layers * (convolution + recurrent)


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionShape:
    """A vision encoder; `intermediate` falls back to four times the hidden size.

    `named_layers` is `num_hidden_layers` or 24, as SGLang takes it for the static fraction even
    where the configuration calls the number `depth`.
    """

    layers: int
    named_layers: int
    hidden: int
    intermediate: int


def latent_shape(find: Finder) -> LatentShape | None:
    """Return the sizes of latent attention; None for other attention."""
    key_rank = find.size("kv_lora_rank")
    if key_rank is None:
        return None
    plain = find.size("qk_nope_head_dim") or find.size("head_dim") or 128
    return LatentShape(
        query_rank=find.size("q_lora_rank"),
        key_rank=key_rank,
        plain_dim=plain,
        rope_dim=find.size("qk_rope_head_dim") or 0,
        value_dim=find.size("v_head_dim") or plain,
    )


def linear_shape(find: Finder, layers: int | None) -> LinearShape | None:
    """Return the sizes of gated delta nets; None for models without, or where one is missing."""
    sizes = [
        find.size(field)
        for field in (
            "linear_num_value_heads",
            "linear_num_key_heads",
            "linear_value_head_dim",
            "linear_key_head_dim",
            "linear_conv_kernel_dim",
        )
    ]
    value_heads, key_heads, value_dim, key_dim, kernel = sizes
    if value_heads is None:
        return None
    dtype = find.value("mamba_ssm_dtype")
    return LinearShape(
        layers=layers or 0,
        value_heads=value_heads,
        key_heads=key_heads or value_heads,
        value_dim=value_dim or 128,
        key_dim=key_dim or 128,
        kernel=kernel or 4,
        state_dtype=dtype if isinstance(dtype, str) else None,
    )


def vision_shape(config: Json) -> VisionShape | None:
    """Return the vision encoder; None without one or without its sizes."""
    section = next((v for f in _VISION_FIELDS if isinstance(v := config.get(f), Mapping)), None)
    if section is None:
        return None
    find = Finder(section)
    layers, hidden = find.size("num_hidden_layers", "depth"), find.size("hidden_size")
    if layers is None or hidden is None:
        return None
    intermediate = find.size("intermediate_size") or 4 * hidden
    return VisionShape(
        layers=layers,
        named_layers=find.size("num_hidden_layers") or _NAMED_LAYERS,
        hidden=hidden,
        intermediate=intermediate,
    )
