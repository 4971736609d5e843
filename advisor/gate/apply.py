"""Apply a policy to a report: what is not selected or ignored no longer counts, and that is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date

from advisor.diagnosis import Report, exit_code
from advisor.findings import (
    Action,
    Category,
    Confidence,
    Finding,
    Severity,
    Suppressed,
    Verdicts,
    order,
    plan,
)
from advisor.gate.policy import Ignore, Policy
from advisor.sources.records import Evidence

IGNORE_EXPIRED = "ignore-expired"
BASELINE_STALE = "baseline-stale"
CAPACITY_REGRESSED = "capacity-regressed"
GATE_RULES: Mapping[str, str] = {
    IGNORE_EXPIRED: "The last day of an `ignore` of the configuration has passed, so that what it "
    "accepted counts again. Mend the finding, or set a new date with a reason.",
    BASELINE_STALE: "The baseline accepts findings that no longer occur. Make it anew with "
    "`advisor baseline`, so that it does not hide them when they come back.",
    CAPACITY_REGRESSED: "max_running_requests, KV tokens or the start-up time are worse than in the "
    "baseline by more than the tolerance. Compare the two reports, then mend the cause or accept it "
    "with a new baseline.",
}
"""The findings that the gate itself makes, by id, and what each means."""


def apply(report: Report, policy: Policy, today: date) -> Report:
    """Return the report as the policy sees it, judged again.

    Ignored findings move to `suppressed` with their reason; an ignore whose day has passed no
    longer holds and is a finding itself.
    """
    kept: list[Finding] = []
    suppressed = list(report.verdicts.suppressed)
    for finding in report.verdicts.findings:
        if not policy.selects(finding.rule):
            continue
        reason = _reason(finding.rule, policy, today)
        if reason is None:
            severity = policy.severity(finding.rule, finding.severity)
            kept.append(replace(finding, severity=severity))
        else:
            suppressed.append(
                Suppressed(finding=finding, by=policy.origin or "--ignore", reason=reason)
            )
    kept.extend(_expired(report.verdicts.findings, policy, today))
    skipped = tuple(item for item in report.verdicts.skipped if policy.selects(item.rule))
    quiet = tuple(rule for rule in report.verdicts.quiet if policy.selects(rule))
    verdicts = Verdicts(
        findings=order(kept), skipped=skipped, quiet=quiet, suppressed=tuple(suppressed)
    )
    fail_on = report.fail_on if policy.fail_on is None else policy.fail_on
    return judged_again(replace(report, fail_on=fail_on if policy.fails else None), verdicts)


def judged_again(report: Report, verdicts: Verdicts) -> Report:
    """Return the report with other verdicts, its plan and exit code made from them."""
    return replace(
        report,
        verdicts=verdicts,
        plan=plan(verdicts.findings),
        exit_code=exit_code(verdicts, report.fail_on),
    )


def _reason(rule: str, policy: Policy, today: date) -> str | None:
    """Return why a rule's findings are accepted; None if they are not."""
    ignore = next((item for item in policy.ignores if item.holds(rule, today)), None)
    return None if ignore is None else ignore.reason


def _expired(findings: Sequence[Finding], policy: Policy, today: date) -> Iterable[Finding]:
    """Yield a finding for each ignore that has run out and would have held otherwise."""
    for ignore in policy.ignores:
        open_ended = replace(ignore, expires=None)
        meant = [item.rule for item in findings if open_ended.holds(item.rule, today)]
        if ignore.expires is not None and today > ignore.expires and meant:
            yield _expired_finding(ignore, policy, sorted(set(meant)))


def _expired_finding(ignore: Ignore, policy: Policy, rules: Sequence[str]) -> Finding:
    return Finding(
        rule=IGNORE_EXPIRED,
        title=f"The ignore of {ignore.rule} ran out on {ignore.expires}",
        topic="log",
        severity=Severity.NOTE,
        confidence=Confidence.CERTAIN,
        category=Category.CONFIGURATION,
        summary=f"It was accepted because: {ignore.reason}. {', '.join(rules)} counts again.",
        why="An accepted finding with an end date is meant to be looked at again.",
        evidence=(Evidence(source=policy.origin, line=max(1, ignore.line), text=ignore.rule),),
        actions=(Action(title="Mend the finding, or set a new date with a reason", cost=1),),
    )
