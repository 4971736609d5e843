"""Literals and patterns are found in texts with holes, and not where they are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.audit.emissions import Level, Template
from advisor.audit.matching import Corpus, fits, samples, spans
from advisor.audit.texts import Text
from advisor.facts.patterns import Pattern


def template(*pieces: str, level: Level = Level.WARNING, holes: tuple[str, ...] = ()) -> Template:
    text = Text(pieces=pieces, holes=holes or ("",) * (len(pieces) - 1))
    exception = "ValueError" if level is Level.RAISE else ""
    return Template(module="m", line=1, level=level, text=text, exception=exception)


def pattern(expression: str, *literals: str) -> Pattern:
    return Pattern(key="k", literals=literals or ("x",), expression=expression)


def test_a_literal_must_lie_within_one_piece() -> None:
    one, two = template("Widget ", " is off"), template("Gadget is off")
    corpus = Corpus([one, two])
    assert corpus.holding("is off") == (one, two)
    assert corpus.holding("Widget is off") == ()
    assert corpus.holding("Gadget is off") == (two,)
    assert corpus.holding("offGadget") == ()


@pytest.mark.parametrize(
    ("pieces", "literal", "expected"),
    [
        (("Capture ", " graph begin."), "Capture cuda graph begin", True),
        (("Capture ", " graph begin."), "cuda graph begin.", True),
        (("Capture ", "."), "Capture cuda graph begin.", False),
        (("", " is not initialized"), "MOE_BACKEND is not initialized", True),
        (("", ""), "anything at all", False),
        (("one ", " two ", " three"), "one 1 two 2 three", True),
        (("one ", " two ", " three"), "one 1 three 2 two", False),
    ],
)
def test_literals_may_span_holes_if_most_of_them_is_fixed_text(
    pieces: tuple[str, ...], literal: str, expected: bool
) -> None:
    text = Text(pieces=pieces, holes=("",) * (len(pieces) - 1))
    assert spans(text, literal) is expected
    found = Corpus([template(*pieces)]).spanned(literal)
    assert bool(found) is expected


@pytest.mark.parametrize(
    ("pieces", "holes", "expression", "expected"),
    [
        (("size ", " of ", "."), ("d", ".2f"), r"size (\d+) of (\d+\.\d\d)\.", True),
        (("size ", "."), ("d",), r"size ([a-z]+)\.", False),
        (("backend ", "."), ("",), r"backend (?P<name>[a-z]\w+)\.", True),
        (("sizes ", "."), ("",), r"sizes \[[\d, ]*\]\.", True),
        (("first line ", "\nsecond line"), ("",), r"^second line$", True),
    ],
)
def test_a_pattern_fits_where_likely_fillings_do(
    pieces: tuple[str, ...], holes: tuple[str, ...], expression: str, expected: bool
) -> None:
    assert fits(pattern(expression), template(*pieces, holes=holes)) is expected


def test_a_raised_text_comes_bare_and_with_its_exception() -> None:
    assert list(samples(template("too large", level=Level.RAISE)))[:2] == [
        "too large",
        "ValueError: too large",
    ]


@given(
    st.lists(st.text(alphabet="ab {", max_size=6), min_size=1, max_size=5),
    st.text(alphabet="ab {", min_size=1, max_size=12),
)
def test_any_literal_can_be_looked_for_in_any_text(pieces: list[str], literal: str) -> None:
    found = Corpus([template(*pieces)]).holding(literal)
    assert bool(found) is any(literal in piece for piece in pieces)
    text = Text(pieces=tuple(pieces), holes=("",) * (len(pieces) - 1))
    if spans(text, literal):
        assert any(character in "".join(pieces) for character in literal)
