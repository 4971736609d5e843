"""Rules are selected and ignored by id, pattern, topic and family."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from advisor.cli.main import run
from advisor.errors import ConfigError
from advisor.rules.load import bundled_rules
from advisor.rules.selection import expanded

LOG = Path(__file__).parent.parent / "fixtures" / "logs" / "llama-retract.log"


def found(*options: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    run(["diagnose", str(LOG), "--format", "json", "--fail-on", "never", *options])
    document = json.loads(capsys.readouterr().out)
    return [finding["rule"] for finding in document["findings"]]


def test_topics_and_families_stand_for_their_rules() -> None:
    rules = bundled_rules()
    topic = expanded(["topic:memory_leak", "server-died", "server-died"], rules)
    assert set(topic) == {rule.id for rule in rules if rule.topic == "memory_leak"} | {
        "server-died"
    }
    family = expanded(["family:moe"], rules)
    assert set(family) == {rule.id for rule in rules if rule.family == "moe"}


@pytest.mark.parametrize(
    ("word", "nearest"), [("topic:moe_confg", "moe_config"), ("family:memry", "memory")]
)
def test_an_unknown_topic_or_family_has_a_near_miss(word: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean '{nearest}'"):
        expanded([word], bundled_rules())


def test_diagnose_selects_and_ignores_by_topic_and_family(
    capsys: pytest.CaptureFixture[str],
) -> None:
    everything = found(capsys=capsys)
    assert {"requests-retracted", "decode-beyond-captured-sizes"} <= set(everything)
    graphs = found("--select", "family:graphs", capsys=capsys)
    assert graphs == ["decode-beyond-captured-sizes"]
    rest = found("--ignore", "topic:decode_graph", capsys=capsys)
    assert set(everything) - set(rest) == {"decode-beyond-captured-sizes"}
