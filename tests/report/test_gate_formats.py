"""SARIF, JUnit, GitHub and GitLab: what each consumer checks, and the mistakes that cost users."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import regex
from jsonschema import Draft4Validator

from advisor.diagnosis import Report
from advisor.findings import Finding, Severity
from advisor.report.formats import FORMATS, Style
from advisor.report.places import Repository

SCHEMAS = Path(__file__).parent.parent / "fixtures" / "report" / "schemas"
STYLE = Style(repository=Repository(root="/repo", folder="ci"))
MakeReport = Callable[..., Report]
MakeFinding = Callable[..., Finding]


def sarif(report: Report, style: Style = STYLE) -> dict[str, Any]:
    text = FORMATS["sarif"](report, style)
    Draft4Validator(json.loads((SCHEMAS / "sarif-2.1.0.json").read_text())).validate(
        json.loads(text)
    )
    run: dict[str, Any] = json.loads(text)["runs"][0]
    return run


def junit(report: Report, style: Style = STYLE) -> ET.Element:
    suite = ET.fromstring(FORMATS["junit"](report, style)).find("testsuite")  # noqa: S314  (ours)
    assert suite is not None
    return suite


def github(report: Report, style: Style = STYLE) -> list[str]:
    return FORMATS["github"](report, style).splitlines()


def test_every_report_is_valid_sarif(any_report: Report) -> None:
    run = sarif(any_report)
    assert len(run["results"]) == len(any_report.verdicts.findings)


def test_sarif_paths_are_relative_to_the_repository(any_report: Report) -> None:
    for result in sarif(any_report)["results"]:
        places = [*result["locations"], *result.get("relatedLocations", [])]
        for place in places:
            uri = place["physicalLocation"]["artifactLocation"]["uri"]
            assert not uri.startswith("/")
            assert not regex.search(r"^[a-z]+:|\\|\.\./|\s", uri)


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("logs/a.log", "ci/logs/a.log"),
        ("./a.log", "ci/a.log"),
        ("../a.log", "a.log"),
        ("../../outside/a.log", "a.log"),
        ("/repo/deploy/a.log", "deploy/a.log"),
        ("/repository/a.log", "a.log"),
        ("/var/log/a.log", "a.log"),
        ("/repo/x/../../etc/a.log", "a.log"),
        ("stdin", "ci/stdin"),
        ("/", "log"),
    ],
)
def test_a_source_becomes_a_path_below_the_root(source: str, path: str) -> None:
    assert Repository(root="/repo", folder="ci").path(source) == path


def test_a_uri_is_percent_encoded() -> None:
    assert Repository().uri("a b/c%d:e#f?.log") == "a%20b/c%25d%3Ae%23f%3F.log"


def test_an_anchor_takes_the_alert_and_the_log_is_related(
    make_report: MakeReport, make_finding: MakeFinding
) -> None:
    style = replace(STYLE, anchor="deploy/server.yaml", repository=Repository(root="/repo"))
    (result,) = sarif(make_report(make_finding()), style)["results"]
    (place,) = result["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "deploy/server.yaml"
    (related,) = result["relatedLocations"]
    assert related["physicalLocation"]["artifactLocation"]["uri"] == "logs/server.log"
    (line,) = github(make_report(make_finding()), style)
    assert "file=deploy/server.yaml,line=1::" in line
    (issue,) = json.loads(FORMATS["gitlab"](make_report(make_finding()), style))
    assert issue["location"]["path"] == "deploy/server.yaml"


def test_a_finding_without_a_place_points_at_the_first_line(
    make_report: MakeReport, make_finding: MakeFinding
) -> None:
    (result,) = sarif(make_report(make_finding(evidence=())))["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["region"]["startLine"] == 1
    assert place["artifactLocation"]["uri"] == "ci/logs/server.log"


def test_uploads_of_two_servers_have_two_categories(make_report: MakeReport) -> None:
    ids = [
        sarif(make_report(source=name))["automationDetails"]["id"]
        for name in ("logs/a.log", "logs/b.log")
    ]
    assert ids == ["advisor/ci/logs/a.log/", "advisor/ci/logs/b.log/"]
    named = sarif(make_report(), replace(STYLE, category="prod / llm 0"))
    assert named["automationDetails"]["id"] == "prod-/-llm-0/"


def test_rules_carry_help_and_skipped_rules_are_notifications(made: dict[str, Report]) -> None:
    run = sarif(made["crash"])
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["a-note", "a-warning", "memory-ran-out"]
    assert all(rule["help"]["text"] and rule["help"]["markdown"] for rule in rules)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is True
    missing = [item["associatedRule"]["id"] for item in invocation["toolExecutionNotifications"]]
    assert missing == ["blind-rule", "echo-rule"]


def test_a_message_holds_no_link_or_placeholder_of_sarif(
    make_report: MakeReport, make_finding: MakeFinding
) -> None:
    made = make_report(
        make_finding(summary="See [this](http://x.invalid) and {0} or shape [128, 128].")
    )
    (result,) = sarif(made)["results"]
    assert (
        r"See \[this](http://x.invalid) and {{0}} or shape [128, 128]." in result["message"]["text"]
    )


def test_junit_has_one_case_a_rule(made: dict[str, Report]) -> None:
    suite = junit(made["crash"])
    outcomes = {
        case.attrib["name"]: [child.tag for child in case] for case in suite.iter("testcase")
    }
    assert outcomes == {
        "a-note": ["system-out"],
        "a-warning": ["system-out"],
        "blind-rule": ["skipped"],
        "echo-rule": ["skipped"],
        "memory-ran-out": ["failure"],
        "quiet-rule": [],
    }
    counts = {name: suite.attrib[name] for name in ("tests", "failures", "skipped", "errors")}
    assert counts == {"tests": "6", "failures": "1", "skipped": "2", "errors": "0"}


@pytest.mark.parametrize(
    ("threshold", "failures"),
    [(None, 0), (Severity.ERROR, 1), (Severity.WARNING, 2), (Severity.NOTE, 3)],
)
def test_junit_fails_what_the_gate_fails(
    threshold: Severity | None, failures: int, made: dict[str, Report]
) -> None:
    suite = junit(replace(made["crash"], fail_on=threshold))
    assert suite.attrib["failures"] == str(failures)


def test_a_case_keeps_its_name_whatever_its_outcome(
    make_report: MakeReport, make_finding: MakeFinding
) -> None:
    fired = junit(make_report(make_finding(rule="quiet-rule"))).find("testcase")
    quiet = junit(make_report()).find("testcase")
    assert fired is not None
    assert quiet is not None
    assert fired.attrib == quiet.attrib


def test_annotations_are_escaped_and_carry_place_and_rule(
    make_report: MakeReport, make_finding: MakeFinding
) -> None:
    made = make_report(
        make_finding(title="100 % of a, b: c", summary="first\nsecond 5 %", actions=())
    )
    (line,) = github(made)
    title = "title=advisor%3A 100 %25 of a%2C b%3A c (some-rule)"
    assert line == f"::warning {title},file=ci/logs/server.log,line=7::first%0Asecond 5 %25"


def test_annotations_stop_at_ten_a_level_and_the_rest_is_named(
    make_report: MakeReport, make_finding: MakeFinding
) -> None:
    findings = [
        make_finding(severity, f"{severity.value}-{number}")
        for severity in Severity
        for number in range(12)
    ]
    lines = github(make_report(*findings))
    levels = [line.split(" ")[0] for line in lines]
    assert levels == ["::error"] * 10 + ["::warning"] * 10 + ["::notice"] * 10
    assert lines[-1].endswith(
        "::7 more not shown here: error-10, error-11, warning-10, warning-11, note-9, note-10, note-11"
    )


def test_a_clean_report_makes_no_annotation(made: dict[str, Report]) -> None:
    assert github(made["healthy"]) == []


def test_gitlab_issues_have_what_gitlab_reads(made: dict[str, Report]) -> None:
    issues = json.loads(FORMATS["gitlab"](made["crash"], STYLE))
    assert [issue["severity"] for issue in issues] == ["critical", "major", "info"]
    assert len({issue["fingerprint"] for issue in issues}) == 3
    for issue in issues:
        assert issue.keys() == {"description", "check_name", "fingerprint", "severity", "location"}
        assert issue["location"] == {"path": "ci/logs/server.log", "lines": {"begin": 7}}
