"""Command line flags and ServerArgs fields of an SGLang release, read from its source.

Up to 0.5.12 `ServerArgs.add_cli_args` registers every flag by hand. From 0.5.14 fields carry
`A[type, Arg(...)]` and only special flags are registered by hand; from 0.5.20 the fields stand in
`arg_groups/fields/`, one class a namespace, gathered by `_INPUT_NAMESPACES` of server_args.py.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.errors import InputError
from advisor.knowledge.adjustments import adjusted_fields
from advisor.knowledge.constants import UNRESOLVED, Constants, Scope
from advisor.knowledge.declarations import (
    RECORD,
    SERVER_ARGS,
    Declaration,
    Declared,
    annotated_flag,
    declared_fields,
    default_of,
    method,
    registered_flags,
    renamed_destinations,
)
from advisor.knowledge.flag_kinds import Status, Takes
from advisor.knowledge.tree import SourceTree, open_tree

_DEPRECATED_HELP = re.compile(r"[\[(]?deprecated\b|--\S+ is deprecated\b", re.IGNORECASE)
_VALUELESS = ("store_true", "store_false", "BooleanOptionalAction")
_VALUELESS_DEPRECATED = ("DeprecatedAction", "DeprecatedStoreTrueAction", "StoreConstAction")
_STORES_TRUE = ("store_true", "BooleanOptionalAction", "DeprecatedStoreTrueAction")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """A command line flag of one release.

    Attributes:
        names: All spellings, the first registered first.
        field: The ServerArgs field that it sets; None for one that sets none, such as --config.
        sets: The constant that a flag without a value stores; None for one with a value.
        type: "int", "float", "str", or another parser by its name in SGLang ("json.loads").
        default: A constant or list of constants; UNRESOLVED if required or computed.
        choices: A tuple; None where any value goes; UNRESOLVED where the source computes them.
        status: REFUSED ends the start, IGNORED warns and does nothing, DEPRECATED still acts.
        replacement: The new spelling that SGLang names.
    """

    names: tuple[str, ...]
    field: str | None
    sets: object
    takes: Takes
    type: str
    default: object
    choices: object
    status: Status
    replacement: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of ServerArgs.

    Attributes:
        default: UNRESOLVED where it has none or it is computed.
        adjusted: Whether SGLang may change the value by itself after parsing.
    """

    name: str
    default: object
    required: bool
    adjusted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """What one release accepts."""

    version: str
    flags: tuple[Flag, ...]
    fields: tuple[Field, ...]


def extract(path: Path) -> Interface:
    """Read the flags and fields of the SGLang in a wheel or folder.

    Raises:
        InputError: If there is no SGLang, no version or no ServerArgs in it.
    """
    tree = open_tree(path)
    version = tree.version()
    if version is None:
        raise InputError(f"{path}: states no version of SGLang")
    return read_interface(tree, version)


