"""Whether a launch computed what it should: some rows of its result against float64."""

from __future__ import annotations

from advisor.configs.problem import Gemm
from advisor.tuner.operands import Weights, reference_row
from advisor.tuner.routing import ELSEWHERE
from advisor.tuner.tensors import BatchTensors
from advisor.tuner.work import Part

_CHECKED_ROWS = 16


def error_ratio(batch: BatchTensors, part: Part, weights: Weights) -> float:
    """Return the norm of the deviation over that of the reference, after the first routing's launch.

    Infinity if a row of this rank's experts was not written (the output was poisoned before), or a
    row of another rank's is not zero, where the next step reads it.
    """
    result = batch.result(part)
    places = _places(batch)
    local = [place for place in places if place[2] != ELSEWHERE]
    elsewhere = [row for row, _, expert in places if expert == ELSEWHERE]
    if bool(result[[row for row, _, _ in local]].isnan().any()):
        return float("inf")
    if elsewhere and not part.sorted_output and not bool((result[elsewhere] == 0).all()):
        return float("inf")
    squared = norm = 0.0
    for row, token, expert in local[:: max(1, len(local) // _CHECKED_ROWS)][:_CHECKED_ROWS]:
        source = token if part.gemm is Gemm.UP else row
        given = batch.inputs[part.gemm]
        reference = reference_row(batch.problem, weights, given, 0, (source, expert))
        if part.gemm is Gemm.DOWN:
            reference = reference * batch.topk_weights[row].double()
        squared += float((result[row].double() - reference).square().sum())
        norm += float(reference.square().sum())
    return float((squared / norm) ** 0.5) if norm else 0.0


def _places(batch: BatchTensors) -> list[tuple[int, int, int]]:
    """Return row, token and expert of every choice in the first routing."""
    return [
        (token * batch.problem.top_k + choice, token, expert)
        for token, experts in enumerate(batch.routings[0])
        for choice, expert in enumerate(experts)
    ]
