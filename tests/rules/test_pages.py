"""The committed pages of the rules are what the rule files say."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.cli.main import run

PAGES = Path(__file__).parents[2] / "docs" / "rules"


@pytest.mark.slow
def test_pages_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    """After a change of rules: advisor rules docs docs/rules."""
    code = run(["rules", "docs", str(PAGES), "--check"])
    assert (code, capsys.readouterr().err) == (0, "")
