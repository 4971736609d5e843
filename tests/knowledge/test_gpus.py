from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.knowledge.gpus import Gpu, all_gpus, find_gpu, gpu_near_misses, shared_memory_bytes

ROWS = pytest.mark.parametrize("gpu", all_gpus(), ids=lambda gpu: gpu.name)


@ROWS
def test_every_full_name_gives_its_row(gpu: Gpu) -> None:
    assert gpu.device_name is not None
    assert gpu.torch_name is not None
    names = [gpu.name, gpu.device_name, gpu.torch_name, gpu.name.lower(), gpu.torch_name.upper()]
    assert [find_gpu(name) for name in names] == [gpu] * len(names)


@ROWS
def test_every_alias_gives_its_row_or_what_it_shares_with_others(gpu: Gpu) -> None:
    found = [find_gpu(alias) for alias in gpu.aliases]
    assert [(hit.sm if hit else None) for hit in found] == [gpu.sm] * len(gpu.aliases)


def test_names_are_unique() -> None:
    names = [gpu.device_name for gpu in all_gpus()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("text", "device_name", "sm", "shared"),
    [
        ("H200", "NVIDIA_H200", 90, 232448),
        ("b200", "NVIDIA_B200", 100, 232448),
        ("B300", "NVIDIA_B300_SXM6_AC", 103, 232448),
        ("5090", "NVIDIA_GeForce_RTX_5090", 120, 101376),
        ("rtx5090", "NVIDIA_GeForce_RTX_5090", 120, 101376),
        ("GB10", "NVIDIA_GB10", 121, 101376),
        ("DGX Spark", "NVIDIA_GB10", 121, 101376),
        ("L40S", "NVIDIA_L40S", 89, 101376),
        ("H100 SXM", "NVIDIA_H100_80GB_HBM3", 90, 232448),
        ("h20-3e", "NVIDIA_H20-3e", 90, 232448),
    ],
)
def test_short_names(text: str, device_name: str, sm: int, shared: int) -> None:
    gpu = find_gpu(text)
    assert gpu is not None
    assert (gpu.device_name, gpu.sm, gpu.shared_memory_bytes) == (device_name, sm, shared)


def test_a_name_of_several_models_keeps_what_they_agree_in() -> None:
    gpu = find_gpu("RTX PRO 6000")
    assert gpu == Gpu(
        name="RTX PRO 6000 Blackwell",
        device_name=None,
        sm=120,
        shared_memory_bytes=101376,
        memory_mib=97887,
        sm_count=188,
        bandwidth_gb_s=None,
        uncertain=("bandwidth_gb_s",),
    )
    assert gpu.torch_name is None


def test_memory_is_unknown_where_models_of_one_name_differ() -> None:
    gpu = find_gpu("A100")
    assert gpu is not None
    assert (gpu.sm, gpu.memory_mib) == (80, None)
    gpu = find_gpu("A100 80GB")
    assert gpu is not None
    assert gpu.memory_mib == 81920


@pytest.mark.parametrize(
    "text",
    ["", "NVIDIA", "RTX", "RTX 6000", "Blackwell", "80GB", "480GB", "L20Y", "AMD_Instinct_MI300X"],
)
def test_what_no_gpu_or_unlike_gpus_answer_to_is_unknown(text: str) -> None:
    assert find_gpu(text) is None


def test_near_misses() -> None:
    assert gpu_near_misses("H20O")[0] in {"H200 SXM", "H20"}
    assert "RTX 6000 Ada" in gpu_near_misses("RTX 6000")
    assert "RTX PRO 6000 Blackwell Max-Q" in gpu_near_misses("RTX 6000")
    assert gpu_near_misses("toaster oven") == ()


def test_shared_memory_by_compute_capability() -> None:
    assert shared_memory_bytes(90) == 232448
    assert shared_memory_bytes(120) == 101376
    assert shared_memory_bytes(42) is None


@given(st.text())
def test_no_text_breaks_the_search(text: str) -> None:
    find_gpu(text)
    gpu_near_misses(text)
