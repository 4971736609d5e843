"""One server, four things to say: the logs of tests/fixtures/story in two releases."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from advisor.diagnosis import Request, diagnose_logs
from advisor.findings import Finding, Severity
from advisor.rules.load import bundled_rules
from advisor.sources.files import LogInput

STORY = Path(__file__).parent.parent / "fixtures" / "story"
RELEASES = ("0.5.10", "0.5.12")
UP = "E=256,N=256,device_name=NVIDIA_RTX_PRO_6000_Blackwell_Server_Edition.json"
DOWN = "E=256,N=256,device_name=NVIDIA_RTX_PRO_6000_Blackwell_Server_Edition_down.json"


@cache
def findings(release: str) -> tuple[Finding, ...]:
    """Diagnose the story in the wording of one release."""
    path = STORY / f"story-{release}.log"
    request = Request(logs=(LogInput(name=path.name, path=path),), rules=bundled_rules())
    return diagnose_logs(request).verdicts.findings


def finding(release: str, topic: str) -> Finding:
    """Return the only finding of a topic."""
    (found,) = [item for item in findings(release) if item.topic == topic]
    return found


@pytest.mark.parametrize("release", RELEASES)
def test_the_story_has_no_other_topics(release: str) -> None:
    assert sorted(item.topic for item in findings(release)) == [
        "allreduce_fusion",
        "custom_allreduce",
        "max_running",
        "moe_config",
        "prefill_graph",
    ]


@pytest.mark.parametrize("release", RELEASES)
def test_both_moe_files_of_all_ranks_are_one_finding(release: str) -> None:
    found = finding(release, "moe_config")

    assert found.rule == "moe-config-missing"
    assert found.severity is Severity.WARNING
    assert all(text in found.summary for text in ("triton_3_6_0", "Triton 3.6.0", "E=256, N=256"))
    assert UP in found.summary
    assert DOWN in found.summary
    assert [place.count for place in found.evidence] == [4, 4]
    assert {place.ranks for place in found.evidence} == {("TP0", "TP1", "TP2", "TP3")}


@pytest.mark.parametrize("release", RELEASES)
def test_the_moe_finding_leads_to_tuning_and_warns_of_foreign_files(release: str) -> None:
    nearest, tune = finding(release, "moe_config").actions

    assert nearest.command.startswith("advisor configs nearest --experts 256 --width 256 ")
    assert "101376 bytes" in nearest.risk
    assert tune.command == f"advisor tune --from story-{release}.log"


@pytest.mark.parametrize("release", RELEASES)
def test_the_fusion_flag_is_inactive_on_this_gpu(release: str) -> None:
    found = finding(release, "allreduce_fusion")

    assert "SM120" in found.summary
    assert "26" not in found.summary


def test_the_inactive_flag_costs_memory_only_in_the_later_release() -> None:
    assert finding("0.5.10", "allreduce_fusion").severity is Severity.NOTE
    assert finding("0.5.12", "allreduce_fusion").severity is Severity.WARNING


@pytest.mark.parametrize("release", RELEASES)
def test_prefill_graphs_are_off_by_choice_of_sglang(release: str) -> None:
    found = finding(release, "prefill_graph")

    assert found.severity is Severity.NOTE
    assert "does not mean that you set it" in found.summary


@pytest.mark.parametrize("release", RELEASES)
def test_the_state_pool_sets_the_limit_and_not_the_flag(release: str) -> None:
    found = finding(release, "max_running")

    assert "132 state slots // 5 per request = 26" in found.summary
    assert "fusion flag has no part in it" in found.why
