"""`advisor diagnose --args`: what was asked for beside what ran, on logs of real servers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from advisor.cli.main import run
from advisor.facts.launch import read_options
from advisor.facts.literals import Value
from advisor.facts.requested import differences, requested_arguments
from advisor.knowledge.ranges import VersionRange
from advisor.sources.shell import split_shell

LOGS = Path(__file__).parent.parent / "fixtures" / "logs"
SCRIPT = """#!/bin/bash
PORT=${PORT:-30000}
python -m sglang.launch_server --model-path /models/Qwen3-30B-A3B \\
  --cuda-graph-max-bs-decode 256 --mem-fraction-static 0.9 --port $PORT --api-key sk-0123456789abcdefgh
"""
MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  template:
    spec:
      containers:
      - name: sglang
        command: [python3, -m, sglang.launch_server]
        args: [--model-path, /models/Qwen3-30B-A3B, --mem-fraction-static, "0.9"]
"""
COMPOSE = """
services:
  one: {command: python -m sglang.launch_server --model-path M --mem-fraction-static 0.9}
  two: {command: python -m sglang.launch_server --model-path M --mem-fraction-static 0.8}
"""
CONFIG = "model-path: /models/Qwen3-30B-A3B\nmem-fraction-static: 0.9\nenable-metrics: true\n"
Facts = Mapping[str, object]
Diagnose = Callable[..., Facts]


@pytest.fixture
def diagnose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Diagnose:
    def facts(name: str, text: str, *options: str) -> Facts:
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        log = str(LOGS / "qwen3moe-default.log")
        run(["diagnose", log, "--args", str(file), "--format", "json", *options])
        found: Facts = json.loads(capsys.readouterr().out)["facts"]
        return found

    return facts


def changes(facts: Facts) -> dict[str, tuple[object, object]]:
    rows = facts["changed_args"]
    assert isinstance(rows, list)
    return {row["name"]: (row.get("requested"), row.get("effective")) for row in rows}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("launch.sh", SCRIPT),
        ("deployment.yaml", MANIFEST),
        ("server.yaml", CONFIG),
        ("Dockerfile", 'CMD ["sglang", "serve", "M", "--mem-fraction-static", "0.9"]\n'),
    ],
)
def test_any_file_that_holds_the_command_will_do(diagnose: Diagnose, name: str, text: str) -> None:
    facts = diagnose(name, text)
    asked = facts["requested_args"]
    assert isinstance(asked, dict)
    assert asked["mem_fraction_static"] == 0.9
    assert changes(facts)["mem_fraction_static"] == (0.9, 0.903)


def test_a_flag_of_another_release_gets_the_name_of_the_one_that_ran(diagnose: Diagnose) -> None:
    facts = diagnose("launch.sh", SCRIPT)
    asked = facts["requested_args"]
    assert isinstance(asked, dict)
    assert asked["cuda_graph_max_bs"] == 256
    assert asked["port"] == 30000
    assert asked["api_key"] == "[redacted]"
    assert "cuda_graph_max_bs" not in changes(facts)


def test_of_several_servers_one_is_chosen(
    diagnose: Diagnose, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = diagnose("compose.yaml", COMPOSE, "--server", "two")
    assert changes(facts)["mem_fraction_static"] == (0.8, 0.903)
    log, file = str(LOGS / "qwen3moe-default.log"), str(tmp_path / "compose.yaml")
    assert run(["diagnose", log, "--args", file]) == 2
    assert "choose with --server: service one, service two" in capsys.readouterr().err


def test_what_the_log_tells_by_a_line_keeps_that_line(capsys: pytest.CaptureFixture[str]) -> None:
    log = str(LOGS / "qwen35-nextn-oom.log")
    command = "sglang serve M --max-running-requests 64 --speculative-algorithm NEXTN"
    run(["diagnose", log, "--args", command, "--format", "json"])
    facts = json.loads(capsys.readouterr().out)["facts"]
    rows = {row["name"]: row for row in facts["changed_args"]}
    assert (rows["max_running_requests"]["requested"]) == 64
    assert "reset to 48" in rows["max_running_requests"]["evidence"]["text"]
    assert (rows["speculative_algorithm"]["requested"]) == "NEXTN"
    assert (rows["speculative_algorithm"]["effective"]) == "EAGLE"


@pytest.mark.parametrize("text", ["nothing here", "missing.yaml"])
def test_what_holds_no_command_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diagnose", str(LOGS / "llama-retract.log"), "--args", text]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("release", "field"),
    [
        ("0.5.12", "cuda_graph_bs"),
        ("0.5.18", "cuda_graph_bs_decode"),
        (None, "cuda_graph_bs_decode"),
    ],
)
def test_the_field_is_the_releases_own(release: str | None, field: str) -> None:
    words = split_shell("--cuda-graph-bs 1 2", source="x")[0].words
    releases = VersionRange.between(release, release) if release else None
    assert requested_arguments(words, releases)[field] == (1, 2)


def test_what_is_written_in_another_form_is_no_difference() -> None:
    words = split_shell('--context-length 32k --json-model-override-args "{}"', source="x")[0].words
    asked = read_options(words, "0.5.12").fields()
    dumped: Mapping[str, Value] = {
        "context_length": 32768,
        "json_model_override_args": {},
        "tp_size": 2,
    }
    assert list(differences(asked, dumped)) == []
    assert list(differences({"tp_size": 4}, dumped)) == [("tp_size", 4, 2)]
