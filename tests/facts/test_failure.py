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


def test_what_a_request_raises_does_not_end_the_server() -> None:
    traceback = read_traceback(
        _record(
            '  File "/opt/venv/lib/python3.12/site-packages/uvicorn/protocols/http/h11_impl.py", line 7, in run',
            _FRAME.format("managers/tokenizer_manager"),
            "ValueError: Request is disconnected from the client side (type 1).",
        )
    )
    assert not traceback.fatal


def test_a_server_that_was_ended_by_hand_did_not_fail() -> None:
    traceback = read_traceback(
        _record(_FRAME.format("entrypoints/http_server"), "KeyboardInterrupt")
    )
    assert traceback.by_hand
    assert not traceback.fatal


def test_a_start_that_fails_below_the_http_server_is_fatal() -> None:
    traceback = read_traceback(
        _record(
            '  File "/opt/venv/lib/python3.12/site-packages/starlette/routing.py", line 7, in lifespan',
            _FRAME.format("entrypoints/http_server"),
            "RuntimeError: no",
        )
    )
    assert traceback.fatal
