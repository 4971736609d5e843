"""Run the examples of rules: they are the rules' tests and their documentation."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.diagnosis import Report, Request, diagnose_logs
from advisor.errors import AdvisorError
from advisor.facts.launch import parse_launch
from advisor.findings import Finding, Verdicts
from advisor.knowledge.environment import parse_environment
from advisor.rules.commands import command_problem
from advisor.rules.model import Example, Rule
from advisor.sources.files import LogInput


def run_example(rule: Rule, example: Example) -> Verdicts:
    """Judge an example by its rule alone, through the real readers.

    Raises:
        AdvisorError: If the example's input cannot be used.
    """
    return read_example(rule, example).verdicts


def read_example(rule: Rule, example: Example) -> Report:
    """Return the whole report on an example, by its rule alone.

    Raises:
        AdvisorError: If the example's input cannot be used.
    """
    logs = (LogInput(name="example.log", text=example.log),) if example.log.strip() else ()
    request = Request(
        logs=logs,
        rules=(rule,),
        environment=parse_environment(example.env, "example") if example.env.strip() else None,
        requested_args=parse_launch(example.args) if example.args.strip() else None,
        fail_on=None,
    )
    return diagnose_logs(request, tolerant=True)


def example_problems(rules: Iterable[Rule]) -> list[str]:
    """List the examples that do not come out as they claim."""
    return [
        f"{rule.where(f'examples.{number}')}: example {example.name!r}: {problem}"
        for rule in rules
        for number, example in enumerate(rule.examples)
        if (problem := example_problem(rule, example))
    ]


def example_problem(rule: Rule, example: Example) -> str | None:
    """Say how an example differs from what it claims; None where it holds."""
    try:
        verdicts = run_example(rule, example)
    except AdvisorError as error:
        return str(error)
    return verdict_problem(verdicts, example)


def verdict_problem(verdicts: Verdicts, example: Example) -> str | None:
    """Say how verdicts differ from what an example claims; None where they agree."""
    if (actual := outcome(verdicts)) != example.expect:
        reason = f" ({verdicts.skipped[0].reason})" if verdicts.skipped else ""
        return f"expected {example.expect}, is {actual}{reason}"
    return _finding_problem(verdicts.findings[0], example) if verdicts.findings else None


def first_finding(rule: Rule) -> Finding | None:
    """Return what a rule says on its first example that fires; None where there is none."""
    example = next((item for item in rule.examples if item.expect == "fires"), None)
    if example is None:
        return None
    return next(iter(run_example(rule, example).findings), None)


def outcome(verdicts: Verdicts) -> str:
    """Name what became of the only rule that was applied."""
    if verdicts.findings:
        return "fires"
    return "skipped" if verdicts.skipped else "quiet"


def _finding_problem(finding: Finding, example: Example) -> str | None:
    if example.severity is not None and finding.severity is not example.severity:
        return f"expected severity {example.severity}, is {finding.severity}"
    if example.evidence is not None and len(finding.evidence) != example.evidence:
        return f"expected {example.evidence} places of evidence, are {len(finding.evidence)}"
    if example.summary is not None and " ".join(finding.summary.split()) != " ".join(
        example.summary.split()
    ):
        return f"expected the summary {example.summary!r}, is {finding.summary!r}"
    return next((p for a in finding.actions if (p := command_problem(a.command))), None)
