"""Which exception ended a run, and where it was raised."""

from __future__ import annotations

from advisor.facts.failure import read_traceback
from advisor.sources.records import Record

_FRAME = '  File "/opt/venv/lib/python3.12/site-packages/sglang/srt/{}.py", line 7, in go'


def _record(*body: str) -> Record:
    return Record(source="a.log", line=1, message="Traceback (most recent call last):", body=body)


def test_the_last_frame_before_the_exception_raised_it() -> None:
    traceback = read_traceback(
        _record(
            _FRAME.format("server_args"),
            _FRAME.format("utils/common"),
            _FRAME.format("server_args"),
            "ValueError: no",
        )
    )
    assert traceback.raised_in == "sglang/srt/server_args"
    assert traceback.modules == ("sglang/srt/server_args", "sglang/srt/utils/common")


def test_in_a_chain_the_innermost_exception_counts() -> None:
    traceback = read_traceback(
        _record(
            _FRAME.format("layers/moe/x"),
            "KeyError: 'a'",
            "",
            "During handling of the above exception, another exception occurred:",
            "",
            "Traceback (most recent call last):",
            _FRAME.format("model_executor/model_runner"),
            "RuntimeError: b",
        )
    )
    assert traceback.raised_in == "sglang/srt/layers/moe/x"
    assert traceback.exceptions == (("KeyError", "'a'"), ("RuntimeError", "b"))


def test_an_exception_without_frames_was_raised_nowhere_known() -> None:
    assert read_traceback(_record("ValueError: no")).raised_in is None
