"""Facts by path: the vocabulary that rules and wording use.

A path is a field of `RunFacts` and of the records below it (`capacity.max_running_requests`), or
`args.NAME` for a server argument, nested ones with further dots.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime

from packaging.version import Version

from advisor.facts.literals import Value
from advisor.facts.model import RunFacts
from advisor.knowledge.ranges import VersionRange

FactValue = Value | VersionRange | datetime
_ARGUMENTS = ("args", "requested_args")
_HIDDEN = frozenset({"signals", "evidence", "changed_args", "args", "requested_args"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FactKind:
    """One path of the vocabulary and the type of its values."""

    path: str
    type_name: str


class FactSheet:
    """Looks facts of one run up by path."""

    def __init__(self, run: RunFacts) -> None:
        self.run = run

    def get(self, path: str) -> FactValue:
        """Return the value at a path; None where the inputs do not say."""
        head, _, rest = path.partition(".")
        if head in _ARGUMENTS:
            return self._argument(head, rest)
        value: object = self.run
        for name in path.split("."):
            value = getattr(value, name, None)
        return typing.cast("FactValue", value)

    def has_arguments(self) -> bool:
        """Whether the arguments are known, so that a missing one means its default."""
        return self.run.args is not None

    def _argument(self, head: str, name: str) -> FactValue:
        value: object = self.run.args if head == "args" else self.run.requested_args
        for part in name.split("."):
            if not isinstance(value, Mapping):
                return None
            value = value.get(part)
        return typing.cast("FactValue", value)


@functools.cache
def catalogue() -> Mapping[str, FactKind]:
    """Return every path but the open-ended `args.*`, with the type of its values."""
    return {kind.path: kind for kind in _kinds(RunFacts, "")}


def known_path(path: str) -> bool:
    """Whether a path belongs to the vocabulary."""
    head, dot, rest = path.partition(".")
    if head in _ARGUMENTS:
        return bool(dot and rest)
    return path in catalogue()


def _kinds(record: type, prefix: str) -> list[FactKind]:
    hints = typing.get_type_hints(record)
    kinds: list[FactKind] = []
    for item in fields(record):
        if not prefix and item.name in _HIDDEN:
            continue
        kind = _plain(hints[item.name])
        path = f"{prefix}{item.name}"
        if isinstance(kind, type) and is_dataclass(kind) and kind is not VersionRange:
            kinds.extend(_kinds(kind, f"{path}."))
        else:
            kinds.append(FactKind(path=path, type_name=_type_name(kind)))
    return kinds


def _plain(hint: object) -> object:
    """Take `| None` off a type."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        rest = [part for part in typing.get_args(hint) if part is not type(None)]
        return rest[0] if len(rest) == 1 else hint
    return hint


def _type_name(kind: object) -> str:
    if kind is VersionRange or kind is Version:
        return "version"
    if typing.get_origin(kind) is tuple:
        return "list"
    return getattr(kind, "__name__", str(kind))
