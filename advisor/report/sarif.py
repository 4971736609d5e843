"""SARIF 2.1.0, shaped for code scanning: relative paths, fingerprints that outlive a restart.

Forges map results to files of the repository and follow no absolute URI. A log is rarely in the
repository: with an anchor, alerts attach to that file and name the log as a related place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import regex

from advisor import __version__
from advisor.diagnosis import Report
from advisor.findings import Action, Confidence, Finding, Skipped
from advisor.fingerprints import fingerprints
from advisor.report.markup import fence, inline, link, prose
from advisor.report.style import Style
from advisor.sources.records import Evidence

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT = "%SRCROOT%"
_EXPLAINED = "More: advisor rules explain {}"
_FINGERPRINT = "advisorFinding/v1"
_PRECISION = {
    Confidence.CERTAIN: "very-high",
    Confidence.LIKELY: "high",
    Confidence.POSSIBLE: "medium",
}
_Node = dict[str, object]


def render(report: Report, style: Style) -> str:
    """Return the SARIF log, two spaces deep, ended by a newline."""
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [_run(report, style)]}
    return json.dumps(log, indent=2, ensure_ascii=False) + "\n"


def _run(report: Report, style: Style) -> _Node:
    accepted = report.verdicts.suppressed
    findings = (*report.verdicts.findings, *(item.finding for item in accepted))
    described = {finding.rule: finding for finding in reversed(findings)}
    order = sorted(described)
    marks = fingerprints(findings)
    return {
        "tool": {
            "driver": {
                "name": "advisor",
                "version": __version__,
                "semanticVersion": __version__,
                "rules": [_rule(described[rule]) for rule in order],
            }
        },
        "automationDetails": {"id": _category(report, style)},
        "invocations": [_invocation(report.verdicts.skipped, report.exit_code)],
        "results": [
            _result(finding, order.index(finding.rule), mark, report, style) | suppression
            for finding, mark, suppression in zip(
                findings, marks, _suppressions(report), strict=True
            )
        ],
        "columnKind": "unicodeCodePoints",
    }


def _suppressions(report: Report) -> list[_Node]:
    """Return what each result, accepted ones last, says of its acceptance."""
    accepted: list[_Node] = [
        {"suppressions": [{"kind": "external", "justification": f"{item.reason} ({item.by})"}]}
        for item in report.verdicts.suppressed
    ]
    open_ones: list[_Node] = [{"suppressions": []} if accepted else {}] * len(
        report.verdicts.findings
    )
    return [*open_ones, *accepted]


def _category(report: Report, style: Style) -> str:
    """Return the id whose part before the last slash keeps uploads of different servers apart."""
    name = style.category
    if name is None:
        names = [style.repository.path(source.name) for source in report.sources]
        name = "/".join(["advisor", names[0] if names else "launch"])
    slug = regex.sub(r"[^\w./-]+", "-", name, timeout=1.0).strip("/")
    return f"{slug}/"


def _rule(finding: Finding) -> _Node:
    return {
        "id": finding.rule,
        "name": "".join(part.capitalize() for part in finding.rule.split("-")),
        "shortDescription": {"text": finding.title},
        "fullDescription": {"text": finding.why or finding.summary},
        "help": {"text": _help(finding), "markdown": _help_markdown(finding)},
        "defaultConfiguration": {"level": finding.severity.value},
        "properties": {
            "tags": list(dict.fromkeys((finding.category.value, finding.topic))),
            "precision": _PRECISION[finding.confidence],
        },
    }


def _help(finding: Finding) -> str:
    parts = [
        finding.why or finding.summary,
        *(_action(action) for action in finding.actions),
        _EXPLAINED.format(finding.rule),
    ]
    return "\n\n".join(part for part in parts if part)


def _action(action: Action) -> str:
    labelled = (("Expect", action.expect), ("Risk", action.risk), ("Check", action.verify))
    lines = [action.title, action.command, *(f"{name}: {text}" for name, text in labelled if text)]
    return "\n".join(line for line in lines if line)


def _help_markdown(finding: Finding) -> str:
    parts = [prose(finding.why or finding.summary)]
    for action in finding.actions:
        parts.append(f"**{inline(action.title)}**")
        if action.command:
            parts.append(fence(action.command, "shell"))
        labelled = (("Expect", action.expect), ("Risk", action.risk), ("Check", action.verify))
        parts += [f"{name}: {inline(text)}" for name, text in labelled if text]
    parts += [link(url) for url in finding.references]
    parts.append(inline(_EXPLAINED.format(finding.rule)))
    return "\n\n".join(parts)


def _invocation(skipped: Iterable[Skipped], exit_code: int) -> _Node:
    return {
        "executionSuccessful": True,
        "exitCode": exit_code,
        "toolExecutionNotifications": [
            {
                "descriptor": {"id": "not-evaluated"},
                "associatedRule": {"id": item.rule},
                "level": "note",
                "message": {"text": f"{item.rule} was not evaluated: {item.reason}"},
            }
            for item in skipped
        ],
    }


def _result(finding: Finding, index: int, mark: str, report: Report, style: Style) -> _Node:
    places = [_place(place, style) for place in finding.evidence] or [_first(report, style)]
    node: _Node = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": finding.severity.value,
        "message": {"text": _message(finding)},
        "locations": places[:1],
        "partialFingerprints": {_FINGERPRINT: mark},
        "properties": {
            "topic": finding.topic,
            "category": finding.category.value,
            "confidence": finding.confidence.value,
        },
    }
    related = places[1:]
    if style.anchor is not None:
        node["locations"] = [_location(style.repository.uri(style.anchor), 1)]
        related = places
    if related:
        node["relatedLocations"] = [
            {"id": number, **place} for number, place in enumerate(related, start=1)
        ]
    return node


def _message(finding: Finding) -> str:
    """Say what is the case and what to do first, with nothing that SARIF reads as its own.

    In a message `[text](target)` is a link and `{0}` a placeholder.
    """
    steps = [_action(action) for action in finding.actions[:1]]
    text = "\n\n".join([f"{finding.title}. {finding.summary}", *steps])
    text = regex.sub(r"\[(?=[^\[\]]*\]\()", r"\\[", text, timeout=1.0)
    return regex.sub(r"\{(\d+)\}", r"{{\1}}", text, timeout=1.0)


def _place(place: Evidence, style: Style) -> _Node:
    return _location(style.repository.uri(place.source), max(1, place.line), place.text)


def _first(report: Report, style: Style) -> _Node:
    """Point at the first line of the log: code scanning refuses a result without a place."""
    name = report.sources[0].name if report.sources else (style.anchor or "launch")
    return _location(style.repository.uri(name), 1)


def _location(uri: str, line: int, text: str = "") -> _Node:
    region: _Node = {"startLine": line}
    if text:
        region["snippet"] = {"text": text}
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": uri, "uriBaseId": _ROOT},
            "region": region,
        }
    }
