"""From an expression of SGLang's source to the texts that it can give, without running it."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

_MOST_READINGS = 8
_DEEPEST = 12
_PERCENT = re.compile(r"%(?:\([^)]*\))?([-+ #0]*[\d*]*(?:\.[\d*]+)?[a-zA-Z])|%%")
_BRACES = re.compile(r"\{[^{}:!]*(?:![rsa])?(?::([^{}]*(?:\{[^{}]*\}[^{}]*)*))?\}|\{\{|\}\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Fixed pieces with a hole between each two.

    `holes` says how each is formatted (".2f", "d"; "" where nothing is said), so it is one
    shorter than `pieces`. A text that begins with a hole has "" as its first piece.
    """

    pieces: tuple[str, ...]
    holes: tuple[str, ...] = ()

    def shown(self) -> str:
        """Return the text with `{}` for each hole."""
        return "{}".join(self.pieces)

    def joined(self, other: Text) -> Text:
        """Return this text followed by another."""
        middle = self.pieces[-1] + other.pieces[0]
        return Text(
            pieces=(*self.pieces[:-1], middle, *other.pieces[1:]), holes=self.holes + other.holes
        )


HOLE = Text(pieces=("", ""), holes=("",))
EMPTY = Text(pieces=("",))
Names = Mapping[str, Sequence[ast.expr]]


def readings(node: ast.expr, names: Names, depth: int = 0) -> tuple[Text, ...]:
    """Return the texts that an expression can give; a hole for what is no text of the source.

    Args:
        node: The expression.
        names: What names stand for where the expression is; several values are alternatives.
        depth: How many names and operators were followed to get here.
    """
    if depth > _DEEPEST:
        return (HOLE,)
    match node:
        case ast.Constant(value=str(text)):
            return (Text(pieces=(text,)),)
        case ast.JoinedStr(values=values):
            return _chained([_part(value, names, depth) for value in values])
        case ast.Name(id=name) if name in names:
            return _named(name, names, depth)
        case ast.Call():
            return _called(node, names, depth)
    return _combined(node, names, depth)


def _combined(node: ast.expr, names: Names, depth: int) -> tuple[Text, ...]:
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _chained([readings(left, names, depth + 1), readings(right, names, depth + 1)])
        case ast.BinOp(left=left, op=ast.Mod()):
            return tuple(map(percent_filled, readings(left, names, depth + 1)))
        case ast.IfExp(body=body, orelse=other):
            return _bounded((*readings(body, names, depth + 1), *readings(other, names, depth + 1)))
    return (HOLE,)


def _named(name: str, names: Names, depth: int) -> tuple[Text, ...]:
    """Read what a name stands for; the text that has grown longest comes first."""
    inner = {key: value for key, value in names.items() if key != name}
    values = reversed(names[name])
    return _bounded([text for value in values for text in readings(value, inner, depth + 1)])


def percent_filled(text: Text) -> Text:
    """Turn `%s` and its kin into holes, `%%` into a percent sign."""
    return _split(text, _PERCENT, "%%", "%")


def has_words(text: Text) -> bool:
    """Whether a text has enough letters of its own to be told from others."""
    return any(re.search(r"[A-Za-z]{3}", piece) for piece in text.pieces)


def _part(value: ast.expr, names: Names, depth: int) -> tuple[Text, ...]:
    """Read a part of an f-string; one that is filled with text of the source is that text."""
    if not isinstance(value, ast.FormattedValue):
        return readings(value, names, depth + 1)
    spec = ast.unparse(value.format_spec)[2:-1] if value.format_spec is not None else ""
    if spec or value.conversion != -1:
        return (Text(pieces=("", ""), holes=(spec,)),)
    return readings(value.value, names, depth + 1)


def _called(node: ast.Call, names: Names, depth: int) -> tuple[Text, ...]:
    match node.func:
        case ast.Attribute(value=value, attr="format"):
            found = readings(value, names, depth + 1)
            return tuple(_split(text, _BRACES, "{{", "{") for text in found)
        case ast.Attribute(value=value, attr="strip" | "rstrip" | "lstrip"):
            return readings(value, names, depth + 1)
        case ast.Attribute(attr="dedent" | "cleandoc") | ast.Name(id="dedent" | "str"):
            return readings(node.args[0], names, depth + 1) if node.args else (HOLE,)
        case ast.Attribute(attr="join"):
            return _joined_list(node, names, depth)
    return (HOLE,)


def _joined_list(node: ast.Call, names: Names, depth: int) -> tuple[Text, ...]:
    """Read `"sep".join([...])` over a written list."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Constant(value=str(separator))),
            args=[ast.List(elts=parts) | ast.Tuple(elts=parts)],
        ) if parts:
            between = (Text(pieces=(separator,)),)
            chain = [readings(parts[0], names, depth + 1)]
            for part in parts[1:]:
                chain += [between, readings(part, names, depth + 1)]
            return _chained(chain)
    return (HOLE,)


def _chained(parts: Sequence[tuple[Text, ...]]) -> tuple[Text, ...]:
    """Join parts in every combination of their readings, up to a bound."""
    whole: tuple[Text, ...] = (EMPTY,)
    for part in parts:
        whole = _bounded([left.joined(right) for left, right in product(whole, part)])
    return whole


def _bounded(texts: Sequence[Text]) -> tuple[Text, ...]:
    return tuple(dict.fromkeys(texts))[:_MOST_READINGS]


def _split(text: Text, pattern: re.Pattern[str], escape: str, meant: str) -> Text:
    pieces: list[str] = []
    holes: list[str] = []
    for number, piece in enumerate(text.pieces):
        if number:
            holes.append(text.holes[number - 1])
        current, position = "", 0
        for match in pattern.finditer(piece):
            current += piece[position : match.start()]
            position = match.end()
            if match[0] in {escape, "}}"}:
                current += meant if match[0] == escape else "}"
                continue
            pieces.append(current)
            holes.append(match[1] or "")
            current = ""
        pieces.append(current + piece[position:])
    return Text(pieces=tuple(pieces), holes=tuple(holes))
