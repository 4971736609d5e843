"""Rows of flag_support.yaml by what they say: option, release, GPU, model."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from advisor.findings import Finding
from advisor.knowledge.environment import Environment, TorchBuild
from advisor.preflight.inputs.command import of_command_line
from advisor.preflight.judge import preflight
from advisor.preflight.target import Given, target_of

Judge = Callable[..., dict[str, Finding]]
Model = dict[str, object]
DENSE: Model = {"architectures": ["LlamaForCausalLM"]}
LATENT: Model = {"architectures": ["DeepseekV3ForCausalLM"], "kv_lora_rank": 512}
HYBRID: Model = {"architectures": ["Qwen3NextForCausalLM"], "linear_num_value_heads": 32}
MAMBA: Model = {"architectures": ["NemotronHForCausalLM"], "mamba_d_state": 128}
VISION: Model = {
    "architectures": ["Qwen2_5_VLForConditionalGeneration"],
    "vision_config": {"depth": 32, "hidden_size": 1280},
}
VISION_35: Model = {**VISION, "architectures": ["Qwen3_5ForConditionalGeneration"]}
NVFP4: Model = {
    **DENSE,
    "quantization_config": {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"},
}
MXFP4: Model = {
    "architectures": ["GptOssForCausalLM"],
    "quantization_config": {"quant_method": "mxfp4"},
}
MODELOPT: Model = {**DENSE, "quantization_config": {"quant_method": "modelopt_fp4"}}
GRAPHS = "prefill-graph-switched-off"


@pytest.mark.parametrize(
    ("options", "sglang", "gpu", "model", "rule", "severity"),
    [
        ("--attention-backend fa4", "0.5.3", "H200", DENSE, "attention-backend-unsupported", "error"),
        ("--attention-backend fa4", "0.5.3", "H200", LATENT, "attention-backend-unsupported", None),
        ("--attention-backend fa4", "0.5.6", "H200", None, "attention-backend-unsupported", "error"),
        ("--attention-backend fa4", "0.5.20", "RTX 5090", None, "attention-backend-unsupported", "note"),
        ("--attention-backend fa4", "0.5.20", "B200", DENSE, "page-size-forced", "note"),
        ("--attention-backend fa4", "0.5.20", "B200", LATENT, "page-size-forced", None),
        ("--attention-backend flashinfer", "0.5.9", "B200", HYBRID, "linear-attention-unsupported", "error"),
        ("--attention-backend flashinfer", "0.5.9", "B200", MAMBA, "linear-attention-unsupported", None),
        ("--attention-backend flashinfer", "0.5.10", "RTX 5090", HYBRID, "linear-attention-unsupported", None),
        ("--attention-backend flashinfer", "0.5.16", "B200", HYBRID, "linear-attention-unsupported", "error"),
        ("--attention-backend flashinfer", "0.5.23", "B200", HYBRID, "linear-attention-unsupported", None),
        ("--attention-backend fa4", "0.5.16", "RTX 5090", HYBRID, "linear-attention-unsupported", "error"),
        ("--linear-attn-decode-backend flashinfer", "0.5.12", "B200", None, "linear-attention-unsupported", "error"),
        ("--linear-attn-decode-backend flashinfer --mamba-ssm-dtype bfloat16", "0.5.12", "B200", None, "linear-attention-unsupported", None),
        ("--moe-runner-backend flashinfer_cutlass", "0.5.3", "RTX 5090", MODELOPT, "moe-runner-unsupported", "error"),
        ("--moe-runner-backend flashinfer_mxfp4", "0.5.9", "RTX 5090", None, "moe-runner-unsupported", "note"),
        ("--moe-runner-backend flashinfer_mxfp4", "0.5.16", "RTX 5090", None, "moe-runner-unsupported", "error"),
        ("--moe-runner-backend flashinfer_mxfp4", "0.5.18", "RTX 5090", None, "moe-runner-unsupported", None),
        ("--moe-runner-backend flashinfer_mxfp4", "0.5.18", "A100", None, "moe-runner-unsupported", "error"),
        ("--moe-runner-backend marlin", "0.5.16", "B200", MXFP4, "moe-runner-unsupported", "error"),
        ("--moe-runner-backend marlin", "0.5.18", "B200", MXFP4, "moe-runner-unsupported", None),
        ("--moe-runner-backend marlin", "0.5.23", "A100", MXFP4, "moe-runner-unsupported", "error"),
        ("--fp4-gemm-backend flashinfer_cutlass", "0.5.12", "RTX 5090", None, "gemm-backend-unsupported", "note"),
        ("--fp4-gemm-backend flashinfer_cutlass", "0.5.16", "RTX 5090", None, "gemm-backend-unsupported", None),
        ("--fp4-gemm-backend flashinfer_cutedsl", "0.5.16", "RTX 5090", None, "gemm-backend-unsupported", "note"),
        ("", "0.5.12", "H200", NVFP4, "quantization-unsupported", "error"),
        ("", "0.5.12", "B200", NVFP4, "quantization-unsupported", None),
        ("", "0.5.23", "H200", NVFP4, "quantization-unsupported", "note"),
        ("--quantization gptq", "0.5.12", "H200", None, "quantization-unsupported", None),
        ("--enable-mscclpp --tp 4", "0.5.12", "H200", None, "symmetric-memory-unsupported", "warning"),
        ("--enable-mscclpp --tp 4", "0.5.23", "H200", None, "symmetric-memory-unsupported", None),
        ("--enable-mscclpp --tp 8", "0.5.12", "H200", None, "symmetric-memory-unsupported", None),
        ("--enable-symm-mem", "0.5.12", "H200", None, "symmetric-memory-unsupported", "note"),
        ("--dsa-prefill-backend tilelang --kv-cache-dtype fp8_e4m3", "0.5.20", "H200", None, "kv-dtype-unsupported", "error"),
        ("--dsa-prefill-backend tilelang --dsa-decode-backend tilelang --kv-cache-dtype fp8_e4m3", "0.5.23", "H200", None, "kv-dtype-unsupported", None),
        ("--dsa-prefill-backend tilelang --dsa-decode-backend tilelang --kv-cache-dtype fp8_e4m3", "0.5.23", "A100", None, "kv-dtype-unsupported", "error"),
        ("--dsa-prefill-backend tilelang --dsa-decode-backend fa3 --kv-cache-dtype fp8_e4m3", "0.5.23", "H200", None, "kv-dtype-unsupported", "error"),
        ("--attention-backend trtllm_mha --page-size 1", "0.5.16", "B200", None, "page-size-forced", "note"),
        ("--attention-backend trtllm_mha --page-size 64", "0.5.16", "B200", None, "page-size-forced", None),
        ("", "0.5.12", "H200", HYBRID, "hybrid-cache-conflict", "note"),
        ("--mamba-scheduler-strategy extra_buffer", "0.5.12", "H200", HYBRID, "hybrid-cache-conflict", None),
        ("", "0.5.14", "H200", HYBRID, "hybrid-cache-conflict", None),
    ],
)  # fmt: skip
def test_a_row(  # noqa: PLR0917, PLR0913  (one column each)
    judge: Judge,
    options: str,
    sglang: str,
    gpu: str,
    model: Model | None,
    rule: str,
    severity: str | None,
) -> None:
    found = judge(options, sglang=sglang, gpu=gpu, model=model).get(rule)
    assert (found.severity.value if found else None) == severity


@pytest.mark.parametrize(
    ("options", "model", "releases"),
    [
        ("--enable-lora", None, "0.5.10 0.5.12 0.5.14 0.5.16"),
        ("--enable-dp-attention --tp 2 --dp 2", None, "0.5.10 0.5.12 0.5.14 0.5.16"),
        ("--speculative-algorithm EAGLE", None, "0.5.10 0.5.14"),
        ("--speculative-algorithm NGRAM", None, "0.5.10"),
        ("--pp-size 2", None, "0.5.10 0.5.12 0.5.14 0.5.20 0.5.23"),
        ("--moe-a2a-backend deepep", None, "0.5.10 0.5.12 0.5.14 0.5.16"),
        ("--moe-a2a-backend mooncake", None, "0.5.10 0.5.12 0.5.14 0.5.16 0.5.18 0.5.20 0.5.23"),
        ("--enable-two-batch-overlap", None, "0.5.18 0.5.20 0.5.23"),
        ("--disaggregation-mode decode", None, "0.5.10 0.5.12 0.5.14 0.5.16 0.5.18 0.5.20 0.5.23"),
        ("--cpu-offload-gb 4", None, "0.5.10 0.5.12 0.5.14"),
        ("--cpu-offload-gb 0", None, ""),
        ("", LATENT, "0.5.16"),
        ("", VISION, "0.5.10 0.5.12 0.5.14 0.5.16 0.5.18 0.5.20 0.5.23"),
        ("", VISION_35, "0.5.10 0.5.12 0.5.14"),
        ("", HYBRID, "0.5.10 0.5.12 0.5.14"),
        ("", DENSE, ""),
    ],
)
def test_what_switches_prefill_graphs_off(
    judge: Judge, options: str, model: Model | None, releases: str
) -> None:
    known = ["0.5.9", "0.5.10", "0.5.12", "0.5.14", "0.5.16", "0.5.18", "0.5.20", "0.5.23"]
    found = [one for one in known if GRAPHS in judge(options, sglang=one, gpu="H200", model=model)]
    assert " ".join(found) == releases


@pytest.mark.parametrize(
    ("choice", "sglang"),
    [
        ("--enforce-piecewise-cuda-graph", "0.5.12"),
        ("--disable-piecewise-cuda-graph", "0.5.12"),
        ("--disable-piecewise-cuda-graph", "0.5.14"),
        ("--cuda-graph-backend-prefill breakable", "0.5.16"),
        ("--disable-cuda-graph", "0.5.16"),
    ],
)
def test_whoever_chose_is_not_told(judge: Judge, choice: str, sglang: str) -> None:
    assert GRAPHS not in judge(f"--enable-lora {choice}", sglang=sglang)


@pytest.mark.parametrize(("cuda", "fires"), [("12.8", True), ("13.0", False), (None, False)])
def test_flashinfer_prefill_of_linear_attention_needs_cuda_13(
    cuda: str | None, fires: bool
) -> None:
    words = "python -m sglang.launch_server --model-path M --linear-attn-prefill-backend flashinfer"
    command = of_command_line(words.split())
    assert command is not None
    environment = Environment(torch=TorchBuild(cuda_version=cuda))
    given = Given(sglang="0.5.16", gpu="B200", environment=environment)
    verdicts = preflight([(command, target_of(command, given))], fail_on=None).verdicts
    rule = "linear-attention-unsupported"
    assert (rule in {finding.rule for finding in verdicts.findings}) == fires
    reasons = {item.rule: item.reason for item in verdicts.skipped}
    assert ("give --env" in reasons.get(rule, "")) == (cuda is None)


@pytest.mark.parametrize(("value", "fires"), [("0.5", True), ("0", False)])
def test_skip_softmax_beside_trtllm_mha(value: str, fires: bool) -> None:
    variable = f"SGLANG_SKIP_SOFTMAX_PREFILL_THRESHOLD_SCALE_FACTOR={value}"
    words = "python -m sglang.launch_server --model-path M --attention-backend trtllm_mha"
    command = of_command_line([variable, *words.split()])
    assert command is not None
    given = Given(sglang="0.5.20", gpu="RTX 5090")
    findings = preflight([(command, target_of(command, given))], fail_on=None).verdicts.findings
    assert ("attention-backend-unsupported" in {item.rule for item in findings}) == fires
