from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.configs.names import (
    LARGEST_SIZE,
    BlockGemmName,
    ExpertDtype,
    LoraName,
    MoeConfigName,
    device_in_file_name,
    parse_moe_name,
    parse_name,
)
from advisor.configs.trees import files_of_release, listed_configs, read_releases
from advisor.errors import InputError

sizes = st.integers(min_value=1, max_value=LARGEST_SIZE)
devices = st.text("ABCXYZabcxyz0189_-()", min_size=1, max_size=40)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            "E=257,N=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128]_down.json",
            MoeConfigName(
                experts=257,
                width=256,
                device="NVIDIA_H200",
                dtype=ExpertDtype.FP8_W8A8,
                block_shape=(128, 128),
                down=True,
            ),
        ),
        (
            (
                "E=161,N=192,device_name=NVIDIA_RTX_PRO_6000_Blackwell_Max-Q_Workstation_Edition,"
                "dtype=fp8_w8a8,per_channel_quant=True.json"
            ),
            MoeConfigName(
                experts=161,
                width=192,
                device="NVIDIA_RTX_PRO_6000_Blackwell_Max-Q_Workstation_Edition",
                dtype=ExpertDtype.FP8_W8A8,
                per_channel=True,
            ),
        ),
        (
            (
                "N=1536,K=1536,device_name=NVIDIA_A100-SXM4-80GB,dtype=int8_w8a8,"
                "block_shape=[128, 128].json"
            ),
            BlockGemmName(
                n=1536,
                k=1536,
                device="NVIDIA_A100-SXM4-80GB",
                dtype=ExpertDtype.INT8_W8A8,
                block_shape=(128, 128),
            ),
        ),
        (
            "lora_expand,K=4096,R=64,S=3,device=NVIDIA_H200.json",
            LoraName(stage="expand", size=4096, rank=64, slices=3, device="NVIDIA_H200"),
        ),
    ],
)
def test_names_of_every_family_are_read_and_made(text: str, name: MoeConfigName) -> None:
    assert parse_name(text) == name
    assert name.file_name == text


@given(
    st.builds(
        MoeConfigName,
        experts=sizes,
        width=sizes,
        device=devices,
        dtype=st.none() | st.sampled_from(list(ExpertDtype)),
        block_shape=st.none() | st.tuples(sizes, sizes),
        per_channel=st.booleans(),
        down=st.booleans(),
    )
)
def test_a_name_that_is_made_is_read_back(name: MoeConfigName) -> None:
    assert parse_name(name.file_name) == name


@given(st.text(max_size=200))
def test_no_text_crashes_the_reader(text: str) -> None:
    try:
        name = parse_name(text)
    except InputError:
        return
    assert name.file_name == text


@pytest.mark.parametrize(
    "text",
    [
        "config.json",
        "E=8,N=14336,device_name=NVIDIA_H200",
        "E=0,N=768,device_name=NVIDIA_H200.json",
        "E=8,N=-1,device_name=NVIDIA_H200.json",
        "E=8,N=99999999999999999999999,device_name=NVIDIA_H200.json",
        "E=8,N=768,device_name=NVIDIA_H200,dtype=fp4_w4a4.json",
        "E=8,N=768,device_name=NVIDIA_H200,block_shape=[128,128].json",
        "E=8,N=768,device_name=NVIDIA_H200,block_shape=[0, 128].json",
        "E=08,N=768,device_name=NVIDIA_H200.json",
        "E=8,N=768,device_name=../../etc/passwd.json",
        "E=8,N=768,device_name=\x1b[2J.json",
        "E=\u0661,N=768,device_name=NVIDIA_H200.json",
    ],
)
def test_names_that_the_server_never_looks_for_are_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_name(text)
    assert "\n" not in str(caught.value)


def test_other_families_are_no_moe_files() -> None:
    with pytest.raises(InputError, match="no fused-MoE config"):
        parse_moe_name("lora_shrink,K=1024,R=64,S=2,device=NVIDIA_H200.json")


def test_a_zero_in_the_block_shape_leaves_it_out() -> None:
    name = MoeConfigName(experts=8, width=64, device="X", block_shape=(0, 128))
    assert name.file_name == "E=8,N=64,device_name=X.json"


def test_spaces_of_device_names_become_underscores() -> None:
    assert device_in_file_name("NVIDIA H100 80GB HBM3") == "NVIDIA_H100_80GB_HBM3"


@pytest.mark.parametrize(
    ("version", "count"), [("0.4.6.post5", 153), ("0.5.9", 279), ("0.5.23", 390)]
)
def test_every_bundled_name_is_read(version: str, count: int) -> None:
    configs = list(listed_configs(files_of_release(version)))
    assert len(configs) == count
    assert all(config.path.endswith(config.name.file_name) for config in configs)


def test_releases_are_listed_oldest_first() -> None:
    assert read_releases()[0] == "0.4.6.post5"
    assert read_releases()[-1] == "0.5.23"
