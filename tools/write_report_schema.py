"""Regenerate the JSON Schema of reports from the types of the facts and findings.

python tools/write_report_schema.py            write advisor/data/report.schema.json
python tools/write_report_schema.py --check    exit 1 if the file is not what the types say
"""

from __future__ import annotations

import argparse
import json
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from packaging.version import Version

from advisor.facts import model
from advisor.findings import Category, Confidence, Severity
from advisor.knowledge.ranges import VersionRange
from advisor.report.document import SCHEMA_VERSION

TARGET = Path(__file__).resolve().parent.parent / "advisor" / "data" / "report.schema.json"
_SCALARS: Mapping[object, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    datetime: "string",
    Version: "string",
    VersionRange: "string",
}
_FACTS = ("capacity", "memory", "graphs", "startup", "serving", "failure")
_Schema = dict[str, object]
_TEXT: _Schema = {"type": "string"}
_COUNT: _Schema = {"type": "integer", "minimum": 0}
_ANY_OBJECT: _Schema = {"type": "object"}


def schema() -> _Schema:
    """Return the schema. Unknown keys are allowed: later releases may add some."""
    definitions: dict[str, _Schema] = {
        "Action": _object(
            dict.fromkeys(("title", "command", "expect", "risk", "verify"), _TEXT),
            description="One thing to do; an empty text means that there is nothing to say.",
        ),
        "Finding": _finding(),
        "Facts": _facts(),
    }
    hints = typing.get_type_hints(model.RunFacts)
    for name in _FACTS:
        _kind(hints[name], definitions)
    for record in (model.MoeLookup, model.ChangedArgument):
        _define(record, definitions)
    action = _properties(definitions["Action"])
    plan = _object({"rule": _TEXT, "severity": _words(Severity), **action})
    suppressed = _object({"by": _TEXT, "reason": _TEXT, "finding": _reference("Finding")})
    unrecognised = _object(
        {"template": _TEXT, "count": _COUNT, "evidence": _reference("Evidence")},
        description="A warning or error that nothing knows, its varying parts masked.",
    )
    document = _object(
        {
            "schema_version": {"const": SCHEMA_VERSION},
            "tool": _object({"name": {"const": "advisor"}, "version": _TEXT}),
            "sources": _list(
                _object(
                    {"name": _TEXT, **dict.fromkeys(("lines", "bytes", "unread", "runs"), _COUNT)},
                    description="`unread` counts lines that a pattern took too long on.",
                )
            ),
            "run": _object({"number": _COUNT, "count": _COUNT}),
            "facts": _reference("Facts"),
            "findings": _list(_reference("Finding")),
            "skipped": _list(_object({"rule": _TEXT, "reason": _TEXT})),
            "suppressed": _list(suppressed),
            "plan": _list(plan),
            "unrecognised": _list(unrecognised),
            "fail_on": {"enum": [*(item.value for item in Severity), "never"]},
            "exit_code": {"enum": [0, 1]},
        },
        optional=("suppressed",),
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Report of Advisor, as `--format json` prints it",
        "description": "Absent means unknown. Within a schema_version keys may be added, never changed.",
        **document,
        "$defs": dict(sorted(definitions.items())),
    }


def _finding() -> _Schema:
    return _object(
        {
            "rule": _TEXT,
            "title": _TEXT,
            "topic": _TEXT,
            "severity": _words(Severity),
            "confidence": _words(Confidence),
            "category": _words(Category),
            "summary": _TEXT,
            "why": _TEXT,
            "evidence": _list(_reference("Evidence")),
            "actions": _list(_reference("Action")),
            "values": _ANY_OBJECT,
            "references": _list(_TEXT),
            "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
        }
    )


