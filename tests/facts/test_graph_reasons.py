"""Why prefill graphs are off, where SGLang only blames a flag that nobody gave."""

from __future__ import annotations

import pytest

from advisor.facts.graph_reasons import prefill_off_reasons
from advisor.facts.literals import Value
from advisor.knowledge.ranges import VersionRange

SPECULATION: dict[str, Value] = {"speculative_algorithm": "EAGLE", "moe_a2a_backend": "none"}


def reasons(
    args: dict[str, Value] | None, release: str | None, model: str = "Qwen3MoeForCausalLM"
) -> tuple[str, ...]:
    releases = None if release is None else VersionRange.between(release, release)
    return prefill_off_reasons(args, model, releases)


def test_speculation_is_a_reason_in_the_one_release_that_has_it() -> None:
    assert reasons(SPECULATION, "0.5.10") == ("speculative decoding",)
    assert reasons(SPECULATION, "0.5.12") == ()
    assert reasons(SPECULATION, "0.5.9") == ()


def test_all_reasons_are_named() -> None:
    args: dict[str, Value] = {**SPECULATION, "enable_dp_attention": True, "pp_size": 2}
    assert reasons(args, "0.5.10") == (
        "speculative decoding",
        "DP attention",
        "pipeline parallelism",
    )


@pytest.mark.parametrize(
    "args",
    [
        {"pp_size": 1, "cpu_offload_gb": 0, "enable_lora": None, "lora_paths": ()},
        {"disaggregation_mode": "null", "moe_a2a_backend": "none", "attn_cp_size": 1},
        {"moe_a2a_backend": None, "speculative_algorithm": None},
        {},
    ],
)
def test_defaults_are_no_reason(args: dict[str, Value]) -> None:
    assert reasons(args, "0.5.12") == ()


def test_a_model_class_can_be_the_reason() -> None:
    assert reasons({}, "0.5.12", "Qwen3_5MoeForConditionalGeneration") == ("a multimodal model",)
    assert reasons({}, "0.5.10", "DeepseekV4ForCausalLM") == ()
    assert reasons({}, "0.5.12", "DeepseekV4ForCausalLM") == ("the model's architecture",)


def test_without_arguments_nothing_is_known() -> None:
    assert reasons(None, "0.5.10") == ()
    assert reasons(SPECULATION, None) == ("speculative decoding",)
