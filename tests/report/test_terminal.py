"""The terminal report: it fits the width, survives without colour, and its commands can be pasted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import regex
from rich.cells import cell_len

from advisor.diagnosis import Report
from advisor.findings import Action, Finding, Severity
from advisor.report.formats import FORMATS, Style
from advisor.report.harmless import harmless

render = FORMATS["terminal"]
SGR = regex.compile(r"\x1b\[[0-9;]*m")


def commands(report: Report) -> set[str]:
    return {
        line.strip().replace("::", ": ", 1) if line.startswith("::") else line.strip()
        for finding in report.verdicts.findings
        for action in finding.actions
        for line in action.command.splitlines()
    }


@pytest.mark.parametrize("width", [40, 80, 120])
def test_only_commands_may_be_wider_than_the_terminal(width: int, any_report: Report) -> None:
    text = render(any_report, Style(width=width))
    whole = commands(harmless(any_report))
    wide = [line for line in text.splitlines() if cell_len(line) > width]
    assert [line for line in wide if line.strip() not in whole] == []


def test_a_command_is_printed_whole_and_alone_on_its_line(
    make_report: Callable[..., Report], make_finding: Callable[..., Finding]
) -> None:
    command = "export A=1\npython -m sglang.launch_server --model-path x " + "--flag value " * 20
    made = make_report(make_finding(actions=(Action(title="Run", command=command),)))
    lines = [line.strip() for line in render(made, Style(width=40)).splitlines()]
    for line in command.splitlines():
        assert lines.count(line.strip()) == 2


def test_colour_changes_nothing_but_colour(any_report: Report) -> None:
    plain = render(any_report, Style(width=80))
    coloured = render(any_report, Style(width=80, colour=True))
    assert "\x1b" not in plain
    assert SGR.sub("", coloured) == plain


def test_a_terminal_without_unicode_gets_ascii(any_report: Report) -> None:
    text = render(any_report, Style(width=80, ascii_only=True))
    assert text.isascii()


def test_quiet_prints_the_verdict_and_the_findings_only(made: dict[str, Report]) -> None:
    text = render(made["crash"], Style(width=80, quiet=True))
    assert text.startswith("The server did not start: OutOfMemoryError: CUDA out of memory.")
    assert "1 error, 1 warning, 1 note." in text
    assert "memory-ran-out" in text
    for absent in ("Plan", "gate:", "not judged", "Start "):
        assert absent not in text


def test_ranks_and_counts_stand_beside_the_place(made: dict[str, Report]) -> None:
    assert "logs/server.log:7  ×8, ranks TP0–TP3" in render(made["crash"], Style(width=80))


def test_the_gate_line_names_the_threshold(make_report: Callable[..., Report]) -> None:
    assert render(make_report(), Style()).endswith("\ngate: fail-on=error -> passed\n")
    never = make_report(fail_on=None)
    assert render(never, Style()).endswith("\ngate: fail-on=never -> passed\n")


def test_a_failed_gate_says_so(
    make_report: Callable[..., Report], make_finding: Callable[..., Finding]
) -> None:
    made = make_report(make_finding(Severity.WARNING), fail_on=Severity.WARNING)
    assert render(made, Style()).endswith("\ngate: fail-on=warning -> failed\n")


def test_what_was_not_judged_is_counted_and_the_missing_facts_named(
    made: dict[str, Report],
) -> None:
    text = render(made["crash"], Style(width=120))
    assert "1 rule not judged: the inputs do not show what they need" in text
    assert "gpu.sm, versions.triton" in text
    assert "1 further finding is explained by those above." in text


def test_one_run_of_several_is_named(made: dict[str, Report]) -> None:
    text = render(made["long-path"], Style(width=80))
    assert regex.search(r"^Run +2 of 3 +chosen; --run N judges another$", text, regex.MULTILINE)


def test_the_head_says_what_runs_where(made: dict[str, Report]) -> None:
    text = render(made["healthy"], Style(width=100))
    assert "org/Model-8B  ModelForCausalLM" in text
    assert "0.5.9 – 0.5.12  inferred from the arguments" in text
    assert "4 × NVIDIA H200  SM 9.0, 140 GiB" in text
    assert "TP 4 · DP 2 · EP 4 · DP attention · 2 nodes" in text
    assert "ready after 95 s" in text


def test_a_log_that_stops_says_where(
    make_report: Callable[..., Report], made: dict[str, Report]
) -> None:
    run = made["healthy"].run
    startup = replace(run.startup, ready=False, open_phase="weight loading", open_phase_s=300.0)
    text = render(make_report(run=replace(run, startup=startup)), Style(width=100))
    assert "The log ends during weight loading, 5 min into it." in text


def test_a_line_of_a_log_cannot_command_the_runner(
    make_report: Callable[..., Report], make_finding: Callable[..., Finding]
) -> None:
    made = make_report(make_finding(summary="word " * 13 + "::set-output name=x::y"))
    text = render(made, Style(width=76))
    assert not regex.search(r"(?m)^\s*::", text)