def _facts() -> _Schema:
    texts = ("sglang_version", "sglang_version_basis", "model", "model_class")
    known: _Schema = dict.fromkeys((*texts, "triton_version", "torch_version"), _TEXT)
    gpu = {"name": _TEXT, "sm": _COUNT, "memory_gib": {"type": "number"}, "count": _COUNT}
    parallel = dict.fromkeys(("tp", "dp", "pp", "ep", "nnodes"), _COUNT)
    known |= {
        "gpu": _object(gpu, required=()),
        "parallel": _object(parallel, required=()),
        "requested_args": _ANY_OBJECT,
        "effective_args": _ANY_OBJECT,
        "changed_args": _list(_reference("ChangedArgument")),
        "capacity": _reference("CapacityFacts"),
        "memory": _reference("MemoryFacts"),
        "moe_configs": _list(_reference("MoeLookup")),
        "graphs": _reference("Graphs"),
        "startup": _reference("Startup"),
        "serving": _reference("Serving"),
        "failure": _reference("Failure"),
        "ready": {"type": "boolean"},
        "ranks": _list(_TEXT),
    }
    optional = {*texts, "triton_version", "torch_version", "ready"}
    return _object(known, required=[name for name in known if name not in optional])


def _define(record: type, definitions: dict[str, _Schema]) -> None:
    """Add a record and the records below it; a field that may be None is left out when it is."""
    if record.__name__ in definitions:
        return
    hints = typing.get_type_hints(record)
    properties: dict[str, object] = {}
    required: list[str] = []
    definitions[record.__name__] = {}
    for item in fields(record):
        kind, optional = _plain(hints[item.name])
        properties[item.name] = _kind(kind, definitions)
        if not optional:
            required.append(item.name)
    definitions[record.__name__] = _object(
        properties, required=required, description=" ".join((record.__doc__ or "").split())
    )


def _plain(hint: object) -> tuple[object, bool]:
    """Take `| None` off a type and say whether it was there."""
    if not isinstance(hint, types.UnionType) and typing.get_origin(hint) is not typing.Union:
        return hint, False
    rest = [part for part in typing.get_args(hint) if part is not type(None)]
    optional = len(rest) < len(typing.get_args(hint))
    return (rest[0] if len(rest) == 1 else hint), optional


def _kind(kind: object, definitions: dict[str, _Schema]) -> _Schema:
    if kind in _SCALARS:
        return {"type": _SCALARS[kind]}
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _words(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        _define(kind, definitions)
        return _reference(kind.__name__)
    if typing.get_origin(kind) is tuple:
        return _list(_kind(typing.get_args(kind)[0], definitions))
    if isinstance(typing.get_origin(kind), type) and issubclass(
        typing.get_origin(kind) or object, Mapping
    ):
        return dict(_ANY_OBJECT)
    return {}


def _object(
    properties: Mapping[str, object],
    *,
    required: Sequence[str] | None = None,
    optional: Sequence[str] = (),
    description: str = "",
) -> _Schema:
    named = [
        name for name in (properties if required is None else required) if name not in optional
    ]
    return {
        **({"description": description} if description else {}),
        "type": "object",
        "properties": dict(properties),
        **({"required": named} if named else {}),
    }


def _properties(definition: _Schema) -> dict[str, object]:
    properties = definition["properties"]
    assert isinstance(properties, dict)  # noqa: S101  (for the type checker: made by _object)
    return properties


def _list(items: _Schema) -> _Schema:
    return {"type": "array", "items": items}


def _reference(name: str) -> _Schema:
    return {"$ref": f"#/$defs/{name}"}


def _words(kind: type[StrEnum]) -> _Schema:
    return {"enum": [item.value for item in kind]}


def main() -> int:
    """Write the schema, or compare it with the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit 1 if the file is out of date")
    options = parser.parse_args()
    text = json.dumps(schema(), indent=2) + "\n"
    if not options.check:
        TARGET.write_text(text, encoding="utf-8")
        return 0
    if TARGET.read_text(encoding="utf-8") == text:
        return 0
    print(f"{TARGET}: not what the types say; run python tools/write_report_schema.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
