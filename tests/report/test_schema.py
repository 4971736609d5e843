"""The JSON report and its schema say the same."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import cast

import pytest
from jsonschema import Draft202012Validator, ValidationError

from advisor.diagnosis import Report
from advisor.report.formats import FORMATS, Style

TOOL = Path(__file__).parents[2] / "tools" / "write_report_schema.py"


def schema() -> dict[str, object]:
    text = files("advisor").joinpath("data", "report.schema.json").read_text(encoding="utf-8")
    return cast("dict[str, object]", json.loads(text))


def strict(node: object) -> object:
    """Forbid keys that the schema does not name, so that none is forgotten in it."""
    if isinstance(node, list):
        return [strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    closed = {key: strict(item) for key, item in node.items()}
    return closed | ({"additionalProperties": False} if "properties" in node else {})


def document(report: Report) -> dict[str, object]:
    return cast("dict[str, object]", json.loads(FORMATS["json"](report, Style())))


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(schema())


def test_every_report_is_what_the_schema_says(any_report: Report) -> None:
    validator = Draft202012Validator(cast("dict[str, object]", strict(schema())))
    validator.validate(document(any_report))


def test_a_key_of_a_later_release_is_no_mistake(made: dict[str, Report]) -> None:
    Draft202012Validator(schema()).validate(document(made["healthy"]) | {"new_key": 1})


@pytest.mark.parametrize("key", ["schema_version", "findings", "facts", "exit_code"])
def test_a_document_without_its_keys_is_refused(key: str, made: dict[str, Report]) -> None:
    broken = document(made["healthy"])
    del broken[key]
    with pytest.raises(ValidationError):
        Draft202012Validator(schema()).validate(broken)


def test_the_schema_follows_the_types() -> None:
    """After a change of the facts: python tools/write_report_schema.py."""
    done = subprocess.run(
        [sys.executable, str(TOOL), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_json_lines_hold_the_findings_of_the_document(any_report: Report) -> None:
    lines = FORMATS["jsonl"](any_report, Style()).splitlines()
    findings = cast("list[dict[str, object]]", document(any_report)["findings"])
    for line, finding in zip(lines, findings, strict=True):
        assert finding.items() <= json.loads(line).items()
