"""Options that a GPU, a release or another option does not carry."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from advisor.diagnosis import Report
from advisor.findings import Finding
from advisor.knowledge.flags import flag_facts, flag_history
from advisor.knowledge.gpus import all_gpus
from advisor.knowledge.ranges import parse_ranges, releases_in
from advisor.preflight.catalogue import checks, outcomes
from advisor.preflight.support import rows
from advisor.rules.vocabulary import TOPICS

Judge = Callable[..., dict[str, Finding]]
Skipped = Callable[..., dict[str, str]]
HYBRID: dict[str, object] = {
    "architectures": ["Qwen3NextForCausalLM"],
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "linear_num_value_heads": 32,
    "full_attention_interval": 4,
    "vocab_size": 151936,
}


def test_each_row_names_what_exists() -> None:
    for row in rows():
        assert row.check in checks(), row
        assert row.otherwise in outcomes(), row
        assert parse_ranges(row.sglang)
        assert row.where
        assert row.basis in {"read", "inferred", "thread"}
        for release in releases_in(row.sglang):
            having = [flag for flag in row.flags if flag_facts(flag, str(release))]
            assert having or not row.flags, (row.flags, release)


def test_each_value_of_a_row_is_one_of_its_flag() -> None:
    for row in rows():
        for value in row.values:
            known = [
                facts.choices is None or value in facts.choices
                for flag in row.flags
                for release in releases_in(row.sglang)
                if (facts := flag_facts(flag, str(release)))
            ]
            assert any(known), (row.flags, value)


def test_each_replacement_is_a_value_of_its_flag() -> None:
    for row in rows():
        if row.instead == "remove":
            continue
        for release in releases_in(row.sglang):
            for flag in row.flags:
                facts = flag_facts(flag, str(release))
                if facts is not None and facts.choices is not None:
                    assert row.instead in facts.choices, (flag, row.instead, str(release))


def test_each_added_option_is_a_flag() -> None:
    added = [row.add for row in rows() if row.add]
    assert added
    assert all(flag_history(option.split()[0]) for option in added)


def test_checks_have_known_topics() -> None:
    assert {check.topic for check in checks().values()} <= TOPICS


@pytest.mark.parametrize(
    ("options", "sglang", "gpu", "severity"),
    [
        ("--attention-backend fa3", "0.5.12", "H200", None),
        ("--attention-backend fa3", "0.5.12", "RTX 5090", "error"),
        ("--attention-backend fa3", "0.5.3", "B200", "error"),
        ("--attention-backend trtllm_mha", "0.5.9", "H200", "error"),
        ("--attention-backend trtllm_mha", "0.5.18", "B200", None),
        ("--attention-backend trtllm_mha", "0.5.20", "H200", None),
        ("--decode-attention-backend trtllm_mha", "0.5.18", "RTX 5090", None),
        ("--prefill-attention-backend trtllm_mha", "0.5.18", "RTX 5090", "error"),
        ("--attention-backend trtllm_mla", "0.5.12", "RTX 5090", "error"),
        ("--attention-backend cutedsl_mla", "0.5.14", "H200", "error"),
        ("--attention-backend flashinfer", "0.5.12", "RTX 5090", None),
    ],
)
def test_attention_backends(
    judge: Judge, options: str, sglang: str, gpu: str, severity: str | None
) -> None:
    found = judge(options, sglang=sglang, gpu=gpu).get("attention-backend-unsupported")
    assert (found and found.severity) == severity


@pytest.mark.parametrize(
    ("options", "sglang", "gpu", "rule"),
    [
        ("--quantization modelopt_fp4", "0.5.12", "H200", "quantization-unsupported"),
        ("--kv-cache-dtype nvfp4", "0.5.16", "H200", "kv-dtype-unsupported"),
        ("--fp8-gemm-backend flashinfer_trtllm", "0.5.12", "RTX 5090", "gemm-backend-unsupported"),
        ("--moe-a2a-backend megamoe", "0.5.23", "RTX 5090", "moe-transport-unsupported"),
        ("--enable-single-batch-overlap", "0.5.16", "H200", "batch-overlap-unsupported"),
        ("--enable-two-batch-overlap", "0.5.12", "H200", "batch-overlap-unsupported"),
        ("--enable-torch-symm-mem", "0.5.12", "RTX 5090", "symmetric-memory-unsupported"),
        ("--moe-runner-backend deep_gemm", "0.5.14", "RTX 5090", "moe-runner-unsupported"),
        ("--speculative-algorithm EAGLE", "0.5.12", "H200", "speculative-limits-requests"),
        ("--enable-dp-attention --dp 1", "0.5.12", "H200", "dp-attention-adjusts"),
    ],
)
def test_one_row_of_each_family(
    judge: Judge, options: str, sglang: str, gpu: str, rule: str
) -> None:
    found = judge(options, sglang=sglang, gpu=gpu)[rule]
    assert found.references or found.why
    assert sglang in {str(item) for item in releases_in(str(found.values["version_range"]))}


@pytest.mark.parametrize(
    "options",
    [
        "--quantization modelopt_fp4",
        "--enable-two-batch-overlap --moe-a2a-backend deepep --disable-piecewise-cuda-graph",
        "--speculative-algorithm EAGLE --max-running-requests 64",
    ],
)
def test_quiet_where_it_fits(judge: Judge, options: str) -> None:
    assert not judge(options, sglang="0.5.12", gpu="B200")


def test_a_replaced_value_says_what_runs(judge: Judge) -> None:
    found = judge("--attention-backend fa3 --kv-cache-dtype fp8_e5m2", gpu="H200")
    assert "Triton attention runs instead" in found["kv-dtype-unsupported"].summary


def test_hybrid_models_need_triton_attention_on_old_releases(judge: Judge) -> None:
    rule = "linear-attention-unsupported"
    assert judge("--tp 1", sglang="0.5.9", gpu="RTX 5090", model=HYBRID)[rule].severity == "error"
    assert rule not in judge("--tp 1", sglang="0.5.12", gpu="RTX 5090", model=HYBRID)
    given = judge("--attention-backend triton", sglang="0.5.9", gpu="RTX 5090", model=HYBRID)
    assert rule not in given


def test_without_a_gpu_it_is_skipped_with_the_reason(judge: Judge, skipped: Skipped) -> None:
    assert "attention-backend-unsupported" not in judge("--attention-backend fa3")
    reason = skipped("--attention-backend fa3")["attention-backend-unsupported"]
    assert reason.startswith("the GPU is not known: give --gpu or --env")
    assert reason.count("give --gpu") == 1


def test_an_option_that_is_not_given_is_not_skipped(skipped: Skipped) -> None:
    assert "attention-backend-unsupported" not in skipped("--tp 2")


def test_a_release_between_two_that_differ_is_left_open(skipped: Skipped) -> None:
    options = "--tp 4 --enable-flashinfer-allreduce-fusion"
    reason = skipped(options, sglang="0.5.13", gpu="RTX 5090:4")["allreduce-fusion-unsupported"]
    assert "0.5.13" in reason


def test_verdicts_cover_every_check(report: Callable[..., Report]) -> None:
    verdicts = report("--tp 4 --attention-backend fa3", gpu="RTX 5090:4").verdicts
    spoken = {item.rule for item in verdicts.findings} | {item.rule for item in verdicts.skipped}
    assert spoken | set(verdicts.quiet) == set(checks())
    assert spoken.isdisjoint(verdicts.quiet)


@pytest.mark.parametrize("gpu", [gpu.name for gpu in all_gpus()])
def test_a_plain_command_starts_on_every_gpu(judge: Judge, gpu: str) -> None:
    errors = [item for item in judge("--tp 1", gpu=gpu).values() if item.severity == "error"]
    assert [item.rule for item in errors] in ([], ["gpu-unsupported"])
