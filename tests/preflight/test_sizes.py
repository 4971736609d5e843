"""Parallel sizes, MoE configs and memory against a model's config.json."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from advisor.errors import ConfigError, InputError
from advisor.findings import Finding
from advisor.preflight.model_config import read_model_config
from advisor.preflight.target import parse_gpu

Judge = Callable[..., dict[str, Finding]]
Skipped = Callable[..., dict[str, str]]
Model = dict[str, object]
BLOCKS = {"quant_method": "fp8", "weight_block_size": [128, 128]}


def test_gpus_too_few_and_idle(judge: Judge) -> None:
    few = judge("--tp 8", gpu="H200:4")["gpus-too-few"]
    assert few.actions[0].command == "--tp-size 4"
    assert judge("--tp 2 --pp-size 2 --dp 2", gpu="H200:4")["gpus-too-few"].values["world"] == 8
    assert "gpus-too-few" not in judge("--tp 4 --dp 4 --enable-dp-attention", gpu="H200:4")
    assert "gpus-too-few" not in judge("--tp 16 --nnodes 2", gpu="H200:8")
    assert judge("--tp 2", gpu="H200:8")["gpus-unused"].severity == "note"


@pytest.mark.parametrize(
    "options", ["--tp 3 --nnodes 2", "--tp 4 --dp 3 --enable-dp-attention", "--tp 4 --ep 3"]
)
def test_sizes_that_do_not_divide(judge: Judge, options: str) -> None:
    assert judge(options)["sizes-not-divisible"].severity == "error"


def test_heads(judge: Judge, moe_model: Model) -> None:
    odd = judge("--tp 6", model=moe_model)["heads-not-divisible"]
    assert odd.actions[0].command == "--tp-size 4"
    assert judge("--tp 8", model=moe_model)["kv-heads-replicated"].values["copies"] == 2
    assert "kv-heads-replicated" not in judge("--tp 4", model=moe_model)
    bad = {**moe_model, "num_attention_heads": 24, "num_key_value_heads": 6}
    assert "kv-heads-not-divisible" in judge("--tp 4", model=bad)


def test_dp_attention_shares_the_heads_less(judge: Judge, moe_model: Model) -> None:
    options = "--tp 8 --dp 2 --enable-dp-attention"
    assert "kv-heads-replicated" not in judge(options, model=moe_model)


def test_an_expert_must_be_whole_fp8_blocks(judge: Judge, moe_model: Model) -> None:
    model = {**moe_model, "quantization_config": BLOCKS}
    found = judge("--tp 4", model=model)["block-width-not-divisible"]
    assert (found.values["width"], found.values["block"]) == (192, 128)
    assert found.actions[0].command == "--ep-size 2"
    assert "block-width-not-divisible" not in judge("--tp 4 --ep 2", model=model)
    assert "block-width-not-divisible" not in judge("--tp 2", model=model)


def test_experts_must_divide(judge: Judge, moe_model: Model) -> None:
    model = {**moe_model, "num_experts": 100}
    assert "experts-not-divisible" in judge("--tp 8 --ep 8", model=model)


def test_the_config_lookup_of_both_gemms(judge: Judge, moe_model: Model) -> None:
    missing = judge("--tp 8", gpu="H200:8", model=moe_model)["moe-config-not-shipped"]
    assert missing.values["file"] == "E=128,N=96,device_name=NVIDIA_H200.json"
    assert missing.values["triton"] == "3.6.0"
    assert "advisor tune --experts 128 --width 96" in missing.actions[0].command
    other = judge("--tp 4", gpu="H200:4", model=moe_model)
    assert "moe-config-not-shipped" not in other
    assert "moe-config-other-triton" in other


def test_the_lookup_is_not_read_with_another_runner(skipped: Skipped, moe_model: Model) -> None:
    options = "--tp 8 --moe-runner-backend flashinfer_cutlass"
    reason = skipped(options, gpu="H200:8", model=moe_model)["moe-config-not-shipped"]
    assert "flashinfer_cutlass" in reason


def test_a_name_of_several_editions_is_not_looked_up(skipped: Skipped, moe_model: Model) -> None:
    reason = skipped("--tp 4", gpu="RTX PRO 6000:4", model=moe_model)["moe-config-not-shipped"]
    assert "several editions" in reason


def test_memory_has_error_bars(judge: Judge, moe_model: Model) -> None:
    found = judge("--tp 1", gpu="H200:1", model=moe_model)["memory-estimate"]
    assert found.values["weights"] == "55.7 to 58.0 GiB"
    assert found.severity == "note"
    full = judge("--tp 1", gpu="RTX 5090:1", model=moe_model)["weights-do-not-fit"]
    assert full.severity == "error"
    assert full.actions[0].command == "--tp-size 4"


def test_a_context_longer_than_the_cache(judge: Judge, moe_model: Model) -> None:
    model = {**moe_model, "max_position_embeddings": 1 << 20}
    found = judge("--tp 1", gpu="RTX PRO 6000:1", model=model)["context-exceeds-kv"]
    assert found.actions[0].command.startswith("--context-length ")


def test_a_hybrid_whose_states_are_not_told_gets_no_token_count(
    skipped: Skipped, moe_model: Model
) -> None:
    model = {**moe_model, "mamba_d_state": 128}
    assert (
        "linear-attention state"
        in skipped("--tp 1", gpu="H200:1", model=model)["context-exceeds-kv"]
    )


def test_the_index_beside_the_config_gives_the_size(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        '{"architectures": ["X"], "text_config": {"head_dim": 64}}'
    )
    index = '{"metadata": {"total_size": 1000}}'
    (tmp_path / "model.safetensors.index.json").write_text(index)
    config = read_model_config(tmp_path)
    assert (config.weight_bytes, config.head_dim) == (1000, 64)


@pytest.mark.parametrize("text", ["", "[]", "{", '"x"'])
def test_files_that_are_no_config(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(InputError):
        read_model_config(tmp_path / "config.json")


def test_a_gpu_that_nobody_knows() -> None:
    with pytest.raises(ConfigError, match="H200"):
        parse_gpu("H20O:8")
    assert parse_gpu("RTX PRO 6000:4")[1] == 4
    assert parse_gpu("H200")[1] is None
