from __future__ import annotations

import dataclasses
import json
import types
import typing
from importlib.resources import files

import jsonschema

from advisor.knowledge.environment import Environment, parse_environment, render_environment
from advisor.knowledge.records import field_types

SCHEMA_FILE = files("advisor").joinpath("data", "environment.schema.json")
SIMPLE = {str: "string", int: "integer", bool: "boolean"}
FAILED = {
    "type": "object",
    "properties": {"error": {"type": "string"}},
    "required": ["error"],
    "maxProperties": 1,
}


def schema_of(kind: object) -> dict[str, object]:
    if isinstance(kind, types.UnionType):
        return optional(schema_of(typing.get_args(kind)[0]))
    if typing.get_origin(kind) is tuple:
        return {"type": "array", "items": schema_of(typing.get_args(kind)[0])}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return {"$ref": f"#/$defs/{kind.__name__}"}
    assert isinstance(kind, type)
    return {"type": SIMPLE[kind]}


def optional(schema: dict[str, object]) -> dict[str, object]:
    if "type" in schema:
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def record(kind: type) -> dict[str, object]:
    assert dataclasses.is_dataclass(kind)
    required = [f.name for f in dataclasses.fields(kind) if f.default is dataclasses.MISSING]
    properties = {name: schema_of(hint) for name, hint in field_types(kind).items()}
    return {"type": "object", "properties": properties, "required": required}


def kinds_below(kind: object) -> dict[str, type]:
    found: dict[str, type] = {}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        found[kind.__name__] = kind
        inner: tuple[object, ...] = tuple(field_types(kind).values())
    else:
        inner = typing.get_args(kind)
    for part in inner:
        found |= kinds_below(part)
    return found


def environment_schema() -> dict[str, object]:
    """Return the schema that follows from the types; a failed part is an object with `error`."""
    parts = {n: h for n, h in field_types(Environment).items() if n != "errors"}
    properties: dict[str, object] = {"schema_version": {"const": 1}}
    for name, hint in parts.items():
        properties[name] = {"anyOf": [schema_of(hint), FAILED]}
    kinds = kinds_below(Environment)
    unused = {"Environment", "ItemError"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Environment of an SGLang server, as `advisor probe` prints it",
        "type": "object",
        "properties": properties,
        "required": ["schema_version"],
        "$defs": {name: record(kind) for name, kind in sorted(kinds.items()) if name not in unused},
    }


def test_shipped_schema_follows_from_the_types() -> None:
    assert json.loads(SCHEMA_FILE.read_text(encoding="utf-8")) == environment_schema()


def test_schema_accepts_what_is_rendered_and_refuses_what_is_not() -> None:
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    text = '{"schema_version": 1, "gpus": {"error": "no GPU"}, "packages": [{"name": "torch"}]}'
    document = render_environment(parse_environment(text, "env.json"))
    jsonschema.validate(document, schema)
    document["gpus"] = {"devices": "none"}
    assert not jsonschema.Draft202012Validator(schema).is_valid(document)
