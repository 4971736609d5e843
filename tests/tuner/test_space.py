from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.configs.loaders import loader_of_version
from advisor.configs.names import ExpertDtype
from advisor.configs.problem import Gemm, MoeProblem, target_of_gpu
from advisor.errors import ConfigError, InputError
from advisor.tuner.problem import (
    check_batch_sizes,
    check_problem,
    config_name,
    label,
    padded_rows,
    padding_traffic_bytes,
    problem_of_label,
    touched_weight_bytes,
    weight_bytes,
)
from advisor.tuner.space import (
    GRID,
    Tile,
    grid,
    legal_tiles,
    parse_tile,
    tile_of,
    tma_serves,
)

QWEN = MoeProblem(experts=128, width=768, hidden=2048, top_k=8)
H200 = target_of_gpu("H200")
TILES = st.builds(Tile, *(st.sampled_from(values) for values in GRID), tma=st.booleans())


def test_the_grid_is_that_of_sglangs_tuner() -> None:
    assert len(set(grid())) == 1920


@given(TILES)
def test_a_tile_survives_its_key_and_its_entry(tile: Tile) -> None:
    assert parse_tile(tile.key) == tile
    assert tile_of(tile.entry()) == tile


def test_no_tile_needs_more_shared_memory_than_the_gpu_has() -> None:
    small = target_of_gpu("RTX PRO 6000")
    there = set(legal_tiles(QWEN, Gemm.UP, 1024, small))
    assert there < set(legal_tiles(QWEN, Gemm.UP, 1024, H200))
    assert Tile(64, 128, 128, 1, 4, 4) not in there


def test_every_tile_that_ran_best_on_an_h200_is_in_the_space() -> None:
    best = {
        1: Tile(16, 32, 64, 1, 4, 5),
        64: Tile(16, 64, 128, 1, 4, 2),
        1024: Tile(128, 128, 64, 1, 8, 3),
    }
    for tokens, tile in best.items():
        assert tile in legal_tiles(QWEN, Gemm.UP, tokens, H200)


def test_tall_tiles_are_left_out_where_they_only_pad() -> None:
    heights = {tile.block_m for tile in legal_tiles(QWEN, Gemm.UP, 1, H200)}
    assert heights == {16, 32, 64}
    assert 16 not in {tile.block_m for tile in legal_tiles(QWEN, Gemm.UP, 8192, H200)}


def test_block_k_divides_the_quantisation_block() -> None:
    block = MoeProblem(
        experts=256,
        width=256,
        hidden=7168,
        top_k=8,
        dtype=ExpertDtype.FP8_W8A8,
        block_shape=(128, 128),
    )
    assert {tile.block_k for tile in legal_tiles(block, Gemm.UP, 64, H200)} == {64, 128}


def test_with_tma_each_tile_comes_twice_unless_its_barriers_no_longer_fit() -> None:
    plain = set(legal_tiles(QWEN, Gemm.DOWN, 64, H200))
    both = legal_tiles(QWEN, Gemm.DOWN, 64, H200, tma=True)
    loaded = {replace(tile, tma=False) for tile in both if tile.tma}
    assert {tile for tile in both if not tile.tma} == plain
    assert loaded <= plain
    assert len(loaded) > 0.9 * len(plain)


@pytest.mark.parametrize("key", ["16x64x128-g1-w4-s3-tmx", "16x64x128-g1-w4-s3-tma-tma", "16x64"])
def test_what_is_no_tile_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="not a tile"):
        parse_tile(key)


def test_tma_serves_where_the_gpu_has_it_and_no_scale_belongs_to_a_row() -> None:
    fp8 = replace(QWEN, dtype=ExpertDtype.FP8_W8A8)
    assert tma_serves(QWEN, Gemm.UP, H200)
    assert tma_serves(replace(fp8, block_shape=(128, 128)), Gemm.UP, H200)
    assert not tma_serves(replace(fp8, per_channel=True), Gemm.UP, H200)
    assert not tma_serves(QWEN, Gemm.UP, target_of_gpu("A100"))


def test_tma_serves_where_rows_are_multiples_of_sixteen_bytes() -> None:
    odd = replace(QWEN, width=708)
    assert tma_serves(odd, Gemm.UP, H200)
    assert not tma_serves(odd, Gemm.DOWN, H200)


def test_only_rows_that_pad_cost_activation_traffic() -> None:
    assert padding_traffic_bytes(QWEN, 1, 1) == 0
    assert padding_traffic_bytes(QWEN, 1, 16) == 8 * 15 * 768 * 3 * 2
    fp8 = replace(QWEN, dtype=ExpertDtype.FP8_W8A8, block_shape=(128, 128))
    assert padding_traffic_bytes(fp8, 1, 16) == 8 * 15 * 768 * (3 * 2 + 3)


