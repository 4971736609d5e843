"""Facts behind the capacity and prefix-cache rules, through the real readers."""

from __future__ import annotations

import pytest

from advisor.diagnosis import Request, diagnose_logs
from advisor.facts.memory import slots_per_request
from advisor.facts.model import RunFacts
from advisor.sources.files import LogInput

CAPACITY = (
    "[2026-03-04 05:06:07 TP0] max_total_num_tokens=1000, chunked_prefill_size=8192, "
    "max_prefill_tokens=16384, max_running_requests={running}, context_len=4096"
)
PREFILL = (
    "[2026-03-04 05:06:07 TP0] Prefill batch, #new-seq: 1, #new-token: {new}, #cached-token: "
    "{cached}, token usage: 0.01, #running-req: {running}, #queue-req: 0"
)
WEIGHTS = "[2026-03-04 05:06:07 TP{rank}] Load weight begin. avail mem={free} GB"


def _facts(*lines: str) -> RunFacts:
    log = LogInput(name="x.log", text="\n".join(lines) + "\n")
    return diagnose_logs(Request(logs=(log,), rules=(), fail_on=None)).run


@pytest.mark.parametrize(
    ("slots", "running", "per_request"),
    [(132, 26, 5), (45, 9, 5), (1497, 499, 3), (107, 26, 4), (1332, 48, None), (48, 48, None)],
)
def test_the_state_pool_is_the_limit_only_where_its_division_gives_it(
    slots: int, running: int, per_request: int | None
) -> None:
    assert slots_per_request(slots, running) == per_request


def test_slots_per_request_needs_both_lines() -> None:
    pool = (
        "[2026-03-04 05:06:07 TP0] Mamba Cache is allocated. max_mamba_cache_size: 132, "
        "conv_state size: 0.10GB, ssm_state size: 4.70GB"
    )
    assert _facts(pool, CAPACITY.format(running=26)).capacity.slots_per_request == 5
    assert _facts(CAPACITY.format(running=26)).capacity.slots_per_request is None


def test_a_swing_is_a_large_cold_prefill_after_a_warm_one() -> None:
    warm = PREFILL.format(new=500, cached=60000, running=0)
    cold = PREFILL.format(new=32768, cached=0, running=0)
    assert _facts(warm, cold, cold, warm, cold).serving.prefix_swings == 2


def test_swings_are_not_counted_while_other_requests_run() -> None:
    warm = PREFILL.format(new=500, cached=60000, running=3)
    cold = PREFILL.format(new=32768, cached=0, running=3)
    assert _facts(warm, cold, warm, cold).serving.prefix_swings == 0


def test_spread_of_free_memory_over_ranks() -> None:
    facts = _facts(WEIGHTS.format(rank=0, free="80.00"), WEIGHTS.format(rank=1, free="40.00"))
    assert facts.memory.before_spread_ratio == pytest.approx(0.5)
    assert facts.memory.taken_ratio is None


def test_facts_of_serving_and_failure_know_their_lines() -> None:
    facts = _facts(
        "[2026-03-04 05:06:07 TP0] Decode batch. #running-req: 9, #token: 90, token usage: 0.10, "
        "cuda graph: False, gen throughput (token/s): 10.0, #queue-req: 4",
        "[2026-03-04 05:06:08 TP0] Scheduler hit an exception: Traceback (most recent call last):",
        "ValueError: no",
    )
    assert facts.evidence["serving.max_queue"].line == 1
    assert facts.evidence["serving.eager_share"].line == 1
    assert facts.evidence["failure.exception"].line == 2


def test_a_limit_that_a_rank_lowered_is_compared_with_the_dump() -> None:
    facts = _facts(
        "[2026-03-04 05:06:06] Max running requests is reset to 48 for speculative decoding.",
        "[2026-03-04 05:06:07] server_args={'model_path': '/m', 'max_running_requests': 48}",
        "[2026-03-04 05:06:07 TP0] max_running_requests is capped to 26 by the mamba state cache "
        "(max_mamba_cache_size=132, 5 state slots per request).",
        CAPACITY.format(running=26),
    )
    assert facts.capacity.requested_max_running_requests == 48
    assert facts.args is not None
    assert facts.args["max_running_requests"] == 26
