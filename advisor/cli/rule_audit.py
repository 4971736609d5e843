"""`advisor rules audit`: do the rules still fit SGLang's own source?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click

from advisor.audit import pages
from advisor.audit.claims import claims
from advisor.audit.coverage import Audit, audit
from advisor.audit.source import read_release
from advisor.cli.output import emit
from advisor.errors import EXIT_CLEAN, EXIT_FINDINGS
from advisor.knowledge.releases import known_releases
from advisor.rules.load import load_rules

_ALL = "all"
_FORMATS: Mapping[str, Callable[[Sequence[Audit]], str]] = {
    "terminal": pages.terminal,
    "json": pages.as_json,
    "markdown": pages.markdown,
}


@click.command(name="audit", epilog="Example: advisor rules audit --sglang 0.5.23")
@click.option(
    "--sglang",
    "releases",
    multiple=True,
    required=True,
    metavar="VERSION|PATH|all",
    help="A version that pip can download, a wheel, a site-packages folder, or `all` releases "
    "that Advisor knows; may be given several times.",
)
@click.option("--format", "form", type=click.Choice(list(_FORMATS)), default="terminal")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the result to this file.",
)
@click.option(
    "--rules",
    "folders",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A folder of your own rules.",
)
def audit_command(
    *, releases: tuple[str, ...], form: str, output: Path | None, folders: tuple[Path, ...]
) -> int:
    """Check every wording that a rule claims against SGLang's source, and list what none knows.

    The source is read, never run. Exit codes: 0 all claimed wordings exist, 1 one does not.
    """
    known = claims(load_rules(folders))
    audits = [audit(read_release(named), known) for named in _named(releases)]
    emit(_FORMATS[form](audits), output)
    return EXIT_FINDINGS if any(item.drift for item in audits) else EXIT_CLEAN


def _named(releases: Sequence[str]) -> list[str]:
    """Put the known releases in the place of `all`."""
    everything = [release.version for release in known_releases()]
    return [name for text in releases for name in (everything if text == _ALL else [text])]
