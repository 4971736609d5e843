"""Frozen dataclasses from and to JSON values that somebody else wrote.

Field types may be str, int, bool, dataclasses, tuples of these, and `X | None`. Texts lose their
control characters and what is beyond their bound; other misfits are refused.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing

MAX_ITEMS = 10_000
MAX_TEXT = 8192
MAX_NUMBER = 1 << 63
NAMES: dict[object, str] = {str: "a text", int: "a whole number", bool: "true or false"}

T = typing.TypeVar("T")


def field_types(kind: type) -> dict[str, object]:
    """Return the fields of a dataclass with their types."""
    return typing.get_type_hints(kind)


def decode_record(kind: type[T], value: object, where: str) -> T:
    """Return a JSON object as a dataclass; unknown keys are ignored, absent ones are None.

    Raises:
        ValueError: If it does not fit; the text names the place below `where`.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be an object, not {shown(value)}")  # noqa: TRY004
    hints = field_types(kind)
    prefix = f"{where}." if where else ""
    return kind(**{n: _decode(hint, value.get(n), prefix + n) for n, hint in hints.items()})


def encode_record(record: object) -> dict[str, object]:
    """Return a dataclass as a JSON object without the fields that are None."""
    fields: dict[str, object] = {}
    for name in field_types(type(record)):
        value = getattr(record, name)
        if isinstance(value, tuple):
            fields[name] = [v if isinstance(v, str) else encode_record(v) for v in value]
        elif dataclasses.is_dataclass(value):
            fields[name] = encode_record(value)
        elif value is not None:
            fields[name] = value
    return fields


def shown(value: object) -> str:
    """Return a value, shortened, for an error message."""
    if isinstance(value, float) and not math.isfinite(value):
        return "a number out of range"
    return ascii(value)[:60]


def _decode(kind: object, value: object, where: str) -> object:
    if isinstance(kind, types.UnionType):
        return None if value is None else _decode(typing.get_args(kind)[0], value, where)
    if typing.get_origin(kind) is tuple:
        return _decode_list(typing.get_args(kind)[0], value, where)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return decode_record(kind, value, where)
    if type(value) is not kind or (isinstance(value, int) and abs(value) >= MAX_NUMBER):
        raise ValueError(f"{where} must be {NAMES[kind]}, not {shown(value)}")
    if isinstance(value, str):
        return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in value)[
            :MAX_TEXT
        ]
    return value


def _decode_list(kind: object, value: object, where: str) -> tuple[object, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > MAX_ITEMS:
        raise ValueError(f"{where} must be a list of at most {MAX_ITEMS} items")
    return tuple(_decode(kind, item, f"{where}[{place}]") for place, item in enumerate(value))
