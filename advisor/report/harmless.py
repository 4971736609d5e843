"""Make a whole report safe to print: no text of it may move a cursor or hide what it says.

Logs, arguments and rule packs are untrusted. The clean-up is done once, before any renderer, so
that no format can forget it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import TypeVar, cast

import regex

from advisor.diagnosis import Report
from advisor.knowledge.ranges import VersionRange
from advisor.sources.wrappers import printable

_UNSAFE = regex.compile(
    r"[\r\x80-\x9f\u2028\u2029"  # line ends and the 8-bit twins of escape sequences
    r"\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that reorder the text around them
    r"\ud800-\udfff\ufffe\uffff]"  # no characters at all
)
_Value = TypeVar("_Value")


def harmless(report: Report) -> Report:
    """Return the report with every text in it made printable."""
    return _clean(report)


def clean_text(text: str) -> str:
    r"""Replace escape sequences, control characters other than tab and newline, and bidi marks.

    >>> clean_text("red \x1b[31malert")
    'red alert'
    """
    return _UNSAFE.sub("�", printable(text), timeout=2.0)


def _clean(value: _Value) -> _Value:
    """Return the same kind of value; a record whose texts are all clean is the record itself."""
    cleaned: object = value
    if isinstance(value, (Enum, VersionRange)):
        return value
    if isinstance(value, str):
        cleaned = clean_text(value)
    elif isinstance(value, Mapping):
        cleaned = {_clean(key): _clean(item) for key, item in value.items()}
    elif isinstance(value, tuple):
        cleaned = tuple(_clean(item) for item in value)
    elif isinstance(value, list):
        cleaned = [_clean(item) for item in value]
    elif is_dataclass(value) and not isinstance(value, type):
        cleaned = replace(
            value, **{item.name: _clean(getattr(value, item.name)) for item in fields(value)}
        )
    return cast("_Value", cleaned)
