from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.knowledge.flag_kinds import Status, Takes
from advisor.knowledge.flags import (
    all_flags,
    choices_of,
    expand,
    flag_exists,
    flag_facts,
    flag_for_field,
    flag_history,
    flag_name,
    flag_value,
    flags_of,
    near_misses,
    renaming_of,
    renamings,
)
from advisor.knowledge.ranges import VersionRange, describe_ranges
from advisor.knowledge.releases import known_releases

VERSIONS = [release.version for release in known_releases()]


@pytest.mark.parametrize(
    ("flag", "version", "name"),
    [
        ("--cuda-graph-max-bs", "0.5.12.post1", "--cuda-graph-max-bs"),
        ("--cuda-graph-max-bs", "0.5.14", "--cuda-graph-max-bs-decode"),
        ("--cuda-graph-max-bs-decode", "0.5.9", "--cuda-graph-max-bs"),
        ("--mamba-scheduler-strategy", "0.5.20", "--mamba-radix-cache-strategy"),
        ("--mamba-radix-cache-strategy", "0.5.9", "--mamba-scheduler-strategy"),
        ("--mamba-radix-cache-strategy", "0.5.6", None),
        ("--disable-piecewise-cuda-graph", "0.5.12", "--disable-piecewise-cuda-graph"),
        ("--disable-piecewise-cuda-graph", "0.5.20", "--cuda-graph-backend-prefill=disabled"),
        ("--cuda-graph-backend-prefill=disabled", "0.5.10", "--disable-piecewise-cuda-graph"),
        ("--enforce-piecewise-cuda-graph", "0.5.20", "--cuda-graph-backend-prefill=tc_piecewise"),
        ("--enforce-piecewise-cuda-graph", "0.5.23", None),
        (
            "--enable-flashinfer-allreduce-fusion",
            "0.5.23",
            "--flashinfer-allreduce-fusion-backend auto",
        ),
        (
            "--flashinfer-allreduce-fusion-backend auto",
            "0.5.10",
            "--enable-flashinfer-allreduce-fusion",
        ),
        ("--nsa-prefill", "0.5.23", "--dsa-prefill-backend"),
        ("--dsa-prefill-backend", "0.5.3", "--nsa-prefill"),
        ("--enable-deepep-moe", "0.5.3", "--moe-a2a-backend deepep"),
        ("--enable-prefill-cp", "0.5.12", None),
        ("--tp-size", "0.5.30", "--tp-size"),
        ("--make-it-fast", "0.5.9", None),
    ],
)
def test_a_release_has_its_own_spelling(flag: str, version: str, name: str | None) -> None:
    assert flag_name(flag, version) == name


@pytest.mark.parametrize(
    ("flag", "version", "name"),
    [
        (
            "--cuda-graph-max-bs",
            None,
            "--cuda-graph-max-bs-decode (up to 0.5.12: --cuda-graph-max-bs)",
        ),
        ("--tp-size", None, "--tp-size"),
        ("--enable-double-sparsity", None, "--enable-double-sparsity (up to 0.5.10)"),
        (
            "--nsa-decode-backend",
            None,
            "--dsa-decode-backend (0.5.6 – 0.5.12: --nsa-decode-backend; up to 0.5.3: --nsa-decode)",
        ),
        (
            "--mamba-scheduler-strategy",
            "0.5.13",
            "--mamba-radix-cache-strategy (up to 0.5.12: --mamba-scheduler-strategy)",
        ),
    ],
)
def test_an_unknown_version_gives_every_spelling(flag: str, version: str | None, name: str) -> None:
    assert flag_name(flag, version) == name


def test_a_range_gives_the_spellings_in_it() -> None:
    old, new = "--cuda-graph-max-bs", "--cuda-graph-max-bs-decode"
    assert flag_name(old, VersionRange.parse("0.5.9 – 0.5.12")) == old
    assert flag_name(old, VersionRange.parse("from 0.5.16")) == new
    assert flag_name(old, VersionRange.parse("0.5.9 – 0.5.16")) == f"{new} (up to 0.5.12: {old})"


