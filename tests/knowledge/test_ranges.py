from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import InputError
from advisor.knowledge.ranges import Membership, VersionRange, membership
from advisor.knowledge.releases import known_releases

VERSIONS = [release.version for release in known_releases()] + [
    "0.5.7",
    "0.5.12.post1",
    "0.5.14rc1",
]


@st.composite
def ranges(draw: st.DrawFn) -> VersionRange:
    first = draw(st.none() | st.sampled_from(VERSIONS))
    last = draw(st.none() | st.sampled_from(VERSIONS))
    try:
        return VersionRange.between(first, last)
    except InputError:
        return VersionRange.between(last, first)


@given(ranges())
def test_description_reads_back(version_range: VersionRange) -> None:
    assert VersionRange.parse(version_range.describe()) == version_range


@given(ranges(), ranges())
def test_intersection_commutes(one: VersionRange, other: VersionRange) -> None:
    assert one.intersect(other) == other.intersect(one)


@given(ranges(), ranges(), st.sampled_from(VERSIONS))
def test_intersection_holds_what_both_hold(
    one: VersionRange, other: VersionRange, version: str
) -> None:
    both = one.intersect(other)
    in_both = (one.contains(version), other.contains(version)) == (Membership.IN, Membership.IN)
    if in_both:
        assert both is not None
        assert both.contains(version) is Membership.IN
    elif both is not None:
        assert both.contains(version) is not Membership.IN


@given(ranges())
def test_intersection_with_itself_changes_nothing(version_range: VersionRange) -> None:
    assert version_range.intersect(version_range) == version_range


@pytest.mark.parametrize(
    ("text", "described"),
    [
        ("0.5.9 – 0.5.10", "0.5.9 – 0.5.10"),
        ("0.5.9-0.5.10", None),
        ("0.5.9–0.5.10", "0.5.9 – 0.5.10"),
        ("0.5.9 - 0.5.10", "0.5.9 – 0.5.10"),
        ("0.5.9..0.5.10", "0.5.9 – 0.5.10"),
        (">=0.5.9", "from 0.5.9"),
        ("0.5.9+", "from 0.5.9"),
        ("<=0.5.12", "up to 0.5.12"),
        ("0.5.9", "0.5.9"),
        ("all releases", "all releases"),
        ("0.5.10 – 0.5.9", None),
        ("new ones", None),
        ("", None),
    ],
)
def test_spellings(text: str, described: str | None) -> None:
    if described is None:
        with pytest.raises(InputError):
            VersionRange.parse(text)
    else:
        assert VersionRange.parse(text).describe() == described


@pytest.mark.parametrize(
    ("version", "answer"),
    [
        ("0.5.6", Membership.OUT),
        ("0.5.7", Membership.UNKNOWN),
        ("0.5.9rc1", Membership.UNKNOWN),
        ("0.5.9", Membership.IN),
        ("0.5.11", Membership.IN),
        ("0.5.12.post1", Membership.IN),
        ("0.5.12+cu130", Membership.IN),
        ("0.5.13", Membership.UNKNOWN),
        ("0.5.14", Membership.OUT),
        ("0.4.0", Membership.OUT),
        ("nightly", Membership.UNKNOWN),
    ],
)
def test_borders_may_lie_between_known_releases(version: str, answer: Membership) -> None:
    assert VersionRange.between("0.5.9", "0.5.12").contains(version) is answer


def test_beyond_the_known_releases_only_an_open_end_makes_a_claim() -> None:
    assert VersionRange.between("0.5.14", "0.5.23").contains("0.5.99") is Membership.UNKNOWN
    assert VersionRange.between("0.5.14", None).contains("0.5.99") is Membership.IN
    assert VersionRange.between("0.4.6.post5", "0.5.3").contains("0.3") is Membership.UNKNOWN
    assert VersionRange.between(None, "0.5.3").contains("0.3") is Membership.IN


def test_several_ranges() -> None:
    both = [VersionRange.between("0.5.9", "0.5.9"), VersionRange.between("0.5.12", "0.5.23")]
    assert membership(both, "0.5.10") is Membership.OUT
    assert membership(both, "0.5.11") is Membership.UNKNOWN
    assert membership(both, "0.5.16") is Membership.IN
    assert membership([], "0.5.16") is Membership.OUT


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    complaint = ""
    try:
        VersionRange.parse(text)
    except InputError as error:
        complaint = str(error)
    assert "\n" not in complaint
