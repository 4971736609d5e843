"""The tensors of one batch size: routings, inputs, outputs, and the row lists of each tile height."""

from __future__ import annotations

from typing import Any

from advisor.configs.problem import Gemm, MoeProblem, extent
from advisor.tuner.operands import Activations, Weights, make_activations, output_type
from advisor.tuner.problem import padded_rows
from advisor.tuner.routing import Routing, SortedRows, keep_local, sort_rows
from advisor.tuner.work import Part

_DRAWS = ((256, 10), (1024, 5))
_FEWEST_DRAWS = 3


def launches_per_graph(tokens: int) -> int:
    """Return how many routings one graph replays: enough to be long against its own launch."""
    return next((count for most, count in _DRAWS if tokens <= most), _FEWEST_DRAWS)


class BatchTensors:
    """What the launches of one batch size read and write."""

    def __init__(
        self, problem: MoeProblem, routing: Routing, tokens: int, *, seed: int, device: str
    ) -> None:
        """Draw the routings and fill the inputs; row lists are made as tile heights need them."""
        import torch

        self._torch = torch
        self.problem = problem
        self._device = device
        self.tokens = tokens
        rows = tokens * problem.top_k
        drawn = routing.draw(
            tokens, problem.all_experts, problem.top_k, launches_per_graph(tokens), seed
        )
        self.routings = keep_local(drawn, problem.experts)
        self.inputs = {
            Gemm.UP: make_activations(problem, Gemm.UP, tokens, device),
            Gemm.DOWN: make_activations(problem, Gemm.DOWN, rows, device),
        }
        self.topk_weights = torch.rand((rows,), device=device)
        self._outputs: dict[tuple[Gemm, int], Any] = {}
        self._sorted_rows: dict[int, list[tuple[Any, Any, Any]]] = {}
        self._sorted_inputs: dict[tuple[int, int], Activations] = {}

    def of_launch(self, part: Part, weights: Weights, turn: int) -> dict[str, Any]:
        """Return the tensors of one launch by the kernel's parameter names.

        `turn` numbers the routing. A down GEMM with TMA reads its inputs in the order of the sort.
        """
        rows, experts, padded = self._sorted(part.tile.block_m)[turn]
        inputs = self.inputs[part.gemm]
        if part.gemm is Gemm.DOWN and part.tile.tma:
            inputs = self._sorted_input(part.tile.block_m, turn)
        return {
            "a_ptr": inputs.values,
            "b_ptr": weights.values[turn % weights.copies],
            "c_ptr": self._output(part),
            "a_scale_ptr": inputs.scales,
            "b_scale_ptr": weights.scales,
            "topk_weights_ptr": self.topk_weights,
            "sorted_token_ids_ptr": rows,
            "expert_ids_ptr": experts,
            "num_tokens_post_padded_ptr": padded,
        }

    def poison(self, part: Part) -> None:
        """Fill a launch's output with NaN, so that what is not written shows."""
        self._output(part).fill_(float("nan"))

    def result(self, part: Part) -> Any:
        """Return the output of the first routing, rows `token * top_k + choice`."""
        output = self._output(part)
        return output[self._positions(part.tile.block_m)] if part.sorted_output else output

    def _output(self, part: Part) -> Any:
        rows = self.tokens * self.problem.top_k
        if part.sorted_output:
            rows = padded_rows(self.problem, self.tokens, part.tile.block_m)
        if (part.gemm, rows) not in self._outputs:
            shape = (rows, extent(self.problem, part.gemm)[0])
            self._outputs[part.gemm, rows] = self._torch.empty(
                shape, dtype=output_type(self.problem), device=self._device
            )
        return self._outputs[part.gemm, rows]

    def _sorted(self, block_m: int) -> list[tuple[Any, Any, Any]]:
        if block_m not in self._sorted_rows:
            length = padded_rows(self.problem, self.tokens, block_m)
            self._sorted_rows[block_m] = [
                self._upload(sort_rows(routing, block_m, length)) for routing in self.routings
            ]
        return self._sorted_rows[block_m]

    def _upload(self, found: SortedRows) -> tuple[Any, Any, Any]:
        rows, experts, padded = (
            self._torch.tensor(values, dtype=self._torch.int32, device=self._device)
            for values in (found.rows, found.experts, [found.padded])
        )
        return rows, experts, padded

    def _sorted_input(self, block_m: int, turn: int) -> Activations:
        """Return the down GEMM's inputs as an up GEMM leaves them for TMA; padding holds row 0."""
        if (block_m, turn) not in self._sorted_inputs:
            given = self.inputs[Gemm.DOWN]
            rows = self._sorted(block_m)[turn][0].long()
            order = rows.where(rows < len(given.values), self._torch.zeros_like(rows))
            scales = given.scales
            if scales is not None and len(scales) == len(given.values):
                scales = scales[order]
            self._sorted_inputs[block_m, turn] = Activations(
                values=given.values[order], scales=scales
            )
        return self._sorted_inputs[block_m, turn]

    def _positions(self, block_m: int) -> Any:
        """Return where each row stands in the sorted order of the first routing."""
        rows = self._sorted(block_m)[0][0].long()
        positions = self._torch.zeros(
            self.tokens * self.problem.top_k + 1, dtype=self._torch.long, device=self._device
        )
        positions[rows] = self._torch.arange(len(rows), device=self._device)
        return positions[:-1]
