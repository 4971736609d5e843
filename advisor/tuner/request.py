"""From what a user asks for to a session: shape, GPUs, kernel, and what the server has today."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.configs.entries import ConfigTable
from advisor.configs.files import read_config
from advisor.configs.loaders import Loader, loader_of_version
from advisor.configs.lookup import Lookup, Outcome, Request, Source, lookup
from advisor.configs.models import read_model
from advisor.configs.names import ExpertDtype
from advisor.configs.pool import triton_version
from advisor.configs.problem import Gemm, MoeProblem, Target, target_of_gpu
from advisor.configs.shapes import Parallelism, moe_shape
from advisor.configs.source import KernelSource, bundled_source, server_source
from advisor.configs.trees import DiskFiles, SglangTree, open_tree, read_releases
from advisor.errors import ConfigError, InputError, MissingExtraError
from advisor.knowledge.gpus import find_gpu
from advisor.tuner.fromlog import check_place, missing_in_log, problem_of_log, readable_log
from advisor.tuner.gpus import LocalGpu, local_gpus
from advisor.tuner.pool import compilers_for
from advisor.tuner.problem import (
    SGLANG_BATCH_SIZES,
    check_batch_sizes,
    check_problem,
    config_name,
)
from advisor.tuner.rehearsal import DEVICE as REHEARSAL_DEVICE
from advisor.tuner.routing import Routing, RoutingKind, read_routing
from advisor.tuner.session import Session

_SHAPE_PARTS = 4
_REHEARSED_GPU = "H200"


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneRequest:
    """What a user asks for; None where the default is meant.

    Attributes:
        log: A server's log that tells which file is missing.
        shape: E, N, K, top-k, in place of a model.
        gpus: Numbers or, for a machine without GPU, one name.
        today: A config file that the server uses now.
        routing: `uniform`, `zipf` or the path of recorded loads.
        rehearse: Use a made-up GPU.
        away: No GPU is used here: compiling ahead, or a Ray cluster.
    """

    log: Path | None = None
    model: Path | None = None
    tensor_parallel: int = 1
    expert_parallel: int = 1
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    block_shape: tuple[int, ...] | None = None
    batch_sizes: tuple[int, ...] | None = None
    gpus: tuple[str, ...] = ()
    effort: str = "normal"
    budget_s: float | None = None
    sglang: Path | None = None
    sglang_version: str | None = None
    today: Path | None = None
    kernel: str = "auto"
    routing: str = "uniform"
    out: Path = Path("advisor-tune")
    journal: Path | None = None
    cache: Path | None = None
    compilers: int | None = None
    rehearse: bool = False
    away: bool = False


def session_of(request: TuneRequest) -> Session:
    """Decide everything that a run needs.

    Raises:
        AdvisorError: If something is missing, contradictory or unknown; the text says what to do.
    """
    triton = _triton(request)
    gpus, device, driver = _gpus(request)
    target = target_of_gpu(_REHEARSED_GPU if request.rehearse else device)
    problem = check_problem(_problem(request, device, target, triton))
    tree = _tree(request)
    version = request.sglang_version or (tree.version if tree else None)
    loader = loader_of_version(version or read_releases()[-1])
    name = config_name(problem, device, Gemm.UP)
    out = request.out
    session = Session(
        problem=problem,
        target=target,
        device=device,
        gpus=gpus,
        compilers=request.compilers or compilers_for(len(gpus)),
        batch_sizes=check_batch_sizes(request.batch_sizes or SGLANG_BATCH_SIZES),
        effort=request.effort,
        loader=loader,
        source=_source(request, tree),
        routing=_routing(request.routing),
        triton=triton,
        cache=(request.cache or _default_cache()).resolve(),
        journal=request.journal or out / f"{Path(name.file_name).stem}.journal",
        today=_today(request, tree, loader, Request(name=name, triton=triton)),
        budget_s=request.budget_s,
        driver=driver,
        sglang=version or "",
    )
    return _within_budget(session)


def _within_budget(session: Session) -> Session:
    """Lower the effort where the budget would not cover it: few tiles everywhere beat none."""
    if session.budget_s is None or session.expected_s() <= session.budget_s:
        return session
    return replace(session, effort="quick")


def _triton(request: TuneRequest) -> str:
    version = triton_version()
    if version is not None:
        return version
    if request.rehearse:
        return "0.0.0"
    raise MissingExtraError("advisor tune", "tune")


def _gpus(request: TuneRequest) -> tuple[tuple[int, ...], str, str]:
    """Return the numbers of the GPUs, their common name and driver."""
    if request.rehearse:
        return (
            tuple(int(gpu) for gpu in request.gpus if gpu.isdigit()) or (0,),
            REHEARSAL_DEVICE,
            "",
        )
    if request.away:
        return (), _named_device(request), ""
    there = local_gpus()
    if not there:
        raise ConfigError(
            "no NVIDIA GPU here (nvidia-smi finds none): tune on the server's machine; here "
            "--gpu NAME shows the plan with --dry-run or compiles ahead with --precompile"
        )
    chosen = _chosen(request, there)
    names = sorted({gpu.name for gpu in chosen})
    if len(names) > 1:
        raise ConfigError(
            f"the GPUs differ ({', '.join(names)}): tune each kind by itself with --gpu N"
        )
    return tuple(gpu.index for gpu in chosen), names[0], chosen[0].driver


def _chosen(request: TuneRequest, there: tuple[LocalGpu, ...]) -> tuple[LocalGpu, ...]:
    if not request.gpus:
        return tuple(gpu for gpu in there if not gpu.busy) or there
    by_index = {str(gpu.index): gpu for gpu in there}
    for wanted in request.gpus:
        if wanted not in by_index:
            raise ConfigError(f"no GPU {wanted} here; there are {', '.join(by_index)}")
    return tuple(by_index[wanted] for wanted in dict.fromkeys(request.gpus))


def _named_device(request: TuneRequest) -> str:
    """Return torch's name of the one GPU that is named."""
    if len(request.gpus) != 1 or request.gpus[0].isdigit():
        raise ConfigError("name the GPU to compile for, like --gpu H200")
    target_of_gpu(request.gpus[0])
    gpu = find_gpu(request.gpus[0])
    return (gpu.torch_name if gpu else None) or request.gpus[0]


