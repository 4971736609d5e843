"""The parallel sizes against the machine and the model's config.json."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.preflight.catalogue import Result, Undecided, fired
from advisor.preflight.model_config import ModelConfig
from advisor.preflight.situation import Situation
from advisor.rules.conditions import Answer

_NO_MODEL = "the model is not known: give --model-config config.json"
_MODEL_CHECKS = (
    "heads-not-divisible",
    "kv-heads-not-divisible",
    "kv-heads-replicated",
    "experts-not-divisible",
    "block-width-not-divisible",
)


def judge_parallel(situation: Situation) -> Iterator[Result]:
    """Judge the sizes by each other, the GPUs there are, and the model."""
    yield from _gpus(situation)
    yield from _sizes(situation)
    model = situation.target.model
    if model is None:
        for check in _MODEL_CHECKS:
            yield Undecided(check=check, reason=_NO_MODEL)
        return
    tensor, attention = situation.number("tp_size"), attention_ranks(situation)
    if tensor is None or attention is None:
        for check in _MODEL_CHECKS:
            yield Undecided(check=check, reason="the tensor-parallel size is not known")
        return
    yield from _heads(situation, model, attention)
    yield from _experts(situation, model, tensor)


def attention_ranks(situation: Situation) -> int | None:
    """Return the ranks that share the attention heads: tp, divided by the DP-attention size."""
    tensor = situation.number("tp_size")
    if not situation.dp_attention:
        return tensor
    field = "attn_dp_size" if situation.given("attn_dp_size") else "dp_size"
    data = situation.number(field)
    if tensor is None or data is None or data < 1 or tensor % data:
        return None
    return tensor // data


def _gpus(situation: Situation) -> Iterator[Result]:
    there, nodes = situation.target.gpu_count, situation.number("nnodes")
    world = situation.world
    if there is None:
        reason = "the number of GPUs is not known: give --gpu NAME:COUNT"
        yield Undecided(check="gpus-too-few", reason=reason)
        yield Undecided(check="gpus-unused", reason=reason)
        return
    if world is None or nodes is None:
        yield Undecided(
            check="gpus-too-few", reason="the sizes of the parallel groups are not known"
        )
        return
    available = there * nodes
    values = {
        "world": world,
        "available": available,
        "per_node": there,
        "nodes": nodes,
        "unused": available - world,
        "formula": _formula(situation),
        "advice": f"{situation.flag('tp_size')} {available}",
    }
    fields = ("tp_size", "pp_size", "dp_size", "nnodes")
    if world > available:
        yield fired("gpus-too-few", situation.evidence_of(*fields), values)
    elif world < available:
        yield fired("gpus-unused", situation.evidence_of(*fields), values)


def _formula(situation: Situation) -> str:
    parts = [f"tp {situation.number('tp_size')}"]
    if (pipeline := situation.number("pp_size")) != 1:
        parts.append(f"pp {pipeline}")
    if not situation.dp_attention and (data := situation.number("dp_size")) != 1:
        parts.append(f"dp {data}")
    return " x ".join(parts)


def _sizes(situation: Situation) -> Iterator[Result]:
    """Check what `check_server_args` asserts on the sizes alone."""
    tensor, pipeline = situation.number("tp_size"), situation.number("pp_size")
    nodes, data = situation.number("nnodes"), situation.number("dp_size")
    expert = situation.number("ep_size")
    source = "srt/server_args.py (0.5.3 to 0.5.18), srt/arg_groups/ (0.5.20 and 0.5.23)"
    if tensor and pipeline and nodes and (tensor * pipeline) % nodes:
        yield _indivisible(
            situation, ("tp_size", "pp_size", "nnodes"), (tensor * pipeline, nodes), source
        )
    if tensor and data and situation.argument("enable_dp_attention") is True and tensor % data:
        yield _indivisible(situation, ("tp_size", "dp_size"), (tensor, data), source)
    if tensor and expert and tensor % expert:
        layer = "srt/distributed/parallel_state.py and the MoE layers of 0.5.3 to 0.5.23"
        yield _indivisible(situation, ("tp_size", "ep_size"), (tensor, expert), layer)


def _indivisible(
    situation: Situation, fields: tuple[str, ...], values: tuple[int, int], source: str
) -> Result:
    names = [situation.flag(field) for field in fields]
    return fired(
        "sizes-not-divisible",
        situation.evidence_of(*fields),
        {
            "left": " x ".join(names[:-1]),
            "right": names[-1],
            "left_value": values[0],
            "right_value": values[1],
            "source": source,
        },
    )


def _heads(situation: Situation, model: ModelConfig, ranks: int) -> Iterator[Result]:
    if model.heads is None:
        reason = f"{model.origin} does not say num_attention_heads"
        yield Undecided(check="heads-not-divisible", reason=reason)
        return
    fields = ("tp_size", "dp_size", "attn_dp_size")
    values: dict[str, object] = {
        "heads": model.heads,
        "kv_heads": model.kv_heads,
        "ranks": ranks,
        "formula": f"{model.heads} / {ranks}",
        "advice": f"{situation.flag('tp_size')} {_divisor(model.heads, ranks)}",
    }
    if model.heads % ranks:
        yield fired("heads-not-divisible", situation.evidence_of(*fields), values)
        return
    kv_heads = model.kv_heads
    if kv_heads is None or model.latent:
        return
    if max(kv_heads, ranks) % min(kv_heads, ranks):
        yield fired("kv-heads-not-divisible", situation.evidence_of(*fields), values)
    elif ranks > kv_heads:
        values["copies"] = ranks // kv_heads
        yield fired("kv-heads-replicated", situation.evidence_of(*fields), values)


def _divisor(number: int, below: int) -> int:
    """Return the largest divisor of a number that is not above a limit."""
    return max(size for size in range(1, below + 1) if number % size == 0)


def _experts(situation: Situation, model: ModelConfig, tensor: int) -> Iterator[Result]:
    expert = situation.number("ep_size")
    if not model.experts or expert is None or expert < 1 or tensor % expert:
        return
    fields = ("tp_size", "ep_size")
    if model.experts % expert and not situation.given("ep_num_redundant_experts"):
        reason = f"{model.experts} experts over {expert} expert-parallel ranks"
        values = {"reason": reason, "formula": f"{model.experts} / {expert} is not a whole number."}
        yield fired("experts-not-divisible", situation.evidence_of(*fields), values)
    width = model.moe.width if model.moe is not None else model.expert_intermediate
    if width is None:
        return
    ranks = tensor // expert
    if width % ranks:
        reason = f"an expert's width of {width} over {ranks} ranks"
        values = {"reason": reason, "formula": f"{width} / {ranks} is not a whole number."}
        yield fired("experts-not-divisible", situation.evidence_of(*fields), values)
    elif model.weight_block is not None and (width // ranks) % model.weight_block[0]:
        yield _part_of_block(situation, width, ranks, model.weight_block[0])


def _part_of_block(situation: Situation, width: int, ranks: int, block: int) -> Result:
    expert = next(
        size
        for size in range(1, ranks + 1)
        if (ranks % size == 0 and (width // (ranks // size)) % block == 0) or size == ranks
    )
    spread = (situation.number("ep_size") or 1) * expert
    known = situation.target.within("0.5.6 – 0.5.23") is Answer.YES
    advice = f"{situation.flag('ep_size')} {spread}" if known else ""
    return fired(
        "block-width-not-divisible",
        situation.evidence_of("tp_size", "ep_size"),
        {
            "width": width // ranks,
            "block": block,
            "formula": f"{width} / {ranks} = {width // ranks}, and {width // ranks} / {block} is not a whole number",
            "advice": advice,
        },
    )
