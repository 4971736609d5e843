"""Defaults by GPU memory, as the sources of the releases give them."""

from __future__ import annotations

import pytest

from advisor.capacity import (
    DisaggregationRole,
    StaticFractionInputs,
    activation_reserve_mib,
    chunked_prefill_default,
    decode_graph_max_batch_default,
    default_mem_fraction_static,
    prefill_graph_buckets,
)

T4, RTX_5090, L40S, H100, PRO_6000, H200, B200 = (
    15360,
    32607,
    46068,
    81559,
    97887,
    143771,
    183359,
)


@pytest.mark.parametrize(
    ("release", "gpu", "chunk", "batch", "batch_wide"),
    [
        ("0.5.3", T4, 2048, 8, 8),
        ("0.5.3", RTX_5090, 2048, 16, 80),
        ("0.5.6", RTX_5090, 2048, 24, 80),
        ("0.5.18", RTX_5090, 2048, 24, 80),
        ("0.5.20", RTX_5090, 4096, 48, 160),
        ("0.5.23", T4, 2048, 8, 8),
        ("0.5.12", L40S, 4096, 32, 160),
        ("0.5.23", L40S, 4096, 32, 160),
        ("0.5.12", H100, 8192, 256, 512),
        ("0.5.12", PRO_6000, 8192, 256, 512),
        ("0.5.12", H200, 8192, 256, 512),
        ("0.5.12", B200, 16384, 512, 512),
        ("0.5.12", None, 4096, 160, 160),
    ],
)
def test_chunk_and_decode_graphs(
    release: str, gpu: int | None, chunk: int, batch: int, batch_wide: int
) -> None:
    assert chunked_prefill_default(release, gpu) == chunk
    assert decode_graph_max_batch_default(release, gpu) == batch
    assert decode_graph_max_batch_default(release, gpu, tensor_parallel_size=4) == batch_wide


def test_only_the_newest_release_limits_decode_graphs_to_the_request() -> None:
    for release, batch in (("0.5.20", 256), ("0.5.23", 26)):
        assert decode_graph_max_batch_default(release, H200, max_running_requests=26) == batch


@pytest.mark.parametrize(
    ("largest", "count"),
    [(3, 0), (4, 1), (32, 8), (2048, 42), (4096, 50), (6000, 53), (8192, 58), (16384, 74)],
)
def test_prefill_graph_buckets(largest: int, count: int) -> None:
    assert prefill_graph_buckets(largest) == count


def fraction(release: str, inputs: StaticFractionInputs) -> float:
    return default_mem_fraction_static(release, inputs).ratio


def test_fractions_that_servers_chose() -> None:
    """Printed by 0.5.12.post1 on an H200."""
    assert (
        fraction("0.5.12", StaticFractionInputs(gpu_memory_mib=H200, prefill_graph=True)) == 0.903
    )
    capped = StaticFractionInputs(
        gpu_memory_mib=H200, prefill_graph=True, decode_graph_max_batch=8, max_total_tokens=6000
    )
    assert fraction("0.5.12", capped) == 0.907
    vision = StaticFractionInputs(gpu_memory_mib=H200, vision_layers=24, vision_hidden_size=1152)
    assert fraction("0.5.12", vision) == 0.8387624218749999
    drafting = StaticFractionInputs(
        gpu_memory_mib=H200,
        vision_layers=24,
        vision_hidden_size=1152,
        speculative_algorithm="EAGLE",
    )
    assert fraction("0.5.12", drafting) == 0.8119442187499999


