from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from advisor.cli.probe import probe_command
from advisor.errors import InputError
from advisor.knowledge.environment import parse_environment

MakeVenv = Callable[..., Path]
SSHD = shutil.which("sshd") or "/usr/sbin/sshd"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path(SSHD).exists() or shutil.which("ssh-keygen") is None or os.geteuid() != 0,
        reason="needs sshd, ssh-keygen and root for a server of our own on a loopback port",
    ),
]


@pytest.fixture
def ssh_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Start sshd on a loopback port with throw-away keys; `ssh` on PATH knows the key."""
    keygen = shutil.which("ssh-keygen") or ""
    for name in ("host", "user"):
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    shutil.copy(tmp_path / "user.pub", tmp_path / "authorized_keys")
    with socket.create_server(("127.0.0.1", 0)) as probe_socket:
        port = probe_socket.getsockname()[1]
    (tmp_path / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {tmp_path}/host\nUsePAM no\n"
        f"AuthorizedKeysFile {tmp_path}/authorized_keys\nStrictModes no\nPidFile none\n"
        "PermitRootLogin prohibit-password\nPasswordAuthentication no\n",
        encoding="utf-8",
    )
    host_key = (tmp_path / "host.pub").read_text(encoding="utf-8")
    (tmp_path / "known").write_text(f"[127.0.0.1]:{port} {host_key}", encoding="utf-8")
    (tmp_path / "ssh_config").write_text(
        f"Host box\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {tmp_path}/user\n"
        f"  IdentitiesOnly yes\n  UserKnownHostsFile {tmp_path}/known\n",
        encoding="utf-8",
    )
    wrapper = tmp_path / "bin" / "ssh"
    wrapper.parent.mkdir()
    wrapper.write_text(
        f'#!/bin/sh\nexec {shutil.which("ssh")} -F {tmp_path}/ssh_config "$@"\n', encoding="utf-8"
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    Path("/run/sshd").mkdir(exist_ok=True)
    with subprocess.Popen(
        [SSHD, "-D", "-e", "-f", tmp_path / "sshd_config"], stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        if "listening" not in (line := server.stderr.readline()):
            pytest.skip(f"sshd does not start here: {line}")
        yield "box"
        server.terminate()


def test_host_is_probed_over_ssh(ssh_host: str, make_venv: MakeVenv) -> None:
    place = make_venv("it's a venv; $(touch x)", "gpu")
    result = CliRunner().invoke(probe_command, ["--ssh", ssh_host, "--python", str(place)])
    assert result.exit_code == 0, result.exception
    environment = parse_environment(result.stdout, "stdout")
    assert environment.probe is not None
    assert environment.probe.target == "host box"
    assert environment.package_version("triton") == "3.6.0"
    assert environment.gpus is not None
    assert environment.gpus.devices[0].shared_memory_per_block_optin_bytes == 232448


def test_host_that_refuses_is_said_in_one_line(ssh_host: str) -> None:
    result = CliRunner().invoke(probe_command, ["--ssh", f"nobody@{ssh_host}"])
    assert isinstance(result.exception, InputError)
    assert "Permission denied" in str(result.exception)
