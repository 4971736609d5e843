"""The formulas against a second transcription of SGLang's rules, written release by release.

Each `sglang_*` function follows the order of the source of its release, knows nothing of the
implementation or its tables, and returns (max_total_num_tokens, state slots, max_running_requests)
of one worker. Sources, below sglang/srt/:

0.5.3, 0.5.6    model_executor/model_runner.py, managers/tp_worker.py
0.5.9           model_executor/model_runner_kv_cache_mixin.py, model_executor/model_runner.py
0.5.10 - 0.5.14 model_executor/model_runner_kv_cache_mixin.py
0.5.16 - 0.5.23 mem_cache/kv_cache_configurator.py
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from hypothesis import assume, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from advisor.capacity import (
    CapacityInputs,
    StateStrategy,
    Verdict,
    known_releases,
    limits,
    token_limits,
)

Outcome = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Arguments and memory of a server; all numbers exact in binary."""

    pre: float
    avail: float
    fraction: float
    cell: int
    context: int
    page: int
    asked: int | None
    token_cap: int | None
    dp: int
    spec: str | None
    draft: int
    steps: int
    topk: int
    hybrid: bool
    radix: bool
    strategy: StateStrategy
    overlap: bool
    skip_lock: bool
    state: int
    cache_flag: int | None
    ratio: float


class NoMemoryError(Exception):
    """SGLang refuses such a server."""


