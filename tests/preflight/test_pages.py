"""What `advisor rules explain` says of the ids that reports carry."""

from __future__ import annotations

import json

import pytest

from advisor.cli.gating import known_rules
from advisor.cli.main import run
from advisor.preflight.catalogue import checks
from advisor.preflight.pages import page


def test_every_id_that_a_report_can_carry_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    for name in (*checks(), "baseline-stale", "capacity-regressed", "ignore-expired"):
        assert run(["rules", "explain", name]) == 0
        text = capsys.readouterr().out
        assert text.startswith(f"# {name}\n\n")
        assert "****" not in text, name
    assert set(checks()) < set(known_rules())


@pytest.mark.parametrize("name", list(checks()))
def test_no_template_shows_through(name: str) -> None:
    text = page(name)
    assert "{{" not in text
    assert "{%" not in text


def test_a_row_says_its_releases_its_gpus_and_its_source() -> None:
    text = page("allreduce-fusion-unsupported")
    assert "SGLang 0.5.14 – 0.5.23, works on SM90, SM100, SM103: start fails." in text
    assert "Message: “FlashInfer allreduce fusion requires SM90 or SM10X NVIDIA GPUs.”" in text
    assert "Source (inferred): srt/layers/flashinfer_comm_fusion.py." in text


def test_a_near_miss_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rules", "explain", "flag-renammed"]) == 2
    assert "did you mean 'flag-renamed'?" in capsys.readouterr().err


def test_each_rule_of_a_sarif_file_leads_to_its_page(capsys: pytest.CaptureFixture[str]) -> None:
    run(
        ["preflight", "--sglang", "0.5.23", "--format", "sarif", "--", "--model", "M", "--tpp", "2"]
    )
    driver = json.loads(capsys.readouterr().out)["runs"][0]["tool"]["driver"]
    assert driver["rules"]
    for rule in driver["rules"]:
        assert rule["help"]["text"].endswith(f"More: advisor rules explain {rule['id']}")
        assert "helpUri" not in rule
