"""`advisor preflight`: a launch command in, a report out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from advisor.cli.gating import fail_on_option, gate_options, gated, threshold
from advisor.cli.reporting import ReportOptions, report_options
from advisor.errors import ConfigError, InputError

if TYPE_CHECKING:
    from advisor.diagnosis import Report
    from advisor.knowledge.environment import Environment
    from advisor.preflight.inputs.command import ServerCommand
    from advisor.preflight.model_config import ModelConfig

_FAIL_ON = "warning"


@click.command(name="preflight")
@click.argument("launch", nargs=-1, required=True, metavar="FILE | -- COMMAND...")
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
    fail_on: str | None,
    no_redact: bool,
    **options: object,
) -> int:
    r"""Judge a launch command before the server starts; needs no GPU and no SGLang.

    Give the command behind --, or a file that holds it: a shell script, Dockerfile, compose file,
    Kubernetes manifest, or an SGLang YAML configuration. What cannot be judged without a missing
    input is listed as such.

    Exit codes: 0 nothing at or above --fail-on, 1 something is, 2 the input cannot be used.

    \b
    Examples:
      advisor preflight --gpu "RTX PRO 6000:4" --sglang 0.5.12 -- python -m sglang.launch_server --model-path M --tp 4
      advisor preflight deploy/llm.yaml --gpu H200:8 --model-config config.json --output sarif:advisor.sarif
    """
    from advisor.preflight.judge import preflight
    from advisor.preflight.target import Given, target_of

    reports = ReportOptions.of(options)
    commands = _commands(launch, server)
    given = Given(
        sglang=sglang,
        triton=triton,
        gpu=gpu,
        environment=_environment(env_file),
        model=_model(model_config),
    )
    judged = [(command, target_of(command, given)) for command in commands]
    report = preflight(
        judged,
        fail_on=threshold(fail_on, _FAIL_ON),
        redact=not no_redact,
    )
    report = gated(report, options, fail_on=fail_on)
    reports.named(_category(report, server)).write(report)
    return report.exit_code


def _commands(launch: tuple[str, ...], server: str | None) -> list[ServerCommand]:
    """Read the command line, or the one file that is given instead."""
    from advisor.preflight.inputs.command import of_command_line
    from advisor.preflight.inputs.config import with_config_file
    from advisor.preflight.inputs.files import KINDS, read_file

    path = Path(launch[0])
    if len(launch) == 1 and (path.is_file() or "/" in launch[0] or "." in path.name):
        found, folder = read_file(path), path.parent
    else:
        command = of_command_line(launch)
        if command is None:
            raise InputError(
                f"{' '.join(launch)[:80]!r} starts no SGLang server: give "
                f"`-- python -m sglang.launch_server ...`, `-- sglang serve ...`, or {KINDS}"
            )
        found, folder = (command,), Path()
    names = [command.name for command in found]
    if server is not None:
        found = tuple(command for command in found if server in command.name)
        if not found:
            raise ConfigError(f"--server {server!r}: the file starts {', '.join(names)}")
    commands: list[ServerCommand] = []
    for command in found:
        merged, unread = with_config_file(command, folder)
        if unread is not None:
            click.echo(f"advisor: --config: {unread}; its options are not judged", err=True)
        commands.append(merged)
    return commands


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


def _environment(path: Path | None) -> Environment | None:
    from advisor.knowledge.environment import parse_environment

    if path is None:
        return None
    try:
        return parse_environment(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None


def _model(path: Path | None) -> ModelConfig | None:
    from advisor.preflight.model_config import read_model_config

    return None if path is None else read_model_config(path)
