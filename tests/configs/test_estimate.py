from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from advisor.configs.entries import Entry
from advisor.configs.estimate import estimate_shared_bytes
from advisor.configs.names import ExpertDtype
from advisor.configs.problem import Gemm, MoeProblem, Target
from advisor.configs.verify import Basis, Question, Verdict, Verifier, verify_questions
from advisor.knowledge.gpus import shared_memory_bytes

GRID = json.loads(
    (Path(__file__).parent.parent / "fixtures/configs/shared_memory_grid.json").read_text()
)


def problem(**fields: Any) -> MoeProblem:
    return MoeProblem(experts=128, width=768, hidden=2048, top_k=8, **fields)


KINDS = {
    "bf16": problem(),
    "fp8 block 128": problem(dtype=ExpertDtype.FP8_W8A8, block_shape=(128, 128)),
    "fp8 tensor": problem(dtype=ExpertDtype.FP8_W8A8),
    "fp8 channel": problem(dtype=ExpertDtype.FP8_W8A8, per_channel=True),
    "int8 channel": problem(dtype=ExpertDtype.INT8_W8A8, per_channel=True),
    "int4 group 128": problem(dtype=ExpertDtype.INT4_W4A16, group_size=128),
    "int8 weights": problem(dtype=ExpertDtype.INT8_W8A16),
}


def points(title: str) -> Iterator[tuple[Entry, int]]:
    """Yield the entries of one grid with the bytes that the compiler reported."""
    axes = GRID["axes"]
    steps = axes["k"]["bf16" if title.startswith("bf16") else "other"]
    grid = product(axes["m"], axes["n"], steps, axes["warps"], axes["stages"])
    for (m, n, k, warps, stages), measured in zip(grid, GRID["grids"][title], strict=True):
        yield (
            Entry(block_m=m, block_n=n, block_k=k, group_m=1, num_warps=warps, num_stages=stages),
            measured,
        )


@pytest.mark.parametrize("title", GRID["grids"])
def test_the_estimate_equals_the_compiler_over_the_whole_grid(title: str) -> None:
    kind, _, sm = title.rpartition(", SM")
    limit = shared_memory_bytes(int(sm))
    assert limit is not None
    wrong = []
    for entry, measured in points(title):
        estimate = estimate_shared_bytes(KINDS[kind], entry, int(sm))
        assert measured == 0 or (estimate > limit) == (measured > limit), entry
        if measured not in {0, estimate}:
            wrong.append(entry)
    allowed = 8 if title == "bf16, SM80" else 0
    assert len(wrong) <= allowed, wrong
    assert all(entry.block_k <= 64 for entry in wrong)


def test_without_triton_the_verdict_is_an_estimate() -> None:
    target = Target(name="a card", sm=120, shared_memory_bytes=101376)
    large = Entry(block_m=64, block_n=128, block_k=128, group_m=1, num_warps=4, num_stages=4)
    question = Question(tokens=64, entry=large, problem=KINDS["bf16"], gemm=Gemm.UP)
    (check,) = verify_questions([question], Verifier(target=target, estimate=True))
    assert check.basis is Basis.ESTIMATED
    assert (check.verdict, check.shared_bytes) == (Verdict.TOO_LARGE, 147456)
    assert check.registers is None


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"block_m": 65536}, "a tile of more than 262144 elements"),
        ({"num_stages": 65536}, "65536 stages"),
        ({"num_warps": 64}, "more than 1024 threads"),
    ],
)
def test_absurd_entries_are_refused_without_the_compiler(
    change: dict[str, Any], detail: str
) -> None:
    target = Target(name="a card", sm=120, shared_memory_bytes=101376)
    small = Entry(block_m=16, block_n=64, block_k=64, group_m=1, num_warps=4, num_stages=3)
    question = Question(
        tokens=1, entry=replace(small, **change), problem=KINDS["bf16"], gemm=Gemm.UP
    )
    for verifier in (Verifier(target=target), Verifier(target=target, estimate=True)):
        (check,) = verify_questions([question], verifier)
        assert (check.verdict, check.detail) == (Verdict.REFUSED, detail)
