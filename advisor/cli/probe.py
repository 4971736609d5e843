"""`advisor probe`: options in, JSON or a summary out."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from advisor.cli.output import write_atomically
from advisor.errors import ConfigError

_EPILOG = """\b
Examples:
  advisor probe > env.json && advisor diagnose server.log --env env.json
  advisor probe --python /opt/venv
  advisor probe --kubectl deployment/llm -n serving -o env.json
"""


@click.command("probe", epilog=_EPILOG)
@click.option("--pid", type=click.IntRange(min=1), help="Probe the interpreter of this process.")
@click.option("--python", metavar="PATH", help="Probe this interpreter or virtual environment.")
@click.option("--ssh", metavar="[USER@]HOST", help="Probe a host (keys only: it never prompts).")
@click.option("--docker", metavar="NAME", help="Probe a running container.")
@click.option("--kubectl", metavar="POD", help="Probe a pod, as `kubectl exec` names it.")
@click.option("-n", "--namespace", help="Namespace of the pod.")
@click.option("-c", "--container", help="Container of the pod.")
@click.option("--context", help="Context of kubectl.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=5, max=600),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of the whole probe.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["json", "terminal"]),
    help="Default: terminal on a terminal, else json; a file written with -o gets json.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write to a file instead of stdout.",
)
def probe_command(
    *,
    pid: int | None,
    python: str | None,
    ssh: str | None,
    docker: str | None,
    kubectl: str | None,
    namespace: str | None,
    container: str | None,
    context: str | None,
    timeout_s: float,
    format_: str | None,
    output: Path | None,
) -> None:
    """Describe the environment that an SGLang server runs in.

    Without options it finds the running SGLang process, also in another virtual environment, else
    the interpreter on this machine that holds SGLang. Over ssh, docker and kubectl it does the
    same there; a script travels over stdin and nothing is installed or written.
    """
    from advisor.probe.output import rendered
    from advisor.probe.session import Wish, probe
    from advisor.probe.transports import transport_to

    if pid is not None and python is not None:
        raise ConfigError("--pid and --python exclude each other: give one")
    transport = transport_to(
        ssh_host=ssh,
        docker_name=docker,
        pod=kubectl,
        pod_options={"namespace": namespace, "container": container, "context": context},
    )
    environment = probe(transport, Wish(pid=pid, python=python), timeout_s)
    on_terminal = output is None and sys.stdout.isatty()
    text = rendered(environment, format_ or ("terminal" if on_terminal else "json"))
    if output is None:
        click.echo(text, nl=False)
    else:
        write_atomically(output, text)
