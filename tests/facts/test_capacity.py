"""Capacity, memory and start-up of the real logs: what each run's flags make true of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.diagnosis import Request, diagnose_logs
from advisor.facts.capacity import kv_cell
from advisor.facts.model import RunFacts
from advisor.facts.rank_memory import Pool, RankMemory
from advisor.sources.files import LogInput

FIXTURES = Path(__file__).parent.parent / "fixtures"
GIB = 1 << 30


def run_of(name: str, folder: str = "logs") -> RunFacts:
    path = FIXTURES / folder / f"{name}.log"
    return diagnose_logs(
        Request(logs=(LogInput(name=path.name, path=path),), rules=(), fail_on=None)
    ).run


def facts(*lines: str) -> RunFacts:
    log = LogInput(name="x.log", text="\n".join(lines) + "\n")
    return diagnose_logs(Request(logs=(log,), rules=(), fail_on=None), tolerant=True).run


@pytest.mark.parametrize(
    ("name", "requests", "limit", "next_limit", "tokens", "token_limit"),
    [
        ("qwen3moe-default", 4096, "token_estimate", "half_of_tokens", 750511, "kv_memory"),
        ("qwen35-hybrid-default", 499, "state_slots", "token_estimate", 10408160, "kv_memory"),
        ("qwen35-nextn-mem070", 48, "speculative_default", "state_slots", 7107952, "kv_memory"),
        (
            "qwen3moe-allreduce-flags-tp1",
            4096,
            "token_estimate",
            "half_of_tokens",
            15702333,
            "kv_memory",
        ),
        ("qwen3moe-fp8-block", 4096, "token_estimate", "half_of_tokens", 7849118, "kv_memory"),
        ("qwen3moe-overlay-good", 4096, "token_estimate", "half_of_tokens", 15702333, "kv_memory"),
        ("llama-retract", 2048, "token_estimate", "half_of_tokens", 6000, "max_total_tokens"),
    ],
)
def test_the_limits_of_the_real_logs(
    name: str, requests: int, limit: str, next_limit: str, tokens: int, token_limit: str
) -> None:
    capacity = run_of(name).capacity
    assert capacity.max_running_requests == requests
    assert (capacity.recomputed, capacity.verdict) == (requests, "verified")
    assert (capacity.binding_limit, capacity.next_limit) == (limit, next_limit)
    assert capacity.max_total_num_tokens == tokens
    assert (capacity.token_binding_limit, capacity.token_verdict) == (token_limit, "verified")
    assert [item.name for item in capacity.limits if item.binds] == [limit]


@pytest.mark.parametrize("release", ["0.5.10", "0.5.12"])
def test_the_story_is_48_by_default_and_26_by_the_state_pool(release: str) -> None:
    capacity = run_of(f"story-{release}", "story").capacity
    assert (capacity.recomputed, capacity.verdict) == (26, "verified")
    assert capacity.binding_formula == "132 slots // 5 slots per request = 26"
    assert capacity.next_formula == "48 (default with speculative decoding)"
    assert capacity.state_slots == 132
    assert capacity.kv_cell_bytes == 12288
    assert (capacity.target, capacity.target_reason) == (48, "requested")
    knobs = {knob.flag: knob for knob in capacity.knobs}
    assert knobs["--max-mamba-cache-size"].value == "195"
    assert knobs["--max-mamba-cache-size"].reaches == 39
    assert knobs["--mamba-ssm-dtype"].reaches == 48
    assert knobs["--disable-radix-cache"].reaches == 48


def test_a_queue_at_the_limit_asks_for_more_requests() -> None:
    capacity = facts(
        "[2026-03-04 05:06:07] server_args=ServerArgs(model_path='/m', tp_size=1, "
        "max_running_requests=32, speculative_algorithm=None, enable_dp_attention=False)",
        "[2026-03-04 05:06:08 TP0] max_total_num_tokens=524288, chunked_prefill_size=8192, "
        "max_prefill_tokens=8192, max_running_requests=32, context_len=4096, "
        "available_gpu_mem=9.00 GB",
        "[2026-03-04 05:06:09 TP0] Decode batch, #running-req: 32, #token: 8100, token usage: "
        "0.02, cuda graph: True, gen throughput (token/s): 44.10, #queue-req: 61",
    ).capacity
    assert capacity.binding_limit == "requested"
    assert (capacity.target, capacity.target_reason) == (93, "queue")
    assert [(knob.flag, knob.value) for knob in capacity.knobs] == [
        ("--max-running-requests", "93")
    ]


def test_what_is_not_in_the_log_is_named() -> None:
    capacity = facts(
        "[2026-03-04 05:06:08 TP0] max_total_num_tokens=524288, chunked_prefill_size=8192, "
        "max_prefill_tokens=8192, max_running_requests=77, context_len=4096"
    ).capacity
    assert capacity.verdict != "verified"
    requested = next(item for item in capacity.limits if item.name == "requested")
    assert requested.missing == ("max_running_requests",)
    assert requested.value is None


@given(
    cell=st.sampled_from([4096, 12288, 65536, 70272, 98304]),
    tokens=st.integers(2_000_000, 20_000_000),
)
def test_the_bytes_of_a_token_come_back_or_stay_unknown(cell: int, tokens: int) -> None:
    gib = round((tokens + 1) * cell / GIB, 2)
    rank = RankMemory(pools=[Pool(tokens=tokens, gib=gib, dtype=None, draft=False)])
    assert kv_cell((rank,), 1) in {cell, None}


def test_the_waterfall_of_a_healthy_run_closes() -> None:
    memory = run_of("qwen3moe-default").memory
    steps = {step.name: step.gib for step in memory.waterfall}
    assert steps["weights"] == 56.89
    assert steps["prefill graphs"] == 1.42
    assert steps["free"] == memory.free_gib == 10.81
    assert sum(steps.values()) == pytest.approx(memory.total_gib, abs=0.05)
    assert memory.reserve_gib == 13.49
    assert all(check.agrees for check in memory.checks)
    assert memory.failed_step is None


def test_the_draft_model_stands_apart_in_the_waterfall() -> None:
    memory = run_of("qwen35-nextn-mem070").memory
    assert (memory.draft_weights_gib, memory.draft_kv_gib) == (7.54, 13.56)
    assert memory.kv_gib == pytest.approx(27.12)


@pytest.mark.parametrize(
    ("name", "step", "turn", "target"),
    [
        ("qwen35-nextn-oom", "pool", "lower", 0.687),
        ("qwen3moe-graph-oom", "graphs", "lower", 0.9),
        ("qwen3moe-not-enough-memory", "no_room_for_pool", "raise", 0.909),
    ],
)
def test_the_direction_of_the_fraction(name: str, step: str, turn: str, target: float) -> None:
    memory = run_of(name).memory
    assert (memory.failed_step, memory.fraction_turn) == (step, turn)
    assert memory.fraction_target == target


def test_another_process_on_the_gpu_is_no_matter_of_the_fraction() -> None:
    memory = facts(
        "[2026-03-04 05:06:07] server_args=ServerArgs(model_path='/m', mem_fraction_static=0.9)",
        "[2026-03-04 05:06:08] Load weight begin. avail mem=40.00 GB",
        "[2026-03-04 05:06:09] Load weight end. type=Qwen3ForCausalLM, dtype=torch.bfloat16, "
        "avail mem=24.00 GB, mem usage=16.00 GB.",
        "[2026-03-04 05:06:10] Memory pool end. avail mem=4.00 GB",
        "[2026-03-04 05:06:11] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "/opt/site-packages/sglang/srt/model_executor/model_runner.py", line 1, in f',
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
        "capacity of 79.10 GiB of which 1.00 GiB is free.",
    ).memory
    assert memory.fraction_turn == "neither"
    assert memory.fraction_why is not None
    assert "other process" in memory.fraction_why


def test_ranks_are_shown_one_by_one() -> None:
    memory = facts(
        "[2026-03-04 05:06:08 TP0] Load weight begin. avail mem=78.00 GB",
        "[2026-03-04 05:06:08 TP1] Load weight begin. avail mem=31.00 GB",
    ).memory
    assert memory.tightest_rank == "TP1"
    assert [(rank.rank, rank.free_gib) for rank in memory.ranks] == [("TP0", 78.0), ("TP1", 31.0)]


def test_the_phases_of_a_real_start() -> None:
    startup = run_of("qwen3moe-default").startup
    assert startup.ready_s == 80
    assert startup.prefill_capture_s == 51.81
    assert startup.decode_capture_s == 8.99
    assert startup.untold_s == pytest.approx(3.84)
    assert [(phase.name, phase.basis) for phase in startup.phases] == [
        ("process start", "timestamps"),
        ("distributed init", "logged"),
        ("weight loading", "logged"),
        ("KV allocation", "timestamps"),
        ("CUDA graph capture", "logged"),
        ("prefill graph capture", "logged"),
        ("graph compilation", "logged"),
        ("warm-up request", "timestamps"),
    ]
    assert startup.load_gib_per_s is None, "dummy weights are read from nowhere"


def test_the_slowest_rank_speaks_for_a_phase() -> None:
    startup = run_of("story-0.5.12", "story").startup
    loading = next(phase for phase in startup.phases if phase.name == "weight loading")
    assert loading.ranks == 4
    assert loading.slowest_rank == "TP3"
    assert startup.load_gib_per_s == pytest.approx(
        57.83 / loading.seconds if loading.seconds else 0
    )


def test_where_the_log_stops() -> None:
    startup = run_of("qwen35-nextn-mem070").startup
    assert (startup.ready, startup.open_phase, startup.open_phase_s) == (
        False,
        "warm-up request",
        6.0,
    )


def test_deepgemm_is_paid_once_and_its_cache_is_named() -> None:
    startup = facts(
        "[2026-03-04 05:00:00 TP0] Capture cuda graph begin. This can take up to several minutes. "
        "avail mem=20.20 GB",
        "[2026-03-04 05:00:01 TP0] Try DeepGEMM JIT Compiling for <GEMM_NT_F8F8BF16> N=2112, "
        "K=7168, num_groups=1 with all Ms. It only takes a little time",
        "DeepGEMM warmup: 100%|██████████| 16384/16384 [19:07<00:00, 14.28it/s]",
        "[2026-03-04 05:20:00 TP0] Capture cuda graph end. Time elapsed: 1199.00 s. mem usage=1.40 "
        "GB. avail mem=18.80 GB.",
    ).startup
    phase = next(phase for phase in startup.phases if phase.name == "DeepGEMM compilation")
    assert phase.once
    assert phase.nested
    assert phase.cache is not None
    assert "SGLANG_DG_CACHE_DIR" in phase.cache
    assert startup.once_s == 1147
