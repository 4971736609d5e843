"""KV tokens and concurrency that a server will have: `advisor.capacity` between two ends.

The worst end has the most weights and the most memory taken before them, the best end the least.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from advisor.capacity import (
    Candidate,
    CapacityInputs,
    KvShape,
    Limit,
    StateStrategy,
    advice,
    kv_cell_bytes,
    limits,
    token_limits,
)
from advisor.facts.literals import Value
from advisor.preflight.model_config import ModelConfig
from advisor.preflight.parallel import attention_ranks
from advisor.preflight.situation import Situation
from advisor.rules.conditions import Answer

_NO_BUFFER_BY_DEFAULT = "0.5.6 – 0.5.12"
_BUFFER_BY_DEFAULT = "0.5.14 – 0.5.23"
_SPECULATION_SWITCHES_REUSE_OFF = "0.5.9"
_GIB_OF_DRIFT = 0.1
_DRAFT_LAYERS_CHARGED = "0.5.14 – 0.5.23"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """GiB of one GPU before and after the weights are loaded, and the static share."""

    before: float
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """What one worker can hold, as (least, most).

    Attributes:
        binding: What limits the requests half-way between the ends; None where it is open.
        knobs: Options that reach what was asked for, cheapest first; none where it is reached.
    """

    tokens: tuple[int, int]
    requests: tuple[int, int]
    binding: Limit | None
    slots_per_request: int | None
    knobs: tuple[str, ...]


def predict(
    situation: Situation, model: ModelConfig, ends: tuple[Ends, Ends], fraction: float, release: str
) -> Predicted | str:
    """Predict tokens and requests, or say what is missing.

    Args:
        situation: The command and its target.
        model: The config.json.
        ends: The worst and the best end.
        fraction: --mem-fraction-static, given or automatic.
        release: The known release whose rules count.
    """
    inputs = _inputs(situation, model, fraction, release)
    if isinstance(inputs, str):
        return inputs
    worst, best = (_at(inputs, end) for end in ends)
    worst = replace(worst, memory_drift_gib=_GIB_OF_DRIFT)
    least, most = token_limits(worst).chosen, token_limits(best).chosen
    if least is None or most is None:
        return f"the capacity of SGLang {release} is not known"
    tokens = (least.low, _top(most))
    middle = _at(inputs, _between(*ends))
    reports = [
        limits(replace(end, max_total_num_tokens=count))
        for end, count in ((worst, tokens[0]), (best, tokens[1]), (middle, sum(tokens) // 2))
    ]
    low, high, likely = (report.chosen for report in reports)
    if low is None or high is None or likely is None:
        return f"the capacity of SGLang {release} is not known"
    wanted = _wanted(situation)
    knobs = () if wanted is None else advice(reports[2], wanted)
    return Predicted(
        tokens=tokens,
        requests=(low.low, _top(high)),
        binding=likely.binding,
        slots_per_request=likely.slots_per_request,
        knobs=tuple(f"{knob.flag} {knob.value}".strip() for knob in knobs),
    )


def _at(inputs: CapacityInputs, end: Ends) -> CapacityInputs:
    """Return the inputs with the memory of one end."""
    return replace(inputs, memory_before_weights_gib=end.before, memory_after_weights_gib=end.after)


def _between(one: Ends, other: Ends) -> Ends:
    return Ends(before=(one.before + other.before) / 2, after=(one.after + other.after) / 2)


def _inputs(
    situation: Situation, model: ModelConfig, fraction: float, release: str
) -> CapacityInputs | str:
    problem = _missing(situation, model)
    if problem:
        return problem
    ranks = attention_ranks(situation) or 1
    algorithm = situation.argument("speculative_algorithm")
    cell = _cell_bytes(situation, model, ranks)
    if isinstance(cell, str):
        return cell
    shape = model.linear_shape
    dtype = situation.argument("mamba_ssm_dtype")
    state_dtype = str(dtype) if dtype else (shape.state_dtype if shape else None)
    return CapacityInputs(
        version=release,
        arguments_known=True,
        max_running_requests=_whole(situation.values.get("max_running_requests")),
        max_total_tokens=_whole(situation.values.get("max_total_tokens")),
        context_length=_whole(situation.values.get("context_length")) or model.context_length,
        page_size=_whole(situation.argument("page_size")) or 1,
        data_parallel_workers=(situation.number("dp_size") or 1) if situation.dp_attention else 1,
        tensor_parallel_size=situation.number("tp_size") or 1,
        pipeline_parallel_size=situation.number("pp_size") or 1,
        speculative_algorithm=str(algorithm) if algorithm else None,
        draft_tokens=_whole(situation.argument("speculative_num_draft_tokens")),
        deepseek_v4="DeepseekV4" in (model.architecture or ""),
        hybrid=model.hybrid,
        radix_cache=_radix_cache(situation),
        state_strategy=_strategy(situation),
        overlap_schedule=_overlap(situation),
        replay_state=situation.argument("enable_linear_replayssm_spec") is True,
        max_mamba_cache_size=_whole(situation.argument("max_mamba_cache_size")),
        full_memory_ratio=_number(situation.argument("mamba_full_memory_ratio")),
        mem_fraction_static=fraction,
        memory_rounding_gib=0.0,
        memory_drift_gib=0.0,
        kv_cell_bytes=cell,
        state_bytes=None if shape is None else shape.state_bytes(ranks, state_dtype),
        state_dtype=state_dtype or "float32",
    )


def _missing(situation: Situation, model: ModelConfig) -> str:
    """Return what keeps the capacity from being predicted; nothing if all is there."""
    if model.sliding_window:
        return "a sliding window changes the share of each layer"
    if model.hybrid and (model.linear_shape is None or not model.linear_layers):
        return f"{model.origin} does not give the size of a linear-attention state"
    speculates = situation.argument("speculative_algorithm") is not None
    drafts = situation.argument("speculative_num_draft_tokens")
    if model.hybrid and speculates and not isinstance(drafts, int):
        return "--speculative-num-draft-tokens is not given, and each draft token takes a state"
    return ""


def _cell_bytes(situation: Situation, model: ModelConfig, ranks: int) -> int | str:
    layers = model.full_layers
    if layers is None or (model.kv_heads is None and not model.latent):
        return f"{model.origin} does not give the size of the KV cache"
    dtype = str(situation.argument("kv_cache_dtype") or "auto")
    four_bit = "fp4" in dtype
    return kv_cell_bytes(
        KvShape(
            layers=layers // (situation.number("pp_size") or 1),
            kv_heads=model.kv_heads or 1,
            head_dim=model.head_dim or 128,
            v_head_dim=model.v_head_dim,
            attention_tp=ranks,
            element_bytes=1 if "fp8" in dtype or four_bit else 2,
            four_bit=four_bit,
            latent_dim=model.latent_shape.cached_dim if model.latent_shape is not None else None,
            index_head_dim=model.index_head_dim,
            draft_layers=_draft_layers(situation, model),
        )
    )


def _draft_layers(situation: Situation, model: ModelConfig) -> int:
    """Return the draft's layers that are charged per token: those of the checkpoint itself."""
    algorithm = situation.argument("speculative_algorithm")
    charged = situation.target.within(_DRAFT_LAYERS_CHARGED) is Answer.YES
    return max(1, model.draft_layers) if algorithm in {"EAGLE", "NEXTN"} and charged else 0