@pytest.mark.parametrize(
    ("release", "inputs", "reserved"),
    [
        ("0.5.3", StaticFractionInputs(gpu_memory_mib=RTX_5090), 512 + 3072 + 32 + 128),
        ("0.5.20", StaticFractionInputs(gpu_memory_mib=RTX_5090), 512 + 6144 + 96 + 128),
        # The floor of 10 GiB above 60 GiB.
        (
            "0.5.12",
            StaticFractionInputs(gpu_memory_mib=H100, chunked_prefill_size=2048),
            10240,
        ),
        # Chunking off: the longest prefill counts.
        (
            "0.5.12",
            StaticFractionInputs(gpu_memory_mib=H200, chunked_prefill_size=-1),
            512 + 24576 + 128 + 512,
        ),
        # Draft models: above the floor, none for n-grams, none at all from 0.5.14.
        (
            "0.5.9",
            StaticFractionInputs(gpu_memory_mib=H200, speculative_algorithm="EAGLE"),
            13440 + 2048,
        ),
        (
            "0.5.10",
            StaticFractionInputs(gpu_memory_mib=H200, speculative_algorithm="EAGLE"),
            13440 + 4096,
        ),
        (
            "0.5.12",
            StaticFractionInputs(gpu_memory_mib=H200, speculative_algorithm="STANDALONE"),
            13440 + 6144,
        ),
        (
            "0.5.12",
            StaticFractionInputs(gpu_memory_mib=H200, speculative_algorithm="NGRAM"),
            13440,
        ),
        (
            "0.5.14",
            StaticFractionInputs(gpu_memory_mib=H200, speculative_algorithm="EAGLE"),
            13440,
        ),
        # Prefill graphs.
        (
            "0.5.6",
            StaticFractionInputs(gpu_memory_mib=H200, prefill_graph=True),
            13440 + 1024,
        ),
        (
            "0.5.9",
            StaticFractionInputs(gpu_memory_mib=H200, prefill_graph=True, latent_attention=True),
            13440 + 42 * 8,
        ),
        (
            "0.5.10",
            StaticFractionInputs(gpu_memory_mib=H200, prefill_graph=True, latent_attention=True),
            13440 + 1536,
        ),
        (
            "0.5.23",
            StaticFractionInputs(gpu_memory_mib=H200, prefill_graph=True),
            13440 + 58 * 8,
        ),
        (
            "0.5.16",
            StaticFractionInputs(gpu_memory_mib=H200, prefill_graph=True, context_length=4096),
            13440 + 50 * 8,
        ),
        # DP attention, with the extra of large graphs.
        (
            "0.5.12",
            StaticFractionInputs(
                gpu_memory_mib=H200,
                tensor_parallel_size=8,
                dp_attention=True,
                data_parallel_workers=8,
            ),
            512 + 12288 + 1024 + 1024 + 4.5 * 512 * 8,
        ),
        (
            "0.5.16",
            StaticFractionInputs(gpu_memory_mib=H200, deepep=True),
            13440 + 2048,
        ),
        (
            "0.5.18",
            StaticFractionInputs(
                gpu_memory_mib=H200, deepep=True, prefill_graph=True, breakable_prefill_graph=True
            ),
            13440 + 464 + 1024 + 2048,
        ),
        # Prefill-decode roles.
        (
            "0.5.16",
            StaticFractionInputs(
                gpu_memory_mib=H200,
                role=DisaggregationRole.DECODE,
                max_running_requests=4096,
                draft_tokens=4,
                prefill_graph=True,
            ),
            512 + 1.5 * 16384 + 128 + 512,
        ),
        (
            "0.5.16",
            StaticFractionInputs(gpu_memory_mib=H200, role=DisaggregationRole.PREFILL),
            512 + 12288 + 128,
        ),
        # Post-capture sizing.
        (
            "0.5.16",
            StaticFractionInputs(gpu_memory_mib=H200, post_capture_sizing=True),
            512 + 128,
        ),
        (
            "0.5.18",
            StaticFractionInputs(gpu_memory_mib=H200, post_capture_sizing=True),
            1536 + 128,
        ),
    ],
)
def test_reserve_by_release(release: str, inputs: StaticFractionInputs, reserved: float) -> None:
    result = default_mem_fraction_static(release, inputs)
    assert result.reserved_mib == reserved
    assert sum(term.mib for term in result.terms) == reserved
    assert inputs.gpu_memory_mib is not None
    share = (inputs.gpu_memory_mib - reserved) / inputs.gpu_memory_mib
    assert result.ratio == round(share, 3)


def test_unknown_memory_has_a_fixed_fraction() -> None:
    unknown = StaticFractionInputs(gpu_memory_mib=None)
    assert fraction("0.5.18", unknown) == 0.88
    assert fraction("0.5.20", unknown) == 0.95


def test_vision_counts_where_it_runs() -> None:
    decode = StaticFractionInputs(
        gpu_memory_mib=H200, vision_layers=24, role=DisaggregationRole.DECODE
    )
    assert default_mem_fraction_static("0.5.16", decode).vision_factor == 0.95
    assert default_mem_fraction_static("0.5.18", decode).vision_factor == 1.0
    measured = StaticFractionInputs(gpu_memory_mib=H200, vision_layers=24, post_capture_sizing=True)
    expected = round((H200 - 1664) / H200, 3) - 8192 / H200
    assert fraction("0.5.20", measured) == pytest.approx(expected)


def test_activation_reserve() -> None:
    assert activation_reserve_mib(8192) == 512 + 12288 + 128
    assert activation_reserve_mib(512, ranks=8) == 512 + 3072 + 1024
