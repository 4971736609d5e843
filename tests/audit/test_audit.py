"""An audit names what a release does not bear out, and what nothing knows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from advisor.audit import pages
from advisor.audit.claims import Claim, ClaimKind, claims, modules_in
from advisor.audit.coverage import Audit, audit
from advisor.audit.drift import Outcome, judge, speaks_of
from advisor.audit.scope import Kind, scope
from advisor.audit.source import Source, read_source
from advisor.cli.main import run
from advisor.facts.patterns import Pattern
from advisor.knowledge.ranges import VersionRange
from advisor.rules.load import bundled_rules

RELEASE = Path(__file__).parent.parent / "fixtures" / "audit"


@pytest.fixture(scope="module")
def source() -> Source:
    return read_source(RELEASE)


def claim(
    *literals: str,
    expression: str = "",
    releases: str | None = "0.5.9",
    modules: tuple[str, ...] = (),
) -> Claim:
    return Claim(
        kind=ClaimKind.RULE,
        pattern=Pattern(key="a-rule/line", literals=literals, expression=expression or literals[0]),
        releases=None if releases is None else VersionRange.parse(releases),
        modules=modules,
    )


@pytest.mark.parametrize(
    ("claimed", "outcome"),
    [
        (claim("Widget size is reset to", modules=("server_args",)), Outcome.HOLDS),
        (claim("size is set to", "size is reset", expression="size is"), Outcome.HOLDS),
        (claim("Widget size is set to"), Outcome.MISSING),
        (claim("Widget size is set to", releases="up to 0.5.6"), Outcome.ELSEWHERE),
        (claim("Widget size is set to", releases=None), Outcome.ELSEWHERE),
        (claim("Widget size is reset to", modules=("managers/scheduler",)), Outcome.MOVED),
        (claim("Widget size is reset to", modules=("managers/", "server_args")), Outcome.HOLDS),
        (claim("Cog falls back", modules=("managers",)), Outcome.HOLDS),
        (
            claim("Widget size is reset to", expression=r"reset to (?P<x>zero)"),
            Outcome.UNPROVEN,
        ),
        (
            claim("The queue of cogs is full.", modules=("managers/scheduler",)),
            Outcome.INDIRECT,
        ),
        (claim("Widget size is reset to", releases="up to 0.5.6"), Outcome.WIDER),
        (claim("because of memory.", expression="because of"), Outcome.HOLDS),
    ],
)
def test_each_claim_is_judged(source: Source, claimed: Claim, outcome: Outcome) -> None:
    (verdict,) = judge([claimed], source)
    assert verdict.outcome is outcome
    assert verdict.is_drift is (outcome is Outcome.MISSING)


@pytest.mark.parametrize(
    ("releases", "version", "expected"),
    [
        ("0.5.9 – 0.5.12", "0.5.10", True),
        ("0.5.9 – 0.5.12", "0.5.13", False),
        ("0.5.9 – 0.5.23", "0.5.99", True),
        ("0.5.9 – 0.5.20", "0.5.99", False),
        ("from 0.5.9", "0.6.0", True),
    ],
)
def test_a_release_that_nobody_has_read_is_expected_to_be_like_the_newest(
    releases: str, version: str, expected: bool
) -> None:
    assert speaks_of(VersionRange.parse(releases), version) is expected
    assert not speaks_of(None, version)


def test_texts_worth_knowing_are_counted_once_and_those_of_other_devices_not(
    source: Source,
) -> None:
    known = (claim("Widget size is reset to"), claim("Gadget mode is disabled"))
    result = audit(source, known)
    counted = {(item.kind, item.template.text.shown()): item.known for item in result.counted}
    assert counted == {
        (Kind.CAPACITY, "Widget size is reset to {} because of {}."): True,
        (Kind.PERFORMANCE, "Gadget mode is disabled on SM{} with {}."): True,
        (Kind.PERFORMANCE, "Widgets are slow without a cache."): False,
        (Kind.PERFORMANCE, "Cog falls back to the slow path."): False,
        (Kind.PERFORMANCE, "Cog is not supported here"): False,
        (Kind.REFUSAL, "widget size must be at least {}"): False,
        (Kind.REFUSAL, "widget size {} is too large"): False,
    }
    assert (result.share().known, result.share().total) == (2, 5)
    assert result.share(Kind.REFUSAL).ratio == 0
    assert result.share(Kind.STARTUP).ratio is None


@pytest.fixture(scope="module")
def result(source: Source) -> Audit:
    return audit(source, [claim("Widget size is reset to"), claim("Widget size is set to")])


def test_the_terminal_page_shows_drift_first(result: Audit) -> None:
    lines = pages.terminal([result]).splitlines()
    assert lines[0].startswith("SGLang 0.5.9: ")
    assert lines[1] == "  files that this Python cannot parse: srt/layers/broken.py"
    assert lines[2] == "drift: 1"
    assert lines[3] == "  a-rule/line: no text of this release holds 'Widget size is set to'"
    assert "not known: 4" in lines


def test_the_json_document_has_everything(result: Audit) -> None:
    (release,) = json.loads(pages.as_json([result]))["releases"]
    assert release["drift"] == [
        {
            "claim": "a-rule/line",
            "outcome": "missing",
            "literals": ["Widget size is set to"],
            "modules": [],
        }
    ]
    assert release["coverage"]["together"] == {"known": 1, "total": 5}
    assert {item["kind"] for item in release["unknown"]} == {"performance", "refusal"}


def test_the_table_lists_what_is_not_known(result: Audit) -> None:
    page = pages.markdown([result])
    assert "| 0.5.9 | " in page
    assert "| `managers/scheduler` | 0 of 2 (0 %) |" in page
    assert "- performance · `managers/scheduler` · `Cog is not supported here`" in page


def test_the_command_fails_where_a_bundled_rule_claims_what_is_not_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["rules", "audit", "--sglang", str(RELEASE), "--format", "json"]) == 1
    (release,) = json.loads(capsys.readouterr().out)["releases"]
    assert release["version"] == "0.5.9"
    assert "line load-weight-end" in [item["claim"] for item in release["drift"]]


def test_every_bundled_claim_names_existing_kinds_of_places() -> None:
    everything = claims(bundled_rules())
    assert {item.kind for item in everything} == set(ClaimKind)
    assert all(item.pattern.literals for item in everything)
    named = [module for item in everything for module in item.modules]
    assert named
    assert not any(module.endswith(".py") or module.startswith("srt/") for module in named)
    assert modules_in("a/b (tqdm) -> c, d") == ("a/b", "c", "d")


def test_the_definition_is_whole() -> None:
    assert set(scope().words) == {Kind.PERFORMANCE, Kind.CAPACITY, Kind.STARTUP}
    assert scope().fillings
