"""Ways to run a Python script on the machine where the server runs; it travels over stdin.

Commands are argument lists throughout. Only ssh joins them, because the far side's login shell
splits them again; there every argument is quoted.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from advisor.errors import ConfigError, InputError

# First letters and characters that no option and no shell could misread.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./:@%\[\]-]*")
_LONGEST_NAME = 255

# $1 is the argument of the script, the rest are interpreters to try. No quotes of the other kind
# and one line, so that it survives any login shell.
_LAUNCHER = (
    'w=$1; shift; for p in "$@"; do if command -v "$p" >/dev/null 2>&1; '
    'then exec "$p" - "$w"; fi; done; exit 127'
)
_PYTHONS = ("python3", "python", "/opt/venv/bin/python", "/opt/conda/bin/python")


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    """How to reach a machine.

    Attributes:
        target: The machine in words.
        prefix: What stands before the command; empty here.
        quoted: Whether the far side is a shell.
    """

    target: str
    prefix: tuple[str, ...] = ()
    quoted: bool = False

    def command(self, arguments: Sequence[str]) -> list[str]:
        """Return the local command that runs a command there."""
        return [*self.prefix, *([shlex.join(arguments)] if self.quoted else arguments)]

    def searches(self, argument: str, python: str | None) -> tuple[list[str], ...]:
        """Return commands that run a script in whatever Python is there, in order of preference.

        The second one is for images that have Python but no shell.
        """
        if not self.prefix:
            return ([sys.executable, "-", argument],)
        wanted = (f"{python}/bin/python", python) if python else ()
        shell = ["sh", "-c", _LAUNCHER, "advisor", argument, *wanted, *_PYTHONS]
        return self.command(shell), self.command([python or "python3", "-", argument])


def local() -> Transport:
    """Return the way to this machine."""
    return Transport(target="this machine")


def ssh(host: str) -> Transport:
    """Return the way to a host as `[USER@]HOST` or `ssh://USER@HOST:PORT`; it never prompts."""
    options = ("-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
    destination = checked("ssh host", host)
    return Transport(
        target=f"host {destination}", prefix=("ssh", *options, "--", destination), quoted=True
    )


def docker(name: str) -> Transport:
    """Return the way into a running container."""
    container = checked("container", name)
    return Transport(target=f"container {container}", prefix=("docker", "exec", "-i", container))


def kubectl(pod: str, options: Mapping[str, str | None]) -> Transport:
    """Return the way into a pod: `POD` or `deployment/NAME`, as `kubectl exec` takes it.

    `options` may hold `namespace`, `container` and `context`.
    """
    given = [f"--{n}={checked(n, value)}" for n, value in options.items() if value is not None]
    name = checked("pod", pod)
    return Transport(target=f"pod {name}", prefix=("kubectl", "exec", "-i", *given, name, "--"))


def transport_to(
    *,
    ssh_host: str | None,
    docker_name: str | None,
    pod: str | None,
    pod_options: Mapping[str, str | None],
) -> Transport:
    """Return the one way that the options name; this machine if they name none.

    Raises:
        ConfigError: If they name two, or options of a pod without one.
    """
    if sum(name is not None for name in (ssh_host, docker_name, pod)) > 1:
        raise ConfigError("--ssh, --docker and --kubectl exclude each other: give one")
    if pod is None and any(pod_options.values()):
        raise ConfigError("--namespace, --container and --context go with --kubectl POD")
    if ssh_host is not None:
        return ssh(ssh_host)
    if docker_name is not None:
        return docker(docker_name)
    return local() if pod is None else kubectl(pod, pod_options)


def checked(kind: str, name: str) -> str:
    """Return a name that no program can take for an option or a command.

    Raises:
        InputError: If it begins with a dash or holds spaces, quotes or control characters.
    """
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise InputError(f"{kind} {ascii(name)[:80]} is not a valid name")
    return name
