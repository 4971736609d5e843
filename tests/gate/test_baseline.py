from __future__ import annotations

import json
from dataclasses import replace
from datetime import date

import pytest

from advisor.diagnosis import Report, exit_code
from advisor.errors import ConfigError
from advisor.facts.model import CapacityFacts, RunFacts, Startup
from advisor.findings import Category, Confidence, Finding, Severity, Verdicts
from advisor.gate import compare, new_baseline, parse_baseline, render_baseline
from advisor.sources.records import Evidence

TODAY = date(2026, 5, 4)


def finding(rule: str, text: str = "message", severity: Severity = Severity.WARNING) -> Finding:
    return Finding(
        rule=rule,
        title=f"{rule}: {text}",
        topic="log",
        severity=severity,
        confidence=Confidence.CERTAIN,
        category=Category.PERFORMANCE,
        summary="",
        why="",
        evidence=(Evidence(source="a.log", line=1, text=text),),
    )


def report(
    *findings: Finding,
    requests: int | None = None,
    tokens: int | None = None,
    ready_s: float | None = None,
) -> Report:
    verdicts = Verdicts(findings=findings)
    run = RunFacts(
        capacity=CapacityFacts(max_running_requests=requests, max_total_num_tokens=tokens),
        startup=Startup(ready_s=ready_s),
    )
    return Report(
        sources=(),
        run=run,
        run_number=1,
        run_count=1,
        verdicts=verdicts,
        plan=(),
        fail_on=Severity.WARNING,
        exit_code=exit_code(verdicts, Severity.WARNING),
    )


def against(before: Report, after: Report, **options: float) -> Report:
    """Compare two reports through the file, as the gate does."""
    text = render_baseline(new_baseline(before, TODAY, reason="known"))
    return compare(after, parse_baseline(text, "b.json"), "b.json", TODAY, **options)


def rules(result: Report) -> list[str]:
    return [item.rule for item in result.verdicts.findings]


def test_what_was_accepted_passes() -> None:
    before = report(finding("a"), finding("b"))
    result = against(before, before)
    assert (rules(result), result.exit_code, result.plan) == ([], 0, ())
    assert [item.reason for item in result.verdicts.suppressed] == ["known", "known"]


def test_another_line_or_time_is_the_same_finding() -> None:
    before = report(finding("a", "[2026-03-04 05:06:07 TP0] slow start, 12.5 s"))
    moved = replace(
        finding("a", "[2027-01-01 00:00:00 TP3] slow start, 99.1 s"),
        evidence=(
            Evidence(source="b.log", line=77, text="[2027-01-01 00:00:00 TP3] slow start, 99.1 s"),
        ),
    )
    assert rules(against(before, report(moved))) == []


def test_new_findings_remain() -> None:
    result = against(report(finding("a")), report(finding("a"), finding("b")))
    assert (rules(result), result.exit_code) == (["b"], 1)


def test_worse_findings_remain() -> None:
    after = report(finding("a", severity=Severity.ERROR))
    result = against(report(finding("a")), after)
    assert rules(result) == ["a"]
    assert result.verdicts.findings[0].values["accepted"] == "as warning"
    milder = against(report(finding("a")), report(finding("a", severity=Severity.NOTE)))
    assert rules(milder) == []


def test_an_acceptance_can_run_out() -> None:
    accepted = new_baseline(report(finding("a")), TODAY, reason="r", expires=TODAY)
    after = report(finding("a"))
    assert rules(compare(after, accepted, "b.json", TODAY)) == []
    assert rules(compare(after, accepted, "b.json", date(2026, 5, 5))) == ["a"]


def test_stale_entries_are_told() -> None:
    result = against(report(finding("a"), finding("b")), report(finding("a")))
    assert (rules(result), result.exit_code) == (["baseline-stale"], 0)
    assert "b" in result.verdicts.findings[0].summary


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"requests": 48}, {"requests": 26}, 1),
        ({"requests": 48}, {"requests": 47}, 0),
        ({"requests": 48}, {"requests": 64}, 0),
        ({"tokens": 100_000}, {"tokens": 90_000}, 1),
        ({"ready_s": 100.0}, {"ready_s": 140.0}, 1),
        ({"ready_s": 100.0}, {"ready_s": 60.0}, 0),
        ({"requests": 48}, {}, 0),
        ({}, {"requests": 26}, 0),
    ],
)
def test_capacity_regressions(
    before: dict[str, float], after: dict[str, float], expected: int
) -> None:
    result = against(report(**before), report(**after))  # type: ignore[arg-type]
    assert rules(result) == ["capacity-regressed"] * expected
    assert result.exit_code == expected


def test_the_tolerance_is_a_choice() -> None:
    assert rules(against(report(requests=48), report(requests=26), tolerance_ratio=0.5)) == []


def test_the_file_is_the_same_for_the_same_findings() -> None:
    one = render_baseline(new_baseline(report(finding("a"), finding("b")), TODAY, reason="r"))
    two = render_baseline(new_baseline(report(finding("b"), finding("a")), TODAY, reason="r"))
    assert one == two


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema_version": 2}',
        '{"schema_version": 1, "created": "x", "findings": []}',
        '{"schema_version": 1, "created": "2026-01-01", "findings": [{"rule": "a"}]}',
        '{"schema_version": 1, "created": "2026-01-01", "findings": [], "capacity": {"startup_s": "x"}}',
    ],
)
def test_files_that_are_no_baseline(text: str) -> None:
    with pytest.raises(ConfigError, match="advisor baseline"):
        parse_baseline(text, "b.json")


def test_unknown_keys_do_no_harm() -> None:
    document = json.loads(render_baseline(new_baseline(report(finding("a")), TODAY, reason="r")))
    document["later"] = True
    assert parse_baseline(json.dumps(document), "b.json").findings[0].rule == "a"
