"""What the shipped data says otherwise than a release's own source: the audit of flags.yaml."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.knowledge.arguments import DefaultKind, all_fields, default_of, has_field
from advisor.knowledge.constants import UNRESOLVED
from advisor.knowledge.extract import Field, Flag, Interface
from advisor.knowledge.flag_kinds import Status, Takes
from advisor.knowledge.flag_table import FlagFacts, flag_exists, flag_facts, flags_of
from advisor.knowledge.releases import find_release


def interface_drift(interface: Interface) -> tuple[str, ...]:
    """Return one line for each flag or field that the data does not know as the release has it.

    Of an unlisted release only what no known release has is drift; its removals and changes may
    lie between two known ones.
    """
    is_known = find_release(interface.version) is not None
    lines = [*_flag_drift(interface, is_known), *_field_drift(interface, is_known)]
    return tuple(lines)


def _flag_drift(interface: Interface, is_known: bool) -> Iterator[str]:  # noqa: FBT001
    version = interface.version
    found = {name: flag for flag in interface.flags for name in flag.names}
    for name, flag in found.items():
        facts = flag_facts(name, version)
        if flag_exists(name, version) is False or facts is None:
            yield f"{name}: the parser of {version} has it, the data does not"
        elif is_known:
            yield from (f"{name}: {text}" for text in _differences(flag, facts, interface))
    if is_known:
        for name in flags_of(version):
            if name not in found:
                yield f"{name}: the data has it for {version}, the parser does not"


def _differences(flag: Flag, facts: FlagFacts, interface: Interface) -> Iterator[str]:
    choices = None if flag.choices is UNRESOLVED else flag.choices
    expected = {
        "field": flag.field,
        "takes": flag.takes,
        "status": flag.status,
        "type": "str" if flag.takes is Takes.NOTHING else flag.type,
        "sets": True if flag.sets is None else flag.sets,
        "choices": sorted(map(str, choices)) if isinstance(choices, tuple) else None,
    }
    stated = {
        "field": facts.field,
        "takes": facts.takes,
        "status": facts.status,
        "type": facts.type,
        "sets": facts.sets,
        "choices": None if facts.choices is None else sorted(facts.choices),
    }
    for column, value in expected.items():
        if stated[column] != value:
            yield f"{column} is {value} in {interface.version}, {stated[column]} in the data"


def _field_drift(interface: Interface, is_known: bool) -> Iterator[str]:  # noqa: FBT001
    version = interface.version
    names = {field.name for field in interface.fields}
    for field in interface.fields:
        if field.name not in all_fields() or has_field(field.name, version) is False:
            yield f"{field.name}: ServerArgs of {version} has it, the data does not"
        elif is_known and (text := _default_drift(field, interface)):
            yield f"{field.name}: {text}"
    if is_known:
        for name in all_fields():
            if has_field(name, version) and name not in names:
                yield f"{name}: the data has it for {version}, ServerArgs does not"


def _default_drift(field: Field, interface: Interface) -> str | None:
    """Return how a default differs; a flag's own default goes before the field's."""
    values = [
        flag.default
        for flag in interface.flags
        if flag.field == field.name and flag.status is Status.ACTIVE
    ]
    value = values[-1] if values else field.default
    stated = default_of(field.name, interface.version)
    if stated.kind is not DefaultKind.FIXED or value is UNRESOLVED:
        return None
    frozen = tuple(value) if isinstance(value, list) else value
    if frozen == stated.value:
        return None
    return f"default is {frozen!r} in {interface.version}, {stated.value!r} in the data"
