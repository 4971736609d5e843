from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.sources.shell import split_shell

PLAIN = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=8)


def words(text: str, **variables: str) -> list[list[str]]:
    commands = split_shell(text, source="a.sh", variables=variables)
    return [[word.text for word in command.words] for command in commands]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b c", [["a", "b", "c"]]),
        ("a 'b c' \"d e\" f\\ g", [["a", "b c", "d e", "f g"]]),
        ("a; b && c || d | e &", [["a"], ["b"], ["c"], ["d"], ["e"]]),
        ("a \\\n  b\nc", [["a", "b"], ["c"]]),
        ("a > out.log 2>&1\nb < in", [["a"], ["b"]]),
        ("a # comment\nb#c", [["a"], ["b#c"]]),
        ("X=1 a $X", [["a", "1"]]),
        ("X=1\na $X ${X} ${Y:-2} \"$X-$X\" '$X'", [["a", "1", "1", "2", "1-1", "$X"]]),
        ('A=(b "c d")\nA+=(e)\na "${A[@]}" f', [["a", "b", "c d", "e", "f"]]),
        ('O="b c"\na $O "$O"', [["a", "b", "c", "b c"]]),
        ("a $(date -u) `id` ${NONE}", [["a", "$(date -u)", "`id`", "${NONE}"]]),
        ("( a; b )", [["a"], ["b"]]),
        ('a "b \\" c" --x=\'{"k": 1}\'', [["a", 'b " c', '--x={"k": 1}']]),
        ("", []),
    ],
)
def test_words_of_commands(text: str, expected: list[list[str]]) -> None:
    assert words(text) == expected


def test_variables_from_around_the_script() -> None:
    assert words("a $TP $(TP)", TP="8") == [["a", "8", "8"]]


def test_what_only_the_shell_knows_is_marked() -> None:
    (command,) = split_shell('a $X "$(date)" b "${Y:-1}"', source="a.sh")
    assert [word.resolved for word in command.words] == [True, False, False, True, True]


def test_lines_of_words() -> None:
    (command,) = split_shell('a \\\n  b "c\nd" \\\n  e', source="a.sh", line=10)
    assert [word.line for word in command.words] == [10, 11, 11, 13]


def test_exported_variables_belong_to_later_commands() -> None:
    _, command = split_shell("export A=1 B=2\nC=3 run", source="a.sh")
    assert {name: word.text for name, word in command.variables} == {"A": "1", "B": "2", "C": "3"}


@given(st.lists(PLAIN, min_size=1, max_size=6))
def test_quoted_words_come_back(texts: list[str]) -> None:
    assert words(shlex.join(texts)) == [texts]


@given(st.text(max_size=200))
def test_no_text_crashes_the_splitter(text: str) -> None:
    lines = text.count("\n") + 1
    for command in split_shell(text, source="a.sh"):
        assert all(1 <= word.line <= lines for word in command.words)
