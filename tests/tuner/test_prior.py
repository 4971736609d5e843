from __future__ import annotations

import pytest

from advisor.configs.problem import Gemm, MoeProblem, target_of_gpu
from advisor.errors import ConfigError
from advisor.tuner.prior import Prior, Winner, parse_prior, shipped_prior
from advisor.tuner.space import Tile, legal_tiles

PROBLEM = MoeProblem(experts=128, width=768, hidden=2048, top_k=8)
WINNER = Tile(16, 64, 64, 1, 4, 4)


def prior_of(tokens: int = 64, sm: int = 90, gemm: Gemm = Gemm.UP) -> Prior:
    winner = Winner(sm=sm, gemm=gemm, tokens=tokens, tile=WINNER, count=3)
    return Prior(winners={"16bit": (winner,)})


def scores(prior: Prior, tiles: tuple[Tile, ...], tokens: int = 64) -> list[float]:
    return prior.scores(tiles, PROBLEM, Gemm.UP, tokens, 90)


def test_the_winner_scores_best_and_near_tiles_more_than_far_ones() -> None:
    near, far = Tile(16, 64, 64, 1, 4, 3), Tile(256, 256, 64, 64, 8, 2)
    best, second, last = scores(prior_of(), (WINNER, near, far))
    assert best == 1.0
    assert 1.0 > second > last


def test_nothing_known_means_all_alike() -> None:
    assert scores(Prior(winners={}), (WINNER, Tile(64, 64, 64, 1, 4, 3))) == [1.0, 1.0]


def test_winners_of_far_batch_sizes_do_not_count() -> None:
    assert scores(prior_of(tokens=1), (WINNER, Tile(64, 64, 64, 1, 4, 3)), tokens=4096) == [1, 1]


def test_other_weights_have_their_own_winners() -> None:
    other = Prior(winners={"8bit": prior_of().winners["16bit"]})
    assert set(scores(other, (WINNER, Tile(64, 64, 64, 1, 4, 3)))) == {1.0}


def test_the_shipped_prior_ranks_small_tiles_first_for_decoding() -> None:
    tiles = legal_tiles(PROBLEM, Gemm.UP, 1, target_of_gpu("H200"))
    ranked = sorted(zip(scores(shipped_prior(), tiles, 1), tiles, strict=True), reverse=True)
    assert {tile.block_m for _, tile in ranked[:20]} == {16}


@pytest.mark.parametrize(
    "document",
    [None, [], {}, {"winners": 3}, {"winners": {"16bit": {90: {"up": {1: {"nonsense": 1}}}}}}],
)
def test_other_documents_are_refused(document: object) -> None:
    with pytest.raises(ConfigError, match="not a tuner prior"):
        parse_prior(document, "prior.yaml")
