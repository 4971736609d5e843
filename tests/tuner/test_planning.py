"""What a plan offers to the search, by release and GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from advisor.configs.entries import ConfigTable, Entry
from advisor.configs.loaders import loader_of_version
from advisor.configs.lookup import Lookup, Outcome, Source
from advisor.configs.names import ExpertDtype
from advisor.configs.problem import Gemm, MoeProblem, target_of_gpu
from advisor.tuner.batch import Space
from advisor.tuner.effort import EFFORTS
from advisor.tuner.planning import make_plan, references_of
from advisor.tuner.prior import Prior
from advisor.tuner.space import Tile

QWEN = MoeProblem(experts=128, width=768, hidden=2048, top_k=8)
H200 = target_of_gpu("H200")


def spaces(version: str, problem: MoeProblem = QWEN, gpu: str = "H200") -> Mapping[Gemm, Space]:
    plan = make_plan(
        problem,
        target_of_gpu(gpu),
        (64,),
        loader=loader_of_version(version),
        prior=Prior(winners={}),
        effort=EFFORTS["quick"],
    )
    return plan.spaces[64]


@pytest.mark.parametrize(
    ("version", "gemms"),
    [
        ("0.5.3", set()),
        ("0.5.6", {Gemm.DOWN}),
        ("0.5.16", {Gemm.DOWN}),
        ("0.5.17", {Gemm.DOWN}),
        ("0.5.18", {Gemm.UP, Gemm.DOWN}),
        ("0.5.23", {Gemm.UP, Gemm.DOWN}),
    ],
)
def test_tma_is_tried_where_the_release_understands_it(version: str, gemms: set[Gemm]) -> None:
    found = spaces(version)
    assert {gemm for gemm in Gemm if any(tile.tma for tile in found[gemm].tiles)} == gemms


def test_tma_is_not_tried_where_the_gpu_or_the_scales_forbid_it() -> None:
    per_channel = replace(QWEN, dtype=ExpertDtype.FP8_W8A8, per_channel=True)
    for found in (spaces("0.5.23", gpu="A100"), spaces("0.5.23", per_channel)):
        assert not any(tile.tma for space in found.values() for tile in space.tiles)


@pytest.mark.parametrize(("version", "tried"), [("0.5.20", False), ("0.5.23", True)])
def test_a_rank_gets_no_down_tile_with_tma_that_its_release_computes_wrongly(
    version: str, tried: bool
) -> None:
    found = spaces(version, replace(QWEN, experts=32, expert_parallel=4))
    assert any(tile.tma for tile in found[Gemm.DOWN].tiles) == tried
    assert any(tile.tma for tile in found[Gemm.UP].tiles)


def test_a_down_gemm_with_tma_is_charged_for_the_padding_that_its_release_computes() -> None:
    older, newest = spaces("0.5.20"), spaces("0.5.23")
    tile = Tile(64, 64, 64, 1, 4, 3)
    loaded = replace(tile, tma=True)
    assert older[Gemm.DOWN].extra_us(loaded) > 1.0
    assert older[Gemm.DOWN].extra_us(tile) == 0.0
    assert older[Gemm.UP].extra_us(loaded) == 0.0
    assert newest[Gemm.DOWN].extra_us(loaded) == 0.0
    assert older[Gemm.DOWN].extra_us(loaded) > older[Gemm.DOWN].extra_us(
        replace(loaded, block_m=16)
    )


@pytest.mark.parametrize(
    ("fact", "last_without", "first_with"),
    [
        ("early_launch", "0.5.18", "0.5.19"),
        ("padding_skipped", "0.5.21", "0.5.22"),
        ("sorted_ranks", "0.5.22", "0.5.23"),
        ("up_tma_understood", "0.5.17", "0.5.18"),
    ],
)
def test_each_release_is_taken_for_what_its_source_does(
    fact: str, last_without: str, first_with: str
) -> None:
    assert not getattr(loader_of_version(last_without), fact)
    assert getattr(loader_of_version(first_with), fact)


def test_what_a_file_says_about_tma_is_what_the_server_runs_today() -> None:
    entry = Entry(block_m=16, block_n=64, block_k=64, group_m=1, num_warps=4, num_stages=3)
    up = ConfigTable(entries=((64, entry),))
    down = ConfigTable(entries=((64, replace(entry, block_m=32, use_tma=True)),))
    today = Lookup(
        up=Outcome(source=Source.EXACT, wanted=None, path="up", table=up),
        down=Outcome(source=Source.EXACT, wanted=None, path="down", table=down),
        lines=(),
    )
    found = references_of(QWEN, H200, 64, loader_of_version("0.5.23"), today).today
    assert found is not None
    assert not found.up.tma
    assert found.down == Tile(16, 64, 64, 1, 4, 3, tma=True)


def test_a_lone_down_file_is_what_the_server_runs_today_beside_its_built_in_up_tile() -> None:
    entry = Entry(block_m=32, block_n=64, block_k=64, group_m=1, num_warps=4, num_stages=3)
    table = ConfigTable(entries=((64, entry),))
    today = Lookup(
        up=Outcome(source=Source.DEFAULT, wanted=None),
        down=Outcome(source=Source.EXACT, wanted=None, path="down", table=table),
        lines=(),
    )
    found = references_of(QWEN, H200, 64, loader_of_version("0.5.23"), today)
    assert found.today is not None
    assert found.today.up == found.default.up
    assert found.today.down == Tile(found.default.up.block_m, 64, 64, 1, 4, 3)
