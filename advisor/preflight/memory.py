"""Whether weights and KV cache fit, with error bars: the arithmetic of `advisor.capacity`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from advisor.capacity import (
    KvShape,
    StaticFractionInputs,
    default_mem_fraction_static,
    known_releases,
    kv_cell_bytes,
)
from advisor.knowledge.releases import speakers
from advisor.preflight.catalogue import Result, Undecided, fired
from advisor.preflight.model_config import ModelConfig
from advisor.preflight.parallel import attention_ranks
from advisor.preflight.situation import Situation
from advisor.preflight.weights import GIB, Split, WeightEstimate, estimate_weights
from advisor.rules.conditions import Answer

_CHECKS = ("weights-do-not-fit", "memory-tight", "context-exceeds-kv", "memory-estimate")
_MIB_PER_GIB = 1024
_CONTEXT_GIB = (0.5, 2.0)
"""CUDA context and communication buffers before the weights, least and most (seen in logs)."""

_TIGHT_RATIO = 0.1
_PREFILL_GRAPH_SINCE = "0.5.10 – 0.5.23"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Budget:
    """GiB of one GPU: the static share and what is left of it, as ranges."""

    fraction: float
    given: bool
    static: tuple[float, float]
    left: tuple[float, float]


def judge_memory(situation: Situation) -> Iterator[Result]:
    """Estimate the weights and the KV cache of one GPU."""
    estimate = _weights(situation)
    if isinstance(estimate, str):
        for check in _CHECKS:
            yield Undecided(check=check, reason=estimate)
        return
    model, weights = estimate
    budget = _budget(situation, model, weights)
    tokens = _tokens(situation, model, budget)
    values = _values(situation, weights, budget, tokens)
    evidence = situation.evidence_of("tp_size", "mem_fraction_static")
    if weights.low_gib >= budget.static[1]:
        yield fired("weights-do-not-fit", evidence, values)
        return
    if budget.left[0] <= 0 or sum(budget.left) / 2 < _TIGHT_RATIO * budget.static[1]:
        yield fired("memory-tight", evidence, values)
    else:
        yield fired("memory-estimate", evidence, values)
    yield from _context(situation, model, tokens, values)


def _weights(situation: Situation) -> tuple[ModelConfig, WeightEstimate] | str:
    """Return the model and its weights on one GPU, or why there is no estimate."""
    target, model = situation.target, situation.target.model
    if model is None:
        return "the model is not known: give --model-config config.json"
    if target.gpu is None or target.gpu.memory_mib is None:
        return "the GPU's memory is not known: give --gpu or --env"
    tensor, attention = situation.number("tp_size"), attention_ranks(situation)
    pipeline = situation.number("pp_size")
    if tensor is None or attention is None or pipeline is None:
        return "the sizes of the parallel groups are not known"
    if _release(situation) is None:
        return "the memory rules are known for SGLang 0.5.3 to 0.5.23: give --sglang"
    split = Split(tensor=tensor, attention=attention, pipeline=pipeline)
    quantization = situation.argument("quantization")
    weights = estimate_weights(model, split, str(quantization) if quantization else None)
    return weights if isinstance(weights, str) else (model, weights)


def _release(situation: Situation) -> str | None:
    if situation.target.version is None:
        return None
    known = [str(item) for item in speakers(situation.target.version)]
    return next((item for item in reversed(known) if item in known_releases()), None)


def _budget(situation: Situation, model: ModelConfig, weights: WeightEstimate) -> _Budget:
    memory_mib = (situation.target.gpu.memory_mib if situation.target.gpu else None) or 0
    total = memory_mib / _MIB_PER_GIB
    given = situation.values.get("mem_fraction_static")
    fraction = (
        given if isinstance(given, float) else _default_fraction(situation, model, memory_mib)
    )
    static = tuple((total - context) * fraction for context in reversed(_CONTEXT_GIB))
    return _Budget(
        fraction=fraction,
        given=isinstance(given, float),
        static=(static[0], static[1]),
        left=(static[0] - weights.high_gib, static[1] - weights.low_gib),
    )


def _default_fraction(situation: Situation, model: ModelConfig, memory_mib: int) -> float:
    chunk = situation.argument("chunked_prefill_size")
    algorithm = situation.argument("speculative_algorithm")
    graphs = situation.target.within(_PREFILL_GRAPH_SINCE) is Answer.YES
    disabled = situation.argument("disable_piecewise_cuda_graph") is True
    inputs = StaticFractionInputs(
        gpu_memory_mib=memory_mib,
        tensor_parallel_size=situation.number("tp_size") or 1,
        pipeline_parallel_size=situation.number("pp_size") or 1,
        chunked_prefill_size=chunk if isinstance(chunk, int) else None,
        dp_attention=situation.dp_attention,
        data_parallel_workers=situation.number("dp_size") or 1,
        speculative_algorithm=str(algorithm) if algorithm else None,
        prefill_graph=graphs and not disabled,
        latent_attention=model.latent,
        vision_layers=model.vision_layers,
        vision_hidden_size=model.vision_hidden,
    )
    return default_mem_fraction_static(_release(situation) or "", inputs).ratio


def _tokens(situation: Situation, model: ModelConfig, budget: _Budget) -> tuple[int, int] | str:
    """Return the KV tokens as a range, or why they cannot be told."""
    if model.hybrid:
        return "linear-attention states take a share of it"
    if model.sliding_window:
        return "a sliding window changes the share of each layer"
    if model.layers is None or (model.kv_heads is None and not model.latent):
        return f"{model.origin} does not give the size of the KV cache"
    cell = kv_cell_bytes(
        KvShape(
            layers=model.layers // (situation.number("pp_size") or 1),
            kv_heads=model.kv_heads or 1,
            head_dim=model.head_dim or 128,
            v_head_dim=model.v_head_dim,
            attention_tp=attention_ranks(situation) or 1,
            element_bytes=_element_bytes(situation),
            latent_dim=model.latent_dim,
        )
    )
    low, high = (max(0, int(part * GIB) // cell) for part in budget.left)
    capped = situation.values.get("max_total_tokens")
    return (min(low, capped), min(high, capped)) if isinstance(capped, int) else (low, high)


def _element_bytes(situation: Situation) -> int:
    dtype = str(situation.argument("kv_cache_dtype") or "auto")
    return 1 if "fp8" in dtype or "fp4" in dtype else 2


def _context(
    situation: Situation,
    model: ModelConfig,
    tokens: tuple[int, int] | str,
    values: dict[str, object],
) -> Iterator[Result]:
    given = situation.values.get("context_length")
    context = given if isinstance(given, int) else model.context_length
    if isinstance(tokens, str) or context is None:
        reason = tokens if isinstance(tokens, str) else f"{model.origin} does not give the context"
        yield Undecided(check="context-exceeds-kv", reason=reason)
    elif context > tokens[1]:
        page = 1024
        advised = max(page, tokens[0] // page * page)
        yield fired(
            "context-exceeds-kv",
            situation.evidence_of("context_length", "mem_fraction_static", "tp_size"),
            {**values, "context": context, "advised": advised},
        )


def _values(
    situation: Situation,
    weights: WeightEstimate,
    budget: _Budget,
    tokens: tuple[int, int] | str,
) -> dict[str, object]:
    shown = _range(*budget.left)
    kind = "given" if budget.given else f"the default of SGLang {situation.target.shown_release}"
    counted = (
        f"{tokens[0]:,} to {tokens[1]:,}".replace(",", " ")
        if isinstance(tokens, tuple)
        else f"an unknown number of (because {tokens})"
    )
    gpus = situation.number("tp_size") or 1
    return {
        "weights": _range(weights.low_gib, weights.high_gib),
        "static": _range(*budget.static),
        "left": shown,
        "tokens": counted,
        "fraction": f"{budget.fraction:.3f}",
        "arithmetic": (
            f"{_range(*budget.static)} static share (--mem-fraction-static {budget.fraction:.3f}, "
            f"{kind}) - {_range(weights.low_gib, weights.high_gib)} weights = {shown} for the KV "
            f"cache of each GPU, {counted} tokens."
        ),
        "basis": (
            f"{weights.basis}. Draft models, LoRA and multimodal buffers are not counted; "
            "0.5 to 2 GiB are taken for the CUDA context and communication."
        ),
        "advice": f"{situation.flag('tp_size')} {_enough(gpus, weights, budget)}",
        "weights_gib": round(weights.gib, 2),
        "left_low_gib": round(budget.left[0], 2),
        "left_high_gib": round(budget.left[1], 2),
    }


def _enough(gpus: int, weights: WeightEstimate, budget: _Budget) -> int:
    """Return the tensor-parallel size, doubled as often as the weights need it."""
    factor = 2
    while weights.high_gib / factor > (1 - _TIGHT_RATIO) * budget.static[0] > 0:
        factor *= 2
    return gpus * factor


def _range(low: float, high: float) -> str:
    return f"{max(low, 0):.1f} to {max(high, 0):.1f} GiB"
