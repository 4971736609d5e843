"""From what a user asks for to a session: shape, GPUs, kernel, and what the server has today."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.configs.files import read_config
from advisor.configs.loaders import Loader, loader_of_version
from advisor.configs.lookup import Request
from advisor.configs.models import read_model
from advisor.configs.names import ExpertDtype, MoeConfigName, device_in_file_name
from advisor.configs.pool import triton_version
from advisor.configs.problem import Gemm, MoeProblem, Target, target_of_gpu
from advisor.configs.shapes import Parallelism, moe_shape
from advisor.configs.source import KernelSource, bundled_source, server_source
from advisor.configs.trees import SglangTree, read_releases
from advisor.errors import ConfigError, MissingExtraError
from advisor.knowledge.environment import Environment
from advisor.knowledge.gpus import find_gpu, gpu_near_misses
from advisor.tuner.fromlog import Missing, named_config, sized
from advisor.tuner.gpus import LocalGpu, is_gpu_number, local_gpus
from advisor.tuner.holders import holder
from advisor.tuner.pool import compilers_for
from advisor.tuner.problem import (
    SGLANG_BATCH_SIZES,
    check_batch_sizes,
    check_problem,
    config_name,
)
from advisor.tuner.rehearsal import DEVICE as REHEARSAL_DEVICE
from advisor.tuner.routing import Routing, RoutingKind, read_routing
from advisor.tuner.server import OVERLAY_VARIABLE, Server, check_place, server_of
from advisor.tuner.session import Session
from advisor.tuner.today import check_launch, find_today, find_tree, today_of_file

_SHAPE_PARTS = 4
_REHEARSED_GPU = "H200"


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneRequest:
    """What a user asks for; None where the default is meant.

    Attributes:
        missing: A shape that a server's log reports without a file.
        models: Folders or config.json files; several only with a log.
        shape: E, N, K, top-k, in place of a model.
        environment: What a probe of the server's machine found.
        gpus: Numbers or, for a machine without GPU, one name.
        today: A config file that the server uses now.
        routing: `uniform`, `zipf` or the path of recorded loads.
        rehearse: Use a made-up GPU.
        away: No GPU is used here: compiling ahead, or a Ray cluster.
        dry_run: Only the plan is wanted; it may be for another machine.
    """

    missing: Missing | None = None
    models: tuple[Path, ...] = ()
    tensor_parallel: int = 1
    expert_parallel: int = 1
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    block_shape: tuple[int, ...] | None = None
    environment: Environment | None = None
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
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A session, and what is worth knowing about how it came to be, one line each."""

    session: Session
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where is tuned: `gpus` is empty elsewhere, `device` is torch's name of them all."""

    gpus: tuple[int, ...]
    device: str
    driver: str = ""
    seen: tuple[LocalGpu, ...] = ()
    note: str = ""


def session_of(request: TuneRequest) -> Session:
    """Decide everything that a run needs.

    Raises:
        AdvisorError: If something is missing, contradictory or unknown; the text says what to do.
    """
    return prepare(request).session


def prepare(request: TuneRequest) -> Prepared:
    """Decide everything that a run needs, and say what is worth knowing about it.

    Raises:
        AdvisorError: If something is missing, contradictory or unknown; the text says what to do.
    """
    server = _server(request)
    place = _place(request, server)
    triton = _triton(request, server, place)
    if not request.rehearse:
        check_place(server, place.device, triton)
    target = _target(_REHEARSED_GPU if request.rehearse else place.device)
    problem, origin = _problem(request, server, place.device, target)
    tree, doubt = find_tree(request.sglang, request.sglang_version, server)
    version = request.sglang_version or (tree.version if tree else server.exact_release)
    loader = loader_of_version(version or server.release or read_releases()[-1])
    name = config_name(check_problem(problem), place.device, Gemm.UP, loader)
    session = Session(
        problem=problem,
        target=target,
        device=place.device,
        gpus=place.gpus,
        compilers=request.compilers or compilers_for(len(place.gpus)),
        batch_sizes=check_batch_sizes(request.batch_sizes or SGLANG_BATCH_SIZES),
        effort=request.effort,
        loader=loader,
        source=_source(request, tree, loader),
        routing=_routing(request.routing, problem),
        triton=triton,
        cache=(request.cache or _default_cache()).resolve(),
        journal=request.journal or request.out / f"{Path(name.file_name).stem}.journal",
        today=today_of_file(request.today, _named_as(name, request), loader)
        if request.today
        else find_today(Request(name=name, triton=triton), tree, loader, server),
        budget_s=request.budget_s,
        driver=place.driver,
        seen=place.seen,
        sglang=version or "",
    )
    check_launch(session.today, loader)
    notes = (origin, place.note, _triton_note(triton), doubt)
    return Prepared(
        session=_within_budget(session),
        notes=tuple(filter(None, (*notes, *_notes(server, elsewhere=not place.gpus)))),
    )


