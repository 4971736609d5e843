"""Recompute max_total_num_tokens, and the bytes that a token or a state takes.

Sources: SGLang 0.5.3 and 0.5.6 `model_executor/model_runner.py`; 0.5.9 and 0.5.10
`model_executor/model_runner_kv_cache_mixin.py`; 0.5.12 and later
`model_executor/pool_configurator.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from advisor.capacity.concurrency import settings, slots_per_request
from advisor.capacity.inputs import GIB, CapacityInputs
from advisor.capacity.pools import Setting, kv_budget_gib, missing_budget_fields, slot_pool
from advisor.capacity.releases import releases_for, rules_of
from advisor.capacity.settle import report
from advisor.capacity.values import Candidate, CapacityReport, Limit, LimitName

_ENLARGED_BY = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE")
_DRAFT_BUFFER_TOKENS = 100
_SCALE_BLOCK = 16
_INDEX_BLOCK = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class KvShape:
    """What the KV cache of one GPU holds for each token.

    Attributes:
        layers: Layers of this pipeline stage that keep full KV: for hybrids the full-attention
            ones, beside a sliding window the full ones.
        kv_heads: Of the whole model; ignored for latent attention.
        attention_tp: Ranks that share the heads: tp / dp with DP attention.
        element_bytes: Of the KV cache's type; 4-bit types are 1 with `four_bit`.
        latent_dim: kv_lora_rank + qk_rope_head_dim of latent (MLA) attention.
        index_head_dim: Of the sparse-attention indexer, stored as bytes with scales.
        window_layers: Sliding-window layers beside the full ones.
        window_ratio: `--swa-full-tokens-ratio`.
        draft_layers: Layers of an EAGLE or STANDALONE draft, charged from 0.5.14 on.
    """

    layers: int
    kv_heads: int = 1
    head_dim: int = 128
    v_head_dim: int | None = None
    attention_tp: int = 1
    element_bytes: int = 2
    four_bit: bool = False
    latent_dim: int | None = None
    index_head_dim: int | None = None
    window_layers: int = 0
    window_kv_heads: int | None = None
    window_head_dim: int | None = None
    window_ratio: float = 0.8
    draft_layers: int = 0


def kv_cell_bytes(shape: KvShape) -> int:
    """Return the bytes that one token of max_total_num_tokens takes on one GPU.

    Beside a sliding window it includes the window pool's share. Assumes key and value dims alike
    in window layers, and a draft with the target's shape, as SGLang does for EAGLE. Not covered:
    DeepSeek-V4, MiniMax sparse attention, DFLASH drafts and page-padded layouts.
    """
    per_layer = _latent_layer(shape) if shape.latent_dim is not None else _head_layer(shape)
    cell = per_layer * shape.layers
    if shape.window_layers:
        heads = max(1, (shape.window_kv_heads or shape.kv_heads) // shape.attention_tp)
        window = heads * 2 * (shape.window_head_dim or shape.head_dim) * shape.element_bytes
        cell += int(shape.window_ratio * window * shape.window_layers)
    if shape.draft_layers:
        cell = int(cell * (1 + shape.draft_layers / shape.layers))
    return cell


def state_bytes_of_pool(*, conv_gib: float, recurrent_gib: float, slots: int) -> float:
    """Return the bytes of one state from the pool's line; every pool holds one slot more.

    Source: SGLang 0.5.3 to 0.5.23 `mem_cache/memory_pool.py` (MambaPool).
    """
    return (conv_gib + recurrent_gib) * GIB / (slots + 1)


def token_limits(inputs: CapacityInputs) -> CapacityReport:
    """Recompute max_total_num_tokens: memory over bytes per token, and the user's cap."""
    candidates = tuple(
        candidate
        for release in releases_for(inputs.version, inputs.version_range)
        for candidate in _candidates(release, inputs)
    )
    quantity = "max_total_num_tokens"
    return report(quantity, inputs, candidates, inputs.max_total_num_tokens)


