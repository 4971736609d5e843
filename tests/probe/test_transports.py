from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import ConfigError, InputError
from advisor.probe.transports import docker, kubectl, local, ssh, transport_to

BAD_NAMES = ["-oProxyCommand=id", "", "a b", "a;id", "$(id)", "a\nb", "`id`", "a'b", "x" * 300]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_a_program_could_misread_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="is not a valid name"):
        ssh(name)
    with pytest.raises(InputError, match="is not a valid name"):
        docker(name)
    with pytest.raises(InputError, match="is not a valid name"):
        kubectl("pod", {"namespace": name})
    with pytest.raises(InputError, match="is not a valid name"):
        kubectl(name, {})


@pytest.mark.parametrize("name", ["gpu1", "me@gpu1.example.org", "ssh://me@gpu1:2222", "me@[::1]"])
def test_ssh_takes_hosts_as_ssh_does_and_never_prompts(name: str) -> None:
    command = ssh(name).command(["true"])
    assert command[-3:] == ["--", name, "true"]
    assert "BatchMode=yes" in command


@given(st.lists(st.text(st.characters(exclude_characters="\0")), min_size=1))
def test_ssh_quotes_every_argument_and_the_others_join_none(arguments: list[str]) -> None:
    assert shlex.split(ssh("host").command(arguments)[-1]) == arguments
    assert docker("web").command(arguments) == ["docker", "exec", "-i", "web", *arguments]
    assert local().command(arguments) == arguments


def test_kubectl_passes_its_options_before_the_pod() -> None:
    way = kubectl("deployment/llm", {"namespace": "serving", "container": None, "context": "c1"})
    assert way.command(["true"]) == [
        "kubectl",
        "exec",
        "-i",
        "--namespace=serving",
        "--context=c1",
        "deployment/llm",
        "--",
        "true",
    ]


def test_two_ways_at_once_and_options_without_a_pod_are_refused() -> None:
    none: dict[str, str | None] = {"namespace": None}
    with pytest.raises(ConfigError, match="exclude each other"):
        transport_to(ssh_host="a", docker_name="b", pod=None, pod_options=none)
    with pytest.raises(ConfigError, match="go with --kubectl"):
        transport_to(ssh_host=None, docker_name=None, pod=None, pod_options={"namespace": "x"})
    assert transport_to(ssh_host=None, docker_name=None, pod=None, pod_options=none) == local()
