"""Knobs: the value, what it reaches, where it stops, what it costs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from advisor.capacity import (
    CapacityInputs,
    Knob,
    StateStrategy,
    advice,
    limits,
    token_limits,
)

GIB = 1 << 30
STATE = 25_608_192
RECURRENT = 25_165_824

# Qwen3.5-122B-A10B with 8 layers on an H200, defaults: 499 requests.
HYBRID = CapacityInputs(
    version="0.5.12.post1",
    arguments_known=True,
    chunked_prefill_size=8192,
    max_total_num_tokens=10408160,
    context_length=262144,
    hybrid=True,
    radix_cache=True,
    state_strategy=StateStrategy.NO_BUFFER,
    overlap_schedule=False,
    state_slots=1497,
    mem_fraction_static=0.8387624218749999,
    memory_before_weights_gib=139.11,
    memory_after_weights_gib=97.89,
    free_after_start_gib=20.67,
    kv_cell_bytes=4096,
    state_bytes=STATE,
    recurrent_state_bytes=RECURRENT,
    state_dtype="float32",
    logged_max_running_requests=499,
)
# 48 asked, 26 got: four 96 GB GPUs, NEXTN, extra_buffer with overlap, 0.5.18.
CAPPED_BY_STATE = replace(
    HYBRID,
    version="0.5.18",
    max_total_num_tokens=790_000,
    context_length=65536,
    state_strategy=StateStrategy.EXTRA_BUFFER,
    overlap_schedule=True,
    state_slots=130,
    speculative_algorithm="EAGLE",
    draft_tokens=4,
    kv_cell_bytes=12288,
    state_bytes=38_412_288,
    recurrent_state_bytes=37_748_736,
    mem_fraction_static=None,
    free_after_start_gib=None,
    logged_max_running_requests=26,
)


def knobs(inputs: CapacityInputs, target: int) -> dict[str, Knob]:
    return {knob.flag: knob for knob in advice(limits(inputs), target)}


def test_from_26_to_the_speculative_default() -> None:
    offered = knobs(CAPPED_BY_STATE, 48)
    assert list(offered) == [
        "--mamba-full-memory-ratio",
        "--max-mamba-cache-size",
        "--mamba-radix-cache-strategy",
        "--mamba-ssm-dtype",
        "--disable-radix-cache",
    ]
    slots = offered["--max-mamba-cache-size"]
    assert (slots.value, slots.reaches) == ("240", 48)
    assert slots.formula == "48 requests * 5 slots = 240"
    # 110 more slots, and draft states of 22 more requests.
    assert slots.cost_bytes == (110 + 22 * 4) * 38_412_288
    lazy = offered["--mamba-radix-cache-strategy"]
    assert (lazy.value, lazy.reaches, lazy.cost_bytes) == ("extra_buffer_lazy", 29, 0)
    half = offered["--mamba-ssm-dtype"]
    assert (half.value, half.reaches) == ("bfloat16", 48)
    assert offered["--disable-radix-cache"].reaches == 48
    assert "set --mamba-radix-cache-strategy no_buffer" in offered["--disable-radix-cache"].cost


def test_the_ratio_that_is_named_holds_the_target() -> None:
    """Set it and recompute the slots from memory."""
    started = replace(
        CAPPED_BY_STATE,
        state_slots=None,
        mem_fraction_static=0.8,
        memory_before_weights_gib=95.0,
        memory_after_weights_gib=95.0 * 0.2 + 18.2,
        memory_rounding_gib=0.0,
        memory_drift_gib=0.0,
    )
    assert limits(started).candidates[0].value == 26
    knob = knobs(started, 48)["--mamba-full-memory-ratio"]
    after = replace(started, full_memory_ratio=float(knob.value), logged_max_running_requests=None)
    assert limits(after).candidates[0].value == 48
    below = replace(after, full_memory_ratio=float(knob.value) - 0.05)
    assert (limits(below).candidates[0].value or 0) < 48


@given(
    version=st.sampled_from(["0.5.9", "0.5.12", "0.5.16", "0.5.20", "0.5.23"]),
    rest=st.integers(15 * 64, 60 * 64),
    draft=st.none() | st.integers(2, 6),
    growth=st.integers(1, 60),
)
@hypothesis_settings(max_examples=150, deadline=None)
def test_every_state_knob_reaches_what_it_says(
    version: str, rest: int, draft: int | None, growth: int
) -> None:
    started = replace(
        CAPPED_BY_STATE,
        version=version,
        state_slots=None,
        speculative_algorithm=None if draft is None else "EAGLE",
        draft_tokens=draft,
        max_running_requests=500,
        mem_fraction_static=0.75,
        memory_before_weights_gib=96.0,
        memory_after_weights_gib=24.0 + rest / 64,
        memory_rounding_gib=0.0,
        memory_drift_gib=0.0,
        state_bytes=4_194_304 + 2_097_152,
        recurrent_state_bytes=4_194_304,
        context_length=4096,
        logged_max_running_requests=None,
    )
    now = limits(started).candidates[0].value
    if not now or now + growth > 500:
        return
    for knob in advice(limits(started), now + growth):
        turned = {
            "--mamba-full-memory-ratio": {"full_memory_ratio": knob.value},
            "--max-mamba-cache-size": {"max_mamba_cache_size": knob.value},
        }.get(knob.flag)
        if turned is not None:
            changes = {
                name: int(value) if name == "max_mamba_cache_size" else float(value)
                for name, value in turned.items()
            }
            after = limits(replace(started, **changes))  # type: ignore[arg-type]
            assert (after.candidates[0].value or 0) >= knob.reaches


def test_the_static_fraction_stops_at_the_activation_reserve() -> None:
    knob = knobs(HYBRID, 600)["--mem-fraction-static"]
    assert (knob.value, knob.reaches) == ("0.896", 551)
    assert knob.stops_at == "of 20.67 GiB free after start, 12.62 GiB must stay for activations"
    assert knob.cost_bytes == round((0.896 - 0.8387624218749999) * 139.11 * GIB)


def test_the_static_fraction_goes_no_further_than_needed() -> None:
    knob = knobs(HYBRID, 510)["--mem-fraction-static"]
    assert 0.8387 < float(knob.value) < 0.896
    assert knob.reaches >= 510


def test_the_state_pool_leaves_one_full_context() -> None:
    offered = knobs(HYBRID, 3000)
    knob = offered["--max-mamba-cache-size"]
    assert knob.reaches < 3000
    assert knob.stops_at == "the KV cache must keep one full context"
    assert knob.cost_bytes is not None
    assert knob.cost_bytes <= (10408160 - 262144) * 4096
    ratio = offered["--mamba-full-memory-ratio"]
    assert ratio.reaches < 3000
    assert ratio.stops_at == knob.stops_at
    assert ratio.reaches == pytest.approx(knob.reaches, rel=0.01)


def test_a_cache_size_that_is_overwritten_is_not_offered() -> None:
    """0.5.6 computes it anew with the radix cache on."""
    offered = knobs(replace(HYBRID, version="0.5.6"), 600)
    assert "--max-mamba-cache-size" not in offered
    assert "--mamba-full-memory-ratio" in offered


def test_flags_are_spelled_as_in_the_release() -> None:
    """0.5.12 calls it --mamba-scheduler-strategy, and 0.5.3 has no memory ratio."""
    older = replace(
        HYBRID,
        version="0.5.12",
        state_strategy=StateStrategy.EXTRA_BUFFER,
        overlap_schedule=True,
        logged_max_running_requests=299,
    )
    assert "--mamba-scheduler-strategy no_buffer" in knobs(older, 600)["--disable-radix-cache"].cost
    oldest = replace(HYBRID, version="0.5.3", state_slots=100, logged_max_running_requests=100)
    assert list(knobs(oldest, 600)) == ["--max-mamba-cache-size"]


def test_a_fixed_cache_size_leaves_only_itself_and_the_radix_cache() -> None:
    offered = knobs(replace(HYBRID, max_mamba_cache_size=1497), 600)
    assert list(offered) == ["--max-mamba-cache-size", "--disable-radix-cache"]


def test_a_bfloat16_state_is_not_halved_again() -> None:
    assert "--mamba-ssm-dtype" not in knobs(replace(HYBRID, state_dtype="bfloat16"), 600)


def test_the_speculative_default_is_the_users_to_raise() -> None:
    speculative = replace(
        HYBRID,
        state_strategy=StateStrategy.EXTRA_BUFFER,
        overlap_schedule=True,
        state_slots=1023,
        max_total_num_tokens=7107952,
        speculative_algorithm="EAGLE",
        draft_tokens=4,
        mem_fraction_static=0.7,
        free_after_start_gib=21.64,
        logged_max_running_requests=48,
    )
    (knob,) = advice(limits(speculative), 128)
    assert (knob.flag, knob.value, knob.reaches) == ("--max-running-requests", "128", 128)
    assert knob.cost_bytes == 80 * ((262144 + 4 + 4) * 4 + 4 * STATE)
    # Up to 0.5.12 draft states come off before the slots: at some point they eat the pool.
    far = knobs(speculative, 1000)["--max-running-requests"]
    assert 128 < far.reaches < 204
    assert far.stops_at.startswith("the draft states of")


def test_workers_multiply_the_flag() -> None:
    shared = replace(
        CAPPED_BY_STATE, data_parallel_workers=4, max_running_requests=192, version="0.5.23"
    )
    assert knobs(shared, 48)["--max-mamba-cache-size"].value == "960"


def test_a_request_above_the_estimate() -> None:
    plain = CapacityInputs(
        version="0.5.14",
        arguments_known=True,
        max_total_num_tokens=12_000,
        context_length=40960,
        logged_max_running_requests=2048,
    )
    asked = knobs(plain, 4000)["--max-running-requests"]
    assert (asked.value, asked.reaches) == ("4000", 4000)
    # 0.5.12 holds a request to the estimate as well: only a shorter context raises that.
    offered = knobs(replace(plain, version="0.5.12"), 4000)
    assert list(offered) == ["--context-length"]
    assert offered["--context-length"].value == str(12_000 * 512 // 4000)


def test_a_capped_token_pool() -> None:
    capped = CapacityInputs(
        version="0.5.12.post1",
        arguments_known=True,
        max_total_num_tokens=6000,
        max_total_tokens=6000,
        context_length=131072,
        mem_fraction_static=0.907,
        memory_before_weights_gib=139.13,
        memory_after_weights_gib=124.11,
        kv_cell_bytes=131072,
    )
    (enough,) = advice(token_limits(capped), 500_000)
    assert (enough.flag, enough.value) == ("--max-total-tokens", "500000")
    assert enough.cost_bytes == 494_000 * 131072
    (most,) = advice(token_limits(capped), 5_000_000)
    assert 900_000 < most.reaches < 911_000
    assert most.stops_at.startswith("the memory ends there")


def test_more_tokens_by_the_static_fraction() -> None:
    plain = CapacityInputs(
        version="0.5.12",
        arguments_known=True,
        chunked_prefill_size=8192,
        max_total_num_tokens=100_000,
        context_length=40960,
        mem_fraction_static=0.5,
        memory_before_weights_gib=139.11,
        memory_after_weights_gib=78.71,
        free_after_start_gib=66.0,
        kv_cell_bytes=98304,
    )
    (knob,) = advice(token_limits(plain), 200_000)
    assert knob.flag == "--mem-fraction-static"
    assert float(knob.value) == pytest.approx(0.5 + 100_000 * 98304 / GIB / 139.11, abs=0.0011)
    assert knob.reaches == 200_000


def test_nothing_to_do() -> None:
    assert advice(limits(HYBRID), 499) == ()
    assert advice(limits(replace(HYBRID, version="0.4.6")), 900) == ()
    assert advice(limits(replace(HYBRID, logged_max_running_requests=3)), 900) == ()
