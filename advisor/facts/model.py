"""What is true of one run of a server: typed, frozen, None where the inputs do not say.

The field paths of `RunFacts` (such as `capacity.max_running_requests`) are the vocabulary of the
rules; `evidence` tells for a path where its value was read. Sizes that SGLang prints as "GB" are
GiB (it divides by 2**30), and are named so here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from advisor.facts.literals import Value
from advisor.facts.model_resources import (
    CapacityFacts,
    CapacityKnob,
    CapacityLimit,
    MemoryCheck,
    MemoryFacts,
    MemoryStep,
    RankUse,
)
from advisor.facts.model_serving import LoadBucket, ReplicaLoad, Serving
from advisor.knowledge.ranges import VersionRange
from advisor.sources.records import Evidence

__all__ = [
    "CapacityFacts",
    "CapacityKnob",
    "CapacityLimit",
    "ChangedArgument",
    "Failure",
    "GpuFacts",
    "Graphs",
    "LoadBucket",
    "LogFacts",
    "MemoryCheck",
    "MemoryFacts",
    "MemoryStep",
    "MoeFacts",
    "MoeLookup",
    "MoeOutcome",
    "Parallel",
    "Phase",
    "RankUse",
    "ReplicaLoad",
    "RunFacts",
    "Serving",
    "Signal",
    "Startup",
    "Versions",
]


class MoeOutcome(StrEnum):
    """How the look-up of one MoE kernel configuration ended."""

    EXACT = "exact"
    FALLBACK = "fallback"
    REUSE_UP = "reuse_up"
    DEFAULT = "default"
    DETERMINISTIC = "deterministic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Versions of the server's software.

    `sglang` is the range of releases that fits the log, `sglang_basis` says how it was found.
    """

    sglang: VersionRange | None = None
    sglang_basis: str | None = None
    triton: str | None = None
    torch: str | None = None
    nccl: str | None = None
    driver: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFacts:
    """The GPUs of the run: `sm` is the compute capability times ten, such as 90 or 120."""

    name: str | None = None
    device_name: str | None = None
    sm: int | None = None
    shared_memory_bytes: int | None = None
    memory_gib: float | None = None
    count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallel:
    """The parallel layout, from the arguments or else from the rank labels."""

    tensor: int | None = None
    data: int | None = None
    pipeline: int | None = None
    expert: int | None = None
    nodes: int | None = None
    node_rank: int | None = None
    dp_attention: bool | None = None
    world: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedArgument:
    """An argument that SGLang set to another value than the one asked for, and the line."""

    name: str
    requested: Value
    effective: Value
    evidence: Evidence | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeLookup:
    """One look-up of a fused-MoE kernel configuration, the same message of all ranks joined.

    `experts` and `width` are the E and N of the file name (experts on the rank, width of one of
    gate and up per rank); `projection` is `up` or `down`.
    """

    projection: str
    outcome: MoeOutcome
    experts: int
    width: int
    device_name: str
    dtype: str | None
    block_shape: tuple[int, int] | None
    per_channel: bool
    triton: str | None
    file_name: str
    folder: str
    used_path: str | None
    used_triton: str | None
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeFacts:
    """The MoE side of the run: look-ups in log order, and the outcome for the first shape.

    `up_outcomes` are those of all shapes: a draft model may look up another one than the target.
    `sglang_folder` is where the server's SGLang lies, by the paths of its look-ups.
    """

    lookups: tuple[MoeLookup, ...] = ()
    up_outcomes: tuple[str, ...] | None = None
    up_outcome: str | None = None
    down_outcome: str | None = None
    experts: int | None = None
    width: int | None = None
    dtype: str | None = None
    triton: str | None = None
    runner: str | None = None
    config_folder: str | None = None
    overlay: bool | None = None
    sglang_folder: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Graphs:
    """CUDA graphs: sizes captured, time and memory they took, over all captures of a rank.

    `prefill_off_reasons` is why this release switches prefill graphs off for these arguments.
    """

    prefill_off_reasons: tuple[str, ...] | None = None
    decode_sizes: tuple[int, ...] | None = None
    decode_max_batch: int | None = None
    decode_capture_s: float | None = None
    decode_gib: float | None = None
    decode_begun: bool | None = None
    decode_done: bool | None = None
    prefill_sizes: tuple[int, ...] | None = None
    prefill_max_tokens: int | None = None
    prefill_capture_s: float | None = None
    prefill_gib: float | None = None
    prefill_begun: bool | None = None
    prefill_done: bool | None = None
    draft_begun: bool | None = None
    draft_done: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One phase of the start-up. `seconds` is None while its end is not in the log.

    The time is that of the slowest of `ranks`, by its own line (`basis` logged) or by the time
    stamps of its lines, which have whole seconds. A `nested` phase runs inside another one. What
    is paid `once` is saved by keeping `cache` between starts.
    """

    name: str
    began: datetime | None
    seconds: float | None
    basis: str
    evidence: Evidence | None
    slowest_rank: str | None = None
    ranks: int | None = None
    nested: bool = False
    once: bool = False
    cache: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """How far the start came and how long it took.

    `shard_s` is the mean time per checkpoint shard so far; `after_shards_s` what loading took
    beyond the bar of the shards; `deepgemm_s` the time in DeepGEMM's warm-up, as far as logged, and
    `deepgemm_late_shapes` how many shapes it compiled after the server was ready.

    Times count from the first time stamp of the log: what the interpreter took to import before
    it is in no line. `load_gib_per_s` is that of one rank. `once_s` is what warm caches save,
    `untold_s` the time until ready that no phase accounts for.
    """

    began: datetime | None = None
    last_seen: datetime | None = None
    ready: bool | None = None
    ready_s: float | None = None
    listening: bool | None = None
    last_phase: str | None = None
    open_phase: str | None = None
    open_phase_s: float | None = None
    distributed_begun: bool | None = None
    distributed_done: bool | None = None
    load_s: float | None = None
    load_begun: bool | None = None
    load_done: bool | None = None
    shards_total: int | None = None
    shards_done: int | None = None
    shards_s: float | None = None
    shard_s: float | None = None
    after_shards_s: float | None = None
    deepgemm_s: float | None = None
    deepgemm_begun: bool | None = None
    deepgemm_shapes: int | None = None
    deepgemm_late_shapes: int | None = None
    process_s: float | None = None
    load_gib_per_s: float | None = None
    kv_allocation_s: float | None = None
    decode_capture_s: float | None = None
    prefill_capture_s: float | None = None
    draft_capture_s: float | None = None
    autotune_s: float | None = None
    compile_s: float | None = None
    warmup_s: float | None = None
    once_s: float | None = None
    untold_s: float | None = None
    phases: tuple[Phase, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The exception that ended the run: innermost cause first.

    `modules` are those of the traceback's frames in their order, `raised_in` is the one that raised it.
    """

    exception: str | None = None
    message: str | None = None
    outer_exception: str | None = None
    outer_message: str | None = None
    modules: tuple[str, ...] = ()
    raised_in: str | None = None
    phase: str | None = None
    fatal: bool | None = None
    child_failed: bool | None = None
    terminated: bool | None = None
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """What kind of log this is: which parts of a run it holds.

    `name` is the first log's name as given; `secrets` names what was redacted; `divergent` lists
    messages that each rank should print but only some did.
    """

    name: str | None = None
    lines: int = 0
    has_arguments: bool = False
    has_startup: bool = False
    has_serving: bool = False
    secrets: tuple[str, ...] = ()
    divergent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One pattern of a rule as met in the run, equal captures of all ranks joined."""

    values: Mapping[str, str]
    evidence: Evidence
    time: datetime | None
    in_traceback: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """All facts of one run. `args` holds the effective arguments by field name."""

    model: str | None = None
    model_class: str | None = None
    versions: Versions = Versions()
    gpu: GpuFacts = GpuFacts()
    parallel: Parallel = Parallel()
    args: Mapping[str, Value] | None = None
    requested_args: Mapping[str, Value] | None = None
    changed_args: tuple[ChangedArgument, ...] = ()
    moe: MoeFacts = MoeFacts()
    graphs: Graphs = Graphs()
    capacity: CapacityFacts = field(default_factory=CapacityFacts)
    memory: MemoryFacts = field(default_factory=MemoryFacts)
    startup: Startup = Startup()
    failure: Failure = Failure()
    serving: Serving = field(default_factory=Serving)
    log: LogFacts = LogFacts()
    ranks: tuple[str, ...] = ()
    signals: Mapping[str, tuple[Signal, ...]] = field(default_factory=dict)
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
