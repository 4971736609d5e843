"""`advisor baseline`: a log in, what is accepted today out."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from advisor.cli.gating import write_baseline
from advisor.cli.launches import arguments_of
from advisor.diagnosis import Request, diagnose_logs
from advisor.rules.load import load_rules
from advisor.sources.files import expand

_EPILOG = "Example: advisor baseline server.log --reason 'known on this hardware' -o baseline.json"


@click.command(name="baseline", epilog=_EPILOG)
@click.argument("logs", nargs=-1, required=True, metavar="LOG...")
@click.option("--args", "launch", metavar="FILE|COMMAND", help="The launch command.")
@click.option("--reason", required=True, metavar="TEXT", help="Why this is accepted.")
@click.option(
    "--expires",
    type=click.DateTime(formats=["%Y-%m-%d"]),
    metavar="YYYY-MM-DD",
    help="Accept the findings up to this day only.",
)
@click.option(
    "--rules",
    "rule_folders",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A folder of your own rules; may be given several times.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("advisor-baseline.json"),
    show_default=True,
    metavar="FILE",
    help="Where to write it.",
)
def baseline_command(
    *,
    logs: tuple[str, ...],
    launch: str | None,
    reason: str,
    expires: datetime | None,
    rule_folders: tuple[Path, ...],
    output: Path,
) -> None:
    """Accept what a log shows today: findings, capacity and start-up time.

    `advisor diagnose --baseline FILE` then lets these findings pass, and fails on new or worse
    ones and on a capacity that has fallen. For a launch command, use
    `advisor preflight ... --write-baseline FILE`.
    """
    request = Request(
        logs=expand(logs),
        rules=load_rules(rule_folders),
        launch=None if launch is None else arguments_of(launch, None),
    )
    until = None if expires is None else expires.date()
    write_baseline(diagnose_logs(request), output, reason=reason, expires=until)
