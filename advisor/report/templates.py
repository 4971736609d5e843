"""Jinja templates of the bundled folder, filled with a report."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from advisor.diagnosis import Report
from advisor.report import markup
from advisor.report.blocks import blocks
from advisor.report.overview import gate, head, limits, outcome, reading, verdict
from advisor.report.places import repeats
from advisor.report.prose import paragraphs
from advisor.report.strangers import strangers
from advisor.report.style import Style
from advisor.resources import bundled
from advisor.sources.records import Evidence

if TYPE_CHECKING:
    import jinja2


def fill(name: str, report: Report, style: Style) -> str:
    """Return a template filled with the report; it ends with one newline."""
    template = _environment().get_template(name)
    text = template.render(
        report=report,
        findings=report.verdicts.findings,
        run=report.run,
        quiet=style.quiet,
        head=head(report),
        outcome=outcome(report.run),
        verdict=verdict(report),
        reading=reading(report),
        blocks=() if style.quiet else blocks(report.run),
        strangers=strangers(report),
        limits=limits(report),
        gate=gate(report),
    )
    return text.rstrip("\n") + "\n"


@functools.cache
def _environment() -> jinja2.Environment:
    """Escape in HTML templates, and nowhere by default: Markdown templates name their filters."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_source),
        autoescape=_is_html,  # noqa: S701  (on for every HTML template)
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "md": markup.inline,
        "md_prose": markup.prose,
        "md_fence": markup.fence,
        "md_link": markup.link,
        "repeats": repeats,
        "seen": _seen,
        "paragraphs": paragraphs,
    }
    environment.tests["web_address"] = markup.is_web_address
    return environment


def _is_html(name: str | None) -> bool:
    return name is not None and ".html" in name


def _source(name: str) -> str:
    return bundled("templates").joinpath(name).read_text(encoding="utf-8")


def _seen(evidence: tuple[Evidence, ...]) -> str:
    """Write evidence as lines of text: place, how often, and the message below it."""
    lines: list[str] = []
    for place in evidence:
        many = repeats(place)
        lines += [f"{place.source}:{place.line}{f'  {many}' if many else ''}", f"  {place.text}"]
    return "\n".join(" ".join(line.split("\n")) for line in lines)
