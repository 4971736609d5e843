"""Container wrappers come off; what they carried is read like the plain line."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.sources.files import LogInput
from advisor.sources.reading import Found, LogReader
from advisor.sources.redaction import Redactor
from advisor.sources.scan import Scanner
from advisor.sources.wrappers import peel, printable

LINES = [
    "[2026-03-04 05:06:07 TP0] Load weight begin. avail mem=78.58 GB",
    "[2026-03-04 05:06:09 TP0] Load weight end.",
]


def read(text: str) -> list[Found]:
    log = LogInput(name="x.log", text=text)
    reader = LogReader(log, Scanner(["Load weight"]), Redactor())
    return [item for item in reader if isinstance(item, Found)]


def docker(line: str) -> str:
    return json.dumps({"log": f"{line}\n", "stream": "stderr", "time": "2026-03-04T05:06:07.1Z"})


WRAPPERS: dict[str, Callable[[str], str]] = {
    "plain": lambda line: line,
    "crlf": lambda line: f"{line}\r",
    "colour": lambda line: f"\x1b[1;33m{line}\x1b[0m",
    "kubectl --timestamps": lambda line: f"2026-03-04T05:06:07.123456789Z {line}",
    "kubectl --prefix": lambda line: f"[pod/llm-0/sglang] {line}",
    "cri": lambda line: f"2026-03-04T05:06:07.123456789Z stdout F {line}",
    "docker json": docker,
    "json with message": lambda line: json.dumps({"message": line, "level": "info"}),
    "compose": lambda line: f"sglang-1  | {line}",
    "podman compose": lambda line: f"[sglang]     | {line}",
    "journald": lambda line: f"Mar 04 05:06:07 gpu1 sglang[4242]: {line}",
    "ray": lambda line: f"(SGLangEngine pid=322526) {line}",
    "ray with address": lambda line: f"(Engine pid=32, ip=10.0.0.1) {line}",
    "srun --label": lambda line: f"3: {line}",
    "ci": lambda line: f"[2025-11-06T02:10:00.702Z] {line}",
    "kubectl both": lambda line: f"[pod/llm-0/sglang] 2026-03-04T05:06:07.1Z {line}",
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS.keys())
def test_wrapped_lines_read_like_plain_ones(wrap: Callable[[str], str]) -> None:
    found = read("\n".join(wrap(line) for line in LINES) + "\n")
    assert [item.record.message for item in found] == [
        "Load weight begin. avail mem=78.58 GB",
        "Load weight end.",
    ]
    assert [item.record.line for item in found] == [1, 2]
    assert found[0].record.ranks == ("TP0",)


def test_parts_of_a_line_that_docker_split_are_joined() -> None:
    whole = LINES[0]
    parts = [
        json.dumps({"log": whole[:40], "stream": "stderr", "time": "t"}),
        json.dumps({"log": whole[40:] + "\n", "stream": "stderr", "time": "t"}),
    ]
    assert [item.record.message for item in read("\n".join(parts))] == [
        "Load weight begin. avail mem=78.58 GB"
    ]


def test_parts_of_a_line_that_the_runtime_split_are_joined() -> None:
    stamp = "2026-03-04T05:06:07.123456789Z stderr"
    text = f"{stamp} P {LINES[0][:30]}\n{stamp} F {LINES[0][30:]}\n{stamp} F {LINES[1]}\n"
    found = read(text)
    assert [item.record.message for item in found] == [
        "Load weight begin. avail mem=78.58 GB",
        "Load weight end.",
    ]
    assert found[1].record.line == 3


def test_user_text_in_request_logs_is_never_read() -> None:
    text = (
        "[2026-03-04 05:06:07] Receive: obj=GenerateReqInput(text='Load weight begin.')\n"
        '[2026-03-04 05:06:07] {"timestamp": "t", "event": "request.finished", "x": "Load weight"}\n'
        f"{LINES[0]}\n"
    )
    assert [item.record.line for item in read(text)] == [3]


@given(st.text(max_size=200))
def test_nothing_moves_a_terminal(text: str) -> None:
    shown = printable(text)
    assert "\x1b" not in shown
    assert not any(ord(character) < 32 and character not in "\n\t\r" for character in shown)


@given(st.text(max_size=200))
def test_peeling_never_fails(text: str) -> None:
    assert isinstance(peel(text), str)
