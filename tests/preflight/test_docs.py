from __future__ import annotations

from pathlib import Path

from advisor.gate import GATE_RULES
from advisor.preflight.catalogue import checks

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_every_check_stands_in_the_page() -> None:
    page = (DOCS / "preflight.md").read_text(encoding="utf-8")
    listed = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert set(checks()) <= set(listed)


def test_every_rule_of_the_gate_stands_in_the_page() -> None:
    page = (DOCS / "gate.md").read_text(encoding="utf-8")
    assert [rule for rule in GATE_RULES if f"`{rule}`" not in page] == []
