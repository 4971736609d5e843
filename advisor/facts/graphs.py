"""CUDA graph captures, in the wordings up to 0.5.12 and from 0.5.14 on.

Lines of `model_executor/cuda_graph_runner.py`, `model_executor/model_runner.py` and, from 0.5.14,
`model_executor/runner/`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from advisor.facts.hits import Hit
from advisor.facts.model import Graphs
from advisor.sources.records import Evidence

_DECODE, _PREFILL, _DRAFT = "decode", "prefill", "draft"


@dataclass(slots=True)
class _Capture:
    begun: bool = False
    done: bool = False
    sizes: tuple[int, ...] | None = None
    elapsed_s: float | None = None
    memory_gib: float | None = None


@dataclass(slots=True)
class GraphCollector:
    """Keeps one capture per kind: decode (or verify), prefill, and the draft model's."""

    _captures: dict[str, _Capture] = field(default_factory=dict)
    evidence: dict[str, Evidence] = field(default_factory=dict)

    def take(self, hit: Hit) -> None:
        """Note a capture's begin, end or list of sizes."""
        match hit.key:
            case "graph-begin-old" | "graph-begin-new" | "graph-piecewise-begin":
                capture = self._capture(hit)
                capture.begun = True
                capture.sizes = _sizes(hit) or capture.sizes
            case "graph-end-old" | "graph-end-new":
                capture = self._capture(hit)
                if capture is self._captures.get(_DECODE) and _sizes(hit):
                    self.evidence.setdefault("graphs.decode_max_batch", hit.record.evidence())
                capture.begun = capture.done = True
                capture.sizes = _sizes(hit) or capture.sizes
                capture.elapsed_s = _larger(capture.elapsed_s, hit.number("elapsed"))
                capture.memory_gib = _larger(capture.memory_gib, hit.number("mem_usage"))
            case "graph-bs-old":
                self._kind(_DECODE).sizes = hit.integers("bs")
                self.evidence.setdefault("graphs.decode_max_batch", hit.record.evidence())
            case "graph-num-tokens-old":
                self._kind(_PREFILL).sizes = hit.integers("sizes")

    def result(self) -> Graphs:
        """Return what was captured; None for a kind of which the log says nothing."""
        decode, prefill, draft = (self._captures.get(kind) for kind in (_DECODE, _PREFILL, _DRAFT))
        sizes = None if decode is None else decode.sizes
        return Graphs(
            decode_sizes=sizes,
            decode_max_batch=max(sizes) if sizes else None,
            decode_capture_s=None if decode is None else decode.elapsed_s,
            decode_gib=None if decode is None else decode.memory_gib,
            decode_begun=None if decode is None else decode.begun,
            decode_done=None if decode is None else decode.done,
            prefill_sizes=None if prefill is None else prefill.sizes,
            prefill_max_tokens=max(prefill.sizes) if prefill and prefill.sizes else None,
            prefill_capture_s=None if prefill is None else prefill.elapsed_s,
            prefill_gib=None if prefill is None else prefill.memory_gib,
            prefill_begun=None if prefill is None else prefill.begun,
            prefill_done=None if prefill is None else prefill.done,
            draft_begun=None if draft is None else draft.begun,
            draft_done=None if draft is None else draft.done,
        )

    def _kind(self, kind: str) -> _Capture:
        return self._captures.setdefault(kind, _Capture())

    def _capture(self, hit: Hit) -> _Capture:
        return self._kind(graph_kind(hit))


def graph_kind(hit: Hit) -> str:
    """Return what a line about a capture is of: `decode` (or verify), `prefill` or `draft`."""
    words = f"{hit.values.get('what', '')} {hit.values.get('role', '')}"
    if "draft" in words:
        return _DRAFT
    is_prefill = (
        hit.key == "graph-piecewise-begin"
        or "piecewise" in words
        or hit.values.get("phase") in {"prefill", "extend"}
    )
    return _PREFILL if is_prefill else _DECODE


def _sizes(hit: Hit) -> tuple[int, ...] | None:
    return hit.integers("bs") or hit.integers("num_tokens")


def _larger(one: float | None, other: float | None) -> float | None:
    known = [value for value in (one, other) if value is not None]
    return max(known, default=None)
