"""The command tree and the one boundary where errors become exit codes."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Mapping, Sequence

import click

from advisor import __version__
from advisor.errors import EXIT_BUG, EXIT_INTERRUPTED, EXIT_USAGE, AdvisorError

COMMANDS: Mapping[str, tuple[str, str]] = {
    "diagnose": (
        "advisor.cli.diagnose:diagnose_command",
        "Read a server's log and say what costs what, and why.",
    ),
    "preflight": (
        "advisor.cli.preflight:preflight_command",
        "Judge a launch command before the server starts; no GPU needed.",
    ),
    "probe": (
        "advisor.cli.probe:probe_command",
        "Describe the environment that a server really uses.",
    ),
    "baseline": (
        "advisor.cli.baseline:baseline_command",
        "Freeze what is accepted today, for the gate.",
    ),
    "configs": (
        "advisor.cli.configs:configs_group",
        "Look up, verify, repair and install MoE kernel configs.",
    ),
    "tune": ("advisor.cli.tune:tune_command", "Generate missing MoE kernel configs on a GPU."),
    "rules": ("advisor.cli.rules:rules_group", "List, explain and check the rules."),
}


class LazyGroup(click.Group):
    """A group that imports a command's module only when that command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        """Name the commands in the order of the table."""
        return [name for name in COMMANDS if _is_installed(name)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import one command."""
        if cmd_name not in COMMANDS or not _is_installed(cmd_name):
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        rows = [(name, COMMANDS[name][1]) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: advisor diagnose server.log",
)
@click.version_option(__version__, prog_name="advisor")
@click.option("-v", "--verbose", is_flag=True, help="Show the traceback of a bug in Advisor.")
def cli(*, verbose: bool) -> None:
    """Read SGLang logs and launch commands; say what costs what and why, and mend it."""
    if verbose:
        os.environ["ADVISOR_VERBOSE"] = "1"


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    try:
        result = cli.main(args=arguments, prog_name="advisor", standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001  (the last boundary: a bug becomes exit code 3)
        return _report(error)
    return result if isinstance(result, int) else 0


def _report(error: Exception) -> int:
    """Say what went wrong on stderr and return its exit code."""
    match error:
        case AdvisorError():
            for line in str(error).splitlines():
                click.echo(f"advisor: {line}", err=True)
            return error.exit_code
        case click.ClickException():
            error.show()
            return EXIT_USAGE
        case click.exceptions.Exit():
            return error.exit_code
        case _:
            return _report_bug(error)


def _report_bug(error: Exception) -> int:
    click.echo(
        f"advisor: a bug in Advisor {__version__}: {type(error).__name__}: {error}", err=True
    )
    if os.environ.get("ADVISOR_VERBOSE"):
        traceback.print_exception(error)
    else:
        click.echo("advisor: please report it with the output of `advisor -v ...`", err=True)
    return EXIT_BUG


def _is_installed(name: str) -> bool:
    module = COMMANDS[name][0].partition(":")[0]
    return importlib.util.find_spec(module) is not None
