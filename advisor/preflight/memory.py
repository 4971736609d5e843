"""Whether weights and KV cache fit, with error bars: the arithmetic of `advisor.capacity`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from advisor.capacity import StaticFractionInputs, default_mem_fraction_static, known_releases
from advisor.findings import Severity
from advisor.knowledge.releases import speakers
from advisor.preflight.catalogue import Fired, Result, Undecided, fired
from advisor.preflight.model_config import ModelConfig
from advisor.preflight.parallel import attention_ranks
from advisor.preflight.predicted import Ends, Predicted, predict
from advisor.preflight.situation import Situation
from advisor.preflight.support import judge_support
from advisor.preflight.weights import Split, WeightEstimate, estimate_weights
from advisor.rules.conditions import Answer

_CHECKS = (
    "weights-do-not-fit",
    "memory-tight",
    "context-exceeds-kv",
    "requests-limited",
    "memory-estimate",
)
_MIB_PER_GIB = 1024
_CONTEXT_GIB = (0.6, 1.6)
"""Taken before the weights of a single rank, least and most: CUDA context, driver, libraries.

Measured on an H200 with 0.5.12: 0.7 GiB of what torch calls the GPU's memory, 1.3 GiB of what
nvidia-smi does.
"""

_COMMUNICATION_GIB = 1.5
"""What more may be taken with several ranks: NCCL and the all-reduce buffers. Not measured."""

_RUNTIME_GIB = 0.1
"""The allocator's share beyond the weights themselves; 0.02 to 0.11 was measured."""

_TIGHT_RATIO = 0.1
_PREFILL_GRAPH_SINCE = "0.5.10 – 0.5.23"
_SWITCHED_OFF = "prefill-graph-switched-off"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Budget:
    """GiB of one GPU, each as (least, most): free before the weights, static share, its rest."""

    fraction: float
    given: bool
    before: tuple[float, float]
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
    predicted = _predicted(situation, model, weights, budget)
    values = _values(situation, weights, budget, predicted)
    evidence = situation.evidence_of("tp_size", "mem_fraction_static")
    if weights.low_gib >= budget.static[1]:
        yield fired("weights-do-not-fit", evidence, values)
        return
    if budget.left[0] <= 0 or sum(budget.left) / 2 < _TIGHT_RATIO * budget.static[1]:
        yield fired("memory-tight", evidence, values)
    else:
        yield fired("memory-estimate", evidence, values)
    yield from _context(situation, model, predicted, values)
    yield from _requests(situation, predicted, values)


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
    more = _COMMUNICATION_GIB if (situation.world or 1) > 1 else 0.0
    before = (total - _CONTEXT_GIB[1] - more, total - _CONTEXT_GIB[0])
    static = (before[0] * fraction, before[1] * fraction)
    return _Budget(
        fraction=fraction,
        given=isinstance(given, float),
        before=before,
        static=static,
        left=(static[0] - weights.high_gib - _RUNTIME_GIB, static[1] - weights.low_gib),
    )


def _default_fraction(situation: Situation, model: ModelConfig, memory_mib: int) -> float:
    algorithm = situation.argument("speculative_algorithm")
    vision = model.vision if model.multimodal else None
    inputs = StaticFractionInputs(
        gpu_memory_mib=memory_mib,
        tensor_parallel_size=situation.number("tp_size") or 1,
        pipeline_parallel_size=situation.number("pp_size") or 1,
        chunked_prefill_size=_given(situation, "chunked_prefill_size"),
        decode_graph_max_batch=_given(situation, "cuda_graph_max_bs")
        or _given(situation, "cuda_graph_max_bs_decode"),
        decode_graph=situation.argument("disable_cuda_graph") is not True,
        dp_attention=situation.dp_attention,
        data_parallel_workers=situation.number("dp_size") or 1,
        speculative_algorithm=str(algorithm) if algorithm else None,
        draft_tokens=_given(situation, "speculative_num_draft_tokens"),
        max_running_requests=_given(situation, "max_running_requests"),
        max_total_tokens=_given(situation, "max_total_tokens"),
        context_length=_given(situation, "context_length") or model.context_length,
        prefill_graph=_prefill_graph(situation),
        latent_attention=model.latent,
        deepep=situation.argument("moe_a2a_backend") == "deepep",
        vision_layers=vision.named_layers if vision is not None else None,
        vision_hidden_size=vision.hidden if vision is not None else None,
    )
    return default_mem_fraction_static(_release(situation) or "", inputs).ratio


def _prefill_graph(situation: Situation) -> bool:
    """Say whether prefill graphs are on when SGLang chooses the static fraction."""
    if situation.target.within(_PREFILL_GRAPH_SINCE) is not Answer.YES:
        return False
    if situation.argument("disable_piecewise_cuda_graph") is True:
        return False
    if situation.argument("cuda_graph_backend_prefill") == "disabled":
        return False
    results = judge_support(situation)
    return not any(isinstance(one, Fired) and one.finding.rule == _SWITCHED_OFF for one in results)


