from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from advisor.diagnosis import Report
from advisor.findings import Finding, Severity
from advisor.preflight.inputs.command import of_command_line
from advisor.preflight.judge import preflight
from advisor.preflight.model_config import parse_model_config
from advisor.preflight.target import Given, target_of

FIXTURES = Path(__file__).parent.parent / "fixtures" / "preflight"


@pytest.fixture
def judge() -> Callable[..., dict[str, Finding]]:
    """Judge options for a release and a GPU; the findings by rule."""
    return lambda options, **given: {
        item.rule: item for item in _report(options, **given).verdicts.findings
    }


@pytest.fixture
def skipped() -> Callable[..., dict[str, str]]:
    """Judge options; the reasons of what was not judged, by check."""
    return lambda options, **given: {
        item.rule: item.reason for item in _report(options, **given).verdicts.skipped
    }


@pytest.fixture
def report() -> Callable[..., Report]:
    return _report


@pytest.fixture
def moe_model() -> dict[str, object]:
    document = json.loads((FIXTURES / "qwen3-moe.config.json").read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


def _report(
    options: str,
    *,
    sglang: str | None = "0.5.12",
    gpu: str | None = None,
    triton: str | None = None,
    model: dict[str, object] | None = None,
) -> Report:
    server = "python3 -m sglang.launch_server --model-path M "
    command = of_command_line(shlex.split(server + options))
    assert command is not None
    config = parse_model_config(model, origin="config.json") if model is not None else None
    given = Given(sglang=sglang, gpu=gpu, triton=triton, model=config)
    return preflight([(command, target_of(command, given))], fail_on=Severity.WARNING)