def profiled_tokens(setting: Setting) -> tuple[int, int] | None:
    """Return the tokens that memory allows, page-rounded, as a range; None without the inputs."""
    budget, cell = kv_budget_gib(setting), setting.inputs.kv_cell_bytes
    if budget is None or not cell:
        return None
    page = setting.inputs.page_size
    low, high = (max(0, int(part * GIB) // cell + _draft_tokens(setting)) for part in budget)
    return low // page * page, high // page * page


def _candidates(release: str, inputs: CapacityInputs) -> Iterator[Candidate]:
    rules = rules_of(release)
    options = settings(rules, inputs)
    ambiguous = len(slots_per_request(rules, inputs)) > 1 and inputs.is_hybrid
    for setting in options:
        bounds = [_memory_limit(setting)]
        if inputs.max_total_tokens is not None:
            bounds.append(_flag_limit(inputs, inputs.max_total_tokens))
        yield Candidate(
            releases=(release,),
            limits=tuple(bounds),
            assumptions=(f"{setting.slots} slots per request",) if ambiguous else (),
            slots_per_request=setting.slots if inputs.is_hybrid else None,
        )


def _memory_limit(setting: Setting) -> Limit:
    inputs, tokens = setting.inputs, profiled_tokens(setting)
    if tokens is None:
        return Limit(
            name=LimitName.KV_MEMORY,
            low=0,
            high=None,
            formula="memory left for KV // bytes per token",
            missing=_missing(setting),
        )
    budget = kv_budget_gib(setting) or (0.0, 0.0)
    middle = (budget[0] + budget[1]) / 2
    span = str(tokens[0]) if tokens[0] == tokens[1] else f"{tokens[0]} to {tokens[1]}"
    return Limit(
        name=LimitName.KV_MEMORY,
        low=tokens[0],
        high=tokens[1],
        formula=f"{middle:.2f} GiB left for KV // {inputs.kv_cell_bytes} bytes a token = {span}",
        inputs=(
            "memory_before_weights_gib",
            "memory_after_weights_gib",
            "mem_fraction_static",
            "kv_cell_bytes",
            *(("state_bytes",) if inputs.is_hybrid else ()),
        ),
    )


def _flag_limit(inputs: CapacityInputs, total: int) -> Limit:
    page = inputs.page_size
    rounded = total // page * page
    formula = f"{total} (--max-total-tokens)"
    if rounded != total:
        formula += f", rounded down to pages of {page} = {rounded}"
    return Limit(
        name=LimitName.MAX_TOTAL_TOKENS,
        low=rounded,
        high=rounded,
        formula=formula,
        inputs=("max_total_tokens", "page_size"),
    )


def _draft_tokens(setting: Setting) -> int:
    inputs = setting.inputs
    if not setting.rules.tokens_enlarged or inputs.speculative_algorithm not in _ENLARGED_BY:
        return 0
    requests = setting.requested or 0
    if inputs.is_hybrid:
        pool = slot_pool(setting)
        requests = min(requests, pool.low // setting.slots)
    per_request = (inputs.speculative_steps or 0) * (inputs.speculative_topk or 0)
    return requests * (per_request + (inputs.draft_tokens or 0)) + _DRAFT_BUFFER_TOKENS


def _missing(setting: Setting) -> tuple[str, ...]:
    inputs = setting.inputs
    missing = missing_budget_fields(inputs)
    if not inputs.kv_cell_bytes:
        missing += ("kv_cell_bytes",)
    if inputs.is_hybrid and inputs.state_bytes is None:
        missing += ("state_bytes",)
    return missing or slot_pool(setting).missing or ("replay state size",)


def _latent_layer(shape: KvShape) -> int:
    latent = shape.latent_dim or 0
    layer = latent * shape.element_bytes
    if shape.four_bit:
        layer = layer // 2 + latent // _SCALE_BLOCK * shape.element_bytes
    if shape.index_head_dim is not None:
        layer += shape.index_head_dim + shape.index_head_dim // _INDEX_BLOCK * 4
    return layer


def _head_layer(shape: KvShape) -> int:
    heads = max(1, shape.kv_heads // shape.attention_tp)
    value_dim = shape.head_dim if shape.v_head_dim is None else shape.v_head_dim
    layer = heads * (shape.head_dim + value_dim) * shape.element_bytes
    if shape.four_bit:
        layer = layer // 2 + heads * shape.head_dim * 2 * shape.element_bytes // _SCALE_BLOCK
    return layer
