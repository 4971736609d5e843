from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.configs.models import known_architectures, model_of, read_model
from advisor.configs.shapes import MoeShape, Parallelism, moe_shape
from advisor.errors import ConfigError, InputError

QWEN = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
    "intermediate_size": 6144,
    "hidden_size": 2048,
    "torch_dtype": "bfloat16",
}
DEEPSEEK = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048,
    "hidden_size": 7168,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}


def shape(
    config: dict[str, Any], *, flag: str | None = None, sm: int = 90, **split: Any
) -> MoeShape:
    model = model_of(config, origin="config.json", quantization=flag)
    return moe_shape(model, Parallelism(**split), device="NVIDIA_H200", sm=sm)


def file_name(config: dict[str, Any], **options: Any) -> str:
    return shape(config, **options).name.file_name.replace(",device_name=NVIDIA_H200", "")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "E=128,N=768.json"),
        ({"tensor": 4}, "E=128,N=192.json"),
        ({"tensor": 4, "expert": 4}, "E=32,N=768.json"),
        ({"tensor": 8, "expert": 4}, "E=32,N=384.json"),
        ({"tensor": 4, "expert": 4, "redundant": 32}, "E=40,N=768.json"),
        ({"flag": "fp8"}, "E=128,N=768,dtype=fp8_w8a8.json"),
        ({"flag": "w8a8_int8"}, "E=128,N=768,dtype=int8_w8a8,per_channel_quant=True.json"),
    ],
)
def test_qwen3(options: dict[str, Any], expected: str) -> None:
    assert file_name(QWEN, **options) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"tensor": 8}, "E=257,N=256"),
        ({"tensor": 8, "fuse_shared": False}, "E=256,N=256"),
        ({"tensor": 8, "expert": 8}, "E=32,N=2048"),
        ({"tensor": 8, "sm": 75}, "E=256,N=256"),
    ],
)
def test_the_shared_expert_of_deepseek(options: dict[str, Any], expected: str) -> None:
    assert (
        file_name(DEEPSEEK, **options) == f"{expected},dtype=fp8_w8a8,block_shape=[128, 128].json"
    )


def test_the_ranks_that_share_the_experts_are_kept() -> None:
    problem = shape(QWEN, tensor=4, expert=4).problem
    assert (problem.experts, problem.expert_parallel, problem.all_experts) == (32, 4, 128)


def test_fusion_raises_top_k_and_is_told() -> None:
    fused = shape(DEEPSEEK, tensor=8)
    assert fused.problem.top_k == 9
    assert "--disable-shared-experts-fusion" in fused.notes[0]


@pytest.mark.parametrize(
    ("change", "experts"),
    [
        ({"architectures": ["DeepseekV32ForCausalLM"]}, 256),
        ({"architectures": ["GlmMoeDsaForCausalLM"]}, 257),
        ({"n_routed_experts": 384}, 384),
        ({"n_shared_experts": 2}, 256),
        ({"architectures": ["Glm4MoeForCausalLM"], "n_routed_experts": 160}, 161),
    ],
)
def test_which_checkpoints_fuse(change: dict[str, Any], experts: int) -> None:
    assert shape(DEEPSEEK | change, tensor=8).name.experts == experts


def test_the_text_config_of_a_vision_model_counts() -> None:
    config = {"architectures": ["Qwen3VLMoeForConditionalGeneration"], "text_config": QWEN}
    assert file_name(config, tensor=2) == "E=128,N=384.json"


def test_dotted_fields_of_dbrx() -> None:
    inner = {"moe_num_experts": 16, "moe_top_k": 4, "ffn_hidden_size": 10752}
    config = {"architectures": ["DbrxForCausalLM"], "d_model": 6144, "ffn_config": inner}
    found = shape(config, tensor=8)
    assert (found.name.experts, found.name.width, found.problem.hidden) == (16, 1344, 6144)


def test_int4_weights_halve_the_width_of_the_name() -> None:
    group = {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}
    quantised = {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}}
    found = shape(QWEN | {"quantization_config": quantised}, tensor=1)
    assert found.name.file_name.startswith("E=128,N=384,")
    assert "dtype=int4_w4a16" in found.name.file_name
    assert (found.problem.width, found.problem.group_size) == (768, 32)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (
            {"num_bits": 8, "type": "float", "strategy": "channel"},
            "fp8_w8a8,per_channel_quant=True",
        ),
        ({"num_bits": 8, "type": "float", "strategy": "tensor"}, "fp8_w8a8"),
        ({"num_bits": 8, "type": "int", "strategy": "channel"}, "int8_w8a8,per_channel_quant=True"),
    ],
)
def test_compressed_tensors_of_eight_bits(weights: dict[str, Any], expected: str) -> None:
    group = {"weights": weights, "input_activations": {"num_bits": 8}}
    quantised = {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}}
    name = file_name(QWEN | {"quantization_config": quantised})
    assert name == f"E=128,N=768,dtype={expected}.json"