@given(st.sampled_from(all_flags()), st.sampled_from(VERSIONS))
def test_an_accepted_flag_always_has_a_name_that_works(flag: str, version: str) -> None:
    facts = flag_facts(flag, version)
    name = flag_name(flag, version)
    if facts is not None and facts.status in {Status.ACTIVE, Status.DEPRECATED}:
        assert name is not None
    if name is not None:
        assert all(flag_exists(part, version) for part in re.findall(r"--[\w-]+", name))


def test_renamings_speak_of_flags_and_values_that_exist() -> None:
    for row in renamings():
        assert flag_history(row.old) is not None, row.old
        assert row.new or row.instead, row.old
        for flag, value in re.findall(r"(--[\w-]+)(?:[= ](?!--)(\w+))?", row.new or ""):
            assert flag_history(flag) is not None, flag
            allowed = [choices_of(flag, version) for version in VERSIONS]
            assert not value or any(value in choices for choices in allowed if choices), row.new


def test_every_flag_that_left_or_warns_is_explained_or_plainly_gone() -> None:
    explained = {row.old for row in renamings()}
    for flag in all_flags():
        facts = flag_facts(flag, VERSIONS[-1])
        if facts is not None and facts.status is not Status.ACTIVE:
            assert flag in explained


@pytest.mark.parametrize(
    ("flag", "version", "exists"),
    [
        ("--enable-fused-moe-sum-all-reduce", "0.5.9", False),
        ("--enable-fused-moe-sum-all-reduce", "0.5.10", True),
        ("--cuda-graph-max-bs", "0.5.18", True),
        ("--cuda-graph-max-bs", "0.5.19", None),
        ("--cuda-graph-max-bs", "0.5.20", False),
        ("--tp-size", "0.5.99", None),
        ("--hierarchical-sparse-attention-extra-config", "0.5.10", False),
        ("--custom-sigquit-handler", "0.5.18", False),
        ("--no-lora-strict-loading", "0.5.12", True),
        ("--make-it-fast", "0.5.12.post1", False),
        ("--make-it-fast", "0.5.11", None),
        ("--make-it-fast", "nightly", None),
    ],
)
def test_existence(flag: str, version: str, exists: bool | None) -> None:
    assert flag_exists(flag, version) is exists


def test_facts_of_a_flag() -> None:
    facts = flag_facts("--disable-piecewise-cuda-graph", "0.5.16")
    assert facts is not None
    assert (facts.field, facts.sets) == ("cuda_graph_backend_prefill", "disabled")
    assert (facts.takes, facts.status) == (Takes.NOTHING, Status.DEPRECATED)
    assert facts.replaced_by == "--cuda-graph-backend-prefill=disabled"
    earlier = flag_facts("--disable-piecewise-cuda-graph", "0.5.12")
    assert earlier is not None
    assert (earlier.field, earlier.sets) == ("disable_piecewise_cuda_graph", True)
    assert flag_facts("--disable-piecewise-cuda-graph", "0.5.9") is None
    assert flag_facts("--disable-piecewise-cuda-graph", "nightly") is None


def test_flags_with_values() -> None:
    length = flag_facts("--context-length", "0.5.9")
    assert length is not None
    assert (length.takes, length.type) == (Takes.ONE, "int")
    length = flag_facts("--context-length", "0.5.10")
    assert length is not None
    assert length.type == "human_readable_int"
    sizes = flag_facts("--cuda-graph-bs", "0.5.9")
    assert sizes is not None
    assert sizes.takes is Takes.MANY


def test_refused_and_ignored_flags() -> None:
    refused = flag_facts("--enable-ep-moe", "0.5.3")
    ignored = flag_facts("--hybrid-kvcache-ratio", "0.5.12")
    assert refused is not None
    assert ignored is not None
    assert (refused.status, ignored.status) == (Status.REFUSED, Status.IGNORED)


