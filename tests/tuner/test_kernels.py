from __future__ import annotations

from pathlib import Path

from advisor.configs.launch import Integer
from advisor.configs.problem import Gemm, MoeProblem, target_of_gpu
from advisor.configs.source import bundled_source
from advisor.tuner.kernels import Kernels, shared_form
from advisor.tuner.space import Tile
from advisor.tuner.work import Entrant, Part, Race, Trial

TILE = Tile(16, 64, 128, 1, 4, 3)
KERNELS = Kernels(
    source=bundled_source(),
    problem=MoeProblem(experts=128, width=768, hidden=2048, top_k=8),
    target=target_of_gpu("H200"),
    cache=Path("unused"),
)


def recipe(tokens: int, gemm: Gemm = Gemm.UP) -> object:
    return KERNELS.recipes(Trial(tokens=tokens, gemm=gemm, tile=TILE))[0]


def test_batch_sizes_share_kernels_in_three_classes() -> None:
    assert recipe(2) == recipe(16)
    assert recipe(24) == recipe(4096)
    assert len({recipe(tokens) for tokens in (1, 2, 24)}) == 3


def test_up_and_down_are_different_kernels() -> None:
    assert recipe(64, Gemm.UP) != recipe(64, Gemm.DOWN)


def test_a_launch_carries_the_sizes_of_its_batch() -> None:
    sizes = dict(KERNELS.launch(Part(gemm=Gemm.UP, tile=TILE), 64).arguments)
    assert sizes["num_valid_tokens"] == Integer(value=512)
    assert sizes["EM"] == Integer(value=512 + 129 * 15)


def test_the_shared_form_keeps_what_triton_specialises_on() -> None:
    def classes(launch_of_batch: int) -> list[tuple[str, bool, bool]]:
        launch = KERNELS.launch(Part(gemm=Gemm.UP, tile=TILE), launch_of_batch)
        return [
            (name, known.value == 1, known.value % 16 == 0)
            for form in (launch, shared_form(launch))
            for name, known in form.arguments
            if isinstance(known, Integer)
        ]

    for tokens in (1, 2, 24):
        found = classes(tokens)
        half = len(found) // 2
        assert found[:half] == found[half:]


def test_a_race_needs_each_kernel_once() -> None:
    race = Race(tokens=64, entrants=(Entrant(up=TILE, down=TILE), Entrant(up=TILE)))
    assert len(KERNELS.recipes(race)) == 2
