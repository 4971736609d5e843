"""The JSON document of a report, `schema_version` 1 (its schema ships in `advisor/data/`)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import StrEnum

from packaging.version import Version

from advisor import __version__
from advisor.diagnosis import Report
from advisor.facts.model import RunFacts
from advisor.findings import Action, Finding
from advisor.fingerprints import fingerprints
from advisor.knowledge.ranges import VersionRange
from advisor.sources.records import Evidence

SCHEMA_VERSION = 1


def render(report: Report) -> str:
    """Return the report as JSON, two spaces deep, ended by a newline."""
    return json.dumps(document(report), indent=2, ensure_ascii=False) + "\n"


def render_lines(report: Report) -> str:
    """Return one JSON object a finding, each on its own line; nothing where there is none."""
    run = {"number": report.run_number, "count": report.run_count}
    sources = [source.name for source in report.sources]
    return "".join(
        json.dumps(
            {"schema_version": SCHEMA_VERSION, "sources": sources, "run": run, **finding},
            ensure_ascii=False,
        )
        + "\n"
        for finding in _findings(report)
    )


def document(report: Report) -> dict[str, object]:
    """Return the report as plain values; what is not known is left out."""
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "advisor", "version": __version__},
        "sources": [
            {
                "name": source.name,
                "lines": source.lines,
                "bytes": source.bytes_,
                "unread": source.unread,
                "runs": source.runs,
            }
            for source in report.sources
        ],
        "run": {"number": report.run_number, "count": report.run_count},
        "facts": _facts(report.run),
        "findings": _findings(report),
        "skipped": [{"rule": item.rule, "reason": item.reason} for item in report.verdicts.skipped],
        **_suppressed(report),
        "plan": [
            {"rule": item.rule, "severity": item.severity.value, **_action(item.action)}
            for item in report.plan
        ],
        "unrecognised": [
            {"template": kind.template, "count": kind.count, "evidence": _evidence(kind.evidence)}
            for kind in report.unrecognised
        ],
        "fail_on": "never" if report.fail_on is None else report.fail_on.value,
        "exit_code": report.exit_code,
    }


def _suppressed(report: Report) -> dict[str, object]:
    """Return what the gate lets pass, if anything."""
    items = report.verdicts.suppressed
    marks = fingerprints(item.finding for item in items)
    rows = [
        {"by": item.by, "reason": item.reason, "finding": _finding(item.finding, mark)}
        for item, mark in zip(items, marks, strict=True)
    ]
    return {"suppressed": rows} if rows else {}


def _facts(run: RunFacts) -> dict[str, object]:
    facts: dict[str, object] = {
        "sglang_version": plain(run.versions.sglang),
        "sglang_version_basis": run.versions.sglang_basis,
        "model": run.model,
        "model_class": run.model_class,
        "gpu": _pruned(
            {
                "name": run.gpu.name,
                "sm": run.gpu.sm,
                "memory_gib": run.gpu.memory_gib,
                "count": run.gpu.count,
            }
        ),
        "triton_version": run.versions.triton,
        "torch_version": run.versions.torch,
        "parallel": _pruned(
            {
                "tp": run.parallel.tensor,
                "dp": run.parallel.data,
                "pp": run.parallel.pipeline,
                "ep": run.parallel.expert,
                "nnodes": run.parallel.nodes,
            }
        ),
        "requested_args": plain(run.requested_args or {}),
        "effective_args": plain(run.args or {}),
        "changed_args": [plain(change) for change in run.changed_args],
        "capacity": plain(run.capacity),
        "memory": plain(run.memory),
        "moe_configs": [plain(lookup) for lookup in run.moe.lookups],
        "graphs": plain(run.graphs),
        "startup": plain(run.startup),
        "serving": plain(run.serving),
        "failure": plain(run.failure),
        "ready": run.startup.ready,
        "ranks": list(run.ranks),
    }
    return _pruned(facts)


def _findings(report: Report) -> list[dict[str, object]]:
    found = report.verdicts.findings
    return [
        _finding(finding, mark) for finding, mark in zip(found, fingerprints(found), strict=True)
    ]


def _finding(finding: Finding, mark: str) -> dict[str, object]:
    return {
        "rule": finding.rule,
        "title": finding.title,
        "topic": finding.topic,
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "category": finding.category.value,
        "summary": finding.summary,
        "why": finding.why,
        "evidence": [_evidence(place) for place in finding.evidence],
        "actions": [_action(action) for action in finding.actions],
        "values": plain(finding.values),
        "references": list(finding.references),
        "fingerprint": mark,
    }


def _evidence(place: Evidence) -> dict[str, object]:
    return {
        "source": place.source,
        "line": place.line,
        "text": place.text,
        "count": place.count,
        "ranks": list(place.ranks),
    }


def _action(action: Action) -> dict[str, object]:
    return {
        "title": action.title,
        "command": action.command,
        "expect": action.expect,
        "risk": action.risk,
        "verify": action.verify,
    }


def _pruned(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def plain(value: object) -> object:
    """Turn records, versions and times into what JSON can hold; unknown fields are left out."""
    if isinstance(value, VersionRange):
        return value.describe()
    if is_dataclass(value) and not isinstance(value, type):
        return _pruned({field.name: plain(getattr(value, field.name)) for field in fields(value)})
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return _scalar(value)


def _scalar(value: object) -> object:
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, (datetime, Version)):
        return str(value)
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return value
