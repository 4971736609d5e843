"""`advisor preflight`: a launch command in, a report out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from advisor.cli.gating import fail_on_option, gate_options, gated, threshold
from advisor.cli.launches import commands, environment_of
from advisor.cli.reporting import ReportOptions, report_options
from advisor.errors import EXIT_CLEAN

if TYPE_CHECKING:
    from advisor.diagnosis import Report
    from advisor.preflight.model_config import ModelConfig

_FAIL_ON = "warning"
_EPILOG = "Example: advisor preflight deploy/llm.yaml --gpu H200:8 --output sarif:advisor.sarif"


@click.command(name="preflight", epilog=_EPILOG)
@click.argument("launch", nargs=-1, required=True, metavar="FILE... | -- COMMAND...")
@click.option("--gpu", metavar="NAME[:COUNT]", help="The GPUs of one node, such as 'H200:8'.")
@click.option(
    "--env",
    "env_file",
    type=click.Path(path_type=Path),
    help="What `advisor probe` wrote on the server's machine.",
)
@click.option("--sglang", metavar="VERSION", help="The SGLang release, such as 0.5.12.")
@click.option("--triton", metavar="VERSION", help="Default: what the release pins.")
@click.option(
    "--model-config",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The model's config.json, or its folder.",
)
@click.option("--server", metavar="NAME", help="Judge this server of a file that starts several.")
@click.option(
    "--skip-unrelated", is_flag=True, help="Pass over files that start no server (for hooks)."
)
@fail_on_option(_FAIL_ON)
@click.option("--no-redact", is_flag=True, help="Keep secrets in the report.")
@gate_options
@report_options
def preflight_command(
    *,
    launch: tuple[str, ...],
    gpu: str | None,
    env_file: Path | None,
    sglang: str | None,
    triton: str | None,
    model_config: Path | None,
    server: str | None,
    skip_unrelated: bool,
    fail_on: str | None,
    no_redact: bool,
    **options: object,
) -> int:
    """Judge a launch command before the server starts; needs no GPU and no SGLang.

    Give the command behind --, or files that hold it: a shell script, Dockerfile, compose file,
    Kubernetes manifest, or an SGLang YAML configuration. What cannot be judged without a missing
    input is listed as such.

    Exit codes: 0 nothing at or above --fail-on, 1 something is, 2 the input cannot be used.
    """
    from advisor.preflight.judge import preflight
    from advisor.preflight.target import Given, target_of

    reports = ReportOptions.of(options)
    servers = commands(launch, server, may_be_none=skip_unrelated)
    if not servers:
        click.echo("advisor: no SGLang server is started in these files", err=True)
        return EXIT_CLEAN
    given = Given(
        sglang=sglang,
        triton=triton,
        gpu=gpu,
        environment=environment_of(env_file),
        model=_model(model_config),
    )
    judged = [(command, target_of(command, given)) for command in servers]
    report = preflight(
        judged,
        fail_on=threshold(fail_on, _FAIL_ON),
        redact=not no_redact,
    )
    report = gated(report, options, fail_on=fail_on)
    reports.named(_category(report, server)).write(report)
    return report.exit_code


def _category(report: Report, server: str | None) -> str | None:
    """Name the uploads of a server: a command line by its model, one of several by its own name."""
    from advisor.preflight.inputs.command import COMMAND_LINE

    names = [source.name for source in report.sources]
    if server is not None:
        return f"advisor/{names[0]}/{server}"
    if names == [COMMAND_LINE]:
        served = (report.run.requested_args or {}).get("served_model_name") or report.run.model
        return f"advisor/{served or 'launch'}"
    return None


def _model(path: Path | None) -> ModelConfig | None:
    from advisor.preflight.model_config import read_model_config

    return None if path is None else read_model_config(path)
