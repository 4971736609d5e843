"""The named limit and its arithmetic on servers that ran, and on what their logs leave out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor.capacity import (
    CapacityInputs,
    LimitName,
    StateStrategy,
    Verdict,
    limits,
    state_bytes_of_pool,
    token_limits,
)

H200 = CapacityInputs(
    version="0.5.12.post1",
    arguments_known=True,
    chunked_prefill_size=8192,
)
# Qwen3-30B-A3B, defaults.
PLAIN = replace(
    H200,
    max_total_num_tokens=750511,
    context_length=40960,
    mem_fraction_static=0.903,
    memory_before_weights_gib=139.11,
    memory_after_weights_gib=82.22,
    kv_cell_bytes=98304,
    logged_max_running_requests=4096,
)
# Qwen3.5-122B-A10B with 8 layers, defaults.
HYBRID = replace(
    H200,
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
    kv_cell_bytes=4096,
    state_bytes=state_bytes_of_pool(conv_gib=0.62, recurrent_gib=35.11, slots=1497),
    logged_max_running_requests=499,
)
# The same with NEXTN, 4 draft tokens and extra_buffer.
SPECULATIVE = replace(
    HYBRID,
    max_total_num_tokens=7107952,
    state_strategy=StateStrategy.EXTRA_BUFFER,
    overlap_schedule=True,
    state_slots=1023,
    speculative_algorithm="EAGLE",
    draft_tokens=4,
    mem_fraction_static=0.7,
    state_bytes=state_bytes_of_pool(conv_gib=0.42, recurrent_gib=24.00, slots=1023),
    logged_max_running_requests=48,
)
# Llama-3.1-8B with --max-total-tokens 6000.
CAPPED = replace(
    H200,
    max_total_num_tokens=6000,
    max_total_tokens=6000,
    context_length=131072,
    mem_fraction_static=0.907,
    memory_before_weights_gib=139.13,
    memory_after_weights_gib=124.11,
    kv_cell_bytes=131072,
    logged_max_running_requests=2048,
)


@pytest.mark.parametrize(
    ("server", "name", "formula", "behind"),
    [
        (
            PLAIN,
            LimitName.TOKEN_ESTIMATE,
            "750511 tokens / 40960 context * 512 = 9381, clamped to 2048..4096",
            LimitName.HALF_OF_TOKENS,
        ),
        (
            HYBRID,
            LimitName.STATE_SLOTS,
            "1497 slots // 3 slots per request = 499",
            LimitName.TOKEN_ESTIMATE,
        ),
        (
            SPECULATIVE,
            LimitName.SPECULATIVE_DEFAULT,
            "48 (default with speculative decoding)",
            LimitName.STATE_SLOTS,
        ),
        (
            CAPPED,
            LimitName.TOKEN_ESTIMATE,
            "6000 tokens / 131072 context * 512 = 23, clamped to 2048..4096",
            LimitName.HALF_OF_TOKENS,
        ),
    ],
    ids=["plain", "hybrid", "speculative", "capped"],
)
def test_a_server_that_ran(
    server: CapacityInputs, name: LimitName, formula: str, behind: LimitName
) -> None:
    report = limits(server)
    assert report.verdict is Verdict.VERIFIED
    assert report.binding is not None
    assert (report.binding.name, report.binding.formula) == (name, formula)
    assert report.next_limit is not None
    assert report.next_limit.name is behind


@pytest.mark.parametrize("server", [PLAIN, HYBRID, SPECULATIVE, CAPPED])
def test_the_token_pool_of_a_server_that_ran(server: CapacityInputs) -> None:
    report = token_limits(server)
    assert report.verdict is Verdict.VERIFIED
    (candidate,) = report.candidates
    memory = next(limit for limit in candidate.limits if limit.name is LimitName.KV_MEMORY)
    assert memory.high is not None
    assert memory.high - memory.low < 0.01 * memory.high


def test_a_user_cap_binds_the_token_pool() -> None:
    report = token_limits(CAPPED)
    assert report.binding is not None
    assert report.binding.name is LimitName.MAX_TOTAL_TOKENS
    assert report.next_limit is not None
    assert report.next_limit.low > 900_000


def test_slots_that_no_line_prints_come_from_memory() -> None:
    report = limits(replace(HYBRID, state_slots=None))
    assert report.verdict is Verdict.VERIFIED
    (candidate,) = report.candidates
    assert (candidate.low, candidate.high) == (498, 499)


def test_the_log_tells_how_many_slots_a_request_takes() -> None:
    unknown = replace(HYBRID, radix_cache=None, state_strategy=None, overlap_schedule=None)
    report = limits(unknown)
    assert sorted(one.value or 0 for one in report.candidates) == [299, 374, 499, 1497]
    assert report.verdict is Verdict.VERIFIED
    assert report.chosen is not None
    assert report.chosen.slots_per_request == 3
    assert "3 slots per request" in report.reason


def test_the_log_tells_the_release() -> None:
    """4096 tokens hold at most 2048 requests from 0.5.14 on; before, nothing but the flag."""
    server = CapacityInputs(
        version_range=("0.5.12", "0.5.14"),
        arguments_known=True,
        max_running_requests=2048,
        max_total_num_tokens=4000,
        context_length=1000,
        logged_max_running_requests=2000,
    )
    report = limits(server)
    assert [one.value for one in report.candidates] == [2048, 2000]
    assert report.reason == "of 2048 or 2000, the logged 2000 fits SGLang 0.5.14"
    assert report.binding is not None
    assert report.binding.name is LimitName.HALF_OF_TOKENS


def test_agreeing_releases_are_one_candidate() -> None:
    report = limits(replace(PLAIN, version=None))
    assert len(report.candidates) == 1
    assert report.candidates[0].releases[0] == "0.5.3"
    assert report.candidates[0].releases[-1] == "0.5.23"


def test_a_wrong_log_contradicts() -> None:
    report = limits(replace(HYBRID, logged_max_running_requests=500))
    assert report.verdict is Verdict.CONTRADICTS
    assert report.binding is None
    assert report.reason == "the log says 500, recomputed: 499"


def test_without_tokens_the_estimate_is_a_range() -> None:
    report = limits(replace(PLAIN, max_total_num_tokens=None))
    assert report.verdict is Verdict.UNKNOWN
    estimate, half = report.limits
    assert (estimate.low, estimate.high) == (2048, 4096)
    assert estimate.missing == ("max_total_num_tokens",)
    assert (half.low, half.high) == (0, None)
    assert report.binding is None


def test_a_known_bound_that_is_the_logged_value_binds_without_the_others() -> None:
    report = limits(replace(SPECULATIVE, version="0.5.16", max_total_num_tokens=None))
    assert report.verdict is Verdict.VERIFIED
    assert report.binding is not None
    assert report.binding.name is LimitName.SPECULATIVE_DEFAULT


def test_the_logged_value_leaves_one_bound() -> None:
    """499 slots' worth and an unknown pool of tokens: 300 can only be half of the tokens."""
    unknown = replace(HYBRID, max_total_num_tokens=None, logged_max_running_requests=300)
    report = limits(unknown)
    assert report.verdict is Verdict.UNKNOWN
    assert report.binding is not None
    assert report.binding.name is LimitName.HALF_OF_TOKENS


