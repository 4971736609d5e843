"""The grammar of a log line, in every form that a release prints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.sources.records import parse_record, parse_time, split_torn


def parsed(text: str) -> tuple[str | None, tuple[str, ...], str]:
    record = parse_record(text, source="x.log", line=1)
    time = None if record.time is None else record.time.isoformat(sep=" ")
    return time, record.ranks, record.message


@pytest.mark.parametrize(
    ("text", "ranks", "message"),
    [
        ("[2026-03-04 05:06:07] Ready", (), "Ready"),
        ("[2026-03-04 05:06:07 TP0] Ready", ("TP0",), "Ready"),
        ("[2026-03-04 05:06:07 DP1 TP3 EP3 PP0] Ready", ("DP1", "TP3", "EP3", "PP0"), "Ready"),
        (
            "[2026-03-04 05:06:07 DP0 PP1 ATTN_CP0 MOE_DP0 TP4 EP4] Ready",
            ("DP0", "PP1", "ATTN_CP0", "MOE_DP0", "TP4", "EP4"),
            "Ready",
        ),
        ("[2026-03-04 05:06:07 encode_server] Ready", ("encode_server",), "Ready"),
        ("[2026-03-04 05:06:07] INFO:     Uvicorn running", (), "Uvicorn running"),
        ("[2026-03-04 05:06:07] WARNING server_args.py:1191: Use fa3", (), "Use fa3"),
        ("[2026-03-04 05:06:07][scheduler.py:424][INFO]: Prefill batch", (), "Prefill batch"),
    ],
)
def test_prefix_is_peeled_off(text: str, ranks: tuple[str, ...], message: str) -> None:
    assert parsed(text) == ("2026-03-04 05:06:07", ranks, message)


def test_milliseconds_are_read() -> None:
    record = parse_record("[2026-03-04 05:06:07.250 TP1] x", source="x", line=1)
    assert record.time is not None
    assert record.time.microsecond == 250_000


@pytest.mark.parametrize(
    ("text", "level", "message"),
    [
        ("WARNING:sglang.srt.server_args:Max running", "WARNING", "Max running"),
        ("INFO:     Application startup complete.", "INFO", "Application startup complete."),
        ("Cuda graph is disabled because", None, "Cuda graph is disabled because"),
    ],
)
def test_lines_without_a_prefix_keep_their_text(text: str, level: str | None, message: str) -> None:
    record = parse_record(text, source="x", line=1)
    assert (record.level, record.message, record.time) == (level, message, None)


def test_a_record_glued_to_a_progress_bar_is_cut_off() -> None:
    bar = "Capturing batches (bs=48 avail_mem=25.47 GB):   0%|          | 0/23 [00:00<?, ?it/s]"
    record = "[2026-11-29 13:57:02] Using default MoE kernel config."
    assert split_torn(f"{bar}{record}") == [bar, record]
    assert split_torn(f"\r{bar}\r{record}") == [bar, record]


def test_a_prompt_that_quotes_a_log_line_is_not_cut_out_of_its_request_log() -> None:
    text = (
        "[2026-03-04 05:06:07] Receive: obj=GenerateReqInput(text='why "
        "[2026-03-04 05:06:08] CUDA out of memory')"
    )
    assert split_torn(text) == [text]


def test_an_impossible_date_is_no_time() -> None:
    assert parse_time("2026-13-04 05:06:07") is None


@given(st.text(max_size=300))
def test_no_text_breaks_the_parser(text: str) -> None:
    for piece in split_torn(text):
        record = parse_record(piece, source="x", line=1)
        assert record.message in piece or piece.endswith(record.message)
