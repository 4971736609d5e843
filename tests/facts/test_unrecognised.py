"""Warnings that nothing knows are listed, grouped by their wording; nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.diagnosis import Report, Request, diagnose_logs
from advisor.facts.alarms import ALARM_LITERALS
from advisor.facts.noise import noise
from advisor.facts.patterns import compiled
from advisor.facts.unrecognised import UnrecognisedCollector, masked
from advisor.sources.files import LogInput
from advisor.sources.records import Record

STAMP = "[2026-03-04 05:06:07{}] "
START = STAMP.format(" TP0") + "Load weight begin. avail mem=78.58 GB\n"


def report(*lines: str) -> Report:
    text = START + "".join(f"{line}\n" for line in lines)
    return diagnose_logs(Request(logs=(LogInput(name="x.log", text=text),), rules=()))


def found(*lines: str) -> list[tuple[str, int]]:
    return [(kind.template, kind.count) for kind in report(*lines).unrecognised]


def test_what_varies_is_masked_and_counted_together_over_ranks() -> None:
    kinds = report(
        STAMP.format(" TP0") + "The frobnicator cannot reach /data/a.bin after 3 tries",
        STAMP.format(" TP1") + "The frobnicator cannot reach /data/b.bin after 12 tries",
    ).unrecognised
    (kind,) = kinds
    assert kind.template == "The frobnicator cannot reach <path> after <n> tries"
    assert (kind.count, kind.evidence.line, kind.evidence.ranks) == (2, 2, ("TP0", "TP1"))
    assert kind.evidence.text.endswith("/data/a.bin after 3 tries")


def test_messages_that_differ_in_a_word_are_one_kind() -> None:
    assert found(
        STAMP.format("") + "Ignoring the unknown option alpha of the config file",
        STAMP.format("") + "Ignoring the unknown option beta of the config file",
        STAMP.format("") + "Something quite different failed here with no reason given",
    ) == [
        ("Ignoring the unknown option <*> of the config file", 2),
        ("Something quite different failed here with no reason given", 1),
    ]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(STAMP.format("") + "All is well with the frobnicator", id="no such word"),
        pytest.param("a bare line that failed with an error", id="no prefix"),
        pytest.param(
            STAMP.format("")
            + 'INFO:     127.0.0.1:1 - "POST /x HTTP/1.1" 500 Internal Server Error',
            id="access log",
        ),
        pytest.param(
            STAMP.format("") + "Receive: obj=GenerateReqInput(text='it failed')", id="request log"
        ),
        pytest.param(
            STAMP.format("") + "INFO engine.py:156: the old way failed, trying the new one",
            id="a level that is no warning",
        ),
        pytest.param(
            STAMP.format(" TP0") + "Fail to set RLIMIT_NOFILE: current limit exceeds maximum limit",
            id="known to be harmless",
        ),
        pytest.param(
            STAMP.format(" TP0") + "Received sigquit from a child process. It usually means the "
            "child failed.",
            id="a fact line",
        ),
    ],
)
def test_other_lines_are_not_listed(line: str) -> None:
    assert found(line) == []


@pytest.mark.parametrize(
    ("line", "template"),
    [
        (STAMP.format("") + "WARNING server_args.py:11: Bla bla.", "Bla bla."),
        ("WARNING:sglang.srt.server_args:Bla bla.", "Bla bla."),
        (
            "/opt/x/foo.py:12: UserWarning: something is odd",
            "<path>:<n>: UserWarning: something is odd",
        ),
    ],
)
def test_a_level_word_decides_alone(line: str, template: str) -> None:
    assert found(line) == [(template, 1)]


def test_lines_within_a_traceback_are_not_listed_the_line_above_it_is() -> None:
    assert found(
        STAMP.format(" TP0") + "thing failed",
        "Traceback (most recent call last):",
        '  File "/x/sglang/srt/a.py", line 3, in f',
        '    raise ValueError("error: cannot")',
        "ValueError: error: cannot",
    ) == [("thing failed", 1)]


def test_a_request_log_hides_nothing_but_itself() -> None:
    assert found(
        STAMP.format("") + "It failed",
        STAMP.format("") + "Receive: obj=GenerateReqInput(text='that failed too')",
        STAMP.format("") + "It was skipped: skipping the rest",
    ) == [("It failed", 1), ("It was skipped: skipping the rest", 1)]


def test_each_run_has_its_own() -> None:
    dump = STAMP.format("") + "server_args=ServerArgs(model_path='/m/x', tp_size=1)"
    text = report(
        dump,
        STAMP.format(" TP0") + "The first thing failed",
        dump,
        STAMP.format(" TP0") + "The second thing failed",
    )
    assert [kind.template for kind in text.unrecognised] == ["The second thing failed"]


def test_kinds_are_bounded_and_the_rest_is_counted_together() -> None:
    collector = UnrecognisedCollector()
    letters = "abcdefghijklmnopqrstuvwxyz"
    for first in letters:
        for second in letters:
            message = f"{first}{second}x failed"
            collector.take(Record(source="x", line=1, message=message))
    kinds = collector.result()
    assert len(kinds) == 201
    assert (kinds[0].template, kinds[0].count) == ("(further kinds)", 26 * 26 - 200)


@given(st.text(max_size=300))
def test_any_text_can_be_masked(text: str) -> None:
    collector = UnrecognisedCollector()
    collector.take(Record(source="x", line=1, message=text))
    assert sum(kind.count for kind in collector.result()) == bool(masked(text).split())


def test_serving_lines_hold_no_alarm_word() -> None:
    prefill = """Prefill batch, #new-seq: 1, #new-token: 5, #cached-token: 0, token usage: 0.00,
        #running-req: 0, #queue-req: 0, #pending-token: 0, cuda graph: False,
        input throughput (token/s): 0.00"""
    decode = """Decode batch, #running-req: 1, #token: 5, token usage: 0.00, accept len: 2.1,
        accept rate: 0.7, cuda graph: True, gen throughput (token/s): 1.0, #queue-req: 0"""
    access = 'INFO:     127.0.0.1:1 - "POST /v1/chat/completions HTTP/1.1" 200 OK'
    lines = (prefill, decode, access)
    assert [word for word in ALARM_LITERALS for line in lines if word in line] == []


def test_every_harmless_line_says_why_and_its_pattern_holds_its_literal() -> None:
    assert len({entry.id for entry in noise()}) == len(noise())
    for entry in noise():
        assert entry.why.endswith(".")
        assert compiled(entry.pattern.expression).pattern
