from __future__ import annotations

import pytest

from advisor.knowledge.releases import (
    default_triton,
    find_release,
    known_releases,
    known_versions,
    neighbours,
    parse_version,
    pinned,
)


def test_releases_come_oldest_first_with_posts_in_place() -> None:
    names = [release.version for release in known_releases()]
    assert names[0] == "0.4.6.post5"
    assert names[-1] == "0.5.23"
    assert len(names) == 11
    assert list(known_versions()) == sorted(known_versions())


def test_pins_of_one_release() -> None:
    release = find_release("0.5.12")
    assert release is not None
    assert (release.torch, release.triton, release.flashinfer) == (
        "2.11.0",
        "3.6.0",
        "0.6.11.post1",
    )
    assert (release.kernel_package, release.kernel) == ("sglang-kernel", "0.4.2.post2")


@pytest.mark.parametrize("text", ["0.5.12.post1", "v0.5.12", "0.5.12+cu130"])
def test_a_post_release_or_local_build_is_its_release(text: str) -> None:
    release = find_release(text)
    assert release is not None
    assert release.version == "0.5.12"


@pytest.mark.parametrize("text", ["0.5.11", "0.5.12rc1", "0.4.6", "0.4.6.post4"])
def test_an_unlisted_release_is_not_known(text: str) -> None:
    assert find_release(text) is None


@pytest.mark.parametrize(
    ("version", "triton"),
    [
        ("0.4.6.post5", "3.2.0"),
        ("0.5.12.post1", "3.6.0"),
        ("0.5.13", "3.6.0"),
        ("0.5.4", None),
        ("0.5.24", None),
        ("0.4.0", None),
        ("nightly", None),
    ],
)
def test_default_triton_is_given_where_both_neighbours_agree(
    version: str, triton: str | None
) -> None:
    assert default_triton(version) == triton


def test_other_pins() -> None:
    assert pinned("0.5.11", "torch") is None
    assert pinned("0.5.19", "transformers") == "5.12.1"


def test_neighbours_end_at_the_known_releases() -> None:
    before, after = neighbours("0.5.11")
    assert before is not None
    assert after is not None
    assert (before.version, after.version) == ("0.5.10", "0.5.12")
    assert neighbours("0.6")[1] is None
    assert neighbours("0.4")[0] is None


def test_what_is_no_version() -> None:
    assert parse_version("main") is None
    assert parse_version("") is None
