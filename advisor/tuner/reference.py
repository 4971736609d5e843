"""Whether a launch computed what it should: some rows of its result against float64."""

from __future__ import annotations

from typing import Any

from advisor.configs.problem import Gemm
from advisor.tuner.operands import Weights, reference_row
from advisor.tuner.routing import ELSEWHERE
from advisor.tuner.tensors import BatchTensors
from advisor.tuner.work import Part

_CHECKED_ROWS = 16


class Reference:
    """Some rows of one GEMM's result for a batch's first routing, in float64; for every tile."""

    def __init__(self, batch: BatchTensors, gemm: Gemm, weights: Weights) -> None:
        """Compute the rows."""
        import torch

        places = [
            (token * batch.problem.top_k + choice, token, expert)
            for token, experts in enumerate(batch.routings[0])
            for choice, expert in enumerate(experts)
        ]
        local = [place for place in places if place[2] != ELSEWHERE]
        checked = local[:: max(1, len(local) // _CHECKED_ROWS)][:_CHECKED_ROWS]
        device = batch.topk_weights.device
        self._local = torch.tensor([row for row, _, _ in local], dtype=torch.long, device=device)
        self._checked = torch.tensor(
            [row for row, _, _ in checked], dtype=torch.long, device=device
        )
        elsewhere = [row for row, _, expert in places if expert == ELSEWHERE]
        self._elsewhere = torch.tensor(elsewhere, device=device) if elsewhere else None
        rows = [_row(batch, gemm, weights, place) for place in checked]
        self._values = torch.stack(rows) if rows else None

    def error_ratio(self, batch: BatchTensors, part: Part) -> float:
        """Return the norm of a launch's deviation over that of the reference.

        Infinity if a row of this rank's experts was not written (the output was poisoned before),
        or a row of another rank's is not zero, where the next step reads it.
        """
        result = batch.result(part)
        local = result if self._elsewhere is None else result[self._local]
        if bool(local.isnan().any()) or self._stray(result, part):
            return float("inf")
        if self._values is None:
            return 0.0
        deviation = result[self._checked].double() - self._values
        return float(deviation.norm() / self._values.norm())

    def _stray(self, result: Any, part: Part) -> bool:
        """Say whether there is anything in a row that must be zero."""
        if self._elsewhere is None or part.sorted_output:
            return False
        return bool(result[self._elsewhere].any())


def _row(batch: BatchTensors, gemm: Gemm, weights: Weights, place: tuple[int, int, int]) -> Any:
    row, token, expert = place
    source = token if gemm is Gemm.UP else row
    values = reference_row(batch.problem, weights, batch.inputs[gemm], 0, (source, expert))
    return values * batch.topk_weights[row].double() if gemm is Gemm.DOWN else values
