"""Where the memory went, and which way the static fraction has to go."""

from __future__ import annotations

from dataclasses import replace

from advisor.capacity import (
    Amount,
    Basis,
    FailedStep,
    MemoryFailure,
    Turn,
    WaterfallInputs,
    memory_direction,
    memory_waterfall,
)

# Qwen3-30B-A3B on an H200, defaults, 0.5.12.
PLAIN = WaterfallInputs(
    total_gib=139.80,
    distributed_gib=0.09,
    before_weights_gib=139.11,
    after_weights_gib=82.22,
    weights_gib=56.89,
    kv_gib=68.72,
    after_pools_gib=12.77,
    decode_graph_gib=0.45,
    prefill_graph_gib=1.42,
    free_after_start_gib=10.81,
    mem_fraction_static=0.903,
    max_total_num_tokens=750511,
    kv_cell_bytes=98304,
    max_running_requests=4096,
    context_length=40960,
)
# Qwen3.5-122B-A10B with 8 layers and NEXTN: states, draft states and a draft model.
DRAFTING = WaterfallInputs(
    total_gib=139.80,
    distributed_gib=0.09,
    before_weights_gib=139.11,
    after_weights_gib=97.89,
    weights_gib=41.22,
    kv_gib=27.12,
    state_gib=24.42,
    draft_state_gib=4.67,
    after_pools_gib=41.53,
    decode_graph_gib=0.82,
    draft_weights_gib=7.54,
    draft_kv_gib=13.56,
    draft_graph_gib=0.72,
    free_after_start_gib=21.64,
    mem_fraction_static=0.7,
    max_total_num_tokens=7107952,
    kv_cell_bytes=4096,
    max_running_requests=48,
    context_length=262144,
    draft_tokens=4,
)


def test_a_plain_waterfall_adds_up() -> None:
    fall = memory_waterfall(PLAIN)
    assert [(one.name, one.gib) for one in fall.amounts] == [
        ("CUDA context and other processes", 0.6),
        ("communication", 0.09),
        ("weights", 56.89),
        ("KV cache", 68.72),
        ("decode graphs", 0.45),
        ("prefill graphs", 1.42),
        ("token table", 0.63),
        ("other buffers", 0.19),
        ("free", 10.81),
    ]
    assert abs(sum(one.gib for one in fall.amounts) - 139.80) < 0.05
    assert fall.activation_reserve_gib == 13.49
    assert [check.agrees for check in fall.checks] == [True] * 4
    assert fall.missing == ()


def test_a_waterfall_with_states_and_a_draft() -> None:
    fall = memory_waterfall(DRAFTING)
    amounts = {one.name: one for one in fall.amounts}
    assert amounts["state cache"].gib == 24.42
    assert amounts["draft KV cache"].gib == 13.56
    assert abs(sum(one.gib for one in fall.amounts) - 139.80) < 0.05
    # The draft gives its embeddings back: 19.51 GiB free after its pool, 22.35 before its graphs.
    assert amounts["released during start-up"].gib == -2.65
    assert all(check.agrees for check in fall.checks)


def test_the_basis_of_each_amount() -> None:
    fall = memory_waterfall(replace(PLAIN, weights_gib=None))
    weights = next(one for one in fall.amounts if one.name == "weights")
    assert weights == Amount(name="weights", gib=56.89, basis=Basis.DERIVED)
    logged = {one.name for one in fall.amounts if one.basis is Basis.LOGGED}
    assert logged == {"communication", "KV cache", "decode graphs", "prefill graphs", "free"}


def test_a_pool_smaller_than_the_static_share_is_noticed() -> None:
    """Llama-3.1-8B with --max-total-tokens 6000: 122 GiB stay free instead of 13."""
    fall = memory_waterfall(
        WaterfallInputs(
            before_weights_gib=139.13,
            after_weights_gib=124.11,
            kv_gib=0.74,
            after_pools_gib=122.35,
            mem_fraction_static=0.907,
        )
    )
    assert [check.name for check in fall.checks if not check.agrees] == [
        "free before and after the pools",
        "pools fill the static share",
    ]


def test_what_is_missing_is_named() -> None:
    fall = memory_waterfall(WaterfallInputs(kv_gib=10.0))
    assert fall.missing == (
        "total_gib",
        "before_weights_gib",
        "free_after_start_gib",
        "weights_gib",
    )
    assert [one.name for one in fall.amounts] == ["KV cache"]
    assert fall.checks == ()


