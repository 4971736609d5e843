"""Run Advisor's kernel in Triton's interpreter, on a CPU; print the deviation of every launch.

python interpreted_launches.py, with TRITON_INTERPRET=1. The interpreter has no bf16 and no fp8.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from advisor.configs.compiler import load_kernel
from advisor.configs.launch import Descriptor, Fixed, Launch, Pointer
from advisor.configs.names import ExpertDtype
from advisor.configs.problem import Gemm, MoeProblem, extent, target_of_gpu
from advisor.configs.source import bundled_source
from advisor.tuner.kernels import Kernels
from advisor.tuner.operands import Weights, make_weights
from advisor.tuner.problem import label, padded_rows
from advisor.tuner.reference import Reference
from advisor.tuner.routing import Routing
from advisor.tuner.space import Tile, tma_serves
from advisor.tuner.tensors import BatchTensors
from advisor.tuner.work import Part

PLAIN = MoeProblem(experts=8, width=96, hidden=160, top_k=2, activation="fp16")
INT8 = replace(PLAIN, dtype=ExpertDtype.INT8_W8A8)
PROBLEMS = (
    PLAIN,
    replace(PLAIN, gated=False, experts=1, top_k=1),
    replace(PLAIN, experts=4, expert_parallel=2),
    replace(INT8, per_channel=True),
    replace(INT8, width=128, hidden=256, block_shape=(64, 64), experts=4, expert_parallel=2),
)
TILE = Tile(16, 64, 64, 1, 4, 3)


def main() -> None:
    for problem in PROBLEMS:
        weights = {gemm: make_weights(problem, gemm, "cpu") for gemm in Gemm}
        for tokens in (1, 5):
            batch = BatchTensors(problem, Routing(), tokens, seed=0, device="cpu")
            for part in parts(problem):
                error = run(batch, part, weights[part.gemm])
                print(f"{error:.6f} {label(problem)} {tokens} {part}", flush=True)  # noqa: T201


def parts(problem: MoeProblem) -> Iterator[Part]:
    """Yield what is launched: up with its rows as they are and sorted, down; each with TMA, too."""
    kinds = ((Gemm.UP, False), (Gemm.UP, True), (Gemm.DOWN, False))
    for gemm, sorted_output in kinds:
        yield Part(gemm=gemm, tile=TILE, sorted_output=sorted_output)
        if tma_serves(problem, gemm, target_of_gpu("H200")):
            tile = replace(TILE, tma=True)
            yield Part(gemm=gemm, tile=tile, sorted_output=sorted_output)


def run(batch: BatchTensors, part: Part, weights: Weights) -> float:
    problem = batch.problem
    kernels = Kernels(
        source=bundled_source(), problem=problem, target=target_of_gpu("H200"), cache=Path("unused")
    )
    launch = kernels.launch(part, batch.tokens)
    columns = extent(problem, part.gemm)[0]
    rows = padded_rows(problem, batch.tokens, TILE.block_m)
    blocks = -(-rows // TILE.block_m) * -(-columns // TILE.block_n)
    batch.poison(part)
    load_kernel(kernels.source)[(blocks,)](
        **arguments(launch, batch.of_launch(part, weights, turn=0))
    )
    return Reference(batch, part.gemm, weights).error_ratio(batch, part)


def arguments(launch: Launch, tensors: dict[str, Any]) -> dict[str, Any]:
    import triton.language as tl
    from triton.tools.tensor_descriptor import TensorDescriptor

    found: dict[str, Any] = {}
    for name, known in launch.arguments:
        if isinstance(known, Pointer):
            found[name] = tensors[name]
        elif isinstance(known, Descriptor):
            tensor = tensors[name.replace("_desc", "_ptr")]
            found[name] = TensorDescriptor.from_tensor(tensor, list(known.block))
        elif isinstance(known, Fixed) and name == "compute_type":
            found[name] = tl.float16
        else:
            found[name] = known.value
    return found


if __name__ == "__main__":
    main()
