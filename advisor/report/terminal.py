"""The report for a terminal: worst first, commands ready to paste, the plan where the eye rests."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.diagnosis import Report
from advisor.findings import Action, Finding, Severity
from advisor.report.blocks import blocks
from advisor.report.layout import Canvas, Tone
from advisor.report.overview import gate, head, limits, outcome, reading, verdict
from advisor.report.places import repeats, shortened
from advisor.report.prose import lead
from advisor.report.quantities import counted
from advisor.report.strangers import strangers
from advisor.report.style import Style
from advisor.report.tables import Block
from advisor.sources.records import Evidence

_TONES = {
    Severity.ERROR: Tone.ERROR,
    Severity.WARNING: Tone.WARNING,
    Severity.NOTE: Tone.NOTE,
}
_INDENT = 11
_PLAN_INDENT = 4
_STRANGER_INDENT = 6
_SHOWN_PLACES = 3


def render(report: Report, style: Style) -> str:
    """Return the report as text of the style's width, ended by a newline."""
    canvas = Canvas(style=style)
    lines: list[str] = []
    if not style.quiet:
        lines += _head(report, canvas)
    lines += _verdict(report, canvas)
    for finding in report.verdicts.findings:
        lines += ["", *_finding(finding, canvas)]
    if not style.quiet:
        for block in blocks(report.run):
            lines += ["", *_block(block, canvas)]
        lines += _plan(report, canvas)
        lines += _strangers(report, canvas)
        lines += _foot(report, canvas)
    return canvas.finished(lines)


def _head(report: Report, canvas: Canvas) -> Iterator[str]:
    read = reading(report)
    if read:
        yield canvas.paint(shortened(read, canvas.style.width), Tone.FAINT)
        yield ""
    lines = head(report)
    for line in lines:
        value = shortened(line.value, canvas.style.width - _INDENT)
        detail = f"  {line.detail}" if line.detail else ""
        room = canvas.style.width - _INDENT - len(value)
        label = f"{line.label:<{_INDENT}}"
        if len(detail) <= room:
            yield label + value + canvas.paint(detail, Tone.FAINT)
        else:
            yield label + value
            for text in canvas.wrapped(line.detail, indent=_INDENT):
                yield canvas.paint(text, Tone.FAINT)
    if lines:
        yield ""


def _verdict(report: Report, canvas: Canvas) -> Iterator[str]:
    for text in (outcome(report.run), verdict(report)):
        for line in canvas.wrapped(text, indent=0):
            yield canvas.paint(line, Tone.STRONG)


def _finding(finding: Finding, canvas: Canvas) -> Iterator[str]:
    yield from _heading(finding, canvas)
    if finding.severity is Severity.NOTE:
        yield from _note(finding, canvas)
        return
    why, has_more = lead(finding.why)
    yield from _labelled("Why", why, canvas)
    yield from _evidence(finding.evidence, canvas)
    for action in finding.actions:
        yield from _action(action, canvas)
    about = f"{finding.rule} · {finding.confidence.value} · {finding.category.value}"
    more = f"more: advisor rules explain {finding.rule}" if has_more else ""
    yield ""
    if len(about) + len(more) + 3 <= canvas.style.width - _INDENT:
        yield _faint(f"{about} · {more}" if more else about, canvas)
        return
    yield _faint(about, canvas)
    if more:
        yield _faint(more, canvas)


def _note(finding: Finding, canvas: Canvas) -> Iterator[str]:
    """Give a note two lines: nothing has to be done, and the rest stands in its page."""
    place = finding.evidence[0] if finding.evidence else None
    if place is not None:
        line = f":{place.line}"
        room = canvas.style.width - _INDENT
        yield _faint(shortened(place.source, room - len(line)) + line, canvas)
    yield _faint(f"more: advisor rules explain {finding.rule}", canvas)


def _faint(text: str, canvas: Canvas) -> str:
    room = canvas.style.width - _INDENT
    return " " * _INDENT + canvas.paint(canvas.cut(text, room), Tone.FAINT)


