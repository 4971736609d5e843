"""The ready-made examples: their syntax, and their scripts run as a runner would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
import yaml

from advisor.cli.gating import known_rules
from advisor.cli.main import run
from advisor.gate import read_policy
from advisor.preflight.inputs.files import read_file

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"
FIXTURES = ROOT / "tests" / "fixtures" / "preflight"
Node = dict[str, object]


def load(path: str) -> Node:
    return cast("Node", yaml.safe_load((EXAMPLES / path).read_text(encoding="utf-8")))


def steps() -> list[Node]:
    return cast("list[Node]", cast("Node", load("github-action/action.yml")["runs"])["steps"])


def runner(folder: Path, **variables: str) -> dict[str, str]:
    """Return the environment of a runner whose `advisor` is this checkout."""
    tools = folder / "bin"
    tools.mkdir()
    (tools / "advisor").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m advisor "$@"\n')
    (tools / "advisor").chmod(0o755)
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **variables}


def test_the_action_takes_no_expression_into_its_script() -> None:
    for step in steps():
        assert "${{" not in str(step.get("run", ""))
        assert "run" not in step or step["shell"] == "bash"


def test_the_workflow_calls_the_action_with_inputs_that_it_has() -> None:
    inputs = set(cast("Node", load("github-action/action.yml")["inputs"]))
    jobs = cast("dict[str, Node]", load("github-action/workflow.yml")["jobs"])
    used = [
        set(cast("Node", step["with"]))
        for step in cast("list[Node]", jobs["preflight"]["steps"])
        if str(step["uses"]).startswith("./")
    ]
    assert used
    assert all(names <= inputs for names in used)


@pytest.mark.slow
@pytest.mark.parametrize(("fail_on", "code"), [("", 1), ("never", 0)])
def test_the_action_runs(tmp_path: Path, fail_on: str, code: int) -> None:
    files = {name: tmp_path / name for name in ("output", "summary.md")}
    variables = {
        "LAUNCH": str(FIXTURES / "deployment.yaml"),
        "GPU": "RTX PRO 6000",
        "SGLANG": "",
        "MODEL_CONFIG": str(FIXTURES / "qwen3-moe.config.json"),
        "SERVER": "",
        "BASELINE": "",
        "FAIL_ON": fail_on,
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(files["output"]),
        "GITHUB_STEP_SUMMARY": str(files["summary.md"]),
    }
    script = next(str(step["run"]) for step in steps() if step.get("id") == "preflight")
    done = subprocess.run(
        ["/bin/bash", "-eo", "pipefail", "-c", script],
        env=runner(tmp_path, **variables),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert done.stdout.startswith("::error")
    sarif = tmp_path / "advisor-preflight.sarif"
    assert files["output"].read_text() == f"sarif={sarif}\n"
    assert json.loads(sarif.read_text())["runs"][0]["results"]
    assert "gpus-too-few" in files["summary.md"].read_text()


@pytest.mark.slow
def test_the_gitlab_job_runs(tmp_path: Path) -> None:
    job = cast("Node", load("gitlab/advisor.gitlab-ci.yml")["advisor-preflight"])
    script = "\n".join(line for line in cast("list[str]", job["script"]) if "pip" not in line)
    variables = {"ADVISOR_LAUNCH": str(FIXTURES / "deployment.yaml"), "ADVISOR_GPU": "RTX 5090:8"}
    done = subprocess.run(
        ["/bin/bash", "-c", script], env=runner(tmp_path, **variables), cwd=tmp_path, check=False
    )
    assert done.returncode == 1
    reports = cast("dict[str, str]", cast("Node", job["artifacts"])["reports"])
    assert {(tmp_path / name).is_file() for name in reports.values()} == {True}
    (row, *_) = json.loads((tmp_path / reports["codequality"]).read_text())
    assert {"fingerprint", "check_name", "severity", "location"} <= set(row)


def test_the_hook_judges_several_files_and_passes_others_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hooks = cast("list[dict[str, list[Node]]]", load("pre-commit/.pre-commit-config.yaml")["repos"])
    (hook,) = hooks[0]["hooks"]
    (tmp_path / "service.yaml").write_text("kind: Service\n")
    (tmp_path / "a.sh").write_text("sglang serve --model-path M --tp 8\n")
    (tmp_path / "b.sh").write_text("sglang serve --model-path M --tp 16\n")
    monkeypatch.chdir(tmp_path)
    options = [*cast("list[str]", hook["args"]), "--sglang", "0.5.12"]
    assert run(["preflight", *options, "service.yaml"]) == 0
    assert run(["preflight", *options, "service.yaml", "a.sh"]) == 0
    assert run(["preflight", *options, "a.sh", "b.sh"]) == 1
    assert "b.sh: 16 GPUs are needed" in capsys.readouterr().out
    assert run(["preflight", "--sglang", "0.5.12", "service.yaml"]) == 2


@pytest.mark.parametrize("name", ["preflight-job.yaml", "init-container.yaml"])
def test_kubernetes_documents_are_whole(name: str) -> None:
    documents = list(yaml.safe_load_all((EXAMPLES / "kubernetes" / name).read_text()))
    assert all({"apiVersion", "kind", "metadata"} <= set(document) for document in documents)


def test_the_init_container_judges_the_script_that_runs() -> None:
    documents = yaml.safe_load_all((EXAMPLES / "kubernetes" / "preflight-job.yaml").read_text())
    script = next(item["data"]["launch.sh"] for item in documents if item["kind"] == "ConfigMap")
    assert "sglang.launch_server" in script
    assert not read_file(EXAMPLES / "kubernetes" / "init-container.yaml", may_be_none=True)


def test_the_configuration_names_rules_that_exist() -> None:
    policy = read_policy(EXAMPLES / ".advisor.yaml", known_rules())
    assert policy.ignores[0].rule == "custom-allreduce-unavailable"
