"""The rules hold against SGLang itself; skipped, with the reason, where no wheel can be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.audit import pages
from advisor.audit.claims import claims
from advisor.audit.coverage import Audit, audit
from advisor.audit.source import read_source
from advisor.errors import InputError
from advisor.knowledge.wheels import wheel
from advisor.rules.load import bundled_rules

COVERAGE = Path(__file__).parents[2] / "docs" / "coverage.md"
AUDITED = ("0.5.9", "0.5.23")
LEAST_KNOWN_RATIO = 0.8

pytestmark = [pytest.mark.network, pytest.mark.slow]


@pytest.fixture(scope="module", params=AUDITED)
def audited(request: pytest.FixtureRequest) -> Audit:
    try:
        path = wheel(request.param)
    except InputError as error:
        pytest.skip(str(error))
    return audit(read_source(path), claims(bundled_rules()))


def test_every_claimed_wording_exists(audited: Audit) -> None:
    assert [verdict.claim.name for verdict in audited.drift] == []


def test_most_texts_that_look_like_signals_are_known(audited: Audit) -> None:
    ratio = audited.share().ratio
    assert ratio is not None
    assert ratio >= LEAST_KNOWN_RATIO


def test_the_committed_table_is_up_to_date(audited: Audit) -> None:
    """After a change of rules: advisor rules audit --sglang all --format markdown -o docs/coverage.md."""
    rows = [line for line in pages.markdown([audited]).splitlines() if line.startswith("| 0.")]
    assert set(rows) <= set(COVERAGE.read_text(encoding="utf-8").splitlines())
