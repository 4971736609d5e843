from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from advisor.diagnosis import Report, exit_code
from advisor.errors import ConfigError
from advisor.facts.model import RunFacts
from advisor.findings import Category, Confidence, Finding, Severity, Skipped, Verdicts
from advisor.gate import Ignore, Policy, apply, find_policy, read_policy
from advisor.sources.records import Evidence

TODAY = date(2026, 5, 4)
KNOWN = ("flag-deprecated", "moe-config-missing", "moe-config-other-triton", "secret-in-command")


def finding(rule: str, severity: Severity = Severity.WARNING) -> Finding:
    return Finding(
        rule=rule,
        title=rule,
        topic="log",
        severity=severity,
        confidence=Confidence.CERTAIN,
        category=Category.PERFORMANCE,
        summary="",
        why="",
        evidence=(Evidence(source="a.log", line=1, text=rule),),
    )


def report(*findings: Finding, skipped: tuple[str, ...] = ()) -> Report:
    verdicts = Verdicts(
        findings=findings, skipped=tuple(Skipped(rule=rule, reason="r") for rule in skipped)
    )
    return Report(
        sources=(),
        run=RunFacts(),
        run_number=1,
        run_count=1,
        verdicts=verdicts,
        plan=(),
        fail_on=Severity.WARNING,
        exit_code=exit_code(verdicts, Severity.WARNING),
    )


def test_an_empty_policy_changes_nothing() -> None:
    before = report(finding("flag-deprecated"))
    assert apply(before, Policy(), TODAY) == before


def test_an_ignored_finding_is_kept_aside_with_its_reason() -> None:
    policy = Policy(origin=".advisor.yaml", ignores=(Ignore(rule="flag-*", reason="known"),))
    result = apply(report(finding("flag-deprecated")), policy, TODAY)
    assert result.exit_code == 0
    (kept,) = result.verdicts.suppressed
    assert (kept.finding.rule, kept.by, kept.reason) == (
        "flag-deprecated",
        ".advisor.yaml",
        "known",
    )


@pytest.mark.parametrize(
    ("day", "rules"),
    [("2026-05-04", []), ("2026-05-03", ["flag-deprecated", "ignore-expired"])],
)
def test_an_ignore_holds_up_to_its_day(day: str, rules: list[str]) -> None:
    ignore = Ignore(rule="flag-*", reason="known", expires=date.fromisoformat(day), line=3)
    policy = Policy(origin=".advisor.yaml", ignores=(ignore,))
    result = apply(report(finding("flag-deprecated")), policy, TODAY)
    assert [item.rule for item in result.verdicts.findings] == rules


def test_an_expired_ignore_of_nothing_is_silent() -> None:
    ignore = Ignore(rule="flag-*", reason="known", expires=date(2020, 1, 1))
    result = apply(report(), Policy(ignores=(ignore,)), TODAY)
    assert not result.verdicts.findings


def test_select_drops_the_rest() -> None:
    before = report(finding("flag-deprecated"), finding("secret-in-command"), skipped=("moe-x",))
    result = apply(before, Policy(select=("secret-*",)), TODAY)
    assert [item.rule for item in result.verdicts.findings] == ["secret-in-command"]
    assert not result.verdicts.skipped
    assert not result.verdicts.suppressed


def test_severities_and_the_threshold() -> None:
    policy = Policy(severities={"*": Severity.NOTE, "secret-*": Severity.ERROR})
    result = apply(report(finding("secret-in-command"), finding("flag-deprecated")), policy, TODAY)
    assert [item.severity for item in result.verdicts.findings] == ["error", "note"]
    assert apply(report(finding("x")), Policy(fail_on=Severity.ERROR), TODAY).exit_code == 0
    assert apply(report(finding("x", Severity.ERROR)), Policy(fails=False), TODAY).exit_code == 0


def test_a_configuration_file(tmp_path: Path) -> None:
    path = tmp_path / ".advisor.yaml"
    path.write_text(
        "fail-on: error\nselect: [moe-*]\nbaseline: b.json\ntolerance: 10%\n"
        "severity: {moe-config-missing: note}\n"
        "ignore:\n  - {rule: flag-deprecated, reason: later, expires: 2026-12-31}\n"
    )
    assert read_policy(path, KNOWN) == Policy(
        origin=str(path),
        select=("moe-*",),
        ignores=(
            Ignore(rule="flag-deprecated", reason="later", expires=date(2026, 12, 31), line=7),
        ),
        severities={"moe-config-missing": Severity.NOTE},
        fail_on=Severity.ERROR,
        baseline=Path("b.json"),
        tolerance_ratio=0.1,
    )


def test_the_same_in_pyproject(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(
        "[tool.advisor]\nfail-on = 'never'\n[[tool.advisor.ignore]]\n"
        "rule = 'flag-deprecated'\nreason = 'later'\nexpires = 2026-12-31\n"
    )
    policy = read_policy(path, KNOWN)
    assert (policy.fails, policy.fail_on) == (False, None)
    assert policy.ignores[0].expires == date(2026, 12, 31)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("frob: 1\n", "unknown key 'frob'"),
        ("select: [moe-config-mising]\n", "did you mean 'moe-config-missing'?"),
        ("severity: {secret-in-comand: note}\n", "did you mean 'secret-in-command'?"),
        ("severity: {flag-deprecated: bad}\n", "no severity"),
        ("ignore:\n  - rule: flag-deprecated\n", "needs a `reason`"),
        ("ignore:\n  - reason: x\n", "needs `rule`"),
        ("ignore:\n  - {rule: flag-deprecated, reason: x, expires: soon}\n", "YYYY-MM-DD"),
        ("fail-on: sometimes\n", "no severity"),
        ("tolerance: lots\n", "write a share"),
        ("fail-on: error\nfail-on: note\n", "twice"),
        ("- a\n", "expected a mapping"),
        ("a: [\n", ":"),
    ],
)
def test_mistakes_are_told_with_their_place(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / ".advisor.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_policy(path, KNOWN)
    assert complaint in str(caught.value)
    assert str(caught.value).startswith(f"{path}:")


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / ".advisor.yaml"
    path.write_text("frob: 1\nfail-on: sometimes\nselect: [x]\n")
    with pytest.raises(ConfigError) as caught:
        read_policy(path, KNOWN)
    assert len(str(caught.value).splitlines()) == 3


def test_the_nearest_configuration_up_to_the_repository_counts(tmp_path: Path) -> None:
    (tmp_path / ".advisor.yaml").write_text("fail-on: note\n")
    repository = tmp_path / "repository"
    deep = repository / "deploy"
    deep.mkdir(parents=True)
    assert find_policy(deep, KNOWN).fail_on is Severity.NOTE
    (repository / ".git").mkdir()
    assert find_policy(deep, KNOWN) == Policy()
    (repository / "pyproject.toml").write_text("[tool.advisor]\nfail-on = 'error'\n")
    found = find_policy(deep, KNOWN)
    assert (found.fail_on, found.origin) == (Severity.ERROR, "../pyproject.toml")


@pytest.mark.parametrize("text", ["", "{}\n", "# nothing\n"])
def test_an_empty_file_is_an_empty_policy(tmp_path: Path, text: str) -> None:
    path = tmp_path / ".advisor.yaml"
    path.write_text(text)
    assert read_policy(path, KNOWN) == Policy(origin=str(path))
