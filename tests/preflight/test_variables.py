"""Environment variables that scripts and manifests set."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.findings import Finding
from advisor.knowledge.variables import variable_facts
from advisor.preflight.inputs.files import read_text
from advisor.preflight.judge import preflight
from advisor.preflight.target import Given, target_of

SERVER = "python -m sglang.launch_server --model-path M"
MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  containers:
  - name: sglang
    image: lmsysorg/sglang:v0.5.23
    command: [python3, -m, sglang.launch_server, --model-path, M]
    env:
    - {name: SGLANG_CUTLASS_MOE, value: "1"}
    - name: SGLANG_HOST_IP
      valueFrom: {fieldRef: {fieldPath: status.podIP}}
"""
COMPOSE = """
services:
  llm:
    image: lmsysorg/sglang:v0.5.23
    command: python3 -m sglang.launch_server --model-path M
    environment: [SGLANG_CUTLASS_MOE=1]
"""


def judged(text: str, name: str, sglang: str | None) -> list[Finding]:
    commands = [
        (server, target_of(server, Given(sglang=sglang))) for server in read_text(text, name)
    ]
    findings = preflight(commands, fail_on=None).verdicts.findings
    return [finding for finding in findings if finding.rule.startswith("variable-")]


@pytest.mark.parametrize(
    ("variable", "sglang", "rule", "command"),
    [
        ("SGLANG_ENABLE_SPEC_V2", "0.5.12", None, ""),
        ("SGLANG_ENABLE_SPEC_V2", "0.5.16", "variable-unread", ""),
        ("SGLANG_ENABLE_SPEC_V2", "0.5.23", "variable-unread", ""),
        ("SGLANG_CUTLASS_MOE", "0.5.3", None, ""),
        ("SGLANG_CUTLASS_MOE", "0.5.16", "variable-deprecated", "--moe-runner-backend=cutlass"),
        ("SGLANG_CUTLASS_MOE", "0.5.18", "variable-unread", "--moe-runner-backend=cutlass"),
        ("SGLANG_NSA_FUSE_TOPK", "0.5.16", "variable-deprecated", "SGLANG_DSA_FUSE_TOPK=1"),
        ("SGLANG_ENABLE_PCIE_IPC_ALLREDUCE", "0.5.20", "variable-unread", ""),
        ("SGLANG_ENABLE_PCIE_IPC_ALLREDUCE", "0.5.23", None, ""),
        ("SGL_MOE_CONFIG_DIR", "0.5.12", "variable-deprecated", "SGLANG_MOE_CONFIG_DIR=1"),
        ("SGLANG_MOE_CONFIG_DIRR", "0.5.12", "variable-unknown", "SGLANG_MOE_CONFIG_DIR=1"),
        ("SGLANG_MY_OWN_IMAGE", "0.5.12", None, ""),
        ("NCCL_DEBUG", "0.5.12", None, ""),
    ],
)
def test_a_release_reads_what_it_names(
    variable: str, sglang: str, rule: str | None, command: str
) -> None:
    found = judged(f"export {variable}=1\n{SERVER}\n", "a.sh", sglang)
    assert [finding.rule for finding in found] == ([rule] if rule else [])
    assert [finding.actions[0].command for finding in found] == ([command] if rule else [])
    assert all(finding.evidence[0].line == 1 for finding in found)


DOCKERFILE = """FROM lmsysorg/sglang:v0.5.23
RUN true
ENV SGLANG_CUTLASS_MOE=1 PORT=30000
CMD ["python3", "-m", "sglang.launch_server", "--model-path", "M"]
"""


@pytest.mark.parametrize(
    ("text", "name"),
    [(MANIFEST, "pod.yaml"), (COMPOSE, "compose.yaml"), (DOCKERFILE, "Dockerfile")],
)
def test_manifests_set_them_too(text: str, name: str) -> None:
    (finding,) = judged(text, name, None)
    assert (finding.rule, finding.severity) == ("variable-unread", "warning")
    assert text.splitlines()[finding.evidence[0].line - 1].count("SGLANG_CUTLASS_MOE") == 1


def test_a_release_that_is_open_leaves_a_variable_open(tmp_path: Path) -> None:
    text = f"SGLANG_ENABLE_SPEC_V2=1 {SERVER}\n"
    (server,) = read_text(text, "a.sh")
    skipped = preflight([(server, target_of(server, Given()))], fail_on=None).verdicts.skipped
    assert "give --sglang" in {item.rule: item.reason for item in skipped}["variable-unread"]


def test_ranges_of_a_variable_fit_together() -> None:
    facts = variable_facts("SGLANG_GC_LOG")
    assert facts is not None
    assert facts.new == "SGLANG_LOG_GC"
    assert variable_facts("SGLANG_LOG_GC") is not None
