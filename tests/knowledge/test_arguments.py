from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.knowledge.arguments import (
    Default,
    DefaultKind,
    Evidence,
    all_fields,
    default_of,
    has_field,
    infer_releases,
    is_adjusted,
    non_default,
)
from advisor.knowledge.releases import known_releases

FIXTURES = Path(__file__).parent.parent / "fixtures" / "knowledge"
VERSIONS = [release.version for release in known_releases()]


def dump(version: str) -> dict[str, object]:
    text = (FIXTURES / f"server_args_{version}.txt").read_text(encoding="utf-8")
    match ast.parse(text.strip(), mode="eval").body:
        case ast.Call(keywords=keywords):
            return {str(word.arg): ast.literal_eval(word.value) for word in keywords}
        case node:
            found: dict[str, object] = ast.literal_eval(node)
            return found


def fields_of(version: str) -> set[str]:
    return {field for field in all_fields() if has_field(field, version)}


@pytest.mark.parametrize(
    ("dumped", "version"),
    [
        ("0.4.6.post5", "0.4.6.post5"),
        ("0.5.9", "0.5.9"),
        ("0.5.12.post1", "0.5.12"),
        ("0.5.18", "0.5.18"),
        ("0.5.23", "0.5.23"),
    ],
)
def test_a_complete_dump_names_its_release(dumped: str, version: str) -> None:
    guess = infer_releases(dump(dumped))
    assert guess is not None
    assert (guess.version, guess.evidence) == (version, Evidence.EXACT)


@pytest.mark.parametrize("version", VERSIONS)
def test_no_two_known_releases_share_their_fields(version: str) -> None:
    guess = infer_releases(fields_of(version))
    assert guess is not None
    assert guess.version == version


def test_an_incomplete_dump_is_weaker_evidence() -> None:
    guess = infer_releases(dump("0.5.20"))
    assert guess is not None
    assert guess.evidence is Evidence.CONTAINS
    assert guess.range.describe() == "0.5.20"
    assert guess.version is None


def test_few_fields_leave_many_releases() -> None:
    guess = infer_releases({"model_path", "mamba_scheduler_strategy"})
    assert guess is not None
    assert guess.range.describe() == "0.5.9 – 0.5.12"


def test_a_release_between_two_known_ones_has_fields_of_both() -> None:
    mixed = (fields_of("0.5.14") | fields_of("0.5.16")) - {"uses_mamba_radix_cache"}
    guess = infer_releases(mixed)
    assert guess is not None
    assert guess.evidence is Evidence.BETWEEN
    assert guess.range.describe() == "0.5.14 – 0.5.16"


def test_new_fields_mean_a_newer_release() -> None:
    guess = infer_releases(fields_of(VERSIONS[-1]) | {"quantum_entanglement"})
    assert guess is not None
    assert guess.evidence is Evidence.NEWER
    assert guess.unknown_fields == ("quantum_entanglement",)
    assert guess.range.describe() == f"from {VERSIONS[-1]}"


def test_nothing_known_gives_no_guess() -> None:
    assert infer_releases([]) is None
    assert infer_releases({"colour", "shape"}) is None
    apart = {"enable_deepep_moe", "quantize_and_serve", "watermark_key"}
    assert infer_releases(apart) is None


@given(st.sampled_from(VERSIONS), st.data())
def test_part_of_a_dump_never_excludes_its_release(version: str, data: st.DataObject) -> None:
    part = data.draw(st.sets(st.sampled_from(sorted(fields_of(version))), min_size=1))
    guess = infer_releases(part)
    assert guess is not None
    assert guess.range.contains(version) == "in"


@pytest.mark.parametrize(
    ("field", "version", "default"),
    [
        ("port", "0.5.21", Default(kind=DefaultKind.FIXED, value=30000)),
        ("mem_fraction_static", "0.5.9", Default(kind=DefaultKind.FIXED)),
        ("kt_method", "0.5.9", Default(kind=DefaultKind.FIXED, value="AMXINT4")),
        ("encoder_urls", "0.5.9", Default(kind=DefaultKind.FIXED, value=())),
        ("enable_tf32_matmul", "0.5.20", Default(kind=DefaultKind.FIXED, value=False)),
        ("enable_tf32_matmul", "0.5.23", Default(kind=DefaultKind.FIXED)),
        ("enable_tf32_matmul", "0.5.21", Default(kind=DefaultKind.UNKNOWN)),
        ("encoder_transfer_backend", "0.5.9", Default(kind=DefaultKind.COMPUTED)),
        ("model_path", "0.5.9", Default(kind=DefaultKind.REQUIRED)),
        ("cuda_graph_max_bs", "0.5.14", Default(kind=DefaultKind.ABSENT)),
        ("cuda_graph_max_bs", "0.5.13", Default(kind=DefaultKind.UNKNOWN)),
        ("colour", "0.5.9", Default(kind=DefaultKind.ABSENT)),
        ("port", "nightly", Default(kind=DefaultKind.UNKNOWN)),
    ],
)
def test_defaults(field: str, version: str, default: Default) -> None:
    assert default_of(field, version) == default


def test_what_a_user_must_have_passed_in_a_real_dump() -> None:
    departures = non_default(dump("0.5.12.post1"), "0.5.12.post1")
    assert departures.given == {
        "model_path": "/models/Qwen3-30B-A3B-4layers",
        "enable_fused_moe_sum_all_reduce": True,
    }
    assert departures.given_or_chosen["enable_flashinfer_allreduce_fusion"] is True
    assert departures.given_or_chosen["attention_backend"] == "fa3"
    assert "tp_size" not in departures.given_or_chosen
    assert departures.unclear == ("encoder_transfer_backend",)


def test_sglang_changes_some_arguments_by_itself() -> None:
    assert is_adjusted("max_running_requests", "0.5.12.post1")
    assert is_adjusted("mem_fraction_static", "0.5.23")
    assert not is_adjusted("tp_size", "0.5.12")
    assert is_adjusted("mem_fraction_static", "nightly")


def test_presence_of_a_field() -> None:
    assert has_field("cuda_graph_max_bs", "0.5.12.post1") is True
    assert has_field("cuda_graph_max_bs", "0.5.14") is False
    assert has_field("cuda_graph_max_bs", "0.5.13") is None
    assert has_field("colour", "0.5.13") is None
