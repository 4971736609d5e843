"""Memory and capacity lines; the tightest rank speaks for the run.

Lines of `model_executor/model_runner.py`, `mem_cache/memory_pool.py` and `managers/scheduler.py`.
A draft model prints its own weight and KV lines after those of the target.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from advisor.facts.graphs import graph_kind
from advisor.facts.hits import Hit
from advisor.facts.model import CapacityFacts, MemoryFacts
from advisor.facts.rank_memory import Pool, RankMemory, Stage, headroom, total
from advisor.sources.records import Evidence

_SLOTS_PER_REQUEST = (5, 4, 3)
_KEYS = frozenset(
    {
        "load-weight-begin",
        "load-weight-end",
        "kv-cache-allocated",
        "kv-post-capture-size",
        "mamba-cache-allocated",
        "memory-pool-end",
        "kv-cache-dtype",
        "capacity-line",
        "torch-distributed-end",
        "graph-begin-old",
        "graph-begin-new",
        "graph-piecewise-begin",
        "graph-end-old",
        "graph-end-new",
        "swa-pool",
        "swa-pool-split",
        "kv-budget-reserve",
    }
)
_GRAPH_KEYS = frozenset(key for key in _KEYS if key.startswith("graph-"))


@dataclass(slots=True)
class MemoryCollector:
    """Keeps the memory lines of each rank, and the capacity line."""

    ranks: dict[str, RankMemory] = field(default_factory=dict)
    evidence: dict[str, Evidence] = field(default_factory=dict)
    reserved_gib: float = 0.0
    sliding_window: bool = False
    _kv_dtype: str | None = None
    _capacity: CapacityFacts | None = None

    def take(self, hit: Hit) -> None:
        """Note one line about weights, pools, graphs or capacity."""
        if hit.key not in _KEYS:
            return
        rank = self.ranks.setdefault(hit.record.rank, RankMemory())
        rank.last_gib = _free_gib(hit, rank.last_gib)
        if hit.key in _GRAPH_KEYS:
            _take_graph(rank, hit)
            return
        match hit.key:
            case "load-weight-begin":
                self._take_load(rank, hit)
            case "load-weight-end":
                self._take_weights(rank, hit)
            case "kv-cache-allocated" | "kv-post-capture-size":
                self._take_pool(rank, hit)
            case "mamba-cache-allocated":
                self._take_mamba(rank, hit)
            case "memory-pool-end":
                rank.after_pools_gib = rank.after_pools_gib or hit.number("avail_mem")
                rank.stage = Stage.STANDING
                self._note("memory.after_pools_gib", hit)
            case "capacity-line":
                self._take_capacity(hit)
            case _:
                self._take_other(rank, hit)

    def _take_other(self, rank: RankMemory, hit: Hit) -> None:
        match hit.key:
            case "kv-cache-dtype":
                self._kv_dtype = self._kv_dtype or hit.values.get("dtype")
            case "torch-distributed-end":
                rank.distributed_gib = rank.distributed_gib or hit.number("mem_usage")
            case "kv-budget-reserve":
                self.reserved_gib = hit.number("reserved") or 0.0
            case _:
                self.sliding_window = True

    def _take_load(self, rank: RankMemory, hit: Hit) -> None:
        rank.stage = Stage.WEIGHTS
        if rank.loads == 0:
            rank.before_weights_gib = hit.number("avail_mem")
            self._note("memory.before_weights_gib", hit)

    def _take_weights(self, rank: RankMemory, hit: Hit) -> None:
        rank.loads += 1
        rank.stage = Stage.POOLS
        if not rank.pools and rank.mamba_ssm_gib is None:
            rank.before_pools_gib = hit.number("avail_mem")
        if rank.loads == 1:
            rank.weights_gib = hit.number("mem_usage")
            rank.after_weights_gib = hit.number("avail_mem")
            rank.model_class = hit.values.get("model_class")
            self._note("memory.weights_gib", hit)
        else:
            rank.draft_weights_gib = hit.number("mem_usage")
            self._note("memory.draft_weights_gib", hit)

    def _take_pool(self, rank: RankMemory, hit: Hit) -> None:
        if hit.values.get("how") == "VA upper bound":
            return
        sizes = [hit.number(name) for name in ("k_size", "v_size", "kv_size")]
        rank.pools.append(
            Pool(
                tokens=hit.integer("tokens") or 0,
                gib=sum(size for size in sizes if size is not None),
                dtype=hit.values.get("dtype"),
                draft=rank.after_pools_gib is not None or "draft" in hit.values,
            )
        )
        self._note("memory.kv_gib", hit)

    def _take_mamba(self, rank: RankMemory, hit: Hit) -> None:
        if rank.mamba_ssm_gib is not None:
            return
        rank.mamba_slots = hit.integer("slots")
        rank.mamba_conv_gib, rank.mamba_ssm_gib = hit.number("conv"), hit.number("ssm")
        inner = [hit.number(name) for name in ("inter_ssm", "inter_conv")]
        rank.mamba_intermediate_gib = sum(size for size in inner if size is not None)
        self._note("memory.mamba_slots", hit)

    def _take_capacity(self, hit: Hit) -> None:
        self._note("capacity.max_running_requests", hit)
        self._note("capacity.max_total_num_tokens", hit)
        running = hit.integer("running")
        tightest = self._capacity.max_running_requests if self._capacity else None
        if tightest is not None and running is not None and running >= tightest:
            return
        self._capacity = CapacityFacts(
            max_running_requests=running,
            max_total_num_tokens=hit.integer("tokens"),
            chunked_prefill_size=hit.integer("chunk"),
            max_prefill_tokens=hit.integer("prefill"),
            context_length=hit.integer("context"),
            available_gpu_gib=hit.number("avail"),
        )

    def _note(self, path: str, hit: Hit) -> None:
        self.evidence.setdefault(path, hit.record.evidence())

    @property
    def tightest(self) -> tuple[str, RankMemory]:
        """The rank with the least memory left; there must be one."""
        return min(self.ranks.items(), key=lambda item: headroom(item[1]))

    @property
    def model_class(self) -> str | None:
        """The class of the target model that was really loaded."""
        return next((rank.model_class for rank in self.ranks.values() if rank.model_class), None)

    def capacity(self) -> CapacityFacts:
        """Return the capacity line of the worker with the fewest running requests."""
        if self._capacity is None:
            return CapacityFacts()
        slots = next((rank.mamba_slots for rank in self.ranks.values() if rank.mamba_slots), None)
        return replace(
            self._capacity,
            slots_per_request=slots_per_request(slots, self._capacity.max_running_requests),
        )

    def result(self, *, gpu_gib: float | None = None) -> MemoryFacts:
        """Return the figures of the rank with the least memory left, and the spread before.

        `gpu_gib` is the whole memory of the GPU, where known.
        """
        if not self.ranks:
            return MemoryFacts()
        befores = [
            rank.before_weights_gib
            for rank in self.ranks.values()
            if rank.before_weights_gib is not None
        ]
        name, rank = self.tightest
        pool = rank.pools[0] if rank.pools else None
        return MemoryFacts(
            before_weights_gib=min(befores, default=None),
            before_weights_max_gib=max(befores, default=None),
            before_spread_ratio=min(befores) / max(befores) if any(befores) else None,
            taken_ratio=1 - min(befores) / gpu_gib if befores and gpu_gib else None,
            weights_gib=rank.weights_gib,
            draft_weights_gib=rank.draft_weights_gib,
            after_weights_gib=rank.after_weights_gib,
            draft_kv_gib=rank.pool_gib(draft=True),
            kv_gib=rank.pool_gib(draft=False),
            kv_tokens=None if pool is None else pool.tokens,
            kv_dtype=(None if pool is None else pool.dtype) or self._kv_dtype,
            mamba_gib=total(rank.mamba_state_gib, rank.mamba_intermediate_gib),
            mamba_slots=rank.mamba_slots,
            mamba_state_gib=rank.mamba_state_gib,
            mamba_intermediate_gib=rank.mamba_intermediate_gib,
            after_pools_gib=rank.after_pools_gib,
            tightest_rank=name or None,
        )


def slots_per_request(slots: int | None, running: int | None) -> int | None:
    """Return how many state slots a request takes, where the state pool sets the limit.

    SGLang admits slots // n requests, n being 5, 4 or 3 by the radix cache's strategy for states
    (`mem_cache/kv_cache_configurator.py`, `model_executor/model_runner_kv_cache_mixin.py`); with
    the radix cache off it is 1, and the pool follows the limit instead. None: another limit binds.

    >>> slots_per_request(132, 26)
    5
    """
    if not slots or not running:
        return None
    return next((count for count in _SLOTS_PER_REQUEST if slots // count == running), None)


def _free_gib(hit: Hit, before: float | None) -> float | None:
    """Return the free GPU memory that a line prints, else what was known before."""
    free = hit.number("avail_mem") or hit.number("avail_first")
    if hit.key == "capacity-line" and hit.values.get("dev") == "gpu":
        free = hit.number("avail")
    return before if free is None else free


def _take_graph(rank: RankMemory, hit: Hit) -> None:
    """Note a capture: its memory adds up over the captures of one kind."""
    rank.stage = Stage.CAPTURED if "end" in hit.key else Stage.GRAPHS
    gib = hit.number("mem_usage")
    if gib is None:
        return
    match graph_kind(hit):
        case "draft":
            rank.draft_graph_gib = total(rank.draft_graph_gib, gib)
        case "prefill":
            rank.prefill_graph_gib = total(rank.prefill_graph_gib, gib)
        case _:
            rank.decode_graph_gib = total(rank.decode_graph_gib, gib)
