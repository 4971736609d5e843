"""JUnit XML: one test case a rule, so that a dashboard shows what was judged and what was not.

A finding fails its case where it is at or above the threshold of the gate; one below it passes
and says so in `system-out`. Rules without their inputs are skipped.
"""

from __future__ import annotations

from xml.etree import ElementTree as ET

from advisor.diagnosis import Report
from advisor.findings import Finding, Severity
from advisor.report.places import repeats
from advisor.report.style import Style


def render(report: Report, style: Style) -> str:
    """Return the XML document."""
    cases = sorted(
        [*_judged(report, style), *_accepted(report), *_passed(report), *_skipped(report)],
        key=lambda case: case.attrib["name"],
    )
    failures = sum(case.find("failure") is not None for case in cases)
    skipped = sum(case.find("skipped") is not None for case in cases)
    counts = {
        "tests": str(len(cases)),
        "failures": str(failures),
        "errors": "0",
        "skipped": str(skipped),
    }
    totals = {name: counts[name] for name in ("tests", "failures", "errors")}
    suites = ET.Element("testsuites", {"name": "advisor", **totals})
    suite = ET.SubElement(suites, "testsuite", {"name": _suite_name(report, style), **counts})
    suite.extend(cases)
    ET.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suites, "unicode") + "\n"


def _suite_name(report: Report, style: Style) -> str:
    names = [style.repository.path(source.name) for source in report.sources]
    return style.category or ", ".join(names) or "launch"


def _case(rule: str) -> ET.Element:
    """Name a case alike in every outcome: dashboards follow it by its class and name."""
    return ET.Element("testcase", {"classname": "advisor", "name": rule, "time": "0"})


def _judged(report: Report, style: Style) -> list[ET.Element]:
    cases: dict[str, ET.Element] = {}
    for finding in report.verdicts.findings:
        case = cases.setdefault(finding.rule, _case(finding.rule))
        if _fails(finding, report.fail_on):
            attributes = {"type": finding.severity.value, "message": finding.title}
            node = ET.SubElement(case, "failure", attributes)
        else:
            node = ET.SubElement(case, "system-out")
        node.text = _text(finding, style)
    return list(cases.values())


def _fails(finding: Finding, threshold: Severity | None) -> bool:
    return threshold is not None and finding.severity.rank <= threshold.rank


def _passed(report: Report) -> list[ET.Element]:
    return [_case(rule) for rule in report.verdicts.quiet]


def _accepted(report: Report) -> list[ET.Element]:
    """Pass the rules whose findings are all accepted, and say by what."""
    open_ones = {finding.rule for finding in report.verdicts.findings}
    cases: dict[str, ET.Element] = {}
    for item in report.verdicts.suppressed:
        rule = item.finding.rule
        if rule in open_ones:
            continue
        node = ET.SubElement(cases.setdefault(rule, _case(rule)), "system-out")
        node.text = f"accepted by {item.by}: {item.reason}\n{item.finding.title}"
    return list(cases.values())


def _skipped(report: Report) -> list[ET.Element]:
    cases: list[ET.Element] = []
    for item in report.verdicts.skipped:
        case = _case(item.rule)
        ET.SubElement(case, "skipped", {"message": item.reason})
        cases.append(case)
    return cases


def _text(finding: Finding, style: Style) -> str:
    lines = [f"{finding.severity.value}: {finding.title}", finding.summary]
    for place in finding.evidence:
        many = repeats(place)
        where = f"{style.repository.path(place.source)}:{place.line}"
        lines.append(f"{where}{f' ({many})' if many else ''}: {place.text}")
    for action in finding.actions:
        lines += [action.title, action.command]
    return "\n".join(line for line in lines if line)
