"""The end of a report: warnings and errors of the log that nothing knows, by wording."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.diagnosis import Report
from advisor.facts.unrecognised import UnrecognisedKind
from advisor.report.prose import one_line
from advisor.report.quantities import counted

_SHOWN_KINDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranger:
    """A wording, how often it came, and where first (`server.log:12`)."""

    times: str
    template: str
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Strangers:
    """What is shown of them; `rest` counts the kinds beyond those, empty if there are none."""

    title: str
    note: str
    rows: tuple[Stranger, ...]
    rest: str


def strangers(report: Report) -> Strangers | None:
    """Return the wordings that came most often; None where everything is known."""
    kinds = report.unrecognised
    if not kinds:
        return None
    more = len(kinds) - _SHOWN_KINDS
    return Strangers(
        title=f"Not recognised: {counted(len(kinds), 'kind')} of warning",
        note="no rule speaks of these lines, so nothing is said of what they cost",
        rows=tuple(map(_row, kinds[:_SHOWN_KINDS])),
        rest=f"and {counted(more, 'more kind')}" if more > 0 else "",
    )


def _row(kind: UnrecognisedKind) -> Stranger:
    return Stranger(
        times=f"{kind.count}×",
        template=one_line(kind.template),
        place=f"{kind.evidence.source}:{kind.evidence.line}",
    )
