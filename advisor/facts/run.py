"""One run of a server: collectors fed in log order, then frozen facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from advisor.facts.arguments import ArgumentCollector, Arguments
from advisor.facts.capacity import CapacitySources, explain
from advisor.facts.failure import FailureCollector
from advisor.facts.graph_reasons import prefill_off_reasons
from advisor.facts.graphs import GraphCollector
from advisor.facts.hits import SERVING_KEYS, Hit, rank_order
from advisor.facts.identity import IdentityCollector
from advisor.facts.literals import Value
from advisor.facts.memory import MemoryCollector
from advisor.facts.model import CapacityFacts, LogFacts, MemoryFacts, RunFacts, Startup
from advisor.facts.moe import MoeCollector
from advisor.facts.serving import ServingCollector
from advisor.facts.signals import SignalCollector
from advisor.facts.startup import StartupCollector
from advisor.facts.unrecognised import UnrecognisedCollector
from advisor.facts.waterfall import MemorySources, explain_memory
from advisor.knowledge.ranges import VersionRange
from advisor.sources.records import Evidence, Record, parse_time
from advisor.sources.serving_lines import ServingBlock

_STARTUP_KEYS = (
    "torch-distributed-begin",
    "load-weight-begin",
    "load-weight-end",
    "kv-cache-allocated",
    "memory-pool-end",
    "capacity-line",
    "graph-begin-old",
    "graph-begin-new",
)


@dataclass(slots=True)
class RunCollector:
    """Everything known of one run while its log is read."""

    arguments: ArgumentCollector = field(default_factory=ArgumentCollector)
    identity: IdentityCollector = field(default_factory=IdentityCollector)
    moe: MoeCollector = field(default_factory=MoeCollector)
    graphs: GraphCollector = field(default_factory=GraphCollector)
    memory: MemoryCollector = field(default_factory=MemoryCollector)
    startup: StartupCollector = field(default_factory=StartupCollector)
    failure: FailureCollector = field(default_factory=FailureCollector)
    serving: ServingCollector = field(default_factory=ServingCollector)
    signals: SignalCollector = field(default_factory=SignalCollector)
    unrecognised: UnrecognisedCollector = field(default_factory=UnrecognisedCollector)
    hits: int = 0
    nodes: set[int] = field(default_factory=set)
    _ranks: dict[str, None] = field(default_factory=dict)
    _has_startup: bool = False

    def take(self, hit: Hit) -> None:
        """Feed one fact line to every collector that may know it."""
        self.hits += 1
        self._see(hit.record)
        self._has_startup = self._has_startup or hit.key in _STARTUP_KEYS
        if hit.key in SERVING_KEYS:
            self.serving.take(hit)
            return
        for collector in (
            self.arguments,
            self.identity,
            self.moe,
            self.graphs,
            self.startup,
            self.failure,
            self.serving,
        ):
            collector.take(hit)
        self.memory.take(hit)

    def take_serving(self, block: ServingBlock) -> None:
        """Feed a block of serving lines to their collector."""
        self.serving.take_block(block)
        for lines in block.lines:
            self.hits += len(lines)
            for time in (lines.times[0], lines.times[-1]):
                self.startup.see(parse_time(time.decode("ascii", "replace")))
            if lines.rank:
                self._ranks.setdefault(lines.rank)

    def take_signal(self, hit: Hit) -> None:
        """Count one hit of a rule's pattern."""
        self.hits += 1
        self._see(hit.record)
        self.signals.take(hit)

    def take_traceback(self, record: Record) -> None:
        """Note one whole traceback; one that runs through SGLang counts as a line of its log."""
        self._see(record)
        self.hits += self.failure.take_traceback(record).concerns_sglang

    @property
    def begun(self) -> bool:
        """Whether a rank of this run has begun to work."""
        return self._has_startup

    @property
    def ready(self) -> bool:
        """Whether the server said that it is ready."""
        return self.startup.ready

    @property
    def over(self) -> bool:
        """Whether the run was seen to end: what follows without a rank may be the next start."""
        return self.failure.ended

    @property
    def releases(self) -> VersionRange | None:
        """The releases of SGLang that this run may be of."""
        return self.identity.versions(self.arguments.result(), self.moe.result()).sglang

    def _see(self, record: Record) -> None:
        self.startup.see(record.time)
        if record.ranks:
            self._ranks.setdefault(record.rank)

    def result(
        self, *, name: str | None = None, lines: int = 0, secrets: tuple[str, ...] = ()
    ) -> RunFacts:
        """Freeze what was collected."""
        arguments = self.arguments.result()
        startup = self.startup.result()
        graphs = self.graphs.result()
        moe = self.moe.result()
        ranks = tuple(sorted(self._ranks, key=rank_order))
        gpu = self.identity.gpu(moe, ranks)
        requested = arguments.effective or {}
        parallel = self.identity.parallel(arguments.effective, ranks)
        versions = self.identity.versions(arguments, moe)
        failure = self.failure.result(phase=startup.open_phase)
        serving = self.serving.result(
            cap=self.memory.capacity().max_running_requests, captured=graphs.decode_max_batch
        )
        capacity = explain(
            CapacitySources(
                capacity=self._capacity(arguments),
                memory=self.memory,
                args=arguments.effective,
                requested=arguments.requested,
                dumped=bool(arguments.field_names),
                changed=arguments.changed,
                releases=versions.sglang,
                parallel=parallel,
                model_class=self.memory.model_class,
                serving=serving,
            )
        )
        memory = explain_memory(
            MemorySources(
                memory=self.memory,
                facts=self.memory.result(gpu_gib=gpu.memory_gib),
                capacity=capacity,
                args=arguments.effective if arguments.field_names else None,
                releases=versions.sglang,
                parallel=parallel,
                gpu=gpu,
                failure=failure,
                served=startup.ready is True or serving.decode_lines is not None,
            )
        )
        return RunFacts(
            model=_text(requested.get("model_path")),
            model_class=self.memory.model_class,
            versions=versions,
            gpu=gpu,
            parallel=parallel,
            args=arguments.effective,
            requested_args=arguments.requested,
            changed_args=arguments.changed,
            moe=moe,
            graphs=replace(
                graphs,
                prefill_off_reasons=prefill_off_reasons(
                    arguments.effective, self.memory.model_class, versions.sglang
                ),
            ),
            capacity=capacity,
            memory=memory,
            startup=_with_throughput(startup, memory, requested),
            failure=failure,
            serving=serving,
            log=LogFacts(
                name=name,
                lines=lines,
                has_arguments=arguments.effective is not None,
                has_startup=self._has_startup,
                has_serving=serving.decode_lines is not None,
                secrets=secrets,
            ),
            ranks=ranks,
            signals=self.signals.result(),
            evidence=self._evidence(),
        )

    def _capacity(self, arguments: Arguments) -> CapacityFacts:
        """Return the capacity line, with the limit as it was before a rank lowered it."""
        dumped = self.arguments.dumped("max_running_requests")
        asked = dumped or (arguments.effective or {}).get("max_running_requests")
        return replace(
            self.memory.capacity(),
            requested_max_running_requests=asked if isinstance(asked, int) else None,
        )

    def _evidence(self) -> Mapping[str, Evidence]:
        found = dict(self.memory.evidence)
        found.update(self.identity.evidence)
        found.update(self.graphs.evidence)
        found.update(self.serving.evidence)
        failure = self.failure.result(phase=None).evidence
        if failure is not None:
            found["failure.exception"] = failure
        if self.arguments.evidence is not None:
            found["args"] = self.arguments.evidence
        for name in ("distributed init", "weight loading"):
            if (evidence := self.startup.evidence_of(name)) is not None:
                found[f"startup.{name}"] = evidence
        if self.startup.shard_evidence is not None:
            found["startup.shards"] = self.startup.shard_evidence
        return found


def _with_throughput(startup: Startup, memory: MemoryFacts, args: Mapping[str, Value]) -> Startup:
    """Add how fast weights were read; dummy weights are read from nowhere."""
    seconds, gib = startup.load_s, memory.weights_gib
    if not seconds or seconds < 1 or gib is None or args.get("load_format") == "dummy":
        return startup
    return replace(startup, load_gib_per_s=gib / seconds)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
