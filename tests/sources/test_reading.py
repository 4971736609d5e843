"""Records in order, tracebacks whole, line numbers as an editor shows them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.sources import blocks
from advisor.sources.files import LogInput
from advisor.sources.reading import Found, LogReader
from advisor.sources.redaction import Redactor
from advisor.sources.scan import Scanner

TRACEBACK = """\
[2026-03-04 05:06:07 TP1] Scheduler hit an exception: Traceback (most recent call last):
  File "/x/site-packages/sglang/srt/managers/scheduler.py", line 9, in run
    raise RuntimeError("needle")
RuntimeError: needle in the body

[2026-03-04 05:06:08 TP1] needle after it
"""


def read(text: str, *literals: str) -> list[Found]:
    scanner = Scanner(["Traceback (most recent call last)", *literals])
    reader = LogReader(LogInput(name="x.log", text=text), scanner, Redactor())
    return [item for item in reader if isinstance(item, Found)]


def test_a_traceback_is_one_record_and_its_lines_carry_the_rank_of_its_head() -> None:
    found = read(TRACEBACK, "needle")
    inner = [item for item in found if item.in_traceback and "needle" in item.record.message]
    whole = [item for item in found if item.traceback]
    after = found[-1]
    assert {item.record.ranks for item in inner} == {("TP1",)}
    assert [item.record.line for item in inner] == [3, 4]
    assert len(whole) == 1
    assert whole[0].record.body[-2:] == ("RuntimeError: needle in the body", "")
    assert (after.record.line, after.in_traceback) == (6, False)


def test_a_traceback_at_the_end_of_a_log_is_still_whole() -> None:
    found = read(TRACEBACK.split("\n\n", maxsplit=1)[0])
    assert [item.record.body[-1] for item in found if item.traceback] == [
        "RuntimeError: needle in the body"
    ]


@given(
    st.lists(st.sampled_from(["", "needle", "hay", "[2026-03-04 05:06:07] needle"]), max_size=40)
)
def test_line_numbers_and_matches_equal_a_plain_search(lines: list[str]) -> None:
    text = "\n".join(["head", *lines]) + "\n"
    expected = [number for number, line in enumerate(text.split("\n"), 1) if "needle" in line]
    assert [item.record.line for item in read(text, "needle")] == expected


@pytest.mark.parametrize("size", [64, 97, 4096])
def test_the_size_of_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    text = TRACEBACK * 5 + "[2026-03-04 05:06:07] needle\n" * 7
    whole = read(text, "needle")
    monkeypatch.setattr(blocks, "BLOCK_BYTES", size)
    assert read(text, "needle") == whole


def test_secrets_never_leave_the_reader() -> None:
    text = "[2026-03-04 05:06:07] server_args=ServerArgs(api_key='hunter2', tp_size=1)\n"
    redactor = Redactor()
    log = LogInput(name="x", text=text)
    (found,) = LogReader(log, Scanner(["server_args="]), redactor)
    assert isinstance(found, Found)
    assert "hunter2" not in found.record.message
    assert "api_key" in redactor.names
