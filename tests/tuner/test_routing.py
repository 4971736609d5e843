from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import InputError
from advisor.tuner.routing import (
    ELSEWHERE,
    Routing,
    RoutingKind,
    keep_local,
    read_routing,
    sort_rows,
)

UNIFORM, ZIPF = Routing(), Routing(kind=RoutingKind.ZIPF)


@given(st.integers(1, 40), st.integers(1, 8), st.integers(0, 99), st.sampled_from([UNIFORM, ZIPF]))
def test_a_token_takes_an_expert_at_most_once(
    tokens: int, top_k: int, seed: int, routing: Routing
) -> None:
    for batch in routing.draw(tokens, 16, top_k, 3, seed):
        assert len(batch) == tokens
        assert all(len(set(row)) == top_k and set(row) <= set(range(16)) for row in batch)


def test_the_same_seed_draws_the_same() -> None:
    assert UNIFORM.draw(8, 64, 4, 2, 1) == UNIFORM.draw(8, 64, 4, 2, 1)
    assert UNIFORM.draw(8, 64, 4, 2, 1) != UNIFORM.draw(8, 64, 4, 2, 2)


def test_single_tokens_of_a_graph_read_different_experts() -> None:
    experts = [expert for batch in UNIFORM.draw(1, 128, 8, 10, 0) for expert in batch[0]]
    assert len(set(experts)) == len(experts) == 80


def test_zipf_prefers_some_experts() -> None:
    counts = Counter(e for row in ZIPF.draw(400, 64, 2, 1, 0)[0] for e in row)
    assert counts.most_common(1)[0][1] > 5 * (400 * 2 / 64)


def test_recorded_loads_decide_who_is_drawn(tmp_path: Path) -> None:
    path = tmp_path / "loads.json"
    path.write_text("[0, 0, 5, 5]", encoding="utf-8")
    drawn = read_routing(path).draw(50, 4, 2, 1, 0)[0]
    assert {expert for row in drawn for expert in row} == {2, 3}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "[0, 0]",
        "[-1, 2]",
        '["a"]',
        "[true]",
        "[1, Infinity]",
        "[NaN]",
        "[" * 100_000,
    ],
)
def test_other_files_are_no_recorded_routing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "loads.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"loads\.json"):
        read_routing(path)


def test_loads_of_another_model_are_refused() -> None:
    routing = Routing(kind=RoutingKind.RECORDED, weights=(1.0, 2.0))
    with pytest.raises(InputError, match="2 experts, the problem 4"):
        routing.draw(1, 4, 1, 1, 0)


def test_a_rank_keeps_its_share_of_the_choices() -> None:
    drawn = UNIFORM.draw(1000, 64, 4, 1, 0)
    (kept,) = keep_local(drawn, 16)
    local = [expert for row in kept for expert in row if expert != ELSEWHERE]
    assert set(local) == set(range(16))
    assert 0.2 < len(local) / 4000 < 0.3


@given(
    st.lists(st.lists(st.integers(ELSEWHERE, 7), min_size=2, max_size=2), min_size=1, max_size=30),
    st.sampled_from([16, 32, 64]),
)
def test_sorted_rows_hold_every_row_once_and_whole_tiles(
    routing: list[list[int]], block_m: int
) -> None:
    count = 2 * len(routing)
    length = count + 9 * (block_m - 1)
    found = sort_rows(routing, block_m, length)
    used = found.rows[: found.padded]
    assert sorted(row for row in used if row < count) == list(range(count))
    assert found.padded % block_m == 0
    assert len(found.rows) == length
    flat = [expert for row in routing for expert in row]
    for tile, expert in enumerate(found.experts[: found.padded // block_m]):
        rows = used[tile * block_m : (tile + 1) * block_m]
        assert {flat[row] for row in rows if row < count} == {expert}