def _heading(finding: Finding, canvas: Canvas) -> Iterator[str]:
    severity = finding.severity.value
    first, *rest = canvas.wrapped(
        finding.title, indent=_INDENT, first=f"{severity.upper():<{_INDENT}}"
    ) or [severity.upper()]
    yield canvas.paint(severity.upper(), _TONES[finding.severity]) + canvas.paint(
        first[len(severity) :], Tone.STRONG
    )
    for line in rest:
        yield canvas.paint(line, Tone.STRONG)
    yield from canvas.wrapped(finding.summary, indent=_INDENT)


def _labelled(label: str, text: str, canvas: Canvas) -> list[str]:
    start = f"  {label}".ljust(_INDENT)
    return canvas.wrapped(text, indent=_INDENT, first=start)


def _evidence(evidence: tuple[Evidence, ...], canvas: Canvas) -> Iterator[str]:
    margin = " " * _INDENT
    room = canvas.style.width - _INDENT
    for number, place in enumerate(evidence[:_SHOWN_PLACES]):
        start = ("  Seen" if number == 0 else "").ljust(_INDENT)
        line = f":{place.line}"
        where = shortened(place.source, room - len(line)) + line
        many = repeats(place)
        if len(where) + 2 + len(many) <= room:
            yield f"{start}{where}  {many}".rstrip()
        else:
            yield start + where
            yield margin + canvas.cut(many, room)
        yield margin + canvas.paint(canvas.cut(place.text, room), Tone.FAINT)
    if len(evidence) > _SHOWN_PLACES:
        rest = counted(len(evidence) - _SHOWN_PLACES, "more place")
        yield margin + canvas.paint(f"and {rest}", Tone.FAINT)


def _action(action: Action, canvas: Canvas) -> Iterator[str]:
    """Give one action; how to check it stands in the plan, unless there is none."""
    yield ""
    yield from _labelled("Do", action.title, canvas)
    yield from _command(action.command, canvas, indent=_INDENT)
    texts = [("Expect", action.expect), ("Risk", action.risk)]
    if canvas.style.quiet:
        texts.append(("Check", action.verify))
    for name, text in texts:
        if text:
            yield from _labelled(name, text, canvas)


def _command(command: str, canvas: Canvas, *, indent: int) -> Iterator[str]:
    """Give each line of a command whole: what is cut or wrapped cannot be pasted."""
    for line in command.strip("\n").splitlines():
        yield " " * indent + canvas.paint(line.rstrip(), Tone.COMMAND)


def _block(block: Block, canvas: Canvas) -> Iterator[str]:
    title = canvas.paint(block.title, Tone.STRONG)
    note = canvas.cut(block.note, canvas.style.width - len(block.title) - 2)
    yield f"{title}  {canvas.paint(note, Tone.FAINT)}" if note else title
    cells = [(row.label, row.value, row.share) for row in block.rows]
    yield from canvas.rows(cells, indent=2)


def _plan(report: Report, canvas: Canvas) -> Iterator[str]:
    if not report.plan:
        return
    yield ""
    yield canvas.paint("Plan", Tone.STRONG) + canvas.paint(
        "  cheapest and safest first", Tone.FAINT
    )
    for number, item in enumerate(report.plan, start=1):
        yield from canvas.wrapped(item.action.title, indent=_PLAN_INDENT, first=f"{number:>2}. ")
        yield from _command(item.action.command, canvas, indent=_PLAN_INDENT)
        if item.action.verify:
            yield from canvas.wrapped(f"Check: {item.action.verify}", indent=_PLAN_INDENT)


def _strangers(report: Report, canvas: Canvas) -> Iterator[str]:
    found = strangers(report)
    if found is None:
        return
    yield ""
    yield canvas.paint(found.title, Tone.STRONG)
    for row in found.rows:
        room = canvas.style.width - _STRANGER_INDENT
        yield f"{row.times:>5} {canvas.cut(row.template, room)}"
        yield " " * _STRANGER_INDENT + canvas.paint(shortened(row.place, room), Tone.FAINT)
    for text in (found.rest, f"{found.note[:1].upper()}{found.note[1:]}."):
        if text:
            for line in canvas.wrapped(text, indent=0):
                yield canvas.paint(line, Tone.FAINT)


def _foot(report: Report, canvas: Canvas) -> Iterator[str]:
    yield ""
    for text in limits(report):
        for line in canvas.wrapped(text, indent=0):
            yield canvas.paint(line, Tone.FAINT)
    yield gate(report)
