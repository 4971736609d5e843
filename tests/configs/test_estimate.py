from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.configs.entries import Entry
from advisor.configs.estimate import estimate_shared_bytes
from advisor.configs.problem import Gemm, MoeProblem, Target
from advisor.configs.verify import Basis, Question, Verdict, Verifier, verify_questions
from advisor.knowledge.gpus import shared_memory_bytes

GRID_FILE = Path(__file__).parent.parent / "fixtures" / "configs" / "shared_memory_grid.json"
TITLES = tuple(json.loads(GRID_FILE.read_text())["grids"])
PLAIN = MoeProblem(experts=128, width=768, hidden=2048, top_k=8)


@pytest.mark.parametrize("title", TITLES)
def test_the_estimate_equals_the_compiler_over_the_whole_grid(title: str, grid: Any) -> None:
    kind, _, sm = title.rpartition(", SM")
    limit = shared_memory_bytes(int(sm))
    assert limit is not None
    wrong = []
    for entry, measured in grid.points(title):
        estimate = estimate_shared_bytes(grid.kinds[kind], entry, int(sm))
        assert measured == 0 or (estimate > limit) == (measured > limit), entry
        if measured not in {0, estimate}:
            wrong.append(entry)
    allowed = 8 if title == "bf16, SM80" else 0
    assert len(wrong) <= allowed, wrong
    assert all(entry.block_k <= 64 for entry in wrong)


def test_without_triton_the_verdict_is_an_estimate() -> None:
    target = Target(name="a card", sm=120, shared_memory_bytes=101376)
    large = Entry(block_m=64, block_n=128, block_k=128, group_m=1, num_warps=4, num_stages=4)
    question = Question(tokens=64, entry=large, problem=PLAIN, gemm=Gemm.UP)
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
    question = Question(tokens=1, entry=replace(small, **change), problem=PLAIN, gemm=Gemm.UP)
    for verifier in (Verifier(target=target), Verifier(target=target, estimate=True)):
        (check,) = verify_questions([question], verifier)
        assert (check.verdict, check.detail) == (Verdict.REFUSED, detail)
