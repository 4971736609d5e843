"""Facts on weight loading, DeepGEMM's warm-up, MoE look-ups and changed arguments."""

from __future__ import annotations

import pytest

from advisor.diagnosis import Request, diagnose_logs
from advisor.facts.model import RunFacts
from advisor.sources.files import LogInput

BEGIN = "[2026-03-04 05:00:00 TP0] Load weight begin. avail mem=138.00 GB"
END = (
    "[2026-03-04 06:30:11 TP0] Load weight end. elapsed=5411.00 s, type=KimiK25, "
    "dtype=torch.bfloat16, avail mem=66.10 GB, mem usage=71.90 GB."
)
THREADS = "Multi-thread loading shards: {percent}% Completed | {done}/64 [{clock}<00:00, 18.44s/it]"
SHARDS = (
    "Loading safetensors checkpoint shards: {percent}% Completed | {done}/141 [{clock}<1:00:00]"
)
COMPILE = (
    "[2026-03-04 05:{minute}:00 TP0] Try DeepGEMM JIT Compiling for <GEMM_NT_F8F8BF16> N=2112, "
    "K=7168, num_groups=1 with all Ms."
)
WARM_UP = "DeepGEMM warmup: {percent}%|#### | {done}/16384 [{clock}<00:00, 14.28it/s]"
FOLDER = "/opt/venv/lib/python3.12/site-packages/sglang/srt/layers/moe/moe_runner/triton_utils"
USED = "[2026-03-04 05:06:07] Using MoE kernel config from {folder}/configs/triton_3_6_0/{name}."
DEFAULT = (
    "[2026-03-04 05:06:07] Using default MoE kernel config. Performance might be sub-optimal! "
    "Config file not found at {folder}/configs/triton_3_6_0/{name}, you can create them"
)


def facts(*lines: str) -> RunFacts:
    """Read lines as one log."""
    log = LogInput(name="x.log", text="\n".join(lines) + "\n")
    return diagnose_logs(Request(logs=(log,), rules=(), fail_on=None), tolerant=True).run


def test_time_beyond_a_full_bar_is_told_apart() -> None:
    full = THREADS.format(percent=100, done=64, clock="19:40")
    startup = facts(BEGIN, THREADS.format(percent=0, done=0, clock="00:00"), full, END).startup

    assert (startup.shards_done, startup.shards_total) == (64, 64)
    assert startup.shards_s == 1180.0
    assert startup.after_shards_s == 5411.0 - 1180.0


def test_a_bar_that_is_not_full_gives_the_pace_only() -> None:
    startup = facts(BEGIN, SHARDS.format(percent=5, done=8, clock="17:20")).startup

    assert startup.shard_s == 130.0
    assert startup.after_shards_s is None


def test_no_shard_yet_gives_no_pace() -> None:
    startup = facts(BEGIN, SHARDS.format(percent=0, done=0, clock="00:00")).startup

    assert startup.shard_s is None


def test_bars_of_several_shapes_add_up() -> None:
    startup = facts(
        COMPILE.format(minute="00"),
        WARM_UP.format(percent=100, done=16384, clock="19:00"),
        COMPILE.format(minute="19"),
        WARM_UP.format(percent=100, done=128, clock="01:00"),
        "[2026-03-04 05:21:00 TP0] Memory pool end. avail mem=20.20 GB",
    ).startup

    assert startup.deepgemm_s == 1200.0
    assert startup.deepgemm_shapes == 2


def test_bars_never_exceed_the_time_that_passed() -> None:
    bar = WARM_UP.format(percent=50, done=8192, clock="05:00")
    other_node = WARM_UP.format(percent=40, done=6000, clock="04:00")
    startup = facts(
        COMPILE.format(minute="00"),
        bar,
        other_node,
        bar,
        other_node,
        "[2026-03-04 05:06:00 TP0] Memory pool end. avail mem=20.20 GB",
    ).startup

    assert startup.deepgemm_s == 360.0


def test_without_deepgemm_there_is_no_warm_up() -> None:
    startup = facts(BEGIN).startup

    assert startup.deepgemm_begun is False
    assert startup.deepgemm_s is None


def test_each_shape_of_a_run_has_its_outcome() -> None:
    moe = facts(
        USED.format(folder=FOLDER, name="E=128,N=768,device_name=NVIDIA_H200.json"),
        DEFAULT.format(folder=FOLDER, name="E=128,N=760,device_name=NVIDIA_H200.json"),
    ).moe

    assert moe.up_outcome == "exact"
    assert moe.up_outcomes == ("exact", "default")


def test_a_dense_model_has_no_outcomes() -> None:
    assert facts(BEGIN).moe.up_outcomes is None


@pytest.mark.parametrize(
    ("line", "argument", "value"),
    [
        (
            "FlashMLA only supports a page_size of 64, change page_size to 64.",
            "page_size",
            64,
        ),
        (
            "TensorRT-LLM MHA only supports page_size of 16, 32 or 64, changing page_size from 1 to 64.",
            "page_size",
            64,
        ),
        ("Attention backend not set. Use fa3 backend by default.", "attention_backend", "fa3"),
        (
            "DeepEP MoE is enabled. The expert parallel size is adjusted to be the same as the tensor parallel size[8].",
            "ep_size",
            8,
        ),
        ("Setting KV cache dtype to fp8_e4m3 for DeepSeek DSA.", "kv_cache_dtype", "fp8_e4m3"),
        (
            "FlashInfer TRTLLM MoE is enabled. --disable-shared-experts-fusion is automatically set.",
            "disable_shared_experts_fusion",
            True,
        ),
    ],
)
def test_lines_that_change_an_argument_are_applied(line: str, argument: str, value: object) -> None:
    dump = (
        "[2026-03-04 05:00:00] server_args=ServerArgs(model_path='/models/x', page_size=1, "
        "attention_backend=None, ep_size=1, kv_cache_dtype='auto', "
        "disable_shared_experts_fusion=False)"
    )
    run = facts(dump, f"[2026-03-04 05:00:09 TP0] {line}")

    assert run.args is not None
    assert run.args[argument] == value
    assert [change.name for change in run.changed_args] == [argument]


def test_shapes_after_ready_are_no_part_of_the_start() -> None:
    startup = facts(
        COMPILE.format(minute="00"),
        "[2026-03-04 05:10:00] The server is fired up and ready to roll!",
        COMPILE.format(minute="40"),
        COMPILE.format(minute="41"),
    ).startup

    assert startup.deepgemm_shapes == 1
    assert startup.deepgemm_late_shapes == 1
    assert startup.deepgemm_s == 0.0
