"""How SGLang declares its server arguments: fields of ServerArgs and calls of `add_argument`.

Both become a `Declaration` with the keywords of `add_argument`, still as syntax.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from advisor.knowledge.constants import UNRESOLVED, Constants, Scope
from advisor.knowledge.modules import bindings

SERVER_ARGS = "srt/server_args.py"
RECORD = "ServerArgs"
_NAMESPACES = "_INPUT_NAMESPACES"
_SCALARS = frozenset({"int", "float", "str"})
_LISTS = frozenset({"list", "List"})

Keywords = Mapping[str, ast.expr]


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A field of ServerArgs as it stands in the source."""

    name: str
    annotation: ast.expr
    default: ast.expr | None
    scope: Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One flag as it is registered, by an annotation or by hand.

    Attributes:
        names: Its spellings.
        dest: Where argparse puts the value.
        keywords: Keywords of `add_argument`.
        scope: Where the keywords' names are to be looked up.
        field: The annotated field that makes it; None if it was registered by hand.
    """

    names: tuple[str, ...]
    dest: str
    keywords: Keywords
    scope: Scope
    field: str | None = None


def declared_fields(constants: Constants, record: ast.ClassDef) -> tuple[Declared, ...]:
    """Return the fields of ServerArgs and of the namespace classes it is gathered from.

    A field that is declared twice (`dcp_size` in 0.5.16) is as its last declaration says.
    """
    home = Scope(module=SERVER_ARGS)
    classes = [(record, home)]
    gathered = constants.module(SERVER_ARGS).values.get(_NAMESPACES)
    if isinstance(gathered, ast.List | ast.Tuple):
        names = [node.id for node in gathered.elts if isinstance(node, ast.Name)]
        classes += [found for name in names if (found := constants.find_class(name, home))]
    fields = (field for node, scope in classes for field in _fields(node, scope))
    return tuple({field.name: field for field in fields}.values())


def default_of(item: Declared, constants: Constants) -> object:
    """Return a field's default, also behind `field(default_factory=...)`."""
    match item.default:
        case None:
            return UNRESOLVED
        case ast.Call(keywords=[ast.keyword(arg="default_factory", value=ast.Lambda(body=body))]):
            return constants.value(body, item.scope)
        case ast.Call(keywords=[ast.keyword(arg="default_factory", value=ast.Name(id="list"))]):
            return []
    return constants.value(item.default, item.scope)


def annotated_flag(item: Declared, constants: Constants) -> Declaration | None:
    """Return the flag that an annotation `A[type, Arg(...)]` or `A[type, "help"]` makes."""
    match item.annotation:
        case ast.Subscript(value=ast.Name(id="A"), slice=ast.Tuple(elts=[kind, *marks])):
            options = _options(marks)
        case _:
            return None
    if options is None or _is_true(options.get("no_cli")):
        return None
    primary = constants.value(options.get("cli_name", ast.Constant(None)), item.scope)
    aliases = constants.value(options.get("aliases", ast.Constant(None)), item.scope)
    name = primary if isinstance(primary, str) else "--" + item.name.replace("_", "-")
    return Declaration(
        names=(name, *(map(str, aliases) if isinstance(aliases, list) else ())),
        dest=item.name,
        keywords=_keywords(kind, options),
        scope=item.scope,
        field=item.name,
    )


def registered_flags(register: ast.FunctionDef, constants: Constants) -> Iterator[Declaration]:
    """Yield the flags that `add_cli_args` registers by hand, in order."""
    scope = Scope(module=SERVER_ARGS, local=bindings(register.body))
    for statement in register.body:
        match statement:
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="add_argument")) as call):
                names = tuple(str(constants.value(arg, scope)) for arg in call.args)
                keywords = {word.arg: word.value for word in call.keywords if word.arg}
                dest = constants.value(keywords.get("dest", ast.Constant(None)), scope)
                yield Declaration(
                    names=names,
                    dest=dest if isinstance(dest, str) else _argparse_dest(names),
                    keywords=keywords,
                    scope=scope,
                )


def renamed_destinations(record: ast.ClassDef) -> Mapping[str, str]:
    """Return argparse destination -> field, from `args.tp_size = args.tensor_parallel_size`."""
    renamed: dict[str, str] = {}
    for node in ast.walk(record):
        match node:
            case ast.Assign(
                targets=[ast.Attribute(value=ast.Name(id="args"), attr=field)],
                value=ast.Attribute(value=ast.Name(id="args"), attr=dest),
            ):
                renamed[dest] = field
    return renamed


def method(record: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    """Return a method of a class by its name."""
    methods = (node for node in record.body if isinstance(node, ast.FunctionDef))
    return next((node for node in methods if node.name == name), None)


def _fields(node: ast.ClassDef, scope: Scope) -> Iterator[Declared]:
    for statement in node.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                if "ClassVar" not in ast.unparse(annotation):
                    yield Declared(name=name, annotation=annotation, default=value, scope=scope)


def _options(marks: list[ast.expr]) -> dict[str, ast.expr] | None:
    """Return the keywords of `Arg(...)`, or a bare help text as its only keyword."""
    for mark in marks:
        match mark:
            case ast.Call(func=ast.Name(id="Arg")):
                return {word.arg: word.value for word in mark.keywords if word.arg}
            case ast.Constant() | ast.JoinedStr() | ast.BinOp():
                return {"help": mark}
    return None


def _keywords(kind: ast.expr, options: Keywords) -> Keywords:
    """Add what the field's type implies, as `add_cli_args_from_dataclass` of SGLang does."""
    if "action" in options:
        return options
    parser = options.get("type_parser")
    match _without_none(kind):
        case ast.Subscript(value=value, slice=inner) as literal:
            name = ast.unparse(value).rpartition(".")[2]
            if name == "Literal":
                return {"choices": literal, "type": _literal_parser(inner), **options}
            if name in _LISTS and parser is None:
                return {"nargs": ast.Constant("+"), "type": _scalar(inner), **options}
        case ast.Name(id="bool"):
            return {"action": ast.Constant("store_true"), **options}
        case scalar:
            return {"type": parser or _scalar(scalar), **options}
    return {"type": parser or ast.Name("str"), **options}


def _without_none(kind: ast.expr) -> ast.expr:
    """Return X of `Optional[X]`, `Union[X, None]` and `X | None`."""
    match kind:
        case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
            return inner
        case ast.Subscript(
            value=ast.Name(id="Union"), slice=ast.Tuple(elts=[inner, ast.Constant(value=None)])
        ):
            return inner
        case ast.BinOp(op=ast.BitOr(), left=inner, right=ast.Constant(value=None)):
            return inner
    return kind


def _scalar(kind: ast.expr) -> ast.expr:
    return kind if ast.unparse(kind) in _SCALARS else ast.Name("str")


def _literal_parser(inner: ast.expr) -> ast.expr:
    first = inner.elts[0] if isinstance(inner, ast.Tuple) else inner
    is_number = isinstance(first, ast.Constant) and isinstance(first.value, int)
    return ast.Name("int" if is_number else "str")


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _argparse_dest(names: tuple[str, ...]) -> str:
    """Return the destination that argparse derives: from the first long name."""
    long_names = [name for name in names if name.startswith("--")]
    return (long_names or [*names, ""])[0].lstrip("-").replace("-", "_")
