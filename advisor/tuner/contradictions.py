"""Options that say nothing together, or of which one would be passed over in silence."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.errors import ConfigError
from advisor.tuner.gpus import is_gpu_number
from advisor.tuner.request import TuneRequest


def check_together(request: TuneRequest, *, log: bool, precompile: bool, ray: bool) -> None:
    """Refuse options that do not go together.

    Args:
        request: What is asked for.
        log: Whether a log tells the shapes.
        precompile: Whether kernels are only compiled.
        ray: Whether a cluster measures.

    Raises:
        ConfigError: If some do not; the first is named.
    """
    for problem in (
        *_of_shape(request, log=log),
        *_of_place(request, precompile=precompile, ray=ray),
    ):
        raise ConfigError(problem)


def _of_shape(request: TuneRequest, *, log: bool) -> Iterator[str]:
    ways = bool(request.models), request.shape is not None
    if not log and sum(ways) != 1:
        yield "say what to tune: --from LOG, --model PATH, or --shape E,N,K,TOPK"
    if not log and len(request.models) > 1:
        yield "--model once: several models are for --from LOG, which tells the shapes"
    if log and request.shape is not None:
        yield "--from LOG tells the shapes: leave --shape out, or --from"
    split = request.tensor_parallel, request.expert_parallel
    if log and split != (1, 1):
        yield "--from LOG tells how the server is split: leave --tp and --ep out"
    if request.shape is not None and request.tensor_parallel != 1:
        yield "--shape is what one rank holds: leave --tp out, and divide N by it"
    weights = request.dtype is not None or request.block_shape is not None
    if weights and request.shape is None and (log or request.models):
        teller = "the log" if log else "the model"
        yield f"--dtype and --block-shape are for --shape: {teller} tells how weights are stored"


def _of_place(request: TuneRequest, *, precompile: bool, ray: bool) -> Iterator[str]:
    if precompile and (request.rehearse or ray):
        yield "--precompile uses no GPU: leave --rehearse and --ray out"
    if precompile and request.budget_s is not None:
        yield "--precompile has no --budget: leave it out; what is compiled stays after Ctrl-C"
    if request.rehearse and not all(map(is_gpu_number, request.gpus)):
        yield "--rehearse makes its GPU up: --gpu takes numbers there"
