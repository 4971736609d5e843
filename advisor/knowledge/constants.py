"""Values of expressions in SGLang's source, as far as they can be told without running it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from advisor.knowledge.modules import Module, Names, bindings, imports_of, read_module
from advisor.knowledge.tree import SourceTree

_MAX_DEPTH = 12


class Unresolved(Enum):
    """The answer for what only running the code would tell."""

    UNRESOLVED = "unresolved"


UNRESOLVED = Unresolved.UNRESOLVED


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where an expression stands: its module, the local names, and how deep the search went."""

    module: str
    local: Names = field(default_factory=dict)
    depth: int = 0


class Constants:
    """A reader of constants in one source tree; it follows imports inside `sglang`.

    It knows literals, names, `+` of sequences, members of classes and enums, and the few calls
    that lists of choices are written with (`list(X)`, `X.keys()`, `get_args(X)`).
    """

    def __init__(self, tree: SourceTree) -> None:
        self._tree = tree
        self._modules: dict[str, Module] = {}
        self._handlers: Mapping[type[ast.expr], Callable[..., object]] = {
            ast.List: self._sequence,
            ast.Tuple: self._sequence,
            ast.Set: self._sequence,
            ast.Dict: self._dict_keys,
            ast.BinOp: self._sum,
            ast.UnaryOp: self._negative,
            ast.Name: self._name,
            ast.Attribute: self._attribute,
            ast.Call: self._call,
            ast.ListComp: self._comprehension,
            ast.Subscript: self._literal_type,
        }

    def value(self, node: ast.expr, scope: Scope) -> object:
        """Return a constant, a list of constants, or `UNRESOLVED`.

        A dict or enum class gives the list of its keys or member values.
        """
        if isinstance(node, ast.Constant):
            return node.value
        handler = self._handlers.get(type(node))
        if handler is None or scope.depth > _MAX_DEPTH:
            return UNRESOLVED
        return handler(node, _deeper(scope))

    def find_class(self, name: str, scope: Scope) -> tuple[ast.ClassDef, Scope] | None:
        """Return a class that a name means in a module, with the scope it stands in."""
        module = self.module(scope.module)
        if name in module.classes:
            return module.classes[name], Scope(module=scope.module, depth=scope.depth)
        if name in module.imports and scope.depth <= _MAX_DEPTH:
            target, original = module.imports[name]
            return self.find_class(original, Scope(module=target, depth=scope.depth + 1))
        return None

    def module(self, path: str) -> Module:
        """Return what a file of the tree binds; nothing if the file does not exist."""
        if path not in self._modules:
            self._modules[path] = read_module(self._tree, path)
        return self._modules[path]

    def _sequence(self, node: ast.List | ast.Tuple | ast.Set, scope: Scope) -> object:
        items: list[object] = []
        for element in node.elts:
            starred = isinstance(element, ast.Starred)
            item = self.value(element.value if isinstance(element, ast.Starred) else element, scope)
            if item is UNRESOLVED or (starred and not isinstance(item, list)):
                return UNRESOLVED
            items.extend(item if starred and isinstance(item, list) else [item])
        return items

    def _dict_keys(self, node: ast.Dict, scope: Scope) -> object:
        keys = [UNRESOLVED if key is None else self.value(key, scope) for key in node.keys]
        return UNRESOLVED if UNRESOLVED in keys else keys

    def _sum(self, node: ast.BinOp, scope: Scope) -> object:
        left, right = self.value(node.left, scope), self.value(node.right, scope)
        if not isinstance(node.op, ast.Add):
            return _product(node.op, left, right)
        if isinstance(left, list) and isinstance(right, list):
            return [*left, *right]
        return left + right if isinstance(left, str) and isinstance(right, str) else UNRESOLVED

    def _negative(self, node: ast.UnaryOp, scope: Scope) -> object:
        value = self.value(node.operand, scope)
        if isinstance(value, int | float) and isinstance(node.op, ast.USub):
            return -value
        return UNRESOLVED

    def _name(self, node: ast.Name, scope: Scope) -> object:
        if node.id in scope.local:
            return self.value(scope.local[node.id], scope)
        module = self.module(scope.module)
        if node.id in module.values:
            return self.value(module.values[node.id], Scope(module=scope.module, depth=scope.depth))
        if found := self.find_class(node.id, scope):
            return self._members(*found)
        if node.id in module.imports:
            target, original = module.imports[node.id]
            return self.value(ast.Name(id=original), Scope(module=target, depth=scope.depth))
        for target in module.star_imports:
            value = self.value(node, Scope(module=target, depth=scope.depth))
            if value is not UNRESOLVED:
                return value
        return UNRESOLVED

    def _members(self, node: ast.ClassDef, scope: Scope) -> object:
        """Return the values of an enum's members, in order."""
        bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        if not any(base.endswith("Enum") for base in bases):
            return UNRESOLVED
        if "StrEnum" in bases and any(_is_auto(value) for value in bindings(node.body).values()):
            return [name.lower() for name in bindings(node.body)]
        values = [self.value(value, scope) for value in bindings(node.body).values()]
        return UNRESOLVED if UNRESOLVED in values else values

    def _attribute(self, node: ast.Attribute, scope: Scope) -> object:
        if node.attr == "value":
            return self.value(node.value, scope)
        if not isinstance(node.value, ast.Name):
            return UNRESOLVED
        found = self.find_class(node.value.id, scope)
        if found is None:
            return UNRESOLVED
        members = bindings(found[0].body)
        inner = Scope(module=found[1].module, local=members, depth=found[1].depth)
        return self.value(members[node.attr], inner) if node.attr in members else UNRESOLVED

    def _call(self, node: ast.Call, scope: Scope) -> object:
        match node.func:
            case ast.Name(id="list" | "tuple" | "set" | "frozenset" | "sorted" | "get_args") if (
                node.args
            ):
                value = self.value(node.args[0], scope)
                return value if isinstance(value, list) else UNRESOLVED
            case ast.Attribute(attr="keys", value=owner):
                return self.value(owner, scope)
            case ast.Name(id=name) if not node.args:
                return self._result(name, scope)
        return UNRESOLVED

    def _result(self, name: str, scope: Scope) -> object:
        """Return what a function without arguments ends with: its last return."""
        function = self.module(scope.module).functions.get(name)
        if function is None or not isinstance(function.body[-1], ast.Return):
            return UNRESOLVED
        value = function.body[-1].value
        for statement in function.body:
            if isinstance(statement, ast.ImportFrom):
                self._learn(scope.module, imports_of([statement], ""))
        return UNRESOLVED if value is None else self.value(value, scope)

    def _learn(self, path: str, imports: Mapping[str, tuple[str, str]]) -> None:
        known = self.module(path)
        self._modules[path] = replace(known, imports={**known.imports, **imports})

    def _comprehension(self, node: ast.ListComp, scope: Scope) -> object:
        """Read `[m.name.lower() for m in SomeEnum]` and `[m.value for m in SomeEnum]`."""
        source = node.generators[0].iter
        shape = ast.unparse(node.elt).partition(".")[2]
        if shape == "value":
            return self.value(source, scope)
        found = self._enum_behind(source, scope)
        if found is None or shape not in {"name", "name.lower()"}:
            return UNRESOLVED
        names = list(bindings(found.body))
        return [name.lower() for name in names] if shape.endswith("lower()") else names

    def _enum_behind(self, node: ast.expr, scope: Scope) -> ast.ClassDef | None:
        """Return the enum class that an expression iterates over, also through a function."""
        match node:
            case ast.Name(id=name):
                found = self.find_class(name, scope)
                return found[0] if found else None
            case ast.Call(func=ast.Name(id="list"), args=[argument]):
                return self._enum_behind(argument, scope)
            case ast.Call(func=ast.Name(id=name)):
                self._result(name, scope)
                function = self.module(scope.module).functions.get(name)
                last = function.body[-1] if function else None
                if isinstance(last, ast.Return) and last.value is not None:
                    return self._enum_behind(last.value, scope)
        return None

    def _literal_type(self, node: ast.Subscript, scope: Scope) -> object:
        if ast.unparse(node.value).rpartition(".")[2] != "Literal":
            return UNRESOLVED
        is_tuple = isinstance(node.slice, ast.Tuple)
        value = self.value(node.slice, scope)
        return value if is_tuple else [value]


def _deeper(scope: Scope) -> Scope:
    return Scope(module=scope.module, local=scope.local, depth=scope.depth + 1)


def _product(operator: ast.operator, left: object, right: object) -> object:
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        return UNRESOLVED
    return left * right if isinstance(operator, ast.Mult) else UNRESOLVED


def _is_auto(node: ast.expr) -> bool:
    return ast.unparse(node).rpartition(".")[2] == "auto()"
