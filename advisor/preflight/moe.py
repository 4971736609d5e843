"""Which MoE kernel configs the server would find: the workshop's look-up over the bundled files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from advisor.configs.loaders import loader_of_version
from advisor.configs.lookup import Lookup, Request, Source, lookup
from advisor.configs.models import MoeModel
from advisor.configs.names import device_in_file_name
from advisor.configs.shapes import MoeShape, Parallelism, moe_shape
from advisor.configs.trees import ConfigFiles, DiskFiles, files_of_release
from advisor.errors import ConfigError, InputError
from advisor.preflight.catalogue import Result, Undecided, fired
from advisor.preflight.situation import Situation
from advisor.rules.conditions import Answer

_CHECKS = (
    "moe-config-not-shipped",
    "moe-config-other-triton",
    "moe-config-down-missing",
    "moe-config-stops-server",
)
_OVERLAY = "SGLANG_MOE_CONFIG_DIR"
_OTHER_RUNNERS = "with every other --moe-runner-backend no such file is read"


def judge_moe(situation: Situation) -> Iterator[Result]:
    """Look the configs of both GEMMs up, as the server would."""
    reason = _not_judged(situation)
    model = situation.target.model
    if reason or model is None or model.moe is None:
        for check in _CHECKS if reason else ():
            yield Undecided(check=check, reason=reason)
        return
    try:
        shape, found = _looked_up(situation, model.moe)
    except (ConfigError, InputError) as error:
        for check in _CHECKS:
            yield Undecided(check=check, reason=str(error))
        return
    yield from _results(situation, shape, found)


def _not_judged(situation: Situation) -> str:
    """Return why there is nothing to look up; nothing if there is, or for a dense model."""
    model = situation.target.model
    if model is None:
        return "the model is not known: give --model-config config.json"
    if model.experts == 0:
        return ""
    if model.moe is None:
        return model.moe_problem or "the model's experts are not described"
    return _target_unknown(situation) or _not_read(situation)


def _target_unknown(situation: Situation) -> str:
    target = situation.target
    if target.version is None:
        return "the release is not known: give --sglang"
    if target.gpu is None:
        return "the GPU is not known: give --gpu or --env"
    if target.gpu.device_name is None:
        return f"{target.gpu.name} stands for several editions with files of their own: name one"
    return "" if target.triton else "the Triton version is not known: give --triton or --env"


def _not_read(situation: Situation) -> str:
    runner = situation.argument("moe_runner_backend")
    if runner not in {None, "auto", "triton"}:
        return f"no config file is read with --moe-runner-backend {runner}"
    if situation.number("tp_size") is None or situation.number("ep_size") is None:
        return "the tensor-parallel or expert-parallel size is not known"
    overlay = situation.variable(_OVERLAY)
    if overlay is not None and not (Path(overlay) / "configs").is_dir():
        return f"{_OVERLAY}={overlay} replaces the bundled files and is not there to be read"
    return ""


def _looked_up(situation: Situation, model: MoeModel) -> tuple[MoeShape, Lookup]:
    target = situation.target
    version, gpu = target.version or "", target.gpu
    device = (gpu.device_name if gpu is not None else None) or ""
    fuses = situation.argument("disable_shared_experts_fusion") is not True
    overlaps = situation.argument("moe_a2a_backend") in {"deepep", "deepep_v2"}
    split = Parallelism(
        tensor=situation.number("tp_size") or 1,
        expert=situation.number("ep_size") or 1,
        redundant=situation.number("ep_num_redundant_experts", 0) or 0,
        fuse_shared=None if fuses and not overlaps else False,
    )
    shape = moe_shape(model, split, device=device_in_file_name(device), sm=gpu.sm if gpu else None)
    request = Request(
        name=shape.name,
        triton=target.triton or "",
        deterministic=situation.argument("enable_deterministic_inference") is True,
        shared_memory_bytes=gpu.shared_memory_bytes if gpu else None,
    )
    loader = loader_of_version(version)
    return shape, lookup(request, _files(situation, version), loader)


def _files(situation: Situation, version: str) -> ConfigFiles:
    overlay = situation.variable(_OVERLAY)
    return DiskFiles(folder=Path(overlay)) if overlay else files_of_release(version)


def _results(situation: Situation, shape: MoeShape, found: Lookup) -> Iterator[Result]:
    values = _values(situation, shape, found)
    evidence = (situation.whole(),)
    if found.crash is not None:
        yield fired("moe-config-stops-server", evidence, {**values, "reason": found.crash})
    elif found.up.source is Source.DEFAULT:
        if situation.argument("enable_deterministic_inference") is not True:
            yield fired("moe-config-not-shipped", evidence, values)
    elif found.up.source is Source.FALLBACK:
        yield fired("moe-config-other-triton", evidence, values)
    if found.up.source in {Source.EXACT, Source.FALLBACK} and (
        found.down is not None and found.down.source is Source.REUSED_UP
    ):
        down = {**values, "file": shape.name.for_down(down=True).file_name}
        yield fired("moe-config-down-missing", evidence, down)


def _values(situation: Situation, shape: MoeShape, found: Lookup) -> Mapping[str, object]:
    name, certain = shape.name, situation.argument("moe_runner_backend") == "triton"
    kind = f" --dtype {name.dtype}" if name.dtype else ""
    block = " --block-shape {},{}".format(*name.block_shape) if name.block_shape else ""
    notes = "; ".join(shape.notes)
    return {
        "release": situation.target.shown_release,
        "gpu": situation.target.shown_gpu,
        "triton": situation.target.triton,
        "device": name.device,
        "experts": name.experts,
        "width": name.width,
        "hidden": shape.problem.hidden,
        "top_k": shape.problem.top_k,
        "dtype_option": f"{kind}{block}",
        "file": name.file_name,
        "used": found.up.triton,
        "notes": f"Assumed: {notes}." if notes else "",
        "runner_note": "" if certain else f" ({_OTHER_RUNNERS})",
        "runner_known": certain or situation.target.within("0.5.3 – 0.5.23") is Answer.YES,
    }
