"""SGLang's automatic --mem-fraction-static.

Sources: SGLang 0.5.3 to 0.5.18 `server_args.py` (`_handle_gpu_memory_settings` and, from 0.5.16,
`reserve_for_graph_mb`), 0.5.20 and 0.5.23 `arg_groups/memory_hook.py`; the terms by release stand
in `advisor/data/capacity.yaml`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from advisor.capacity.defaults import (
    chunked_prefill_default,
    decode_graph_max_batch_default,
    prefill_graph_buckets,
)
from advisor.capacity.releases import Row, optional_row, row

_MIB_PER_GIB = 1024
_FLOOR_FROM_MIB = 60 * 1024
_FLOOR_MIB = 10 * 1024
_LEAST_ACTIVATION_TOKENS = 2048
_LARGE_BATCH = 300
_BASE_VISION_LAYERS = 24
_BASE_VISION_HIDDEN = 1024
_MAX_PREFILL_TOKENS = 16384


class DisaggregationRole(StrEnum):
    """The part of prefill-decode disaggregation that a server plays."""

    NONE = "null"
    PREFILL = "prefill"
    DECODE = "decode"


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticFractionInputs:
    """What the automatic --mem-fraction-static depends on.

    Attributes:
        gpu_memory_mib: Of the smallest GPU, as nvidia-smi prints it; None where it prints none.
        chunked_prefill_size: Before DP attention divides it; None for the default; <= 0 is off.
        decode_graph_max_batch: None for the default.
        data_parallel_workers: `dp_size` with DP attention, else 1 (and `dp_attention` False).
        prefill_graph: Piecewise or other prefill CUDA graphs are on when the fraction is set;
            later checks may still switch them off.
        prefill_graph_max_tokens: None for the default.
        vision_layers: Of the vision encoder; None for models without one and in modes without.
    """

    gpu_memory_mib: int | None
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    chunked_prefill_size: int | None = None
    max_prefill_tokens: int = _MAX_PREFILL_TOKENS
    decode_graph_max_batch: int | None = None
    decode_graph: bool = True
    dp_attention: bool = False
    data_parallel_workers: int = 1
    speculative_algorithm: str | None = None
    draft_tokens: int | None = None
    max_running_requests: int | None = None
    max_total_tokens: int | None = None
    context_length: int | None = None
    prefill_graph: bool = False
    prefill_graph_max_tokens: int | None = None
    breakable_prefill_graph: bool = False
    latent_attention: bool = False
    deepep: bool = False
    post_capture_sizing: bool = False
    role: DisaggregationRole = DisaggregationRole.NONE
    vision_layers: int | None = None
    vision_hidden_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveTerm:
    """One amount that SGLang keeps out of the static share."""

    name: str
    mib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticFraction:
    """The automatic --mem-fraction-static with its terms.

    Attributes:
        ratio: Static share of the GPU's memory.
        reserved_mib: Sum of the terms.
        vision_factor: What the ratio was multiplied by for a vision encoder; 1 without.
    """

    ratio: float
    reserved_mib: float
    terms: tuple[ReserveTerm, ...]
    vision_factor: float


def default_mem_fraction_static(release: str, inputs: StaticFractionInputs) -> StaticFraction:
    """Return the automatic --mem-fraction-static of a known release.

    XPU and other non-CUDA platforms are not covered.
    """
    rules = row("static_fraction", release)
    terms = tuple(_terms(release, rules, inputs))
    reserved = sum(term.mib for term in terms)
    gpu = inputs.gpu_memory_mib
    ratio = (
        cast("float", rules["unknown_ratio"]) if gpu is None else round((gpu - reserved) / gpu, 3)
    )
    factor = _vision_factor(rules, inputs)
    fixed = _number(rules, "post_capture_vision_mib")
    if fixed and inputs.post_capture_sizing:
        ratio, factor = ratio - (fixed / gpu if gpu and factor != 1.0 else 0.0), 1.0
    return StaticFraction(
        ratio=ratio * factor, reserved_mib=reserved, terms=terms, vision_factor=factor
    )


def activation_reserve_mib(chunked_prefill_size: int, *, ranks: int = 1) -> float:
    """Return what SGLang itself keeps for activations beside the graphs.

    512 + 1.5 * max(chunk, 2048) + ranks / 8 * 1024, in MiB, in every release; `ranks` is
    tensor parallel size times pipeline parallel size.
    """
    tokens = chunked_prefill_size if chunked_prefill_size > 0 else _MAX_PREFILL_TOKENS
    return 512 + 1.5 * max(tokens, _LEAST_ACTIVATION_TOKENS) + ranks / 8 * _MIB_PER_GIB


def _terms(release: str, rules: Row, inputs: StaticFractionInputs) -> Iterator[ReserveTerm]:
    ranks = inputs.tensor_parallel_size * inputs.pipeline_parallel_size
    parallel = ReserveTerm(name="parallel ranks", mib=ranks / 8 * _MIB_PER_GIB)
    planned = _number(rules, "post_capture_mib")
    if inputs.post_capture_sizing and planned:
        yield ReserveTerm(name="metadata", mib=planned)
        yield parallel
        return
    before_floor = (
        ReserveTerm(name="metadata", mib=512),
        ReserveTerm(name="activations", mib=1.5 * _activation_tokens(release, rules, inputs)),
        parallel,
        *_decode_graph_terms(release, rules, inputs),
        *_prefill_graph_terms(release, rules, inputs),
    )
    yield from before_floor
    total = sum(term.mib for term in before_floor)
    gpu = inputs.gpu_memory_mib
    if gpu is not None and gpu > _FLOOR_FROM_MIB and total < _FLOOR_MIB:
        yield ReserveTerm(name="raised to 10 GiB", mib=_FLOOR_MIB - total)
    yield from _terms_above_floor(release, rules, inputs)


def _terms_above_floor(
    release: str, rules: Row, inputs: StaticFractionInputs
) -> Iterator[ReserveTerm]:
    algorithm = inputs.speculative_algorithm
    if algorithm == "STANDALONE":
        yield from _positive("draft model", _number(rules, "standalone_mib"))
    elif algorithm not in {None, "NGRAM"}:
        yield from _positive("draft model", _number(rules, "speculative_mib"))
    if rules.get("prefill_graph") == "quarter_of_tokens" and inputs.prefill_graph:
        yield ReserveTerm(name="prefill graphs", mib=_prefill_tokens(release, inputs) // 4)
    if inputs.deepep and inputs.decode_graph and inputs.role is not DisaggregationRole.PREFILL:
        yield from _positive("DeepEP buffers", _number(rules, "deepep_mib"))


def _activation_tokens(release: str, rules: Row, inputs: StaticFractionInputs) -> int:
    if rules.get("graphs_by_role") and inputs.role is DisaggregationRole.DECODE:
        requests = inputs.max_running_requests or _decode_batch(release, inputs) or 1
        return max(requests * (inputs.draft_tokens or 1), _LEAST_ACTIVATION_TOKENS)
    chunk = _chunk(release, inputs)
    return max(chunk if chunk > 0 else inputs.max_prefill_tokens, _LEAST_ACTIVATION_TOKENS)


def _decode_graph_terms(
    release: str, rules: Row, inputs: StaticFractionInputs
) -> Iterator[ReserveTerm]:
    batch = _decode_batch(release, inputs)
    by_role = bool(rules.get("graphs_by_role"))
    if by_role and inputs.role is DisaggregationRole.PREFILL:
        return
    if inputs.decode_graph or not by_role:
        yield ReserveTerm(name="decode graphs", mib=2 * batch)
    if inputs.dp_attention:
        padded = 4.5 if batch > _LARGE_BATCH else 3
        mib = padded * batch * inputs.data_parallel_workers
        yield ReserveTerm(name="DP attention padding", mib=mib)


def _prefill_graph_terms(
    release: str, rules: Row, inputs: StaticFractionInputs
) -> Iterator[ReserveTerm]:
    if not inputs.prefill_graph or rules.get("prefill_graph") != "buckets":
        return
    if rules.get("graphs_by_role") and inputs.role is DisaggregationRole.DECODE:
        return
    latent = _number(rules, "prefill_graph_mla_mib")
    if inputs.latent_attention and latent:
        yield ReserveTerm(name="prefill graphs", mib=latent)
    else:
        buckets = prefill_graph_buckets(_prefill_tokens(release, inputs))
        yield ReserveTerm(name="prefill graphs", mib=8 * buckets)
    if inputs.breakable_prefill_graph and inputs.deepep:
        yield from _positive("DeepEP prefill graphs", _number(rules, "deepep_breakable_mib"))


def _prefill_tokens(release: str, inputs: StaticFractionInputs) -> int:
    limits = optional_row("prefill_graph_max_tokens", release) or {}
    largest = inputs.prefill_graph_max_tokens
    if largest is None:
        largest = _default_prefill_tokens(release, limits, inputs)
        if limits.get("capped_by_total_tokens") and inputs.max_total_tokens is not None:
            largest = min(largest, inputs.max_total_tokens)
    if limits.get("capped_by_context") and inputs.context_length is not None:
        largest = min(largest, inputs.context_length)
    return largest


def _default_prefill_tokens(release: str, limits: Row, inputs: StaticFractionInputs) -> int:
    if "fixed" in limits:
        return cast("int", limits["fixed"])
    chunk = _chunk(release, inputs)
    latent = cast("int", limits.get("mla", chunk))
    if not inputs.latent_attention:
        return chunk
    return min(latent, chunk) if limits.get("mla_capped_by_chunk") else latent


def _chunk(release: str, inputs: StaticFractionInputs) -> int:
    if inputs.chunked_prefill_size is not None:
        return inputs.chunked_prefill_size
    return chunked_prefill_default(release, inputs.gpu_memory_mib)


def _decode_batch(release: str, inputs: StaticFractionInputs) -> int:
    if inputs.decode_graph_max_batch is not None:
        return inputs.decode_graph_max_batch
    return decode_graph_max_batch_default(
        release,
        inputs.gpu_memory_mib,
        tensor_parallel_size=inputs.tensor_parallel_size,
        max_running_requests=inputs.max_running_requests,
    )


def _vision_factor(rules: Row, inputs: StaticFractionInputs) -> float:
    if inputs.vision_layers is None:
        return 1.0
    if rules.get("vision_on_decode") is False and inputs.role is DisaggregationRole.DECODE:
        return 1.0
    hidden = _BASE_VISION_HIDDEN if inputs.vision_hidden_size is None else inputs.vision_hidden_size
    base = _BASE_VISION_LAYERS * _BASE_VISION_HIDDEN**2
    complexity = inputs.vision_layers * hidden**2 / base
    return 0.95 * max(0.8, min(1.05, 1.0 - 0.1 * (complexity - 1.0)))


def _number(rules: Row, name: str) -> float:
    return cast("float", rules.get(name, 0))


def _positive(name: str, mib: float) -> Iterator[ReserveTerm]:
    if mib:
        yield ReserveTerm(name=name, mib=mib)
