"""The baseline file: findings and capacity that are accepted today."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from advisor import __version__
from advisor.diagnosis import Report
from advisor.errors import ConfigError
from advisor.findings import Severity
from advisor.fingerprints import fingerprints

SCHEMA_VERSION = 1
_LONGEST = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """One finding of the baseline; `fingerprint` says which."""

    fingerprint: str
    rule: str
    severity: Severity
    title: str
    reason: str
    expires: date | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What the server could do; None where the input did not say."""

    max_running_requests: int | None = None
    max_total_num_tokens: int | None = None
    startup_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What was accepted, when."""

    created: date
    findings: tuple[Accepted, ...]
    capacity: Capacity


def new_baseline(
    report: Report, today: date, *, reason: str, expires: date | None = None
) -> Baseline:
    """Accept what a report says today."""
    findings = report.verdicts.findings
    accepted = (
        Accepted(
            fingerprint=mark,
            rule=finding.rule,
            severity=finding.severity,
            title=finding.title,
            reason=reason,
            expires=expires,
        )
        for finding, mark in zip(findings, fingerprints(findings), strict=True)
    )
    return Baseline(created=today, findings=tuple(accepted), capacity=capacity_of(report))


def capacity_of(report: Report) -> Capacity:
    """Return the capacity that a report tells."""
    run = report.run
    return Capacity(
        max_running_requests=run.capacity.max_running_requests,
        max_total_num_tokens=run.capacity.max_total_num_tokens,
        startup_s=run.startup.ready_s,
    )


def render_baseline(baseline: Baseline) -> str:
    """Return the file: sorted, so that two of them differ only in what changed."""
    accepted = sorted(baseline.findings, key=lambda item: (item.rule, item.fingerprint))
    document = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "advisor", "version": __version__},
        "created": baseline.created.isoformat(),
        "findings": [_row(item) for item in accepted],
        "capacity": {
            name: value
            for name, value in (
                ("max_running_requests", baseline.capacity.max_running_requests),
                ("max_total_num_tokens", baseline.capacity.max_total_num_tokens),
                ("startup_s", baseline.capacity.startup_s),
            )
            if value is not None
        },
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def parse_baseline(text: str, origin: str) -> Baseline:
    """Read a baseline file.

    Raises:
        ConfigError: If it is none, or of another version of the format.
    """
    try:
        document = json.loads(text[:_LONGEST])
        version = document["schema_version"]
        if version != SCHEMA_VERSION:
            raise ConfigError(
                f"{origin}: schema_version is {version!r}, expected {SCHEMA_VERSION}: make it anew "
                "with `advisor baseline`"
            )
        return Baseline(
            created=date.fromisoformat(document["created"]),
            findings=tuple(_accepted(row) for row in document["findings"]),
            capacity=_capacity(document.get("capacity", {})),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(
            f"{origin}: no baseline ({type(error).__name__}: {error}): make one with "
            "`advisor baseline`"
        ) from None


def _row(item: Accepted) -> dict[str, str]:
    row = {
        "fingerprint": item.fingerprint,
        "rule": item.rule,
        "severity": item.severity.value,
        "title": item.title,
        "reason": item.reason,
    }
    return {**row, "expires": item.expires.isoformat()} if item.expires is not None else row


def _accepted(row: Mapping[str, str]) -> Accepted:
    return Accepted(
        fingerprint=str(row["fingerprint"]),
        rule=str(row["rule"]),
        severity=Severity(row["severity"]),
        title=str(row.get("title", "")),
        reason=str(row.get("reason", "")),
        expires=date.fromisoformat(row["expires"]) if "expires" in row else None,
    )


def _capacity(row: Mapping[str, object]) -> Capacity:
    return Capacity(
        max_running_requests=_whole(row.get("max_running_requests")),
        max_total_num_tokens=_whole(row.get("max_total_num_tokens")),
        startup_s=_number(row.get("startup_s")),
    )


def _number(value: object) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if value is not None and not is_number:
        raise ValueError(f"{value!r} is no number")
    return float(value) if isinstance(value, (int, float)) else None


def _whole(value: object) -> int | None:
    number = _number(value)
    return None if number is None else int(number)
