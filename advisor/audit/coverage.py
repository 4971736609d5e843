"""Which of the texts that look like signals are known, and which are not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from advisor.audit.claims import Claim
from advisor.audit.drift import Verdict, judge
from advisor.audit.emissions import Template
from advisor.audit.scope import COUNTED, Kind, scope
from advisor.audit.source import Source

_Site = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """One place in the source that gives out a text worth knowing."""

    kind: Kind
    template: Template
    known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """How many of some texts are known."""

    known: int
    total: int

    @property
    def ratio(self) -> float | None:
        """Known over total; None where there are none."""
        return self.known / self.total if self.total else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What Advisor knows of one release."""

    version: str
    verdicts: tuple[Verdict, ...]
    counted: tuple[Counted, ...]
    templates: int
    unread: tuple[str, ...]

    @property
    def drift(self) -> tuple[Verdict, ...]:
        """The claims that the release does not bear out."""
        return tuple(verdict for verdict in self.verdicts if verdict.is_drift)

    @property
    def unknown(self) -> tuple[Counted, ...]:
        """Texts that look like signals and that nothing knows."""
        return tuple(item for item in self.counted if not item.known)

    def share(self, *kinds: Kind, module: str | None = None) -> Share:
        """Count the known texts of some kinds, in all modules or in one."""
        chosen = [
            item
            for item in self.counted
            if item.kind in (kinds or COUNTED) and module in {None, item.template.module}
        ]
        return Share(known=sum(item.known for item in chosen), total=len(chosen))


def audit(source: Source, claims: Iterable[Claim]) -> Audit:
    """Hold what Advisor claims against the texts of a release."""
    verdicts = judge(claims, source)
    known = {_site(template) for verdict in verdicts for template in verdict.templates}
    return Audit(
        version=source.version,
        verdicts=verdicts,
        counted=tuple(
            Counted(kind=kind, template=template, known=_site(template) in known)
            for kind, template in _worth_knowing(source.templates)
        ),
        templates=len({_site(template) for template in source.templates}),
        unread=source.unread,
    )


def _worth_knowing(templates: Iterable[Template]) -> Iterable[tuple[Kind, Template]]:
    """Yield each place once, however many readings its text has."""
    seen: set[_Site] = set()
    for template in templates:
        if _site(template) in seen:
            continue
        kind = scope().kind_of(template)
        if kind is not None:
            seen.add(_site(template))
            yield kind, template


def _site(template: Template) -> _Site:
    return template.module, template.line