H200_FAILURE = MemoryFailure(
    step=FailedStep.NO_ROOM_FOR_POOL,
    total_gib=139.80,
    before_weights_gib=139.11,
    after_weights_gib=82.22,
    reserve_gib=13904 / 1024,
    context_length=40960,
    kv_cell_bytes=98304,
)


def test_weights_above_the_static_share_raise_it() -> None:
    """--mem-fraction-static 0.35 with 56.89 GiB of weights."""
    advice = memory_direction(replace(H200_FAILURE, mem_fraction_static=0.35))
    assert advice.turn is Turn.RAISE
    assert (advice.least_ratio, advice.ratio) == (0.436, 0.902)
    assert "56.89 GiB of weights need at least 0.436" in advice.why


def test_weights_above_any_share_leave_it() -> None:
    advice = memory_direction(replace(H200_FAILURE, after_weights_gib=10.0))
    assert advice.turn is Turn.NEITHER
    assert advice.ratio is None
    assert "more GPUs" in advice.why


def test_a_draft_pool_that_does_not_fit_lowers_it() -> None:
    """0.812 chosen automatically; the second half of the draft's KV cache lacks 0.19 GiB."""
    advice = memory_direction(
        MemoryFailure(
            step=FailedStep.POOL,
            mem_fraction_static=0.8119442187499999,
            total_gib=139.80,
            before_weights_gib=139.11,
            after_weights_gib=97.89,
            requested_gib=8.83,
            free_gib=8.64,
            reserve_gib=13440 / 1024,
            context_length=262144,
            kv_cell_bytes=4096,
        )
    )
    assert advice.turn is Turn.LOWER
    assert advice.ratio == 0.716
    assert advice.least_ratio is not None
    assert advice.least_ratio < advice.ratio
    assert "8.83 GiB wanted, 8.64 GiB free" in advice.why


def test_graphs_that_do_not_fit_lower_it_to_the_reserve() -> None:
    """--mem-fraction-static 0.99: 0.62 GiB are left for graphs and activations."""
    advice = memory_direction(
        MemoryFailure(
            step=FailedStep.GRAPHS,
            mem_fraction_static=0.99,
            before_weights_gib=139.13,
            after_weights_gib=133.30,
            after_pools_gib=0.62,
            requested_gib=0.0625,
            free_gib=0.047,
            reserve_gib=13904 / 1024,
        )
    )
    assert advice.turn is Turn.LOWER
    assert advice.ratio == 0.896
    assert advice.most_ratio is not None
    assert advice.ratio <= advice.most_ratio


def test_a_forward_pass_that_does_not_fit_lowers_it_by_what_lacks() -> None:
    failure = MemoryFailure(
        step=FailedStep.RUNTIME,
        mem_fraction_static=0.9,
        before_weights_gib=78.0,
        after_weights_gib=50.0,
        requested_gib=2.5,
        free_gib=0.94,
    )
    advice = memory_direction(failure)
    assert (advice.turn, advice.ratio) == (Turn.LOWER, 0.88)
    unknown = memory_direction(replace(failure, free_gib=None))
    assert (unknown.turn, unknown.ratio) == (Turn.LOWER, None)


def test_weights_that_need_the_whole_share_are_not_lowered() -> None:
    advice = memory_direction(
        MemoryFailure(
            step=FailedStep.RUNTIME,
            mem_fraction_static=0.9,
            before_weights_gib=78.0,
            after_weights_gib=8.5,
            requested_gib=2.5,
            free_gib=0.94,
        )
    )
    assert advice.turn is Turn.NEITHER
    assert "smaller chunks or graphs" in advice.why


def test_another_process_is_the_thing_to_mend() -> None:
    advice = memory_direction(
        replace(H200_FAILURE, step=FailedStep.GRAPHS, before_weights_gib=90.0)
    )
    assert advice.turn is Turn.NEITHER
    assert "49.80 of 139.80 GiB were taken before loading" in advice.why


def test_loading_has_nothing_to_do_with_the_static_share() -> None:
    advice = memory_direction(MemoryFailure(step=FailedStep.WEIGHTS, mem_fraction_static=0.9))
    assert advice.turn is Turn.NEITHER