def read_interface(tree: SourceTree, version: str) -> Interface:
    """Read the flags and fields of an opened tree.

    Raises:
        InputError: If it has no ServerArgs with an `add_cli_args`.
    """
    constants = Constants(tree)
    found = constants.find_class(RECORD, Scope(module=SERVER_ARGS))
    register = method(found[0], "add_cli_args") if found else None
    if found is None or register is None:
        raise InputError(f"{tree.origin}: {SERVER_ARGS} has no {RECORD}.add_cli_args")
    fields = declared_fields(constants, found[0])
    reader = _Reader(
        constants=constants,
        fields={item.name: item for item in fields},
        renamed=renamed_destinations(found[0]),
        deprecated_raises=_deprecated_raises(constants),
    )
    adjusted = adjusted_fields(tree, found[0], fields)
    annotated = [flag for item in fields if (flag := annotated_flag(item, constants))]
    return Interface(
        version=version,
        flags=reader.flags([*annotated, *registered_flags(register, constants)]),
        fields=tuple(
            Field(
                name=item.name,
                default=reader.field_default(item),
                required=item.default is None,
                adjusted=item.name in adjusted,
            )
            for item in fields
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """Turns the declarations of one release into flags.

    Attributes:
        renamed: argparse destination -> field, where `from_cli_args` renames it.
        deprecated_raises: Whether `DeprecatedAction` refuses the start by itself (up to 0.5.6).
    """

    constants: Constants
    fields: Mapping[str, Declared]
    renamed: Mapping[str, str]
    deprecated_raises: bool

    def flags(self, declarations: Iterable[Declaration]) -> tuple[Flag, ...]:
        """Return a flag for each declaration, two for one with a `--no-` form."""
        flags: list[Flag] = []
        for item in declarations:
            flag = self._flag(item)
            flags.append(flag)
            if "BooleanOptionalAction" in ast.unparse(item.keywords.get("action", ast.Name(""))):
                negative = tuple(name.replace("--", "--no-", 1) for name in flag.names)
                flags.append(replace(flag, names=negative, sets=False))
        return tuple(flags)

    def field_default(self, item: Declared) -> object:
        return default_of(item, self.constants)

    def _flag(self, item: Declaration) -> Flag:
        field = self.renamed.get(item.dest, item.dest)
        action = ast.unparse(item.keywords.get("action", ast.Name("store"))).strip("'")
        parser = item.keywords.get("type_parser") or item.keywords.get("type")
        return Flag(
            names=item.names,
            field=field if field in self.fields else None,
            sets=True if action.endswith(_STORES_TRUE) else self._constant(item, "const_value"),
            takes=self._takes(item, action),
            type=ast.unparse(parser) if parser is not None else "str",
            default=self._default(item, action),
            choices=self._choices(item),
            status=self._status(item, action),
            replacement=self._replacement(item),
        )

    def _takes(self, item: Declaration, action: str) -> Takes:
        if "nargs" in ast.unparse(item.keywords.get("action_kwargs", ast.Constant(None))):
            return Takes.MANY
        nargs = self._constant(item, "nargs")
        if nargs is not None:
            return Takes.OPTIONAL if nargs == "?" else Takes.MANY
        if "nargs" not in item.keywords and action.endswith((*_VALUELESS, *_VALUELESS_DEPRECATED)):
            return Takes.NOTHING
        return Takes.ONE

    def _default(self, item: Declaration, action: str) -> object:
        """Return what the field holds when the flag is not given."""
        if item.field is not None:
            return self._declared_default(item.field)
        match item.keywords.get("default"):
            case None:
                return False if action == "store_true" else None
            case ast.Attribute(value=ast.Name(id="ServerArgs"), attr=name):
                return self._declared_default(name)
            case ast.Call(func=ast.Name(id="_declared_default"), args=[ast.Constant(value=name)]):
                return self._declared_default(str(name))
            case given:
                return self.constants.value(given, item.scope)

    def _declared_default(self, name: str) -> object:
        return self.field_default(self.fields[name]) if name in self.fields else UNRESOLVED

    def _choices(self, item: Declaration) -> object:
        if "choices" not in item.keywords:
            return None
        value = self._constant(item, "choices")
        return tuple(value) if isinstance(value, list) else value

    def _status(self, item: Declaration, action: str) -> Status:
        if action.endswith("DeprecatedAction"):
            refuses = self.deprecated_raises or "error_message" in item.keywords
            return Status.REFUSED if refuses else Status.IGNORED
        help_text = self._constant(item, "help")
        announced = isinstance(help_text, str) and _DEPRECATED_HELP.match(help_text)
        return Status.DEPRECATED if "Deprecated" in action or announced else Status.ACTIVE

    def _replacement(self, item: Declaration) -> str | None:
        named = self._constant(item, "new_flag")
        return named if isinstance(named, str) else None

    def _constant(self, item: Declaration, keyword: str) -> object:
        node = item.keywords.get(keyword)
        return None if node is None else self.constants.value(node, item.scope)


def _deprecated_raises(constants: Constants) -> bool:
    """Say whether the `DeprecatedAction` of this release raises instead of warning."""
    found = constants.find_class("DeprecatedAction", Scope(module=SERVER_ARGS))
    call = method(found[0], "__call__") if found else None
    return call is not None and isinstance(call.body[-1], ast.Raise)