def busy_gpus(session: Session) -> tuple[str, ...]:
    """Return one line for each GPU of a session that somebody else uses; none if all are free."""
    return tuple(
        f"GPU {gpu.index} ({gpu.name}) is in use: {gpu.used_mib} of {gpu.total_mib} MiB"
        + (f", by {'; '.join(gpu.processes)}" if gpu.processes else "")
        for gpu in local_gpus()
        if gpu.index in session.gpus and gpu.busy and session.device != REHEARSAL_DEVICE
    )


def _problem(request: TuneRequest, device: str, target: Target, triton: str) -> MoeProblem:
    if request.log is not None and request.shape is None:
        missing = missing_in_log(readable_log(request.log))
        if not request.rehearse:
            check_place(missing, device, triton)
        return problem_of_log(request.log, missing, request.model)
    if request.log is not None or (request.model is None) == (request.shape is None):
        raise ConfigError("say what to tune: --from LOG, --model PATH, or --shape E,N,K,TOPK")
    if request.model is not None:
        model = read_model(request.model)
        split = Parallelism(tensor=request.tensor_parallel, expert=request.expert_parallel)
        return moe_shape(model, split, device=device, sm=target.sm).problem
    return _explicit_problem(request)


def _explicit_problem(request: TuneRequest) -> MoeProblem:
    shape = request.shape or ()
    if len(shape) != _SHAPE_PARTS:
        raise ConfigError("--shape takes four numbers: E,N,K,TOPK, like 128,768,2048,8")
    block = request.block_shape
    if block is not None and len(block) != 2:  # noqa: PLR2004
        raise ConfigError("--block-shape takes two numbers, like 128,128")
    experts, width, hidden, top_k = shape
    dtype = None if request.dtype in {None, "bf16", "fp16"} else ExpertDtype(request.dtype or "")
    return MoeProblem(
        experts=experts,
        width=width,
        hidden=hidden,
        top_k=top_k,
        dtype=dtype,
        block_shape=(block[0], block[1]) if block else None,
        per_channel=dtype is ExpertDtype.INT8_W8A8 and block is None,
        activation="fp16" if request.dtype == "fp16" else "bf16",
    )


def _tree(request: TuneRequest) -> SglangTree | None:
    """Return the server's SGLang: the named one, else the one installed beside us."""
    if request.sglang is not None:
        return open_tree(request.sglang, version=request.sglang_version)
    found = importlib.util.find_spec("sglang")
    places = list(found.submodule_search_locations or ()) if found else []
    if not places:
        return None
    try:
        return open_tree(Path(places[0]), version=request.sglang_version)
    except InputError:
        return None


def _source(request: TuneRequest, tree: SglangTree | None) -> KernelSource:
    if request.kernel == "server" and tree is None:
        raise ConfigError("--kernel server needs the server's SGLang: add --sglang DIR")
    if request.kernel == "bundled" or tree is None:
        return bundled_source()
    return server_source(tree.package)


def _routing(text: str) -> Routing:
    if text in {RoutingKind.UNIFORM, RoutingKind.ZIPF}:
        return Routing(kind=RoutingKind(text))
    return read_routing(Path(text))


def _default_cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "sglang-advisor" / "triton"


def _today(
    request: TuneRequest, tree: SglangTree | None, loader: Loader, wanted: Request
) -> Lookup | None:
    """Return what the server finds: the named file, its overlay, or its bundled files."""
    if request.today is not None:
        return _from_file(request.today)
    if tree is None:
        return None
    overlay = os.environ.get("SGLANG_MOE_CONFIG_DIR")
    files = DiskFiles(folder=Path(overlay)) if overlay else tree.files
    found = lookup(wanted, files, loader)
    if found.up.source is Source.CRASH:
        raise ConfigError(f"the server's own look-up stops: {found.up.reason}; mend that first")
    return found


def _from_file(path: Path) -> Lookup:
    file = read_config(path)
    up, down = (file.sibling, file.table) if file.name.down else (file.table, file.sibling)
    return Lookup(up=_outcome(up, path), down=_outcome(down, path), lines=())


def _outcome(table: ConfigTable | None, path: Path) -> Outcome:
    if table is None:
        return Outcome(source=Source.DEFAULT, wanted=None)
    return Outcome(source=Source.EXACT, wanted=None, path=str(path), table=table)