def _notes(server: Server, *, elsewhere: bool) -> tuple[str, ...]:
    """Return what the server's log and probe say that a user should know."""
    told = server.describe()
    notes = [f"server: {told}"] if told else []
    if server.overlay is not None and not server.overlay.is_dir():
        notes.append(f"{server.overlay}, the server's {OVERLAY_VARIABLE}, is not here")
    if elsewhere and server.holders:
        held = "; ".join(server.holders)
        notes.append(f"when probed, a GPU was held by {held}: stop that before tuning")
    return tuple(notes)


def requests_for(request: TuneRequest, missing: tuple[Missing, ...]) -> tuple[TuneRequest, ...]:
    """Return a request for each missing shape: several get a folder each.

    Raises:
        ConfigError: If one journal is named for several shapes.
    """
    if len(missing) == 1:
        return (replace(request, missing=missing[0]),)
    if request.journal is not None:
        raise ConfigError(
            f"--journal holds one shape, the log lacks {len(missing)}: leave it out, each gets one"
        )
    today = read_config(request.today).name.for_down(down=False) if request.today else None
    if today is not None and today not in {one.name for one in missing}:
        raise ConfigError(f"--today {request.today} is of none of the shapes that the log lacks")
    return tuple(
        replace(
            request,
            missing=one,
            out=request.out / one.slug,
            today=request.today if one.name == today else None,
        )
        for one in missing
    )


def with_budget(session: Session, request: TuneRequest, budget_s: float | None) -> Session:
    """Return a session with another budget, and the effort that this allows."""
    return _within_budget(replace(session, effort=request.effort, budget_s=budget_s))


def _server(request: TuneRequest) -> Server:
    missing = request.missing
    if missing is None:
        return server_of(None, None, request.environment)
    return server_of(missing.run, missing.name.device, request.environment)


def _within_budget(session: Session) -> Session:
    """Lower the effort where the budget would not cover it: few tiles everywhere beat none."""
    if session.budget_s is None or session.expected_s() <= session.budget_s:
        return session
    return replace(session, effort="quick")


def _triton(request: TuneRequest, server: Server, place: _Place) -> str:
    """Return the Triton of a run here; of a plan for elsewhere the server's, if that is known."""
    here = triton_version()
    if request.dry_run and not place.gpus and server.triton is not None:
        return server.triton
    if here is not None:
        return here
    if request.rehearse:
        return "0.0.0"
    raise MissingExtraError("advisor tune", "tune")


def _triton_note(wanted: str) -> str:
    here = triton_version()
    if here is None or here == wanted:
        return ""
    return f"Triton {here} is installed here: tune with the server's Python, which has {wanted}"


def _place(request: TuneRequest, server: Server) -> _Place:
    """Return the GPUs, by number, with their common name and driver."""
    if request.rehearse:
        numbers = dict.fromkeys(int(gpu) for gpu in request.gpus if is_gpu_number(gpu))
        return _Place(gpus=tuple(numbers) or (0,), device=REHEARSAL_DEVICE)
    if request.away:
        return _Place(gpus=(), device=_named_device(request.gpus))
    there = local_gpus()
    kinds = {device_in_file_name(gpu.name) for gpu in there}
    if request.dry_run and not request.gpus and server.devices and not kinds & {*server.devices}:
        device = _torch_name(server.devices[0])
        such = "such GPU" if there else "GPU"
        return _Place(gpus=(), device=device, note=f"no {such} here: the plan is for {device}")
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
    return _Place(
        gpus=tuple(gpu.index for gpu in chosen),
        device=names[0],
        driver=chosen[0].driver,
        seen=chosen,
    )


