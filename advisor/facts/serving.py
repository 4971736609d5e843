"""Running aggregates of the Prefill and Decode lines of every release, in bounded memory.

One line per DP replica (and pipeline stage) that prints; the decode line comes every
`--decode-log-interval` steps, 40 by default (managers/scheduler_metrics_mixin.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from advisor.facts.hits import Hit, seconds_between
from advisor.facts.model import Serving
from advisor.facts.replica import Replica
from advisor.facts.serving_summary import summarise
from advisor.sources.records import Evidence, parse_record, parse_time
from advisor.sources.serving_lines import ServingBlock, ServingKind, ServingLines, read_fields

_KINDS = {"decode-batch": ServingKind.DECODE, "prefill-batch": ServingKind.PREFILL}
_MOST_REPLICAS = 1024


@dataclass(slots=True)
class ServingCollector:
    """Adds up serving lines; `result` gives shares, means and maxima."""

    replicas: dict[str, Replica] = field(default_factory=dict)
    evidence: dict[str, Evidence] = field(default_factory=dict)
    retractions: int = 0
    _shown: Mapping[str, float] = field(default_factory=dict)
    _began: datetime | None = None
    _ended: datetime | None = None

    def take(self, hit: Hit) -> None:
        """Add one Prefill or Decode line that was read like any other record, or a retraction."""
        if hit.key == "kv-retract":
            self.retractions += hit.integer("requests") or 0
            self.evidence.setdefault("serving.retractions", hit.record.evidence())
        elif hit.key in _KINDS:
            lines = _one_line(hit)
            self._add([lines] if lines is not None else [])
            for path in self._news():
                self.evidence[path] = hit.record.evidence()

    def take_block(self, block: ServingBlock) -> None:
        """Add the lines of a block."""
        self._add(block.lines)
        for path in self._news():
            found = _find(block, self._expression(path))
            if found is not None:
                self.evidence[path] = found

    def _add(self, lines: Sequence[ServingLines]) -> None:
        groups: dict[str, list[ServingLines]] = {}
        for part in lines:
            groups.setdefault(part.rank, []).append(part)
        for rank, parts in groups.items():
            self._replica(rank).add(parts)
        self._see(lines)

    def _replica(self, rank: str) -> Replica:
        if rank not in self.replicas and len(self.replicas) >= _MOST_REPLICAS:
            rank = next(iter(self.replicas))
        return self.replicas.setdefault(rank, Replica())

    def _see(self, lines: Sequence[ServingLines]) -> None:
        if not lines:
            return
        first = min(part.times[0] for part in lines)
        last = max(part.times[-1] for part in lines)
        self._began = self._began or _time(first)
        self._ended = _time(last) or self._ended

    def _marks(self) -> Mapping[str, float]:
        """Return what must grow for a line to be worth showing; 0 or 1 where the first one is."""
        replicas = self.replicas.values()
        return {
            "serving.decode_lines": min(1, sum(item.decodes for item in replicas)),
            "serving.prefill_lines": min(1, sum(item.prefills for item in replicas)),
            "serving.max_queue": self._most("queue_maximum"),
            "serving.eager_share": min(1, self._most("eager")),
            "serving.cold_large_prefills": min(1, self._most("cold_large")),
            "serving.longest_stall_s": max(
                (item.gaps.longest_stall_s for item in replicas), default=0.0
            ),
        }

    def _most(self, name: str) -> int:
        return max((int(getattr(item, name)) for item in self.replicas.values()), default=0)

    def _news(self) -> tuple[str, ...]:
        """Name what has grown since the last call."""
        marks = self._marks()
        news = tuple(path for path, value in marks.items() if value > self._shown.get(path, 0))
        self._shown = marks
        return news

    def _expression(self, path: str) -> bytes:
        """Return what finds the line that a path was read from."""
        match path:
            case "serving.decode_lines":
                return rb"\] Decode batch"
            case "serving.prefill_lines":
                return rb"\] Prefill batch"
            case "serving.max_queue":
                queue = self._most("queue_maximum")
                return rb"\] (?:Decode|Prefill) batch[^\n]*#queue-req: %d\b" % queue
            case "serving.eager_share":
                return rb"\] Decode batch[^\n]* graph: False"
            case "serving.cold_large_prefills":
                pairs = [pair for item in self.replicas.values() for pair in item.cold_examples]
                tokens = b"|".join(b"%d, #cached-token: %d" % pair for pair in pairs)
                return rb"\] Prefill batch[^\n]*#new-token: (?:%s)\b" % tokens
            case _:
                rank, worst = min(
                    self.replicas.items(),
                    key=lambda item: (-item[1].gaps.longest_stall_s, item[1].gaps.stall_end),
                )
                label = re.escape(f" {rank}".rstrip().encode())
                time = re.escape(worst.gaps.stall_end)
                return rb"\[%s%s\] (?:Decode|Prefill) batch" % (time, label)

    def result(self, *, cap: int | None, captured: int | None = None) -> Serving:
        """Return the aggregates.

        `cap` is max_running_requests and `captured` the largest decode graph, where known.
        """
        if not self.replicas:
            return Serving(retractions=self.retractions or None)
        return summarise(
            self.replicas,
            duration_s=seconds_between(self._began, self._ended),
            cap=cap,
            captured=captured,
            retractions=self.retractions,
        )


def _find(block: ServingBlock, expression: bytes) -> Evidence | None:
    """Point at the first line of a block that an expression matches."""
    match = re.search(expression, block.text)
    if match is None:
        return None
    begin = block.text.rfind(b"\n", 0, match.start()) + 1
    end = block.text.find(b"\n", match.end())
    text = block.text[begin : end if end >= 0 else len(block.text)].decode("utf-8", "replace")
    line = block.first_line + block.text.count(b"\n", 0, begin)
    return parse_record(text.rstrip("\r"), source=block.source, line=line).evidence()


def _one_line(hit: Hit) -> ServingLines | None:
    kind, time = _KINDS[hit.key], hit.record.time
    values = read_fields(kind, hit.values.get("fields", ""))
    if values is None:
        return None
    text = b"" if time is None else time.isoformat(sep=" ").encode()
    columns = {name: (value,) for name, value in values.items()}
    return ServingLines(kind=kind, rank=hit.record.rank, times=(text,), columns=columns)


def _time(text: bytes) -> datetime | None:
    return parse_time(text.decode("ascii", "replace"))