def _given(situation: Situation, field: str) -> int | None:
    value = situation.values.get(field)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _predicted(
    situation: Situation, model: ModelConfig, weights: WeightEstimate, budget: _Budget
) -> Predicted | str:
    worst = Ends(before=budget.before[0], after=budget.before[0] - weights.high_gib - _RUNTIME_GIB)
    best = Ends(before=budget.before[1], after=budget.before[1] - weights.low_gib)
    release = _release(situation) or ""
    return predict(situation, model, (worst, best), budget.fraction, release)


def _context(
    situation: Situation,
    model: ModelConfig,
    predicted: Predicted | str,
    values: dict[str, object],
) -> Iterator[Result]:
    context = _given(situation, "context_length") or model.context_length
    if isinstance(predicted, str) or context is None:
        no_context = f"{model.origin} does not give the context"
        reason = predicted if isinstance(predicted, str) else no_context
        yield Undecided(check="context-exceeds-kv", reason=reason)
    elif context > predicted.tokens[1]:
        page = 1024
        advised = max(page, predicted.tokens[0] // page * page)
        yield fired(
            "context-exceeds-kv",
            situation.evidence_of("context_length", "mem_fraction_static", "tp_size"),
            {**values, "context": context, "advised": advised},
        )


def _requests(
    situation: Situation, predicted: Predicted | str, values: dict[str, object]
) -> Iterator[Result]:
    """Say how many requests will run at once where memory decides, not a default or a flag."""
    if isinstance(predicted, str):
        yield Undecided(check="requests-limited", reason=predicted)
        return
    limit = predicted.binding
    if limit is None or limit.name.value not in {"state_slots", "half_of_tokens"}:
        return
    knobs = predicted.knobs
    asked = situation.given("max_running_requests")
    fields = ("max_running_requests", "mamba_ssm_dtype", "mem_fraction_static", "tp_size")
    yield fired(
        "requests-limited",
        situation.evidence_of(*fields),
        {
            **values,
            "formula": limit.formula,
            "by_states": limit.name.value == "state_slots",
            "slots_per_request": predicted.slots_per_request,
            "knob": knobs[0] if knobs else "",
            "others": list(knobs[1:]),
        },
        severity=Severity.WARNING if asked else Severity.NOTE,
    )


def _values(
    situation: Situation,
    weights: WeightEstimate,
    budget: _Budget,
    predicted: Predicted | str,
) -> dict[str, object]:
    shown = _range(*budget.left)
    kind = "given" if budget.given else f"the default of SGLang {situation.target.shown_release}"
    counted = f"an unknown number of tokens ({predicted})"
    requests = ""
    if isinstance(predicted, Predicted):
        counted = f"{_numbers(predicted.tokens)} tokens"
        requests = _numbers(predicted.requests)
    gpus = situation.number("tp_size") or 1
    pools = "the KV cache and states" if _is_hybrid(situation) else "the KV cache"
    return {
        "weights": _range(weights.low_gib, weights.high_gib),
        "static": _range(*budget.static),
        "left": shown,
        "pools": pools,
        "tokens": counted,
        "requests": requests,
        "fraction": f"{budget.fraction:.3f}",
        "arithmetic": (
            f"{_range(*budget.static)} static share (--mem-fraction-static {budget.fraction:.3f}, "
            f"{kind}) - {_range(weights.low_gib, weights.high_gib)} weights = {shown} for {pools} "
            f"of each GPU, {counted}."
        ),
        "basis": (
            f"{weights.basis}. Draft models, LoRA and multimodal buffers are not counted; 0.6 to "
            f"{_CONTEXT_GIB[1]} GiB are taken for the CUDA context, up to {_COMMUNICATION_GIB} GiB "
            "more for communication between ranks."
        ),
        "advice": f"{situation.flag('tp_size')} {_enough(gpus, weights, budget)}",
        "weights_gib": round(weights.gib, 2),
        "left_low_gib": round(budget.left[0], 2),
        "left_high_gib": round(budget.left[1], 2),
    }


def _is_hybrid(situation: Situation) -> bool:
    return situation.target.model is not None and situation.target.model.hybrid


def _enough(gpus: int, weights: WeightEstimate, budget: _Budget) -> int:
    """Return the tensor-parallel size, doubled as often as the weights need it."""
    factor = 2
    while weights.high_gib / factor > (1 - _TIGHT_RATIO) * budget.static[0] > 0:
        factor *= 2
    return gpus * factor


def _range(low: float, high: float) -> str:
    return f"{max(low, 0):.1f} to {max(high, 0):.1f} GiB"


def _numbers(pair: tuple[int, int]) -> str:
    low, high = (f"{number:,}".replace(",", " ") for number in pair)
    return low if low == high else f"{low} to {high}"