def test_history() -> None:
    history = flag_history("--cuda-graph-bs")
    assert history is not None
    assert describe_ranges(history.seen) == "0.4.6.post5 – 0.5.18"
    assert describe_ranges(history.deprecated) == "0.5.14 – 0.5.18"
    assert (history.ignored, history.refused) == ((), ())
    assert flag_history("--make-it-fast") is None


def test_allowed_values_change() -> None:
    earlier, later = (choices_of("--attention-backend", version) for version in ("0.5.3", "0.5.23"))
    assert earlier is not None
    assert later is not None
    assert "cutlass_mla" in earlier
    assert "cutlass_mla" not in later
    assert choices_of("--host", "0.5.9") is None


@pytest.mark.parametrize(
    ("value", "version", "answer"),
    [
        ("nsa", "0.5.9", "nsa"),
        ("nsa", "0.5.16", "dsa"),
        ("dsa", "0.5.9", "nsa"),
        ("cutlass_mla", "0.5.20", None),
        ("triton", "0.5.23", "triton"),
    ],
)
def test_values_are_renamed_too(value: str, version: str, answer: str | None) -> None:
    assert flag_value("--attention-backend", value, version) == answer


def test_a_free_value_stays() -> None:
    assert flag_value("--host", "::1", "0.5.9") == "::1"


def test_abbreviations_as_argparse_takes_them() -> None:
    assert expand("--mem-fraction", "0.5.9") == ("--mem-fraction-static",)
    assert expand("--model", "0.5.9") == ("--model",)
    assert set(expand("--cuda-graph-max-bs", "0.5.20")) == {
        "--cuda-graph-max-bs-decode",
        "--cuda-graph-max-bs-prefill",
    }
    assert expand("--make-it-fast", "0.5.9") == ()
    assert expand("--", "0.5.9") == ()


def test_near_misses_begin_with_the_new_name() -> None:
    assert near_misses("--cuda-graph-max-bs", "0.5.20")[0] == "--cuda-graph-max-bs-decode"
    assert near_misses("--tensor-paralel-size", "0.5.9")[0] == "--tensor-parallel-size"
    assert near_misses("--tensor-paralel-size", None)[0] == "--tensor-parallel-size"
    assert near_misses("--qqqqqqqq", "0.5.9") == ()


@pytest.mark.parametrize(
    ("field", "version", "flag"),
    [
        ("tp_size", "0.5.9", "--tp-size"),
        ("fp8_gemm_runner_backend", "0.5.12", "--fp8-gemm-backend"),
        ("lora_strict_loading", "0.5.14", "--lora-strict-loading"),
        ("cuda_graph_backend_prefill", "0.5.14", "--cuda-graph-backend-prefill"),
        ("cuda_graph_max_bs", None, "--cuda-graph-max-bs"),
        ("cuda_graph_max_bs", "0.5.20", None),
        ("disable_cuda_graph", "0.5.23", "--disable-cuda-graph"),
        ("stat_loggers", None, None),
        ("colour", None, None),
    ],
)
def test_the_flag_of_a_field(field: str, version: str | None, flag: str | None) -> None:
    assert flag_for_field(field, version) == flag


def test_environment_variables_have_successors() -> None:
    row = renaming_of("SGLANG_CUTLASS_MOE")
    assert row is not None
    assert row.new == "--moe-runner-backend=cutlass"
    assert renaming_of("SGLANG_SOMETHING") is None


def test_flags_of_an_unlisted_release_include_what_may_be_there() -> None:
    between = set(flags_of("0.5.13"))
    assert set(flags_of("0.5.12")) & set(flags_of("0.5.14")) <= between
    assert {"--cuda-graph-max-bs-decode", "--record-nolora-graph"} <= between
