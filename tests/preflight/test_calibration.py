"""The memory estimate against logs of real servers, and against sizes that models are known by.

The logs are of SGLang 0.5.12 on one H200 (dummy weights of true shapes); their command lines are
those that made them.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from advisor.findings import Finding
from advisor.preflight.inputs.command import of_command_line
from advisor.preflight.judge import preflight
from advisor.preflight.model_config import ModelConfig, parse_model_config
from advisor.preflight.parameters import count_parameters
from advisor.preflight.target import Given, target_of
from advisor.preflight.weights import Split, estimate_weights

FIXTURES = Path(__file__).parent.parent / "fixtures"
NEXTN = (
    "--speculative-algorithm NEXTN --speculative-num-steps 3 --speculative-num-draft-tokens 4"
    " --mamba-scheduler-strategy extra_buffer"
)
WEIGHTS = re.compile(r"Load weight end\.[^\n]*mem usage=([\d.]+) GB")
TOKENS = re.compile(r"KV Cache is allocated\. #tokens: (\d+)")
REQUESTS = re.compile(r" max_running_requests=(\d+), context_len")
FRACTION = re.compile(r"server_args=.*?mem_fraction_static=([\d.]+)")
ONE = Split(tensor=1, attention=1, pipeline=1)


def model(name: str, **changed: object) -> ModelConfig:
    path = FIXTURES / "preflight" / f"{name}.config.json"
    return parse_model_config({**json.loads(path.read_text()), **changed}, origin=path.name)


@dataclass(frozen=True)
class Run:
    log: str
    model: ModelConfig
    options: str = ""


BLOCKS = {"quant_method": "fp8", "weight_block_size": [128, 128]}
FOUR_LAYERS = model("qwen3-moe", num_hidden_layers=4)
RUNS = [
    Run("qwen3moe-default", model("qwen3-moe")),
    Run("qwen3moe-overlay-good", FOUR_LAYERS),
    Run("qwen3moe-overlay-too-much-smem", FOUR_LAYERS),
    Run("qwen3moe-graph-oom", FOUR_LAYERS, "--mem-fraction-static 0.99"),
    Run("qwen3moe-fp8-block", model("qwen3-moe", num_hidden_layers=8, quantization_config=BLOCKS)),
    Run("llama-retract", model("llama-3.1-8b"), "--cuda-graph-max-bs 8 --max-total-tokens 6000"),
    Run("qwen35-hybrid-default", model("qwen3.5-122b-8-layers")),
    Run("qwen35-nextn-oom", model("qwen3.5-122b-8-layers"), NEXTN),
    Run(
        "qwen35-nextn-mem070",
        model("qwen3.5-122b-8-layers"),
        f"{NEXTN} --mem-fraction-static 0.7",
    ),
]
HYBRID = model("qwen3.5-122b-8-layers")


def logged(run: Run, pattern: re.Pattern[str]) -> float:
    text = (FIXTURES / "logs" / f"{run.log}.log").read_text(encoding="utf-8", errors="replace")
    match = pattern.search(text)
    assert match is not None
    return float(match[1])


def estimated(run: Run) -> Mapping[str, Finding]:
    words = shlex.split(f"python -m sglang.launch_server --model-path M {run.options}")
    command = of_command_line(words)
    assert command is not None
    target = target_of(command, Given(sglang="0.5.12", gpu="H200:1", model=run.model))
    findings = preflight([(command, target)], fail_on=None).verdicts.findings
    return {finding.rule: finding for finding in findings}


def span(text: object) -> tuple[float, float]:
    numbers = [float(part) for part in re.findall(r"[\d.]+", str(text).replace(" ", ""))]
    return numbers[0], numbers[-1]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.log)
def test_weights_are_within_the_bars_and_one_percent(run: Run) -> None:
    real = logged(run, WEIGHTS)
    estimate = estimate_weights(run.model, ONE, None)
    assert not isinstance(estimate, str)
    assert estimate.low_gib < real < estimate.high_gib
    assert abs(estimate.gib / real - 1) < 0.01


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.log)
def test_static_fraction_and_tokens_are_within_the_bars(run: Run) -> None:
    values = estimated(run)["memory-estimate"].values
    assert float(str(values["fraction"])) == round(logged(run, FRACTION), 3)
    low, high = span(str(values["tokens"]).replace("to", ";"))
    real = logged(run, TOKENS)
    assert low <= real <= high
    assert (high - low) / real < 0.06


@pytest.mark.parametrize(
    "run",
    [run for run in RUNS if "smem" not in run.log and "oom" not in run.log],
    ids=lambda r: r.log,
)
def test_requests_are_within_the_bars(run: Run) -> None:
    low, high = span(str(estimated(run)["memory-estimate"].values["requests"]).replace("to", ";"))
    real = logged(run, REQUESTS)
    assert low <= real <= high


def test_weights_that_did_not_fit_are_told_beforehand() -> None:
    run = Run("qwen3moe-not-enough-memory", model("qwen3-moe"), "--mem-fraction-static 0.35")
    assert logged(run, WEIGHTS) > 0.35 * 139
    assert estimated(run)["weights-do-not-fit"].severity == "error"


def test_the_state_pool_is_named_as_what_decides() -> None:
    found = estimated(Run("qwen35-hybrid-default", HYBRID))["requests-limited"]
    assert found.severity == "note"
    assert "3 slots per request" in found.summary
    assert "// 3" in found.summary


def test_what_was_asked_for_and_is_not_reached_gets_a_knob() -> None:
    run = Run("qwen35-hybrid-default", HYBRID, "--max-running-requests 800")
    found = estimated(run)["requests-limited"]
    assert found.severity == "warning"
    assert found.actions[0].command.startswith("--mamba-full-memory-ratio ")


def test_speculation_without_its_draft_tokens_is_left_open() -> None:
    words = "python -m sglang.launch_server --model-path M --speculative-algorithm NEXTN"
    command = of_command_line(words.split())
    assert command is not None
    given = Given(sglang="0.5.16", gpu="H200:1", model=HYBRID)
    skipped = preflight([(command, target_of(command, given))], fail_on=None).verdicts.skipped
    reasons = {item.rule: item.reason for item in skipped}
    assert "--speculative-num-draft-tokens is not given" in reasons["requests-limited"]


KNOWN: list[tuple[str, float, dict[str, object]]] = [
    (
        "DeepseekV3ForCausalLM",
        671.0,
        {
            "hidden_size": 7168,
            "num_hidden_layers": 61,
            "num_attention_heads": 128,
            "num_key_value_heads": 128,
            "q_lora_rank": 1536,
            "kv_lora_rank": 512,
            "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64,
            "v_head_dim": 128,
            "intermediate_size": 18432,
            "moe_intermediate_size": 2048,
            "n_routed_experts": 256,
            "n_shared_experts": 1,
            "num_experts_per_tok": 8,
            "first_k_dense_replace": 3,
            "vocab_size": 129280,
        },
    ),
    (
        "GptOssForCausalLM",
        116.8,
        {
            "hidden_size": 2880,
            "num_hidden_layers": 36,
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
            "head_dim": 64,
            "intermediate_size": 2880,
            "num_local_experts": 128,
            "num_experts_per_tok": 4,
            "vocab_size": 201088,
        },
    ),
    (
        "MixtralForCausalLM",
        46.7,
        {
            "hidden_size": 4096,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "intermediate_size": 14336,
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
            "vocab_size": 32000,
        },
    ),
    (
        "Qwen3MoeForCausalLM",
        235.1,
        {
            "hidden_size": 4096,
            "num_hidden_layers": 94,
            "num_attention_heads": 64,
            "num_key_value_heads": 4,
            "head_dim": 128,
            "moe_intermediate_size": 1536,
            "num_experts": 128,
            "num_experts_per_tok": 8,
            "vocab_size": 151936,
        },
    ),
    (
        "Qwen3ForCausalLM",
        32.8,
        {
            "hidden_size": 5120,
            "num_hidden_layers": 64,
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "intermediate_size": 25600,
            "vocab_size": 151936,
        },
    ),
]


@pytest.mark.parametrize(("name", "billions", "config"), KNOWN, ids=[row[0] for row in KNOWN])
def test_the_count_gives_the_size_that_the_model_is_known_by(
    name: str, billions: float, config: dict[str, object]
) -> None:
    counted = count_parameters(parse_model_config({"architectures": [name], **config}, origin="x"))
    assert counted is not None
    assert round(counted.total / 1e9, 1) == billions


@pytest.mark.parametrize(
    ("quantisation", "low", "high"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 0.49, 0.54),
        ({"quant_method": "awq", "bits": 4}, 0.25, 0.32),
        ({"quant_method": "modelopt_fp4"}, 0.27, 0.33),
    ],
)
def test_quantised_weights_shrink_by_their_format(
    quantisation: dict[str, object], low: float, high: float
) -> None:
    plain = estimate_weights(model("qwen3-moe"), ONE, None)
    small = estimate_weights(model("qwen3-moe", quantization_config=quantisation), ONE, None)
    assert not isinstance(plain, str)
    assert not isinstance(small, str)
    assert low < small.low_gib / plain.gib
    assert small.high_gib / plain.gib < high


def test_heads_that_are_stored_twice_count_twice() -> None:
    config = model("qwen3-moe")
    four = estimate_weights(config, Split(tensor=4, attention=4, pipeline=1), None)
    eight = estimate_weights(config, Split(tensor=8, attention=8, pipeline=1), None)
    assert not isinstance(four, str)
    assert not isinstance(eight, str)
    assert eight.gib * 2 > four.gib