def test_nothing_known_is_nothing_claimed() -> None:
    report = limits(CapacityInputs(logged_max_running_requests=17))
    assert report.verdict is Verdict.UNKNOWN
    assert report.binding is None


def test_a_release_before_the_known_ones_has_no_candidates() -> None:
    report = limits(replace(PLAIN, version="0.4.6.post5"))
    assert report.candidates == ()
    assert report.limits == ()
    assert report.verdict is Verdict.UNKNOWN
    assert report.reason == "the formulas are known for SGLang 0.5.3 to 0.5.23"


def test_a_newer_release_is_judged_by_the_newest_known_and_says_so() -> None:
    report = limits(replace(PLAIN, version="0.6.1"))
    assert report.candidates[0].releases == ("0.5.23",)
    assert report.reason.endswith("by the rules of 0.5.23, the newest release known")


@pytest.mark.parametrize(
    ("version", "speculative", "expected"),
    [
        ("0.5.10", None, 4096),
        ("0.5.12", None, 256),
        ("0.5.23", None, 256),
        ("0.5.23", "EAGLE", 256),
        ("0.5.10", "EAGLE", 48),
    ],
)
def test_deepseek_v4_default_comes_before_the_speculative_one(
    version: str, speculative: str | None, expected: int
) -> None:
    server = replace(
        PLAIN, version=version, deepseek_v4=True, speculative_algorithm=speculative, draft_tokens=4
    )
    (candidate,) = limits(server).candidates
    assert candidate.value == expected


@pytest.mark.parametrize(("version", "expected"), [("0.5.20", 0), ("0.5.23", 1)])
def test_fewer_requests_than_workers(version: str, expected: int) -> None:
    server = replace(
        PLAIN,
        version=version,
        max_running_requests=3,
        data_parallel_workers=8,
        logged_max_running_requests=expected,
    )
    report = limits(server)
    assert report.verdict is Verdict.VERIFIED
    assert report.binding is not None
    assert report.binding.formula == (f"3 (--max-running-requests) // 8 DP workers = {expected}")


