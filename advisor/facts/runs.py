"""Split what is read into runs: one log may hold several starts of a server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from advisor.facts.arguments import dumped_node
from advisor.facts.hits import SERVING_KEYS, Hit
from advisor.facts.run import RunCollector
from advisor.facts.unrecognised import UNRECOGNISED_KEY
from advisor.sources.records import Record
from advisor.sources.serving_lines import ServingBlock

if TYPE_CHECKING:
    from advisor.knowledge.environment import Environment

_DUMP = "server-args-dump"
_EARLY_HITS = 200


@dataclass(slots=True)
class RunSplitter:
    """Hands each hit to the run that it belongs to.

    A new run begins with an argument dump. Lines of the main process that come just before it
    (argument checks are logged before the dump) belong to the new run, so they are held back
    until the next line of a rank, or the next dump, shows whose they are.
    """

    environment: Environment | None = None
    runs: list[RunCollector] = field(default_factory=list)
    _held: list[tuple[Hit, bool]] = field(default_factory=list)

    def take(self, hit: Hit, *, is_signal: bool) -> None:
        """Give a hit to its run."""
        if hit.key == _DUMP:
            self._take_dump(hit)
            return
        if self._may_be_early(hit):
            self._held.append((hit, is_signal))
            return
        self._release(self._current())
        self._feed(self._current(), hit, is_signal=is_signal)

    def take_unrecognised(self, record: Record) -> None:
        """Give a warning or error that nothing knows to its run."""
        self.take(Hit(key=UNRECOGNISED_KEY, values={}, record=record), is_signal=False)

    def take_traceback(self, record: Record) -> None:
        """Give a whole traceback to the current run."""
        self._release(self._current())
        self._current().take_traceback(record)

    def take_serving(self, block: ServingBlock) -> None:
        """Give a block of serving lines to the current run."""
        self._release(self._current())
        self._current().take_serving(block)

    def see(self, record: Record) -> None:
        """Note that the log goes on to the time of this record."""
        self._release(self._current())
        self._current().startup.see(record.time)

    def finish(self) -> tuple[RunCollector, ...]:
        """Return the runs in order, at least one; lines held back belong to the last one."""
        self._release(self._current())
        return tuple(self.runs)

    def _take_dump(self, hit: Hit) -> None:
        current = self.runs[-1] if self.runs else None
        if current is None or self._begins_run(current, hit):
            current = self._new_run()
        current.nodes.add(dumped_node(hit)[1])
        self._release(current)
        self._feed(current, hit, is_signal=False)

    def _begins_run(self, run: RunCollector, hit: Hit) -> bool:
        """Whether a dump belongs to another run than the current one.

        The other nodes of a multi-node start print dumps of their own into a shared log.
        """
        if run.arguments.evidence is None:
            return run.begun
        nodes, node_rank = dumped_node(hit)
        joins = nodes > 1 and node_rank not in run.nodes and not run.over and not run.ready
        if joins:
            run.nodes.add(node_rank)
        return not joins

    def _may_be_early(self, hit: Hit) -> bool:
        """Whether a line may come from the argument checks of a start that is yet to be seen."""
        if hit.record.ranks or hit.in_traceback or len(self._held) >= _EARLY_HITS:
            return False
        if hit.key in SERVING_KEYS:
            return False
        return not self.runs or self.runs[-1].over

    def _current(self) -> RunCollector:
        return self.runs[-1] if self.runs else self._new_run()

    def _new_run(self) -> RunCollector:
        run = RunCollector()
        run.identity.environment = self.environment
        self.runs.append(run)
        return run

    def _release(self, run: RunCollector) -> None:
        held, self._held = self._held, []
        for hit, is_signal in held:
            self._feed(run, hit, is_signal=is_signal)

    @staticmethod
    def _feed(run: RunCollector, hit: Hit, *, is_signal: bool) -> None:
        if hit.key == UNRECOGNISED_KEY:
            run.unrecognised.take(hit.record)
        elif is_signal:
            run.take_signal(hit)
        else:
            run.take(hit)
