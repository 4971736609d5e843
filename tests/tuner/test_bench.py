"""Timing and checking on a real GPU; skipped where there is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.configs.names import ExpertDtype
from advisor.configs.problem import Gemm, MoeProblem, target_of_gpu
from advisor.configs.source import bundled_source
from advisor.tuner.bench import GpuBench, GpuSetup
from advisor.tuner.kernels import Kernels
from advisor.tuner.routing import Routing
from advisor.tuner.space import Tile, tma_serves
from advisor.tuner.work import Entrant, Failed, Failure, Race, Raced, Timed, Trial

torch = pytest.importorskip("torch", reason="needs the extra [tune]")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
PLAIN = MoeProblem(experts=16, width=256, hidden=512, top_k=4)
FP8, INT8 = ExpertDtype.FP8_W8A8, ExpertDtype.INT8_W8A8
PROBLEMS = [
    PLAIN,
    replace(PLAIN, activation="fp16"),
    replace(PLAIN, dtype=FP8),
    replace(PLAIN, dtype=FP8, block_shape=(128, 128)),
    replace(PLAIN, dtype=INT8, per_channel=True),
    replace(PLAIN, dtype=INT8, block_shape=(128, 128)),
    replace(PLAIN, experts=4, expert_parallel=4),
    replace(PLAIN, dtype=FP8, block_shape=(128, 128), experts=4, expert_parallel=4),
]
TILES = [
    Tile(16, 64, 64, 1, 4, 3),
    Tile(64, 128, 128, 16, 8, 2),
    Tile(128, 64, 64, 32, 4, 4),
    Tile(32, 256, 128, 1, 4, 2),
]


def bench_of(problem: MoeProblem, cache: Path) -> GpuBench:
    target = target_of_gpu(str(torch.cuda.get_device_name(0)))
    kernels = Kernels(source=bundled_source(), problem=problem, target=target, cache=cache)
    return GpuBench(GpuSetup(kernels=kernels, routing=Routing()))


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_results_agree_with_float64_for_every_kind_of_weights(
    problem: MoeProblem, tmp_path: Path
) -> None:
    bench = bench_of(problem, tmp_path)
    tiles = list(TILES)
    if all(tma_serves(problem, gemm, target_of_gpu(bench.device)) for gemm in Gemm):
        tiles += [replace(tile, tma=True) for tile in TILES]
    pairs = [Entrant(up=tile, down=tile) for tile in tiles]
    pairs.append(Entrant(up=TILES[0], down=tiles[-len(TILES)]))
    for tokens in (1, 7, 64, 1000):
        race = Race(tokens=tokens, entrants=tuple(pairs))
        outcome = bench.measure(race)
        assert isinstance(outcome, Raced)
        for answer in outcome.answers:
            assert isinstance(answer, Timed), answer
            assert answer.error_ratio is not None
            assert answer.error_ratio < 0.006


def test_wrong_numbers_are_found(tmp_path: Path) -> None:
    bench = bench_of(PROBLEMS[0], tmp_path)
    race = Race(tokens=64, entrants=(Entrant(up=TILES[0]),))
    assert isinstance(bench.measure(race), Raced)
    bench._weights[Gemm.UP].values.mul_(2)
    outcome = bench.measure(race)
    assert isinstance(outcome, Raced)
    (raced,) = outcome.answers
    for answer in (raced, bench.measure(Trial(tokens=64, gemm=Gemm.UP, tile=TILES[0]))):
        assert isinstance(answer, Failed)
        assert answer.failure is Failure.WRONG


def test_what_needs_too_much_shared_memory_is_an_answer(tmp_path: Path) -> None:
    outcome = bench_of(PROBLEMS[0], tmp_path).measure(
        Trial(tokens=64, gemm=Gemm.UP, tile=Tile(256, 256, 256, 1, 8, 5))
    )
    assert isinstance(outcome, Failed)
    assert outcome.failure is Failure.RESOURCES


def test_screening_gives_several_samples(tmp_path: Path) -> None:
    outcome = bench_of(PROBLEMS[0], tmp_path).measure(
        Trial(tokens=64, gemm=Gemm.DOWN, tile=TILES[0])
    )
    assert isinstance(outcome, Timed)
    assert len(outcome.samples_us) >= 4
    assert all(sample > 0 for sample in outcome.samples_us)