def _radix_cache(situation: Situation) -> bool:
    """Say whether prefixes are reused: 0.5.9 gives that up for hybrids that speculate."""
    if situation.argument("disable_radix_cache") is True:
        return False
    model = situation.target.model
    speculates = situation.argument("speculative_algorithm") is not None
    gives_up = situation.target.within(_SPECULATION_SWITCHES_REUSE_OFF) is Answer.YES
    buffered = _strategy(situation) is not StateStrategy.NO_BUFFER
    return not (model is not None and model.hybrid and speculates and gives_up and not buffered)


def _strategy(situation: Situation) -> StateStrategy | None:
    """Return how states are kept for reuse: as given, else the release's choice for GDN models."""
    for field in ("mamba_radix_cache_strategy", "mamba_scheduler_strategy"):
        given = situation.values.get(field)
        if given in {strategy.value for strategy in StateStrategy}:
            return StateStrategy(str(given))
    if situation.target.within(_NO_BUFFER_BY_DEFAULT) is Answer.YES:
        return StateStrategy.NO_BUFFER
    if situation.target.within(_BUFFER_BY_DEFAULT) is Answer.YES:
        return StateStrategy.EXTRA_BUFFER
    return None


def _overlap(situation: Situation) -> bool:
    """Say whether the overlap schedule runs: no_buffer beside the radix cache ends it."""
    if situation.argument("disable_overlap_schedule") is True:
        return False
    return not (_strategy(situation) is StateStrategy.NO_BUFFER and _radix_cache(situation))


def _wanted(situation: Situation) -> int | None:
    """Return the requests that somebody asked for, or that speculative decoding sets."""
    given = situation.values.get("max_running_requests")
    if isinstance(given, int):
        workers = (situation.number("dp_size") or 1) if situation.dp_attention else 1
        return given // workers
    return 48 if situation.argument("speculative_algorithm") is not None else None


def _top(candidate: Candidate) -> int:
    return candidate.low if candidate.high is None else candidate.high


def _whole(value: Value) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Value) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
