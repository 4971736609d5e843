"""What the top level of a Python module of SGLang binds."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

from advisor.knowledge.tree import SourceTree

Names = Mapping[str, ast.expr]


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """Names bound at the top level; imports only from `sglang`, as file and original name."""

    values: Names
    classes: Mapping[str, ast.ClassDef]
    functions: Mapping[str, ast.FunctionDef]
    imports: Mapping[str, tuple[str, str]]
    star_imports: tuple[str, ...]


def bindings(body: list[ast.stmt]) -> dict[str, ast.expr]:
    """Return the plain assignments of a body, annotated or not."""
    bound: dict[str, ast.expr] = {}
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                bound[name] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                bound[name] = value
    return bound


def imports_of(body: list[ast.stmt], folder: str) -> dict[str, tuple[str, str]]:
    """Return the names that a body imports from sglang, each with its file and original name.

    Args:
        body: Statements of a module or function.
        folder: Where the module lies below the package, for relative imports.
    """
    found: dict[str, tuple[str, str]] = {}
    for statement in body:
        if isinstance(statement, ast.ImportFrom) and (path := _target(statement, folder)):
            found |= {alias.asname or alias.name: (path, alias.name) for alias in statement.names}
    return found


def read_module(tree: SourceTree, path: str) -> Module:
    """Read a file, or a module path without suffix; a missing one binds nothing."""
    candidates = (path,) if path.endswith(".py") else (f"{path}.py", f"{path}/__init__.py")
    read = ((name, tree.parse(name)) for name in candidates)
    file, parsed = next((found for found in read if found[1] is not None), (path, None))
    body = parsed.body if parsed else []
    imports = imports_of(body, posixpath.dirname(file))
    return Module(
        values=bindings(body),
        classes={node.name: node for node in body if isinstance(node, ast.ClassDef)},
        functions={node.name: node for node in body if isinstance(node, ast.FunctionDef)},
        imports=imports,
        star_imports=tuple(target for target, name in imports.values() if name == "*"),
    )


def _target(statement: ast.ImportFrom, folder: str) -> str | None:
    """Return the module path that an import means; None outside sglang."""
    module = (statement.module or "").replace(".", "/")
    if statement.level:
        return posixpath.normpath(posixpath.join(folder, "../" * (statement.level - 1), module))
    return module.removeprefix("sglang/") if module.startswith("sglang/") else None
