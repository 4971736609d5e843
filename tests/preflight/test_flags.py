from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from advisor.diagnosis import Report
from advisor.findings import Finding
from advisor.knowledge.flag_table import flags_of
from advisor.knowledge.releases import known_versions
from advisor.preflight.inputs.config import with_config_file
from advisor.preflight.inputs.files import read_text
from advisor.preflight.judge import preflight
from advisor.preflight.target import Given, target_of

Judge = Callable[..., dict[str, Finding]]
COMMANDS = Path(__file__).parent.parent / "fixtures" / "preflight" / "commands.yaml"
REFUSALS = {"flag-unknown", "flag-renamed", "flag-ambiguous", "words-unclaimed"}


@pytest.mark.parametrize(
    "row", yaml.safe_load(COMMANDS.read_text(encoding="utf-8")), ids=lambda row: row["origin"]
)
def test_commands_of_the_releases_own_documents_are_known(row: dict[str, object]) -> None:
    releases = row["releases"]
    assert isinstance(releases, list)
    (command,) = read_text(str(row["command"]), "launch.sh")
    for release in releases:
        target = target_of(command, Given(sglang=str(release)))
        verdicts = preflight([(command, target)], fail_on=None).verdicts
        assert REFUSALS.isdisjoint({item.rule for item in verdicts.findings}), release


def test_there_are_forty_commands_and_more() -> None:
    assert len(yaml.safe_load(COMMANDS.read_text(encoding="utf-8"))) >= 40


@pytest.mark.parametrize("version", [str(version) for version in known_versions()])
def test_every_flag_of_a_release_is_known(judge: Judge, version: str) -> None:
    flags = flags_of(version)
    assert len(flags) > 100
    assert REFUSALS.isdisjoint(judge(" ".join(flags), sglang=version))


def test_an_unknown_flag_gets_its_near_miss(judge: Judge) -> None:
    found = judge("--mem-fraction-statik 0.9")["flag-unknown"]
    assert found.severity == "error"
    assert found.actions[0].command == "--mem-fraction-static 0.9"
    assert found.evidence[0].text == "--mem-fraction-statik 0.9"
    assert (found.evidence[0].source, found.evidence[0].line) == ("command line", 1)


def test_an_underscore_is_a_near_miss_too(judge: Judge) -> None:
    assert judge("--tp_size 4")["flag-unknown"].actions[0].command == "--tp-size 4"


def test_a_renamed_flag_gets_the_exact_replacement(judge: Judge) -> None:
    found = judge("--mamba-scheduler-strategy extra_buffer", sglang="0.5.20")["flag-renamed"]
    assert found.actions[0].command == "--mamba-radix-cache-strategy extra_buffer"


def test_a_replacement_that_brings_its_value_keeps_it(judge: Judge) -> None:
    found = judge("--disable-piecewise-cuda-graph", sglang="0.5.20")["flag-renamed"]
    assert found.actions[0].command == "--cuda-graph-backend-prefill=disabled"


def test_an_old_name_that_became_ambiguous_says_what_it_was(judge: Judge) -> None:
    found = judge("--cuda-graph-max-bs 64", sglang="0.5.20")["flag-ambiguous"]
    assert found.actions[0].command == "--cuda-graph-max-bs-decode 64"


def test_a_removed_flag_says_when_it_was_there(judge: Judge) -> None:
    found = judge("--torchao-config int4wo", sglang="0.5.23")
    assert "up to" in str(found) or "0.5.16" in str(found)
    assert {"flag-unknown", "flag-renamed"} & set(found)


def test_a_shortened_flag_is_told_only_when_an_upgrade_breaks_it(judge: Judge) -> None:
    assert "flag-shortened" not in judge("--tp 4")


def test_deprecated_and_ignored_flags(judge: Judge) -> None:
    deprecated = judge("--cuda-graph-max-bs 64", sglang="0.5.16")["flag-deprecated"]
    assert deprecated.severity == "note"
    assert deprecated.actions[0].command == "--cuda-graph-max-bs-decode 64"
    assert "0.5.20 no longer has it" in deprecated.summary
    ignored = judge("--collect-tokens-histogram", sglang="0.5.14")["flag-ignored"]
    assert ignored.severity == "warning"


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ("--tp-size", "flag-value-missing"),
        ("--tp-size four", "flag-value-invalid"),
        ("--mem-fraction-static lots", "flag-value-invalid"),
        ("--attention-backend flashinfr", "flag-value-invalid"),
        ("--enable-metrics=true", "flag-value-invalid"),
        ("--tp 2 stray", "words-unclaimed"),
        ("--enable-metrics true", "words-unclaimed"),
        ("--config=server.yaml", "config-file-unread"),
        ("--tp 2 --tp-size 4", "flag-repeated"),
    ],
)
def test_what_the_parser_refuses_or_drops(judge: Judge, options: str, rule: str) -> None:
    assert rule in judge(options)