def _chosen(request: TuneRequest, there: tuple[LocalGpu, ...]) -> tuple[LocalGpu, ...]:
    if not request.gpus:
        return tuple(gpu for gpu in there if not gpu.busy) or there
    by_index = {str(gpu.index): gpu for gpu in there}
    for wanted in request.gpus:
        if wanted not in by_index:
            raise ConfigError(f"no GPU {wanted} here; there are {', '.join(by_index)}")
    return tuple(by_index[wanted] for wanted in dict.fromkeys(request.gpus))


def _named_device(gpus: tuple[str, ...]) -> str:
    """Return torch's name of the one GPU that is named."""
    names = tuple(dict.fromkeys(gpus))
    if len(names) != 1 or is_gpu_number(names[0]):
        raise ConfigError("name the GPU that this is for, one kind, like --gpu H200")
    _target(names[0])
    return _torch_name(names[0])


def _target(device: str) -> Target:
    """Return what is compiled for.

    Raises:
        ConfigError: If no known GPU is meant.
    """
    if find_gpu(device) is None and not gpu_near_misses(device):
        raise ConfigError(f"unknown GPU {device!r}: tune is for NVIDIA GPUs, like H200 or B200")
    return target_of_gpu(device)


def _torch_name(text: str) -> str:
    """Return torch's name of a GPU, which file names write with underscores."""
    gpu = find_gpu(text)
    return (gpu.torch_name if gpu else None) or text.replace("_", " ")


def busy_gpus(session: Session) -> tuple[str, ...]:
    """Return one line for each GPU of a session that somebody else uses; none if all are free."""
    return tuple(
        f"GPU {gpu.index} ({gpu.name}) is in use"
        + (f": {gpu.used_mib} of {gpu.total_mib} MiB" if gpu.used_mib is not None else "")
        + (f", by {', '.join(holders)}" if (holders := _holders(gpu)) else "")
        for gpu in session.seen
        if gpu.busy
    )


def _holders(gpu: LocalGpu) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(holder, gpu.processes)))


def _problem(
    request: TuneRequest, server: Server, device: str, target: Target
) -> tuple[MoeProblem, str]:
    """Return the problem, and where its sizes are from if that was found out."""
    if request.missing is not None:
        found = sized(request.missing, request.models, server.caches)
        return found.problem, f"sizes: {found.config}"
    if request.shape is not None:
        return _explicit_problem(request), ""
    model = read_model(named_config(request.models[0], server.caches))
    parallelism = Parallelism(tensor=request.tensor_parallel, expert=request.expert_parallel)
    return moe_shape(model, parallelism, device=device, sm=target.sm).problem, ""


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
        expert_parallel=request.expert_parallel,
    )


def _source(request: TuneRequest, tree: SglangTree | None, loader: Loader) -> KernelSource:
    if request.kernel == "server" and tree is None:
        raise ConfigError("--kernel server needs the server's SGLang: add --sglang DIR")
    if request.kernel == "bundled" or tree is None:
        return bundled_source(early_launch=loader.early_launch)
    return server_source(tree.package)


def _named_as(name: MoeConfigName, request: TuneRequest) -> MoeConfigName:
    """Return the name that --today must have; in a rehearsal it may be of any GPU."""
    if not request.rehearse or request.today is None:
        return name
    return replace(name, device=read_config(request.today).name.device)


def _routing(text: str, problem: MoeProblem) -> Routing:
    if text in {RoutingKind.UNIFORM, RoutingKind.ZIPF}:
        return Routing(kind=RoutingKind(text))
    routing = read_routing(Path(text))
    if len(routing.weights) != problem.all_experts:
        raise ConfigError(
            f"--routing {text} has {len(routing.weights)} loads: one for each of the "
            f"{problem.all_experts} experts of all ranks is needed"
        )
    return routing


def _default_cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "sglang-advisor" / "triton"
