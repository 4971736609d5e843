from __future__ import annotations

import pytest

from advisor.capacity import known_releases, releases_for
from advisor.capacity.releases import RequestedBound, StateSizing, row, rules_of


@pytest.mark.parametrize(
    ("version", "releases"),
    [
        ("0.5.12", ("0.5.12",)),
        ("0.5.12.post1", ("0.5.12",)),
        ("0.5.13", ("0.5.12", "0.5.14")),
        ("0.5.12rc1", ("0.5.10", "0.5.12")),
        ("0.5.24", ("0.5.23",)),
        ("0.4.9", ()),
        ("unknown", known_releases()),
    ],
)
def test_releases_of_a_version(version: str, releases: tuple[str, ...]) -> None:
    assert releases_for(version, None) == releases


def test_a_range_takes_the_neighbours_of_its_ends() -> None:
    assert releases_for(None, ("0.5.11", "0.5.15")) == (
        "0.5.10",
        "0.5.12",
        "0.5.14",
        "0.5.16",
    )


def test_no_version_is_every_known_release() -> None:
    assert releases_for(None, None) == known_releases()


@pytest.mark.parametrize("release", known_releases())
@pytest.mark.parametrize(
    "table", ["chunked_prefill_size", "decode_graph_max_batch", "static_fraction"]
)
def test_no_table_has_a_hole(release: str, table: str) -> None:
    assert row(table, release)["source"]
    assert isinstance(rules_of(release).requested_bound, RequestedBound)
    assert isinstance(rules_of(release).sizing, StateSizing)
