"""Which server arguments SGLang may change by itself after parsing, read from its source.

Up to 0.5.18 methods of ServerArgs and hooks assign fields (`self.tp_size = ...`); from 0.5.20 they
call `declare_resolution(server_args, source, tp_size=...)`. `Arg(resolvable=True)` marks fields
that model-specific overrides may decide (from 0.5.16).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from advisor.knowledge.declarations import Declared
from advisor.knowledge.tree import SourceTree

_HOOKS = "srt/arg_groups"
_RECORDS = frozenset({"self", "server_args", "args"})
_DECLARES = frozenset({"declare_resolution"})


def adjusted_fields(
    tree: SourceTree, record: ast.ClassDef, fields: Iterable[Declared]
) -> frozenset[str]:
    """Return the fields that the release may set to something that nobody asked for."""
    declared = {item.name: item for item in fields}
    changed = set(_changed_names(record, {"self"}))
    for path in tree.python_files(_HOOKS):
        module = tree.parse(path)
        changed |= set(_changed_names(module, _RECORDS - {"self"})) if module else set()
    resolvable = {name for name, item in declared.items() if _is_resolvable(item.annotation)}
    return frozenset((changed | resolvable) & set(declared))


def _changed_names(node: ast.AST, records: Iterable[str]) -> Iterator[str]:
    """Yield the attributes that are assigned on, or declared for, a record of server arguments."""
    receivers = frozenset(records)
    for found in ast.walk(node):
        match found:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute, ctx=ast.Store()):
                if name in receivers:
                    yield attribute
            case ast.Call(func=ast.Name(id="setattr"), args=[ast.Name(id=name), target, _]):
                if name in receivers and isinstance(target, ast.Constant):
                    yield str(target.value)
            case ast.Call(func=ast.Name(id=name), keywords=keywords):
                if name in _DECLARES:
                    yield from (word.arg for word in keywords if word.arg)


def _is_resolvable(annotation: ast.expr) -> bool:
    return any(
        isinstance(node, ast.keyword)
        and node.arg == "resolvable"
        and isinstance(node.value, ast.Constant)
        and node.value.value is True
        for node in ast.walk(annotation)
    )
