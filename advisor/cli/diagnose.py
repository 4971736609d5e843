"""`advisor diagnose`: the main job."""

from __future__ import annotations

from pathlib import Path

import click

from advisor.cli.gating import fail_on_option, gate_options, gated, threshold
from advisor.cli.launches import arguments_of, environment_of
from advisor.cli.reporting import ReportOptions, report_options
from advisor.diagnosis import Request, diagnose_logs
from advisor.rules.load import load_rules
from advisor.sources.files import expand

_FAIL_ON = "error"
_EPILOG = "Example: kubectl logs llm-0 | advisor diagnose - --format markdown -o ticket.md"


@click.command(name="diagnose", epilog=_EPILOG)
@click.argument("logs", nargs=-1, required=True, metavar="LOG...")
@click.option(
    "--args",
    "launch",
    metavar="FILE|COMMAND",
    help="The launch command, or a file that holds it as for preflight: to tell what was asked"
    " for from what runs.",
)
@click.option("--server", metavar="NAME", help="The server meant, of an --args file with several.")
@click.option(
    "--env",
    "env_file",
    type=click.Path(path_type=Path),
    help="What `advisor probe` wrote on the server's machine.",
)
@fail_on_option(_FAIL_ON)
@click.option(
    "--rules",
    "rule_folders",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A folder of your own rules; may be given several times.",
)
@click.option(
    "--run",
    "run_number",
    type=int,
    help="Judge this run of a log that holds several (1 is the first; default: the last).",
)
@click.option("--no-redact", is_flag=True, help="Keep secrets in the report.")
@gate_options
@report_options
def diagnose_command(
    *,
    logs: tuple[str, ...],
    launch: str | None,
    server: str | None,
    env_file: Path | None,
    fail_on: str | None,
    rule_folders: tuple[Path, ...],
    run_number: int | None,
    no_redact: bool,
    **options: object,
) -> int:
    """Read a server's log and say what costs what, and why.

    LOG is a file, a folder, a glob, or - for standard input; .gz, .bz2, .xz and .zst are read as
    they are, and so are the wrappers of docker, Kubernetes, compose, journald and syslog.

    Exit codes: 0 nothing at or above --fail-on, 1 something is, 2 the input cannot be used.
    """
    reports = ReportOptions.of(options)
    request = Request(
        logs=expand(logs),
        rules=load_rules(rule_folders),
        environment=environment_of(env_file),
        launch=None if launch is None else arguments_of(launch, server),
        fail_on=threshold(fail_on, _FAIL_ON),
        redact=not no_redact,
        run_number=run_number,
    )
    report = gated(diagnose_logs(request), options, fail_on=fail_on, rules=request.rules)
    reports.write(report)
    return report.exit_code
