"""Read the value syntax of SGLang's argument dump as data, never as code.

`ServerArgs(key=value, …)` up to 0.5.18, where 0.5.14 to 0.5.18 nest objects such as
`CudaGraphConfig(decode=PhaseConfig(backend='full'))`; a dictionary's repr from 0.5.20 on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import regex

Value = str | int | float | bool | None | tuple["Value", ...] | Mapping[str, "Value"]

_TOKEN = regex.compile(
    r"\s*(?:(?P<string>[bru]?'(?:[^'\\]|\\.)*+'|[bru]?\"(?:[^\"\\]|\\.)*+\")"
    r"|(?P<number>-?(?:\d[\d_]*\.?\d*(?:[eE][-+]?\d+)?|inf|nan)(?![\w.]))"
    r"|(?P<angle><[^<>]*>)"
    r"|(?P<name>[A-Za-z_][\w.]*)"
    r"|(?P<punctuation>[()\[\]{},:=])"
    r"|(?P<other>[^\s()\[\]{},:=]+))",
    regex.DOTALL,
)
_WORDS: Mapping[str, Value] = {"None": None, "True": True, "False": False}
_CLOSERS = frozenset(")]}")
_ESCAPED = regex.compile(r"\\(.)", regex.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_DEEPEST = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A parsed dump. `complete` is False where the text ends before its last bracket."""

    values: Mapping[str, Value]
    complete: bool


class _EndOfTextError(Exception):
    """The dump stops in its middle: what was read so far still counts."""


@dataclass(slots=True)
class _Tokens:
    text: str
    position: int = 0

    def next(self) -> tuple[str, str]:
        match = _TOKEN.match(self.text, self.position)
        if match is None or match.lastgroup is None:
            raise _EndOfTextError
        self.position = match.end()
        return match.lastgroup, match[match.lastgroup]

    def peek(self) -> str:
        match = _TOKEN.match(self.text, self.position)
        return "" if match is None or match.lastgroup is None else match[match.lastgroup]


def parse_dump(text: str) -> Parsed:
    """Parse what follows `server_args=`; a torn dump gives the arguments before the tear.

    >>> parse_dump("ServerArgs(tp_size=2, api_key=None, bs=[1, 2])").values
    {'tp_size': 2, 'api_key': None, 'bs': (1, 2)}
    """
    tokens = _Tokens(text)
    values: dict[str, Value] = {}
    try:
        kind, word = tokens.next()
        if kind == "name":
            _, word = tokens.next()
        complete = word in "({" and _read_pairs(tokens, values, depth=0)
    except _EndOfTextError:
        complete = False
    return Parsed(values=values, complete=complete)


def _read_pairs(tokens: _Tokens, into: dict[str, Value], *, depth: int) -> bool:
    """Read `key=value` or `'key': value` pairs up to the closing bracket."""
    while True:
        kind, word = tokens.next()
        if word in _CLOSERS:
            return True
        if word == ",":
            continue
        key = _unquote(word) if kind == "string" else word
        if tokens.peek() not in {"=", ":"}:
            continue
        tokens.next()
        into[key] = _read_value(tokens, depth=depth + 1)


def _read_value(tokens: _Tokens, *, depth: int) -> Value:
    if depth > _DEEPEST:
        raise _EndOfTextError
    kind, word = tokens.next()
    if kind == "string":
        return _unquote(word)
    if kind == "number":
        return _number(word)
    if kind == "name":
        return _read_named(tokens, word, depth=depth)
    if word in {"[", "("}:
        return _read_items(tokens, depth=depth)
    if word == "{":
        return _read_braces(tokens, depth=depth)
    return word


def _read_named(tokens: _Tokens, word: str, *, depth: int) -> Value:
    if word in _WORDS:
        return _WORDS[word]
    if tokens.peek() != "(":
        return word
    tokens.next()
    values: dict[str, Value] = {}
    _read_pairs(tokens, values, depth=depth)
    return values


def _read_items(tokens: _Tokens, *, depth: int) -> tuple[Value, ...]:
    items: list[Value] = []
    while (word := tokens.peek()) not in _CLOSERS:
        if word == ",":
            tokens.next()
            continue
        items.append(_read_value(tokens, depth=depth + 1))
    tokens.next()
    return tuple(items)


def _read_braces(tokens: _Tokens, *, depth: int) -> Value:
    values: dict[str, Value] = {}
    _read_pairs(tokens, values, depth=depth)
    return values


def _number(word: str) -> int | float | str:
    try:
        return int(word) if word.lstrip("-").isdigit() else float(word)
    except (ValueError, OverflowError):
        return word


def _unquote(word: str) -> str:
    body = word[word.index(word[-1]) + 1 : -1]
    return _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], match[1]), body)