def test_weights_that_run_elsewhere_are_noted() -> None:
    awq = QWEN | {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}}
    assert "Marlin" in shape(awq).notes[0]
    assert "never" in shape(QWEN | {"quantization_config": {"quant_method": "mxfp4"}}).notes[0]


def test_a_float32_checkpoint_is_served_in_fp16() -> None:
    found = shape(QWEN | {"torch_dtype": "float32"})
    assert (found.name.dtype, found.problem.activation) == (None, "fp16")


def test_up_weights_of_nemotron_are_not_gated() -> None:
    config = {
        "architectures": ["NemotronHForCausalLM"],
        "n_routed_experts": 128,
        "num_experts_per_tok": 6,
        "moe_intermediate_size": 1856,
        "hidden_size": 2688,
    }
    assert not shape(config).problem.gated


def test_two_groups_of_experts_are_told() -> None:
    config = {
        "architectures": ["Ernie4_5_VLMoeForConditionalGeneration"],
        "moe_num_experts": [64, 32],
        "moe_k": 6,
        "moe_intermediate_size": [1536, 512],
        "hidden_size": 2560,
    }
    assert "32 experts of width 512" in shape(config).notes[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_experts": None}, "needs the field num_experts"),
        ({"num_experts": 0}, "num_experts must be a whole number"),
        ({"moe_intermediate_size": -5}, "moe_intermediate_size must be"),
        ({"hidden_size": 10**12}, "hidden_size must be"),
        ({"num_experts": True}, "num_experts must be"),
        ({"architectures": ["NewForCausalLM"], "num_experts": None}, "NewForCausalLM is unknown"),
        ({"quantization_config": {"quant_method": "fp3"}}, "'fp3' is unknown"),
        (
            {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128]}},
            "block must be two sizes",
        ),
        (
            {"quantization_config": {"quant_method": "gptq", "bits": 3, "group_size": 128}},
            "3 weight",
        ),
    ],
)
def test_what_is_missing_is_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        shape(QWEN | change)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "split", [{"tensor": 5}, {"tensor": 4, "expert": 3}, {"tensor": 256, "expert": 256}]
)
def test_splits_that_do_not_divide(split: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="must be divisible"):
        shape(QWEN, **split)


def test_an_unknown_architecture_with_the_usual_fields_works() -> None:
    assert file_name(QWEN | {"architectures": ["NewMoeForCausalLM"]}) == "E=128,N=768.json"


FIELDS = [
    "num_experts",
    "n_routed_experts",
    "num_local_experts",
    "moe_num_experts",
    "num_experts_per_tok",
    "moe_topk",
    "num_experts_per_token",
    "moe_top_k",
    "moe_k",
    "top_k_experts",
    "moe_intermediate_size",
    "intermediate_size",
    "expert_hidden_dim",
    "expert_ffn_hidden_size",
    "hidden_size",
    "moe_hidden_size",
    "d_model",
]


@pytest.mark.parametrize("architecture", known_architectures())
def test_every_known_architecture_names_its_missing_fields(architecture: str) -> None:
    """A config with every usual field gives a name; an empty one says which field it needs."""
    config: dict[str, Any] = dict.fromkeys(FIELDS, 64)
    config["ffn_config"] = {"moe_num_experts": 64, "moe_top_k": 64, "ffn_hidden_size": 64}
    config["architectures"] = [architecture.replace("*", "ForCausalLM")]
    assert file_name(config).startswith("E=64,N=64")
    with pytest.raises(InputError, match=rf"{config['architectures'][0]} needs the field \w+"):
        shape({"architectures": config["architectures"]})


def test_a_model_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN))
    assert read_model(tmp_path) == read_model(tmp_path / "config.json")
    assert len(known_architectures()) > 50


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x00"])
def test_files_that_are_no_model(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(InputError, match=r"config\.json"):
        read_model(tmp_path)


@given(
    st.dictionaries(
        st.sampled_from([*QWEN, "text_config", "quantization_config"]),
        st.recursive(
            st.none() | st.integers() | st.text() | st.booleans(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=5,
        ),
    )
)
def test_no_config_crashes_the_reader(config: dict[str, Any]) -> None:
    with contextlib.suppress(InputError):
        assert model_of(config, origin="config.json").experts > 0
