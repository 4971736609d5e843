from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from advisor.knowledge.constants import UNRESOLVED
from advisor.knowledge.drift import interface_drift
from advisor.knowledge.extract import Field, Flag, Interface, extract
from advisor.knowledge.flag_kinds import Status, Takes

FIXTURES = Path(__file__).parent.parent / "fixtures" / "knowledge"
PORT = Flag(
    names=("--port",),
    field="port",
    sets=None,
    takes=Takes.ONE,
    type="int",
    default=30000,
    choices=None,
    status=Status.ACTIVE,
    replacement=None,
)
PORT_FIELD = Field(name="port", default=30000, required=False, adjusted=False)


def drift_of(version: str, *, flag: Flag = PORT, field: Field = PORT_FIELD) -> list[str]:
    """Return the drift that speaks of the port or of anything new."""
    lines = interface_drift(Interface(version=version, flags=(flag,), fields=(field,)))
    return [line for line in lines if "the data has it" not in line]


def test_a_flag_as_the_data_has_it_is_no_drift() -> None:
    assert drift_of("0.5.9") == []


def test_a_release_that_lost_its_flags_is_drift() -> None:
    lines = interface_drift(Interface(version="0.5.9", flags=(PORT,), fields=(PORT_FIELD,)))
    assert "--tp-size: the data has it for 0.5.9, the parser does not" in lines
    assert "tp_size: the data has it for 0.5.9, ServerArgs does not" in lines


def test_changes_of_a_known_release_are_drift() -> None:
    assert drift_of("0.5.9", flag=replace(PORT, type="str")) == [
        "--port: type is str in 0.5.9, int in the data"
    ]
    assert drift_of("0.5.9", flag=replace(PORT, status=Status.REFUSED)) == [
        "--port: status is refused in 0.5.9, active in the data"
    ]
    assert drift_of("0.5.9", flag=replace(PORT, choices=(1, 2))) == [
        "--port: choices is ['1', '2'] in 0.5.9, None in the data"
    ]
    assert drift_of("0.5.9", flag=replace(PORT, default=8000)) == [
        "port: default is 8000 in 0.5.9, 30000 in the data"
    ]


def test_what_only_running_would_tell_is_no_drift() -> None:
    assert drift_of("0.5.9", flag=replace(PORT, default=UNRESOLVED)) == []
    assert drift_of("0.5.9", flag=replace(PORT, choices=UNRESOLVED)) == []


def test_of_an_unlisted_release_only_what_is_new_is_drift() -> None:
    new_flag, new_field = replace(PORT, names=("--harbour",)), replace(PORT_FIELD, name="harbour")
    assert drift_of("0.5.99", flag=replace(PORT, default=8000)) == []
    lines = interface_drift(Interface(version="0.5.99", flags=(new_flag,), fields=(new_field,)))
    assert lines == (
        "--harbour: the parser of 0.5.99 has it, the data does not",
        "harbour: ServerArgs of 0.5.99 has it, the data does not",
    )


def test_a_whole_tree_can_be_audited() -> None:
    lines = interface_drift(extract(FIXTURES / "by_hand"))
    assert "--threads: the parser of 0.5.9 has it, the data does not" in lines
