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
from advisor.knowledge.ranges import VersionRange
from advisor.sources.records import Evidence


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Graphs:
    """CUDA graphs: sizes captured, time and memory they took, over all captures of a rank."""

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
class CapacityLimit:
    """One bound of the concurrency or of the token pool, with its arithmetic.

    `value` is None where only `low` and `high` (None: no end) are known; `missing` names the
    inputs that would settle it. `binds` is None where the inputs do not tell.
    """

    name: str
    value: int | None
    low: int
    high: int | None
    binds: bool | None
    formula: str
    inputs: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityKnob:
    """One flag that raises the concurrency of a worker to `reaches`, with what it costs.

    `value` is empty for a switch; `cost_gib` is memory taken from elsewhere on each GPU, None
    where the inputs do not tell.
    """

    flag: str
    value: str
    reaches: int
    formula: str
    stops_at: str
    cost_gib: float | None
    cost: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityFacts:
    """The scheduler's capacity line; with DP attention the numbers are per worker.

    `slots_per_request` is known where the state pool of a hybrid model sets the limit: the state
    slots that one request takes, so that slots // slots_per_request = max_running_requests.

    `limits` are the bounds of max_running_requests as SGLang computes them, `binding_limit` the
    name of the smallest (requested, speculative_default, deepseek_v4_default, token_estimate,
    half_of_tokens, state_slots), `next_limit` the one behind it. `verdict` says how the recomputed
    value stands to the logged one: verified, contradicts or cannot tell. `token_limits` and its
    kin are the same for max_total_num_tokens (kv_memory, max_total_tokens).

    `knobs` are what to turn to reach `target` requests of one worker, cheapest first;
    `target_reason` is `requested` (more was asked for) or `queue` (requests waited at the limit).
    """

    max_running_requests: int | None = None
    requested_max_running_requests: int | None = None
    max_total_num_tokens: int | None = None
    chunked_prefill_size: int | None = None
    max_prefill_tokens: int | None = None
    context_length: int | None = None
    available_gpu_gib: float | None = None
    slots_per_request: int | None = None
    state_slots: int | None = None
    state_bytes: int | None = None
    kv_cell_bytes: int | None = None
    binding_limit: str | None = None
    binding_formula: str | None = None
    next_limit: str | None = None
    next_limit_value: int | None = None
    next_formula: str | None = None
    recomputed: int | None = None
    verdict: str | None = None
    verdict_reason: str | None = None
    releases: tuple[str, ...] = ()
    limits: tuple[CapacityLimit, ...] = ()
    token_binding_limit: str | None = None
    token_verdict: str | None = None
    token_verdict_reason: str | None = None
    token_limits: tuple[CapacityLimit, ...] = ()
    target: int | None = None
    target_reason: str | None = None
    knobs: tuple[CapacityKnob, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFacts:
    """Memory of the tightest rank, GiB, in the order in which the log gives it.

    `before_spread_ratio` is the least free memory over the most, over ranks, before the weights.
    `taken_ratio` is the share of the tightest GPU that was taken before the weights.
    """

    before_weights_gib: float | None = None
    before_weights_max_gib: float | None = None
    before_spread_ratio: float | None = None
    taken_ratio: float | None = None
    weights_gib: float | None = None
    draft_weights_gib: float | None = None
    draft_kv_gib: float | None = None
    after_weights_gib: float | None = None
    kv_gib: float | None = None
    kv_tokens: int | None = None
    kv_dtype: str | None = None
    mamba_gib: float | None = None
    mamba_slots: int | None = None
    mamba_state_gib: float | None = None
    mamba_intermediate_gib: float | None = None
    after_pools_gib: float | None = None
    tightest_rank: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One phase of the start-up. `seconds` is None while its end is not in the log."""

    name: str
    began: datetime | None
    seconds: float | None
    basis: str
    evidence: Evidence | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """How far the start came and how long it took.

    `shard_s` is the mean time per checkpoint shard so far; `after_shards_s` what loading took
    beyond the bar of the shards; `deepgemm_s` the time in DeepGEMM's warm-up, as far as logged.
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
    phases: tuple[Phase, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The exception that ended the run: innermost cause first."""

    exception: str | None = None
    message: str | None = None
    outer_exception: str | None = None
    outer_message: str | None = None
    modules: tuple[str, ...] = ()
    phase: str | None = None
    fatal: bool | None = None
    child_failed: bool | None = None
    terminated: bool | None = None
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBucket:
    """The decode lines with `low` to `high` running requests; throughput is that of one scheduler."""

    low: int
    high: int
    lines: int
    mean_tokens_per_s: float
    eager_share: float
    queued_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLoad:
    """What one DP replica (and pipeline stage) did; `prefilled_tokens` without cached ones."""

    rank: str
    decode_lines: int
    prefill_lines: int
    prefilled_tokens: int
    mean_running: float | None
    max_token_usage: float | None
    max_queue: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """Aggregates of the Prefill and Decode lines; ratios are 0..1.

    A `share` is a share of decode lines. `eager_*` counts decode lines that ran without a CUDA
    graph. Values are per printing rank (one per DP replica), all replicas taken together.
    `prefix_swings` counts, while one request at a time is prefilled, how often a large prefill
    that reused nothing follows one that reused a large prefix.

    `prefilled_tokens` counts new and cached prompt tokens. `mean_accept_rate` is printed from
    0.5.6 on, and leaves the bonus token out from 0.5.12 on. `mean_occupancy_ratio` is printed from
    0.5.12 on. `retracted` is the retraction queue of a PD decode server, `retractions` counts the
    requests put back because the KV pool was full.

    `stalls` counts pauses of 10 s and more between the lines of a scheduler that had requests
    waiting; `idle_s` is the time in such pauses with none waiting, of the busiest scheduler.

    `decline_ratio` is the mean throughput of the last quarter of the run over that of the first,
    in the range of batch sizes (a power of two) that one scheduler printed most often;
    `decline_trend` is Kendall's tau over the run (-1 falls steadily), `decline_length_ratio` the
    same ratio for the cached tokens of the batch. All None below 200 such lines.

    `replica_token_ratio` is the fewest newly prefilled tokens of a DP replica over the mean of
    all that printed; None below 20 prefill lines per replica.
    """

    decode_lines: int | None = None
    prefill_lines: int | None = None
    duration_s: float | None = None
    max_running: int | None = None
    mean_running: float | None = None
    max_queue: int | None = None
    queued_share: float | None = None
    queued_at_cap_share: float | None = None
    max_token_usage: float | None = None
    mean_token_usage: float | None = None
    full_usage_share: float | None = None
    max_mamba_usage: float | None = None
    mean_mamba_usage: float | None = None
    max_swa_usage: float | None = None
    mean_swa_usage: float | None = None
    max_gpu_tier_usage: float | None = None
    max_cpu_tier_usage: float | None = None
    token_usage_when_queued: float | None = None
    mamba_usage_when_queued: float | None = None
    eager_decode_lines: int | None = None
    eager_share: float | None = None
    eager_min_running: int | None = None
    eager_max_running: int | None = None
    eager_beyond_captured_lines: int | None = None
    eager_beyond_captured_share: float | None = None
    graph_max_running: int | None = None
    mean_gen_tokens_per_s: float | None = None
    max_gen_tokens_per_s: float | None = None
    buckets: tuple[LoadBucket, ...] = ()
    mean_accept_length: float | None = None
    mean_accept_rate: float | None = None
    accept_lines: int | None = None
    mean_occupancy_ratio: float | None = None
    cached_ratio: float | None = None
    prefilled_tokens: int | None = None
    cached_tokens: int | None = None
    reused_prefills: int | None = None
    cold_prefills: int | None = None
    cold_large_prefills: int | None = None
    prefix_swings: int | None = None
    retracted: int | None = None
    retractions: int | None = None
    max_prealloc_queue: int | None = None
    max_transfer_queue: int | None = None
    max_bootstrap_queue: int | None = None
    max_inflight_queue: int | None = None
    stalls: int | None = None
    longest_stall_s: float | None = None
    idle_s: float | None = None
    decline_ratio: float | None = None
    decline_trend: float | None = None
    decline_length_ratio: float | None = None
    decline_lines: int | None = None
    replicas: tuple[ReplicaLoad, ...] = ()
    replica_token_ratio: float | None = None


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
    capacity: CapacityFacts = CapacityFacts()
    memory: MemoryFacts = MemoryFacts()
    startup: Startup = Startup()
    failure: Failure = Failure()
    serving: Serving = Serving()
    log: LogFacts = LogFacts()
    ranks: tuple[str, ...] = ()
    signals: Mapping[str, tuple[Signal, ...]] = field(default_factory=dict)
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
