"""What leaves the gate, and the ready-made examples, against the schemas of those who read them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import pytest
import xmlschema
import yaml
from jsonschema import Draft4Validator, Draft7Validator

from advisor.cli.main import run

ROOT = Path(__file__).parent.parent.parent
FIXTURES = ROOT / "tests" / "fixtures"
SCHEMAS = FIXTURES / "gate" / "schemas"
SARIF = Draft4Validator(
    json.loads((FIXTURES / "report" / "schemas" / "sarif-2.1.0.json").read_text(encoding="utf-8"))
)
JUNIT = xmlschema.XMLSchema(str(SCHEMAS / "junit-10.xsd"))
LOG = str(FIXTURES / "logs" / "qwen35-nextn-oom.log")
BARE = ["--sglang", "0.5.14", "--gpu", "RTX PRO 6000:4", "--", "python", "-m"]
BARE += ["sglang.launch_server", "--model-path", "M", "--tp", "4"]
BARE += ["--enable-flashinfer-allreduce-fusion", "--tpp", "2", "--api-key", "sk-0123456789abcdefgh"]
CALLS = [
    ["preflight", *BARE],
    ["preflight", str(FIXTURES / "preflight" / "deployment.yaml"), "--gpu", "H200:8"],
    ["preflight", str(FIXTURES / "preflight" / "compose.yaml"), "--gpu", "L40S:2"],
    ["preflight", str(FIXTURES / "preflight" / "cut-off.sh"), "--sglang", "0.5.12"],
    ["diagnose", LOG],
]
EACH_CALL = pytest.mark.parametrize("call", CALLS, ids=[" ".join(call[:2])[-40:] for call in CALLS])


def written(call: list[str], form: str, folder: Path, *options: str) -> str:
    target = folder / f"out.{form}"
    split = call.index("--") if "--" in call else len(call)
    run([*call[:split], "--output", f"{form}:{target}", "--quiet", *options, *call[split:]])
    return target.read_text(encoding="utf-8")


@EACH_CALL
def test_sarif(call: list[str], tmp_path: Path) -> None:
    document = json.loads(written(call, "sarif", tmp_path))
    SARIF.validate(document)
    for result in document["runs"][0]["results"]:
        for place in (*result["locations"], *result.get("relatedLocations", ())):
            uri = urlsplit(place["physicalLocation"]["artifactLocation"]["uri"])
            assert not uri.scheme
            assert not uri.path.startswith("/")
            assert " " not in uri.path


def test_a_bare_command_attaches_to_its_anchor(tmp_path: Path) -> None:
    text = written(CALLS[0], "sarif", tmp_path, "--anchor", "deploy/llm.yaml")
    SARIF.validate(json.loads(text))
    for result in json.loads(text)["runs"][0]["results"]:
        (place,) = result["locations"]
        uri = place["physicalLocation"]["artifactLocation"]["uri"]
        assert uri == "deploy/llm.yaml"


@EACH_CALL
def test_junit(call: list[str], tmp_path: Path) -> None:
    text = written(call, "junit", tmp_path)
    assert [error.reason for error in JUNIT.iter_errors(text)] == []


@EACH_CALL
def test_gitlab_code_quality(call: list[str], tmp_path: Path) -> None:
    issues = json.loads(written(call, "gitlab", tmp_path))
    assert issues
    for issue in issues:
        assert {"description", "check_name", "fingerprint", "severity", "location"} <= set(issue)
        assert issue["severity"] in {"info", "minor", "major", "critical", "blocker"}
        assert issue["location"]["lines"]["begin"] >= 1
    marks = [issue["fingerprint"] for issue in issues]
    assert len(marks) == len(set(marks))


@pytest.mark.parametrize(
    ("file", "schema"),
    [
        ("github-action/action.yml", "github-actions"),
        ("github-action/workflow.yml", "github-workflows"),
        ("gitlab/advisor.gitlab-ci.yml", "gitlab-ci"),
    ],
)
def test_examples(file: str, schema: str) -> None:
    text = (SCHEMAS / f"{schema}.json").read_text(encoding="utf-8")
    # YAML 1.1 reads the key `on` as true; the forges read it as the word.
    plain = yaml.load((ROOT / "examples" / file).read_text(), Loader=yaml.BaseLoader)  # noqa: S506, TID251
    document = cast("dict[str, object]", plain)
    Draft7Validator(json.loads(text)).validate(_typed(document))


def _typed(node: object) -> object:
    """Give the plain texts of `BaseLoader` their types again, but keep `on` a word."""
    if isinstance(node, dict):
        return {key: _typed(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_typed(item) for item in node]
    return yaml.safe_load(node) if isinstance(node, str) and node in {"true", "false"} else node


@pytest.mark.network
@pytest.mark.slow
def test_the_hook_runs_through_pre_commit(tmp_path: Path) -> None:
    """Needs `pre-commit` on PATH and PyPI: pre-commit makes an environment with Advisor."""
    pre_commit, git = shutil.which("pre-commit"), shutil.which("git")
    if pre_commit is None or git is None:
        pytest.skip("pre-commit or git is not installed")
    text = (ROOT / "examples" / "pre-commit" / ".pre-commit-config.yaml").read_text()
    config = text.replace("[sglang-advisor]", f'["{ROOT}"]').replace(
        "[--skip", "[--sglang, 0.5.12, --skip"
    )
    (tmp_path / ".pre-commit-config.yaml").write_text(config)
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "service.yaml").write_text("kind: Service\n")
    (tmp_path / "deploy" / "good.sh").write_text("sglang serve --model-path M --tp 8\n")
    subprocess.run([git, "init", "-q", str(tmp_path)], check=True)
    outcomes = []
    for bad in (False, True):
        if bad:
            (tmp_path / "deploy" / "bad.sh").write_text("sglang serve --model-path M --tp 16\n")
        subprocess.run([git, "add", "."], cwd=tmp_path, check=True)
        done = subprocess.run(
            [pre_commit, "run", "--all-files"],
            cwd=tmp_path,
            env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        outcomes.append((done.returncode, "16 GPUs are needed" in done.stdout))
    assert outcomes == [(0, False), (1, True)]