@pytest.mark.parametrize(
    "options",
    [
        "--tp-size=4",
        "--tp 4 --tp-size 4",
        "--cuda-graph-bs 1 2 4",
        "--random-seed -1",
        '--json-model-override-args {"a":1}',
    ],
)
def test_what_the_parser_takes(judge: Judge, options: str) -> None:
    refused = {rule for rule in judge(options) if rule.startswith(("flag-", "words-"))}
    assert not refused


def test_a_value_that_got_another_name(judge: Judge) -> None:
    found = judge("--attention-backend dsa", sglang="0.5.12")["flag-value-renamed"]
    assert found.actions[0].command == "--attention-backend nsa"


@pytest.mark.parametrize(
    ("options", "sglang", "severity"),
    [
        ("--quantization my_own_method", "0.5.12", "note"),
        ("--quantization my_own_method", "0.5.10", "error"),
        ("--quantization awqq", "0.5.12", "error"),
        ("--attention-backend hpc_ops", "0.5.12", "error"),
        ("--schedule-policy my_own_policy", "0.5.12", "error"),
    ],
)
def test_a_plugin_may_bring_a_value_of_its_own(
    judge: Judge, options: str, sglang: str, severity: str
) -> None:
    found = judge(options, sglang=sglang)["flag-value-invalid"]
    assert found.severity == severity
    assert ("plugin" in found.summary) == (sglang == "0.5.12" and "schedule" not in options)


def test_the_model_may_stand_in_the_file_of_the_module_but_not_of_serve(tmp_path: Path) -> None:
    config = tmp_path / "server.yaml"
    config.write_text("model-path: M\ntp-size: 2\n", encoding="utf-8")
    found = {}
    for command in ("python -m sglang.launch_server", "sglang serve"):
        (server,) = read_text(f"{command} --config server.yaml", "a.sh")
        merged, unread = with_config_file(server, tmp_path)
        assert unread is None
        target = target_of(merged, Given(sglang="0.5.20"))
        findings = preflight([(merged, target)], fail_on=None).verdicts.findings
        found[command] = [item.rule for item in findings]
    assert found == {"python -m sglang.launch_server": [], "sglang serve": ["serve-refused"]}


def test_an_image_may_get_its_model_from_whoever_runs_it() -> None:
    (server,) = read_text('ENTRYPOINT ["python3", "-m", "sglang.launch_server"]\n', "Dockerfile")
    findings = preflight([(server, target_of(server, Given()))], fail_on=None).verdicts.findings
    assert not findings


def test_a_release_that_nobody_read_leaves_a_flag_open(
    judge: Judge, skipped: Callable[..., dict[str, str]]
) -> None:
    assert "flag-unknown" not in judge("--sparkling-new-flag", sglang="0.6.1")
    assert "was not read" in skipped("--sparkling-new-flag", sglang="0.6.1")["flag-unknown"]


def test_without_a_release_the_options_tell_which_ones_are_meant(
    report: Callable[..., Report],
) -> None:
    result = report("--mamba-scheduler-strategy extra_buffer", sglang=None)
    versions = result.run.versions.sglang
    assert versions is not None
    assert versions.describe() == "0.5.9 – 0.5.18"
    assert not result.verdicts.findings


def test_a_flag_of_no_release_is_unknown_without_a_release(judge: Judge) -> None:
    assert "flag-unknown" in judge("--tpp 3", sglang=None)


@pytest.mark.parametrize(
    ("command", "sglang", "trouble"),
    [
        ("sglang serve --model-path M", "0.5.3", "does not exist"),
        ("sglang serve --model-path M", "0.5.6", ""),
        ("sglang serve M", "0.5.14", "takes no model without a flag"),
        ("sglang serve M", "0.5.16", ""),
        ("sglang serve --model M", "0.5.10", "wants --model-path"),
        ("sglang serve --model M", "0.5.12", ""),
        ("sglang serve --model-type llm --model-path M", "0.5.12", ""),
        ("sglang serve --model-type=llm --model-path M", "0.5.9", "does not know --model-type"),
        ("sglang serve --model-type llama --model-path M", "0.5.16", "does not know this --model"),
        ("sglang serve --model-type llama --model-path M", "0.5.23", "does not know this --model"),
        ("sglang serve --model-type diffusion --model-path M --num-gpus 2", "0.5.23", ""),
        ("sglang serve --config server.yaml", "0.5.23", "does not find the model"),
        ("sglang serve --tp 2", "0.5.12", "does not find the model"),
        ('sglang serve --tp 2 "$@"', "0.5.12", ""),
        ("python -m sglang.launch_server --config server.yaml", "0.5.12", ""),
        ("python -m sglang.launch_server --tp 2", "0.5.12", "names no model"),
        ("python -m sglang.launch_server --tp 2 $MODEL", "0.5.12", ""),
        ("python -m sglang.launch_server --model M", "0.5.3", ""),
    ],
)
def test_the_command_serve_learned_with_the_releases(
    command: str, sglang: str, trouble: str
) -> None:
    (server,) = read_text(command, "a.sh")
    verdicts = preflight([(server, target_of(server, Given(sglang=sglang)))], fail_on=None).verdicts
    titles = [item.title for item in verdicts.findings]
    assert len(titles) == bool(trouble)
    assert all(trouble in title for title in titles)
