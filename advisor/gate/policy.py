"""What a project says about the gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path

from advisor.findings import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignore:
    """Findings that are accepted, and why; `rule` is an id or a pattern such as `moe-*`.

    Attributes:
        expires: The last day on which it holds; None for ever.
        line: Where it stands in the configuration; 0 for the command line.
    """

    rule: str
    reason: str
    expires: date | None = None
    line: int = 0

    def holds(self, rule: str, today: date) -> bool:
        """Say whether it accepts the findings of a rule today."""
        return fnmatchcase(rule, self.rule) and (self.expires is None or today <= self.expires)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The gate's configuration; empty lets everything through to `--fail-on` as it is.

    Attributes:
        origin: The file that it was read from; empty without one.
        select: Ids or patterns of the rules that count; empty for all.
        severities: Another severity for the findings of an id or pattern; the last that fits wins.
        fail_on: None where the configuration does not say; `never` is `fails` False.
        baseline: Path as written, relative to the configuration's folder.
        tolerance_ratio: How far a capacity may fall below, or the start-up rise above, the
            baseline's.
    """

    origin: str = ""
    select: tuple[str, ...] = ()
    ignores: tuple[Ignore, ...] = ()
    severities: Mapping[str, Severity] = field(default_factory=dict)
    fail_on: Severity | None = None
    fails: bool = True
    baseline: Path | None = None
    tolerance_ratio: float | None = None

    def selects(self, rule: str) -> bool:
        """Say whether the findings of a rule count."""
        return not self.select or any(fnmatchcase(rule, pattern) for pattern in self.select)

    def severity(self, rule: str, own: Severity) -> Severity:
        """Return the severity of a rule's finding."""
        fitting = [
            value for pattern, value in self.severities.items() if fnmatchcase(rule, pattern)
        ]
        return fitting[-1] if fitting else own
