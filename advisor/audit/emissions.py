"""Find the log calls, warnings, prints, raises and asserts of one module, by syntax alone.

Only statements are walked: these calls stand as statements of their own, and walking every
expression of an SGLang release takes three times as long. Texts that are built up first
(`message = ...; message += ...`) are followed within their function and to the module's constants.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from advisor.audit.texts import Names, Text, has_words, percent_filled, readings


class Level(StrEnum):
    """How SGLang gives a text out."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    RAISE = "raise"
    PRINT = "print"
    PROGRESS = "progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A text that SGLang logs, raises or prints.

    `module` is the file below srt/ without `.py`; files outside srt/ keep their path below
    `sglang/`. `exception` is what a raise names. Of the arguments of a helper such as
    `warn_once(key, message)` each sentence counts; of a logger's call only the first.
    """

    module: str
    line: int
    level: Level
    text: Text
    exception: str = ""


_METHODS: Mapping[str, Level] = {
    "debug": Level.DEBUG,
    "info": Level.INFO,
    "log": Level.INFO,
    "warning": Level.WARNING,
    "warn": Level.WARNING,
    "error": Level.ERROR,
    "exception": Level.ERROR,
    "critical": Level.ERROR,
    "fatal": Level.ERROR,
}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_ONCE = re.compile(r"_(?:once|first|on_rank0|rank0)$")
_LOGGERS = re.compile(r"log|warnings|parser", re.IGNORECASE)
_HELPERS = re.compile(r"(?:^|_)(?:log|print|warn|warning|error|report|raise)(?:_|$)")
_PROGRESS_WORDS = ("desc", "description")
_BAR = Text(pieces=(": ", ""), holes=("",))  # tqdm puts a colon between description and bar


def templates_of(module: str, tree: ast.Module) -> Iterator[Template]:
    """Yield every template of a module, in the order of the source."""
    constants = _assigned(tree.body, {})
    yield from _Walker(module=module).body(tree.body, constants)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walker:
    module: str

    def body(self, statements: list[ast.stmt], names: Names) -> Iterator[Template]:
        for statement in statements:
            yield from self._statement(statement, names)

    def _statement(self, node: ast.stmt, names: Names) -> Iterator[Template]:
        if isinstance(node, _FUNCTIONS):
            yield from self.body(node.body, _assigned(node.body, names))
        elif isinstance(node, ast.ClassDef):
            yield from self.body(node.body, names)
        else:
            yield from self._said(node, names)
            for inner in _bodies(node):
                yield from self.body(inner, names)

    def _said(self, node: ast.stmt, names: Names) -> Iterator[Template]:
        """Yield what a statement itself gives out."""
        match node:
            case ast.Raise(exc=ast.Call() as call):
                yield from self._raised(call, names)
            case ast.Assert(msg=ast.expr() as text):
                yield from self._emit(text, names, Level.RAISE, "AssertionError")
            case _:
                for call in _calls(node):
                    yield from self._bars(call, names)
                    yield from self._call(call, names)

    def _bars(self, call: ast.Call, names: Names) -> Iterator[Template]:
        """Yield the description of a progress bar, as the bar shows it."""
        for keyword in call.keywords:
            if keyword.arg in _PROGRESS_WORDS:
                for bar in self._emit(keyword.value, names, Level.PROGRESS):
                    yield replace(bar, text=bar.text.joined(_BAR))

    def _call(self, call: ast.Call, names: Names) -> Iterator[Template]:
        level = _level_of(call)
        if level is None:
            return
        if level is Level.PRINT or _is_logger(call.func):
            for argument in call.args[:1]:
                yield from self._emit(argument, names, level, rest=len(call.args) - 1)
            return
        for argument in call.args:
            for template in self._emit(argument, names, level):
                if any(" " in piece.strip() for piece in template.text.pieces):
                    yield template

    def _raised(self, call: ast.Call, names: Names) -> Iterator[Template]:
        exception = ast.unparse(call.func).rpartition(".")[2]
        arguments = [*call.args, *(item.value for item in call.keywords if item.arg is not None)]
        for argument in arguments[:2]:
            yield from self._emit(argument, names, Level.RAISE, exception)

    def _emit(
        self, node: ast.expr, names: Names, level: Level, exception: str = "", *, rest: int = 0
    ) -> Iterator[Template]:
        for text in readings(node, names):
            if not has_words(text):
                continue
            yield Template(
                module=self.module,
                line=node.lineno,
                level=level,
                text=percent_filled(text) if rest else text,
                exception=exception,
            )


def _calls(node: ast.stmt) -> Iterator[ast.Call]:
    """Yield the calls that a statement consists of or iterates over."""
    match node:
        case ast.Expr(value=ast.Await(value=ast.Call() as call)):
            yield call
        case (
            ast.Expr(value=ast.Call() as call)
            | ast.Return(value=ast.Call() as call)
            | ast.Assign(value=ast.Call() as call)
            | ast.For(iter=ast.Call() as call)
            | ast.AsyncFor(iter=ast.Call() as call)
        ):
            yield call
        case ast.With(items=items) | ast.AsyncWith(items=items):
            yield from (
                item.context_expr for item in items if isinstance(item.context_expr, ast.Call)
            )


def _level_of(call: ast.Call) -> Level | None:
    """Say at what level a call gives text out; None for other calls."""
    match call.func:
        case ast.Attribute(value=base, attr=name):
            level = _METHODS.get(_ONCE.sub("", name))
            if level is not None:
                return level if _LOGGERS.search(ast.unparse(base)) else None
            return _helper_level(name)
        case ast.Name(id="print"):
            return Level.PRINT
        case ast.Name(id=name):
            return _helper_level(name)
    return None


def _is_logger(function: ast.expr) -> bool:
    """Whether a function is a method of a logger, whose first argument is the text."""
    return isinstance(function, ast.Attribute) and _ONCE.sub("", function.attr) in _METHODS


def _helper_level(name: str) -> Level | None:
    """Say at what level a function gives text out, by the words of its name."""
    if not _HELPERS.search(name):
        return None
    if "warn" in name or "deprecat" in name:
        return Level.WARNING
    return Level.ERROR if "error" in name else Level.INFO


def _assigned(body: list[ast.stmt], outer: Names) -> Names:
    """Return what names are set to in a body, nested blocks included, over the outer names.

    `text += more` makes the grown text one more value of the name.
    """
    found: dict[str, list[ast.expr]] = {}
    for statement in _flat(body):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.setdefault(name, []).append(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found.setdefault(name, []).append(value)
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value):
                grown = found.setdefault(name, [])
                last = grown[-1] if grown else ast.Name(id="", ctx=ast.Load())
                grown.append(ast.BinOp(left=last, op=ast.Add(), right=value))
    return {**outer, **found}


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        if not isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
            for inner in _bodies(statement):
                yield from _flat(inner)


def _bodies(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of statements within a statement."""
    yield getattr(node, "body", None) or []
    for handler in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield handler.body
    for name in ("orelse", "finalbody"):
        yield getattr(node, name, None) or []
