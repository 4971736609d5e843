from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.configs.entries import parse_table
from advisor.configs.loaders import loader_of_version
from advisor.configs.names import parse_moe_name
from advisor.configs.problem import MoeProblem
from advisor.tuner.decide import Origin, Proof
from advisor.tuner.journal import Journal
from advisor.tuner.output import Tuned, config_paths, documents
from advisor.tuner.report import Conditions, conclusions
from advisor.tuner.run import Plan, Result, Run
from advisor.tuner.work import Outcome, Work

BATCHES = (1, 64, 1024)


@pytest.fixture
def result(
    tmp_path: Path,
    small_plan: Callable[..., Plan],
    rehearse: Callable[[Work], Outcome],
    inline_pool: type,
) -> Result:
    with Journal(tmp_path / "journal") as journal:
        return Run(small_plan(BATCHES), inline_pool(rehearse), journal).tune()


@pytest.fixture
def tuned(result: Result, problem: MoeProblem) -> Tuned:
    conditions = Conditions(
        problem=problem,
        device="NVIDIA H200",
        gpus=1,
        kernel="Advisor's own (same tiling)",
        routing="uniform",
        bandwidth_gb_s=4800,
        versions=(("triton", "3.6.0"),),
    )
    return Tuned(
        problem=problem,
        device="NVIDIA H200",
        triton="3.6.0",
        result=replace(result, elapsed_s=12.0),
        conditions=conditions,
        loader=loader_of_version("0.5.23"),
    )


def test_both_config_files_are_complete_valid_and_agree_in_height(tuned: Tuned) -> None:
    texts = documents(tuned)
    tables = []
    for path in config_paths(tuned).values():
        assert path.startswith("configs/triton_3_6_0/")
        assert parse_moe_name(Path(path).name).experts == 16
        table = parse_table(texts[path], path)
        assert not table.problems
        assert [tokens for tokens, _ in table.entries] == list(BATCHES)
        tables.append(table)
    for (_, up), (_, down) in zip(*(table.entries for table in tables), strict=True):
        assert up.block_m == down.block_m


def test_one_tile_for_both_gemms_is_one_file(tuned: Tuned) -> None:
    paths = config_paths(replace(tuned, loader=loader_of_version("0.5.3")))
    assert [Path(path).name for path in paths.values()] == [
        "E=16,N=256,device_name=NVIDIA_H200.json"
    ]


def test_the_report_has_a_row_per_batch_size(tuned: Tuned) -> None:
    text = documents(tuned)["tune-report.md"]
    rows = [line for line in text.splitlines() if line.startswith(("| 1 ", "| 64 ", "| 1024 "))]
    assert len(rows) == 3
    assert "end to end expect less" in text


def test_the_json_report_names_origin_and_latencies(tuned: Tuned) -> None:
    report = json.loads(documents(tuned)["tune-report.json"])
    assert report["schema_version"] == 1
    assert [entry["tokens"] for entry in report["entries"]] == list(BATCHES)
    assert all(entry["chosen_us"] <= entry["default_us"] for entry in report["entries"])


def test_plot_and_page_are_well_formed_and_escaped(tuned: Tuned) -> None:
    hostile = replace(tuned.conditions, device="<script>alert(1)</script>")
    texts = documents(replace(tuned, conditions=hostile))
    ET.fromstring(texts["tune-report.svg"])  # noqa: S314  (our own text)
    assert "<script>" not in texts["tune-report.html"]


def test_a_shape_that_gains_nothing_is_called_that(tuned: Tuned) -> None:
    choices = tuple(
        replace(choice, chosen_us=choice.default_us, best_us=choice.default_us)
        for choice in tuned.result.choices
    )
    lines = conclusions(replace(tuned.result, choices=choices), tuned.conditions)
    assert any("worth nothing" in line for line in lines)


def test_short_kernels_that_the_server_overlaps_are_named(tuned: Tuned) -> None:
    early = replace(tuned.conditions, early_launch=True)
    short = replace(tuned.result.choices[0], origin=Origin.TUNED, chosen_us=25.0, default_us=30.0)
    result = replace(tuned.result, choices=(short, *tuned.result.choices[1:]))
    lines = conclusions(result, early)
    assert any("which was not timed" in line and "batch 1" in line for line in lines)
    assert not any("not timed" in line for line in conclusions(result, tuned.conditions))
    long = replace(short, chosen_us=250.0)
    assert not any(
        "not timed" in line for line in conclusions(replace(result, choices=(long,)), early)
    )


def test_what_a_compiler_says_breaks_no_table(tuned: Tuned) -> None:
    first, *others = tuned.result.choices
    odd = replace(first, note="nothing could be timed: a | b\n<c>")
    texts = documents(replace(tuned, result=replace(tuned.result, choices=(odd, *others))))
    (row,) = [one for one in texts["tune-report.md"].splitlines() if one.startswith("| 1 ")]
    assert row.count("|") == 10
    page = texts["tune-report.html"]
    assert "<td>nothing could be timed: a | b\n&lt;c&gt;</td></tr>" in page
    assert page.count("<tr>") == page.count("</tr>") == 1 + len(BATCHES)


def test_entries_without_a_last_race_are_named(tuned: Tuned) -> None:
    first, second, third = tuned.result.choices
    choices = (
        replace(first, proof=Proof.SCREENED),
        replace(second, proof=Proof.UNMEASURED, chosen_us=None),
        third,
    )
    lines = conclusions(replace(tuned.result, choices=choices), tuned.conditions)
    assert any(line.startswith("batch 1: no last race") for line in lines)
    assert any(line.startswith("batch 64: no latency") for line in lines)
    assert any("2 batch sizes" in line for line in lines)
    lines = conclusions(tuned.result, tuned.conditions)
    assert not any("no last race" in line or "no latency" in line for line in lines)


def test_a_gain_is_not_said_to_be_over_files_that_nobody_knows(tuned: Tuned) -> None:
    unknown = replace(tuned.conditions, today_known=False)
    assert any(
        "over SGLang's built-in tiles" in line for line in conclusions(tuned.result, unknown)
    )
    known = conclusions(tuned.result, tuned.conditions)
    assert any("over what the server has now" in line for line in known)


def test_a_release_that_is_not_known_is_said(tuned: Tuned) -> None:
    assert "SGLang's release not known" in documents(tuned)["tune-report.md"]
    told = replace(tuned.conditions, versions=(("triton", "3.6.0"), ("SGLang", "0.5.23")))
    assert "not known" not in documents(replace(tuned, conditions=told))["tune-report.md"]


def test_both_pages_say_where_and_how_was_measured(tuned: Tuned) -> None:
    texts = documents(tuned)
    for name in ("tune-report.md", "tune-report.html"):
        assert "1 x NVIDIA H200; triton 3.6.0" in texts[name]
        assert "routing: uniform" in texts[name]


def test_a_run_without_any_latency_still_reports(tuned: Tuned) -> None:
    choices = tuple(
        replace(choice, chosen_us=None, default_us=None, best_us=None, spread_ratio=None)
        for choice in tuned.result.choices
    )
    texts = documents(
        replace(tuned, result=replace(tuned.result, choices=choices, stopped="budget"))
    )
    assert "time ran out" in texts["tune-report.md"]
    ET.fromstring(texts["tune-report.svg"])  # noqa: S314  (our own text)