def sglang_0_5_3(s: Server) -> Outcome:
    mrr = 48 if s.asked is None and s.spec else s.asked
    slots = 0
    rest = s.avail - s.pre * (1 - s.fraction)
    if s.hybrid:
        slots = s.cache_flag if s.cache_flag is not None else (mrr if mrr is not None else 512)
        slots //= s.dp
        rest -= slots * s.state / (1 << 30)
    tokens = int(rest * (1 << 30) // s.cell)
    pool = clamp_estimate(tokens, s.context) if mrr is None else mrr
    if s.hybrid:
        pool = min(pool, slots)
    tokens = finish_old(s, tokens, pool)
    wish = tokens // 2 if mrr is None else mrr // s.dp
    return tokens, slots, min(wish, pool)


def sglang_0_5_6(s: Server) -> Outcome:
    mrr = 48 if s.asked is None and s.spec else s.asked
    extra = s.draft if s.spec else 0
    slots = 0
    rest = s.avail - s.pre * (1 - s.fraction)
    if s.hybrid:
        if s.radix:
            part = rest * s.ratio / (1 + s.ratio)
            slots = int((part * (1 << 30)) // s.state // (1 + extra))
        elif s.cache_flag is not None:
            slots = s.cache_flag
        else:
            slots = 512 if mrr is None else mrr
        slots //= s.dp
        rest -= slots * s.state * (1 + extra) / (1 << 30)
    tokens = int(rest * (1 << 30) // s.cell)
    pool = clamp_estimate(tokens, s.context) if mrr is None else mrr
    if s.hybrid:
        pool = min(pool, slots // (3 if s.radix else 1))
    tokens = finish_old(s, tokens, pool)
    wish = tokens // 2 if mrr is None else mrr // s.dp
    return tokens, slots, min(wish, pool)


def finish_old(s: Server, tokens: int, pool: int) -> int:
    if s.spec in {"EAGLE", "EAGLE3", "STANDALONE"}:
        tokens += pool * s.steps * s.topk + pool * s.draft + 100
    if s.token_cap is not None:
        tokens = min(tokens, s.token_cap)
    return tokens // s.page * s.page


def middle_pools(s: Server, mrr: int | None) -> tuple[int, int]:
    """Return tokens and slots of 0.5.9 to 0.5.12: draft states first, then the split."""
    rest = s.avail - s.pre * (1 - s.fraction)
    slots = 0
    if s.hybrid:
        if s.spec:
            assert mrr is not None
            rest -= s.state * (mrr // s.dp) * s.draft / (1 << 30)
        if s.cache_flag is not None:
            slots = s.cache_flag // s.dp
        elif not s.radix and mrr is not None:
            slots = mrr // s.dp
        else:
            slots = int((rest * s.ratio / (1 + s.ratio) * (1 << 30)) // s.state)
        rest -= slots * s.state / (1 << 30)
    return int(rest * (1 << 30)) // s.cell, slots


def capped(s: Server, tokens: int) -> int:
    if s.token_cap is not None:
        tokens = min(tokens, s.token_cap)
    return tokens // s.page * s.page


def sglang_0_5_9(s: Server) -> Outcome:
    mrr = 48 if s.asked is None and s.spec else s.asked
    profiled, slots = middle_pools(s, mrr)
    pool = clamp_estimate(profiled, s.context) if mrr is None else mrr
    if s.hybrid:
        more = 0
        if s.strategy is StateStrategy.EXTRA_BUFFER:
            more = 1 if s.spec else 2
        pool = min(pool, slots // (3 + more if s.radix else 1))
    tokens = capped(s, profiled)
    wish = tokens // 2 if mrr is None else mrr // s.dp
    return tokens, slots, min(wish, pool)


def new_ratio(s: Server, *, can_skip: bool) -> int:
    if not s.radix:
        return 1
    skip = can_skip and s.skip_lock
    base = 2 if skip else 3
    if s.strategy is StateStrategy.NO_BUFFER:
        return base + (1 if skip else 0)
    if not s.overlap:
        return base + 1
    return base + (1 if s.strategy is StateStrategy.EXTRA_BUFFER_LAZY else 2)


def sglang_0_5_10(s: Server) -> Outcome:
    mrr = 48 if s.asked is None and s.spec else s.asked
    profiled, slots = middle_pools(s, mrr)
    tokens = capped(s, profiled)
    estimate = clamp_estimate(tokens, s.context)
    count = min(estimate, tokens // 2) if mrr is None else min(mrr // s.dp, estimate)
    if s.hybrid:
        count = min(count, slots // new_ratio(s, can_skip=False))
    return tokens, slots, count


def sglang_joint(s: Server, *, padding: int, can_skip: bool, floor: int) -> Outcome:
    mrr = 48 if s.asked is None and s.spec else s.asked
    per_worker = None if mrr is None else max(floor, mrr // s.dp)
    per_request = new_ratio(s, can_skip=can_skip)
    rest = s.avail - s.pre * (1 - s.fraction)
    slots = 0
    if s.hybrid:
        share = rest * s.ratio / (1 + s.ratio) * (1 << 30)
        if s.cache_flag is not None:
            slots = s.cache_flag // s.dp
        elif not s.radix and per_worker is not None:
            slots = per_worker
        elif s.spec:
            share -= padding * s.state * (1 + s.draft)
            slots = int(share // (s.state * (1 + s.draft / per_request)))
        else:
            slots = int((share - padding * s.state) // s.state)
        if slots <= 0:
            raise NoMemoryError
        if s.spec:
            assert per_worker is not None
            served = min(per_worker, slots // per_request) + padding
            rest -= s.state * served * s.draft / (1 << 30)
        rest -= (slots + padding) * s.state / (1 << 30)
    if rest <= 0:
        raise NoMemoryError
    tokens = capped(s, int(rest * (1 << 30)) // s.cell)
    half = tokens // 2
    estimate = clamp_estimate(tokens, s.context)
    count = min(estimate, half) if per_worker is None else min(per_worker, half)
    if s.hybrid:
        count = min(count, slots // per_request)
    return tokens, slots, count


def clamp_estimate(tokens: int, context: int) -> int:
    guess = int(tokens / context * 512)
    return 2048 if guess < 2048 else min(guess, 4096)


def sglang_0_5_14(s: Server) -> Outcome:
    return sglang_joint(s, padding=0, can_skip=False, floor=0)


def sglang_0_5_18(s: Server) -> Outcome:
    return sglang_joint(s, padding=1, can_skip=True, floor=0)


def sglang_0_5_23(s: Server) -> Outcome:
    return sglang_joint(s, padding=1, can_skip=True, floor=1)


RELEASES: dict[str, Callable[[Server], Outcome]] = {
    "0.5.3": sglang_0_5_3,
    "0.5.6": sglang_0_5_6,
    "0.5.9": sglang_0_5_9,
    "0.5.10": sglang_0_5_10,
    "0.5.12": sglang_0_5_10,
    "0.5.14": sglang_0_5_14,
    "0.5.16": sglang_0_5_14,
    "0.5.18": sglang_0_5_18,
    "0.5.20": sglang_0_5_18,
    "0.5.23": sglang_0_5_23,
}


def started(release: str, server: Server) -> Outcome | None:
    """Return the outcome, or None where SGLang refuses to start."""
    try:
        outcome = RELEASES[release](server)
    except NoMemoryError:
        return None
    return outcome if outcome[0] > 0 and outcome[2] > 0 else None


LAZY_FROM = ("0.5.14", "0.5.16", "0.5.18", "0.5.20", "0.5.23")


@st.composite
def servers(draw: st.DrawFn, release: str) -> Server:
    """Draw a server that this release can be told to start."""
    spec = draw(st.sampled_from([None, None, "EAGLE", "EAGLE3", "NGRAM", "STANDALONE"]))
    overlap = draw(st.booleans())
    strategies = [StateStrategy.NO_BUFFER]
    if release not in {"0.5.3", "0.5.6"}:
        strategies.append(StateStrategy.EXTRA_BUFFER)
    if release in LAZY_FROM and overlap:
        strategies.append(StateStrategy.EXTRA_BUFFER_LAZY)
    return Server(
        pre=draw(st.integers(20 * 64, 180 * 64)) / 64,
        avail=draw(st.integers(10 * 64, 150 * 64)) / 64,
        fraction=draw(st.integers(30, 62)) / 64,
        cell=draw(st.integers(1024, 400_000)),
        context=draw(st.sampled_from([2048, 8192, 40_960, 131_072, 262_144])),
        page=draw(st.sampled_from([1, 16, 64, 256])),
        asked=draw(st.none() | st.integers(1, 6000)),
        token_cap=draw(st.none() | st.integers(2000, 5_000_000)),
        dp=draw(st.sampled_from([1, 1, 2, 8])),
        spec=spec,
        draft=draw(st.integers(1, 8)),
        steps=draw(st.integers(1, 5)),
        topk=draw(st.integers(1, 4)),
        hybrid=draw(st.booleans()),
        radix=False if release == "0.5.3" else draw(st.booleans()),
        strategy=draw(st.sampled_from(strategies)),
        overlap=overlap,
        skip_lock=draw(st.booleans()),
        state=draw(st.integers(1 << 20, 60 << 20)),
        cache_flag=draw(st.none() | st.integers(8, 3000)),
        ratio=draw(st.integers(1, 40)) / 10,
    )


def inputs_of(release: str, server: Server, tokens: int) -> CapacityInputs:
    return CapacityInputs(
        version=release,
        arguments_known=True,
        max_running_requests=server.asked,
        max_total_num_tokens=tokens,
        max_total_tokens=server.token_cap,
        context_length=server.context,
        page_size=server.page,
        data_parallel_workers=server.dp,
        speculative_algorithm=server.spec,
        draft_tokens=server.draft if server.spec else None,
        speculative_steps=server.steps,
        speculative_topk=server.topk,
        hybrid=server.hybrid,
        radix_cache=server.radix,
        state_strategy=server.strategy,
        overlap_schedule=server.overlap,
        skip_decode_lock=server.skip_lock,
        max_mamba_cache_size=server.cache_flag,
        full_memory_ratio=server.ratio,
        mem_fraction_static=server.fraction,
        memory_before_weights_gib=server.pre,
        memory_after_weights_gib=server.avail,
        memory_rounding_gib=0.0,
        memory_drift_gib=0.0,
        kv_cell_bytes=server.cell,
        state_bytes=server.state if server.hybrid else None,
    )


def test_every_known_release_is_transcribed() -> None:
    assert tuple(RELEASES) == known_releases()


@pytest.mark.parametrize("release", RELEASES)
def test_formulas_agree_with_the_transcription(release: str) -> None:
    @given(server=servers(release))
    @hypothesis_settings(max_examples=100, deadline=None)
    def agree(server: Server) -> None:
        outcome = started(release, server)
        assume(outcome is not None)
        tokens, slots, count = outcome or (0, 0, 0)
        inputs = inputs_of(release, server, tokens)

        recomputed = token_limits(inputs)
        assert [one.value for one in recomputed.candidates] == [tokens]

        # Up to 0.5.9 the estimate sees tokens that no line prints once a cap or pages cut them.
        unprinted = release in {"0.5.3", "0.5.6", "0.5.9"} and server.asked is None
        unprinted = unprinted and (server.token_cap is not None or server.page > 1)
        from_memory = limits(replace(inputs, logged_max_running_requests=count))
        (candidate,) = from_memory.candidates
        if unprinted:
            assert from_memory.verdict is not Verdict.CONTRADICTS
        else:
            assert candidate.value == count
            assert from_memory.verdict is Verdict.VERIFIED
            assert candidate.binding is not None

        if server.hybrid:
            line = replace(inputs, state_slots=slots, logged_max_running_requests=count)
            assert limits(line).chosen is not None
            assert limits(line).verdict is from_memory.verdict

    agree()


@pytest.mark.parametrize("release", RELEASES)
def test_unknown_settings_never_exclude_the_truth(release: str) -> None:
    """Whatever the log leaves out, one candidate still admits what SGLang computed."""

    @given(server=servers(release), hide=st.sets(st.sampled_from(HIDDEN), min_size=1))
    @hypothesis_settings(max_examples=60, deadline=None)
    def admits(server: Server, hide: set[str]) -> None:
        outcome = started(release, server)
        assume(outcome is not None)
        tokens, slots, count = outcome or (0, 0, 0)
        known = inputs_of(release, replace(server, skip_lock=False), tokens)
        assume(not server.skip_lock)
        blind = replace(
            known,
            state_slots=slots if server.hybrid else None,
            logged_max_running_requests=count,
            **{name: False if name == "arguments_known" else None for name in hide},  # type: ignore[arg-type]
        )
        report = limits(blind)
        assert report.verdict is not Verdict.CONTRADICTS
        assert any(one.admits(count) for one in report.candidates)

    admits()


HIDDEN = (
    "version",
    "max_total_num_tokens",
    "context_length",
    "radix_cache",
    "state_strategy",
    "overlap_schedule",
)