def test_names_are_those_sglang_looks_for() -> None:
    int8 = MoeProblem(
        experts=64, width=512, hidden=2048, top_k=6, dtype=ExpertDtype.INT8_W8A8, per_channel=True
    )
    newest, old = loader_of_version("0.5.23"), loader_of_version("0.5.3")
    assert config_name(QWEN, "NVIDIA H200", Gemm.DOWN, newest).file_name == (
        "E=128,N=768,device_name=NVIDIA_H200_down.json"
    )
    assert config_name(int8, "NVIDIA H200", Gemm.UP, newest).file_name == (
        "E=64,N=512,device_name=NVIDIA_H200,dtype=int8_w8a8,per_channel_quant=True.json"
    )
    assert config_name(int8, "NVIDIA H200", Gemm.UP, old).file_name == (
        "E=64,N=512,device_name=NVIDIA_H200,dtype=int8_w8a8.json"
    )


def test_row_lists_are_sized_as_sglang_sizes_them() -> None:
    assert padded_rows(QWEN, 1, 16) == 8 * 16
    assert padded_rows(QWEN, 64, 16) == 512 + 129 * 15


def test_a_rank_of_several_gets_its_share_of_the_rows() -> None:
    rank = replace(QWEN, experts=32, expert_parallel=4)
    share = touched_weight_bytes(rank, Gemm.UP, 64) / touched_weight_bytes(QWEN, Gemm.UP, 64)
    assert share == pytest.approx(1 / 4)
    assert padded_rows(rank, 64, 16) == 512 + 33 * 15
    heights = {tile.block_m for tile in legal_tiles(QWEN, Gemm.UP, 64, H200)}
    assert {tile.block_m for tile in legal_tiles(rank, Gemm.UP, 64, H200)} == heights


def test_a_batch_reads_the_experts_it_touches() -> None:
    assert touched_weight_bytes(QWEN, Gemm.UP, 1) == weight_bytes(QWEN, Gemm.UP) * 8 // 128
    assert touched_weight_bytes(QWEN, Gemm.UP, 4096) == weight_bytes(QWEN, Gemm.UP)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"experts": 0}, "E=0"),
        ({"width": 2**21}, "N="),
        ({"hidden": -1}, "K=-1"),
        ({"top_k": 129}, "top-k"),
        ({"block_shape": (128, 128)}, "fp8 or int8"),
        ({"dtype": ExpertDtype.FP8_W8A8, "block_shape": (100, 128)}, "powers of two"),
        ({"dtype": ExpertDtype.FP8_W8A8, "block_shape": (512, 128)}, "no multiple"),
        ({"dtype": ExpertDtype.FP8_W8A8, "block_shape": (128, 32)}, "none below 64"),
        ({"dtype": ExpertDtype.INT4_W4A16}, "cannot tune"),
    ],
)
def test_impossible_problems_are_refused(fields: dict[str, object], word: str) -> None:
    values: dict[str, object] = {"experts": 128, "width": 768, "hidden": 2048, "top_k": 8}
    with pytest.raises(ConfigError, match=word):
        check_problem(MoeProblem(**(values | fields)))  # type: ignore[arg-type]


@pytest.mark.parametrize("sizes", [(), (0,), (-1,), (2**19,)])
def test_impossible_batch_sizes_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError):
        check_batch_sizes(sizes)


def test_batch_sizes_come_sorted_and_once() -> None:
    assert check_batch_sizes((64, 1, 64)) == (1, 64)


@pytest.mark.parametrize(
    "problem",
    [
        QWEN,
        MoeProblem(experts=8, width=64, hidden=128, top_k=2, activation="fp16"),
        MoeProblem(
            experts=8, width=64, hidden=128, top_k=2, dtype=ExpertDtype.INT8_W8A8, per_channel=True
        ),
        MoeProblem(
            experts=8,
            width=128,
            hidden=128,
            top_k=2,
            dtype=ExpertDtype.FP8_W8A8,
            block_shape=(128, 128),
        ),
        replace(QWEN, experts=32, expert_parallel=4),
        replace(QWEN, gated=False),
        replace(QWEN, gated=False, experts=32, expert_parallel=4),
    ],
)
def test_a_problem_survives_its_label(problem: MoeProblem) -> None:
    assert problem_of_label(label(problem)) == problem


@given(st.text(max_size=80))
def test_no_text_breaks_the_label_parser(text: str) -> None:
    try:
        problem_of_label(text)
    except InputError:
        return
    assert text.startswith("E=")
