from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.configs.compiler import build_kernel
from advisor.configs.launch import Descriptor, Fixed, Integer
from advisor.configs.problem import Gemm, MoeProblem, target_of_gpu
from advisor.configs.source import bundled_source, server_source
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


@pytest.fixture
def sglang_kernel(tmp_path: Path) -> Callable[[str], Path]:
    """Return a maker of server packages whose kernel has the given parameters."""

    def make(parameters: str) -> Path:
        folder = tmp_path / "sglang" / "kernels" / "ops" / "moe"
        folder.mkdir(parents=True, exist_ok=True)
        text = f"import triton\n\n\n@triton.jit\ndef fused_moe_kernel(a_ptr, {parameters}):\n    pass\n"
        (folder / "fused_moe_triton_kernels.py").write_text(text, encoding="utf-8")
        return tmp_path / "sglang"

    return make


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


def arguments(kernels: Kernels, part: Part, tokens: int = 64) -> dict[str, object]:
    return dict(kernels.launch(part, tokens).arguments)


def test_tma_loads_weights_in_both_gemms_and_sorted_inputs_in_down() -> None:
    loaded = replace(TILE, tma=True)
    up = arguments(KERNELS, Part(gemm=Gemm.UP, tile=loaded))
    down = arguments(KERNELS, Part(gemm=Gemm.DOWN, tile=loaded))
    assert up["b_desc"] == down["b_desc"] == Descriptor(element="bf16", block=(1, 64, 128))
    assert up["a_desc"] == Fixed(value=None)
    assert down["a_desc"] == Descriptor(element="bf16", block=(16, 128))


def test_the_up_gemm_of_a_race_leaves_its_rows_sorted_where_down_wants_them_so() -> None:
    loaded = Entrant(up=TILE, down=replace(TILE, tma=True))
    plain = Entrant(up=TILE, down=TILE)
    first, second = (KERNELS.recipes(Race(tokens=64, entrants=(one,))) for one in (loaded, plain))
    assert first[0] != second[0]
    assert dict(first[0].arguments)["c_sorted"] == Fixed(value=True)
    assert dict(second[0].arguments)["c_sorted"] == Fixed(value=False)


def test_experts_are_filtered_under_expert_parallelism_only(
    sglang_kernel: Callable[[str], Path],
) -> None:
    source = server_source(sglang_kernel("filter_expert: tl.constexpr"))
    for ranks in (1, 4):
        problem = replace(KERNELS.problem, experts=32, expert_parallel=ranks)
        kernels = replace(KERNELS, source=source, problem=problem)
        found = arguments(kernels, Part(gemm=Gemm.UP, tile=TILE))
        assert found["filter_expert"] == Fixed(value=ranks > 1)


def test_early_launches_end_where_the_release_ends_them(
    sglang_kernel: Callable[[str], Path],
) -> None:
    package = sglang_kernel("USE_GDC: tl.constexpr, GDC_EARLY: tl.constexpr")
    kernels = replace(KERNELS, source=server_source(package))
    early = {
        (gemm, tokens): arguments(kernels, Part(gemm=gemm, tile=TILE), tokens)["GDC_EARLY"]
        for gemm, tokens in ((Gemm.UP, 512), (Gemm.UP, 513), (Gemm.DOWN, 64), (Gemm.DOWN, 65))
    }
    assert [known == Fixed(value=True) for known in early.values()] == [True, False, True, False]


def test_the_padding_counts_among_the_rows_of_a_down_gemm_with_tma(
    sglang_kernel: Callable[[str], Path],
) -> None:
    package = sglang_kernel("USE_GDC: tl.constexpr, GDC_EARLY: tl.constexpr")
    kernels = replace(KERNELS, source=server_source(package))
    part = Part(gemm=Gemm.DOWN, tile=replace(TILE, tma=True))
    early = [arguments(kernels, part, tokens)["GDC_EARLY"] for tokens in (4, 5)]
    assert early == [Fixed(value=True), Fixed(value=False)]  # 4 and 5 times 8 rows, 16 high


def test_advisors_kernel_starts_early_where_the_release_does() -> None:
    early = replace(KERNELS, source=bundled_source(early_launch=True))
    part = Part(gemm=Gemm.UP, tile=TILE)
    assert arguments(early, part)["USE_GDC"] == Fixed(value=True)
    assert dict(early.launch(part, 64).options)["launch_pdl"] is True
    for other in (KERNELS, replace(early, target=target_of_gpu("A100"))):
        assert arguments(other, part)["USE_GDC"] == Fixed(value=False)
        assert "launch_pdl" not in dict(other.launch(part, 64).options)
    assert early.source.digest != KERNELS.source.digest


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "early"), [(512, True), (513, False)])
def test_a_kernel_launched_early_waits_and_lets_its_successor_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, early: bool
) -> None:
    pytest.importorskip("triton", reason="needs the extra [verify]")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    kernels = replace(KERNELS, source=bundled_source(early_launch=True))
    code = machine_code(kernels, rows)
    wait, release = (code.index(f"griddepcontrol.{word}") for word in ("wait", "launch_dependents"))
    assert wait < release
    assert (release < code.index("mma.sync")) == early
    assert (release > code.rindex("st.global")) != early
    assert "griddepcontrol" not in machine_code(KERNELS, rows)


def machine_code(kernels: Kernels, tokens: int) -> str:
    launch = kernels.launch(Part(gemm=Gemm.UP, tile=TILE), tokens)
    return str(build_kernel(kernels.source, launch, kernels.target.sm).asm["ptx"])
