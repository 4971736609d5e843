from __future__ import annotations

import ast
from pathlib import Path

import pytest

from advisor.knowledge.constants import UNRESOLVED, Constants, Scope
from advisor.knowledge.tree import open_tree

MAIN = """
from enum import Enum, StrEnum, auto
from sglang.srt.other import SHARED, Other as Renamed
from sglang.srt.stars import *
import os

LETTERS = ["a", "b"]
WORD: str = "x"
LOOP = POOL
POOL = LOOP
COMPUTED = os.environ["HOME"]

class Colour(StrEnum):
    RED = auto()
    DARK_BLUE = auto()

class Odd(Enum):
    ONE = 1
    BAD = compute()

class Plain:
    FIRST = "first"
    BOTH = (FIRST, "second")

def listed():
    return list(LETTERS)

def silent():
    print()

def empty():
    return
"""
OTHER = """
SHARED = ("s", "t")
class Other:
    NAME = SHARED
"""
STARS = """
from .stars import *
STARRED = {"k": 1, "l": 2}
"""


@pytest.fixture
def constants(tmp_path: Path) -> Constants:
    folder = tmp_path / "sglang" / "srt"
    folder.mkdir(parents=True)
    for name, text in {"main": MAIN, "other": OTHER, "stars": STARS}.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return Constants(open_tree(tmp_path))


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1", 1),
        ("-1.5", -1.5),
        ("64 * 1024", 65536),
        ("'a' + WORD", "ax"),
        ("LETTERS + ['c']", ["a", "b", "c"]),
        ("[*LETTERS, None]", ["a", "b", None]),
        ("{'k': 1}", ["k"]),
        ("SHARED", ["s", "t"]),
        ("Renamed.NAME", ["s", "t"]),
        ("STARRED", ["k", "l"]),
        ("STARRED.keys()", ["k", "l"]),
        ("Plain.BOTH", ["first", "second"]),
        ("Plain.FIRST.value", "first"),
        ("Colour", ["red", "dark_blue"]),
        ("[c.name for c in Colour]", ["RED", "DARK_BLUE"]),
        ("[c.name.lower() for c in list(Colour)]", ["red", "dark_blue"]),
        ("sorted(listed())", ["a", "b"]),
        ("get_args(Literal['x', 'y'])", ["x", "y"]),
        ("Literal['x']", ["x"]),
    ],
)
def test_what_can_be_told_without_running(
    constants: Constants, expression: str, value: object
) -> None:
    node = ast.parse(expression, mode="eval").body
    assert constants.value(node, Scope(module="srt/main.py")) == value


@pytest.mark.parametrize(
    "expression",
    [
        "missing",
        "LOOP",
        "COMPUTED",
        "f'{WORD}'",
        "-WORD",
        "+1",
        "LETTERS * 2",
        "2 / 1",
        "LETTERS + WORD",
        "[missing]",
        "[*WORD]",
        "{**LETTERS}",
        "Odd",
        "Plain",
        "Plain.LAST",
        "Missing.NAME",
        "a.b.c",
        "list(WORD)",
        "silent()",
        "empty()",
        "absent()",
        "absent(1)",
        "[c.other for c in Colour]",
        "[c.name for c in absent()]",
        "[c.name for c in 'abc']",
        "Optional[int]",
        "lambda: 1",
    ],
)
def test_what_only_running_would_tell(constants: Constants, expression: str) -> None:
    node = ast.parse(expression, mode="eval").body
    assert constants.value(node, Scope(module="srt/main.py")) is UNRESOLVED
