"""An environment that the probe recorded on a real machine with one H200 (torch 2.11.0, CUDA 13)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import jsonschema
import pytest

from advisor.cli.main import run
from advisor.knowledge.environment import Environment, parse_environment, render_environment
from advisor.probe.summary import summarise
from advisor.resources import read_data

FIXTURES = Path(__file__).parent.parent / "fixtures"
RECORDED = FIXTURES / "probe" / "h200.json"


@pytest.fixture
def environment() -> Environment:
    return parse_environment(RECORDED.read_text(encoding="utf-8"), RECORDED.name)


def test_it_says_what_kernels_need_to_know(environment: Environment) -> None:
    assert environment.gpus is not None
    (device,) = environment.gpus.devices
    assert (device.sm, device.shared_memory_per_block_optin_bytes) == ("9.0", 232448)
    assert (device.sm_count, environment.gpus.driver_version) == (132, "580.159.04")
    assert environment.package_version("triton") == "3.6.0"
    assert environment.package_version("torch") == "2.11.0+cu130"
    assert environment.torch is not None
    assert environment.torch.nccl_version == "2.28.9"


def test_one_gpu_has_no_links_and_no_processes(environment: Environment) -> None:
    assert environment.gpus is not None
    assert (environment.gpus.links, environment.gpus.processes) == ((), ())


def test_the_record_follows_the_schema(environment: Environment) -> None:
    schema = cast("dict[str, object]", read_data("environment.schema.json"))
    jsonschema.validate(json.loads(RECORDED.read_text(encoding="utf-8")), schema)
    jsonschema.validate(render_environment(environment), schema)


def test_the_summary_fits_a_terminal(environment: Environment) -> None:
    lines = summarise(environment).splitlines()
    assert max(map(len, lines)) < 180
    text = "\n".join(lines)
    assert "NVIDIA H200, SM 9.0, 139.8 GiB, 0.6 GiB in use, 132 SMs" in text
    assert "stack 8 MiB, as unlimited, core 0" in text
    assert "links" not in text


def test_preflight_takes_gpu_count_and_triton_from_it(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["--sglang", "0.5.12", "--", "--model-path", "M", "--tp", "2"]
    code = run(["preflight", "--env", str(RECORDED), "--format", "json", *command])
    report = json.loads(capsys.readouterr().out)
    assert code == 1
    assert [item["rule"] for item in report["findings"]] == ["gpus-too-few"]
    assert report["facts"]["gpu"] == {"name": "H200 SXM", "sm": 90, "memory_gib": 140.4, "count": 1}
    assert report["facts"]["triton_version"] == "3.6.0"


def test_diagnose_takes_the_driver_and_the_limits_from_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = FIXTURES / "logs" / "qwen3moe-default.log"
    run(["diagnose", str(log), "--env", str(RECORDED), "--format", "json"])
    facts = json.loads(capsys.readouterr().out)["facts"]
    assert facts["gpu"]["name"] == "NVIDIA H200"
    assert facts["triton_version"] == "3.6.0"