@pytest.mark.parametrize(
    ("version", "strategy", "overlap", "speculative", "slots"),
    [
        ("0.5.6", StateStrategy.NO_BUFFER, True, None, 3),
        ("0.5.9", StateStrategy.EXTRA_BUFFER, True, None, 5),
        ("0.5.9", StateStrategy.EXTRA_BUFFER, False, None, 5),
        ("0.5.9", StateStrategy.EXTRA_BUFFER, True, "EAGLE", 4),
        ("0.5.10", StateStrategy.EXTRA_BUFFER, True, "EAGLE", 5),
        ("0.5.12", StateStrategy.EXTRA_BUFFER, False, None, 4),
        ("0.5.14", StateStrategy.EXTRA_BUFFER_LAZY, True, None, 4),
        ("0.5.23", StateStrategy.EXTRA_BUFFER, True, "EAGLE", 5),
    ],
)
def test_slots_per_request(
    version: str,
    strategy: StateStrategy,
    *,
    overlap: bool,
    speculative: str | None,
    slots: int,
) -> None:
    server = replace(
        HYBRID,
        version=version,
        state_strategy=strategy,
        overlap_schedule=overlap,
        speculative_algorithm=speculative,
        logged_max_running_requests=None,
    )
    assert [one.slots_per_request for one in limits(server).candidates] == [slots]


def test_skipping_the_decode_lock_saves_a_slot_of_extra_buffer_only() -> None:
    server = replace(
        HYBRID,
        version="0.5.20",
        skip_decode_lock=True,
        overlap_schedule=True,
        state_strategy=StateStrategy.EXTRA_BUFFER,
    )
    assert limits(server).candidates[0].slots_per_request == 4
    assert (
        limits(replace(server, state_strategy=StateStrategy.NO_BUFFER))
        .candidates[0]
        .slots_per_request
        == 3
    )


# 48 -> 26 of a Qwen3.5-122B-A10B class model on four 96 GB GPUs with NEXTN: 36 linear layers,
# 64 value and 16 key heads of 128, convolution of 4, float32 recurrent state.
STATE_BYTES = 36 * (3 * (64 * 128 + 2 * 16 * 128) // 4 * 2 + 16 * 128 * 128 * 4)


def worked_example(version: str, *, rest_gib: float, draft_tokens: int) -> CapacityInputs:
    return CapacityInputs(
        version=version,
        arguments_known=True,
        max_total_num_tokens=800_000,
        context_length=262144,
        speculative_algorithm="NEXTN",
        draft_tokens=draft_tokens,
        hybrid=True,
        radix_cache=True,
        state_strategy=StateStrategy.EXTRA_BUFFER,
        overlap_schedule=True,
        mem_fraction_static=0.8,
        memory_before_weights_gib=95.0,
        memory_after_weights_gib=95.0 * 0.2 + rest_gib,
        memory_rounding_gib=0.0,
        memory_drift_gib=0.0,
        state_bytes=STATE_BYTES,
        kv_cell_bytes=12288,
    )


@pytest.mark.parametrize(
    ("version", "rest_gib", "draft_tokens", "expected"),
    [
        ("0.5.12", 16.8, 4, 26),
        ("0.5.12", 25.1, 4, 48),
        ("0.5.12", 13.4, 2, 26),
        ("0.5.16", 17.8, 4, 26),
        ("0.5.16", 32.7, 4, 48),
        ("0.5.16", 13.9, 2, 26),
        ("0.5.18", 18.2, 4, 26),
        ("0.5.18", 33.1, 4, 48),
        ("0.5.23", 14.1, 2, 26),
    ],
)
def test_the_worked_example(
    version: str, rest_gib: float, draft_tokens: int, expected: int
) -> None:
    assert STATE_BYTES == 38_412_288
    (candidate,) = limits(
        worked_example(version, rest_gib=rest_gib, draft_tokens=draft_tokens)
    ).candidates
    assert candidate.value == expected
    assert candidate.binding is not None
    expected_name = LimitName.STATE_SLOTS if expected == 26 else LimitName.SPECULATIVE_DEFAULT
    assert candidate.binding.name is expected_name


def test_an_unread_release_is_judged_by_its_neighbours() -> None:
    report = limits(replace(SPECULATIVE, version="0.5.13", logged_max_running_requests=48))
    assert {name for one in report.candidates for name in one.releases} == {"0.5.12", "0.5.14"}
    assert report.verdict is Verdict.VERIFIED
