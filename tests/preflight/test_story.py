"""Two flags of one command on one machine: what is true of them in each release."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from advisor.diagnosis import Report
from advisor.findings import Finding

Judge = Callable[..., dict[str, Finding]]
OPTIONS = "--tp 4 --enable-flashinfer-allreduce-fusion --enable-fused-moe-sum-all-reduce"
PCIE = "RTX PRO 6000:4"
FUSION = "allreduce-fusion-unsupported"


def test_0_5_9_does_not_know_the_second_flag_and_ignores_the_first(judge: Judge) -> None:
    found = judge(OPTIONS, sglang="0.5.9", gpu=PCIE)
    assert found["flag-unknown"].values["flag"] == "--enable-fused-moe-sum-all-reduce"
    assert "0.5.10 – 0.5.23" in found["flag-unknown"].summary
    assert found[FUSION].severity == "warning"
    assert "0.5.9 – 0.5.10" in found[FUSION].summary


def test_0_5_10_runs_with_the_first_flag_silently_inactive(judge: Judge) -> None:
    found = judge(OPTIONS, sglang="0.5.10", gpu=PCIE)
    assert "flag-unknown" not in found
    assert found[FUSION].severity == "warning"
    assert "srt/layers/communicator.py" in found[FUSION].why


def test_0_5_12_may_take_memory_for_nothing(judge: Judge) -> None:
    found = judge(OPTIONS, sglang="0.5.12", gpu=PCIE)
    assert found[FUSION].severity == "warning"
    assert "may take memory" in found[FUSION].title


@pytest.mark.parametrize("version", ["0.5.14", "0.5.16", "0.5.18", "0.5.20", "0.5.23"])
def test_from_0_5_14_the_server_does_not_start_on_sm120(judge: Judge, version: str) -> None:
    found = judge(OPTIONS, sglang=version, gpu=PCIE)
    assert found[FUSION].severity == "error"
    assert found[FUSION].category == "startup"
    assert "FlashInfer allreduce fusion requires SM90 or SM10X" in found[FUSION].summary
    assert "0.5.14 – 0.5.23" in found[FUSION].why
    assert any("flashinfer_comm_fusion.py" in page for page in found[FUSION].references)


@pytest.mark.parametrize("version", ["0.5.14", "0.5.23"])
def test_with_one_rank_it_is_harmless(judge: Judge, version: str) -> None:
    options = OPTIONS.replace("--tp 4", "--tp 1")
    assert judge(options, sglang=version, gpu="RTX PRO 6000:1")[FUSION].severity == "warning"


@pytest.mark.parametrize("version", ["0.5.10", "0.5.12", "0.5.14", "0.5.23"])
def test_on_h200_it_is_fine(report: Callable[..., Report], version: str) -> None:
    result = report(OPTIONS, sglang=version, gpu="H200:4")
    assert FUSION not in {item.rule for item in result.verdicts.findings}
    assert result.exit_code == 0


def test_the_second_flag_acts_only_with_triton_and_more_than_two_experts(
    judge: Judge, moe_model: dict[str, object]
) -> None:
    rule = "fused-moe-sum-inactive"
    options = "--enable-fused-moe-sum-all-reduce"
    assert judge(options)[rule].severity == "note"
    assert "top-k > 2" in judge(options)[rule].summary
    assert judge(f"{options} --moe-runner-backend triton", model=moe_model)[rule].severity == "note"
    other = judge(f"{options} --moe-runner-backend flashinfer_cutlass")[rule]
    assert other.severity == "warning"
    two = judge(options, model={**moe_model, "num_experts_per_tok": 2})[rule]
    assert two.severity == "warning"
    assert "takes 2" in two.summary


def test_old_releases_crash_only_with_models_that_take_the_moe_side(
    judge: Judge, skipped: Callable[..., dict[str, str]], moe_model: dict[str, object]
) -> None:
    options = "--tp 4 --enable-flashinfer-allreduce-fusion"
    assert "give --model-config" in skipped(options, sglang="0.5.6", gpu=PCIE)[FUSION]
    crash = judge(options, sglang="0.5.6", gpu=PCIE, model=moe_model)[FUSION]
    assert crash.severity == "error"
    dense = {**moe_model, "architectures": ["LlamaForCausalLM"], "num_experts": None}
    assert judge(options, sglang="0.5.6", gpu=PCIE, model=dense)[FUSION].severity == "warning"
