"""What container runtimes and log shippers put around a line, and how to take it off.

Two kinds: a prefix that can be cut from any single line (kubectl, compose, journald, syslog, Ray,
srun), and an envelope that must be decoded for the whole file because it can split one line into
parts (docker's json-file, the CRI format) or escape its text (JSON logs).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

import regex

ESCAPES = regex.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = regex.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

_PREFIXES = regex.compile(
    r"(?:"
    r"\[pod/[^\]\s]+\] ?"
    r"|\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:?\d{2}) (?:(?:stdout|stderr) [FP] )?"
    r"|\[\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?Z\] "
    r"|[A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \S+ [\w./@-]+(?:\[\d+\])?: "
    r"|<\d{1,3}>\d? ?"
    r"|\[?[\w.-]{1,64}\]? +\| (?=\[|INFO|WARNING|ERROR|Traceback|\S)"
    r"|\([\w.]+(?: |_\w+ )pid=\d+(?:, ip=[\d.:a-f]+)?\) ?"
    r"|\d{1,4}: (?=\[\d{4}-)"
    r")"
)
_CRI = regex.compile(
    r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2}) (?:stdout|stderr) (?P<tag>[FP]) "
)
_NESTED_WRAPPERS = 4
_JOINED_PARTS = 64
_MESSAGE_KEYS = ("log", "message", "msg", "textPayload", "MESSAGE")


class Envelope(StrEnum):
    """A format that must be decoded line by line for the whole file."""

    NONE = "none"
    JSON = "json"
    CRI = "cri"


def peel(text: str) -> str:
    """Take colours and wrapper prefixes off one line.

    >>> peel("sglang-1  | [2026-03-04 05:06:07 TP0] Load weight begin.")
    '[2026-03-04 05:06:07 TP0] Load weight begin.'
    """
    if "\x1b" in text:
        text = ESCAPES.sub("", text, timeout=1.0)
    for _ in range(_NESTED_WRAPPERS):
        if text.startswith("[20") and text[5:6] == "-" and text[11:12] == " ":
            break
        match = _PREFIXES.match(text, timeout=1.0)
        if match is None:
            break
        text = text[match.end() :]
    return text.rstrip("\n\r")


def printable(text: str) -> str:
    """Replace what could move a terminal's cursor or change its colours."""
    return _CONTROL.sub("�", ESCAPES.sub("", text, timeout=1.0), timeout=1.0)


def detect_envelope(lines: Iterable[str]) -> Envelope:
    """Judge a file by its first lines: an envelope is only believed if nearly all carry it."""
    seen = json_lines = cri_lines = 0
    for line in lines:
        if not line.strip():
            continue
        seen += 1
        json_lines += _json_message(line) is not None
        cri_lines += _CRI.match(line) is not None
    if seen and json_lines * 10 >= seen * 9:
        return Envelope.JSON
    if seen and cri_lines * 10 >= seen * 9:
        return Envelope.CRI
    return Envelope.NONE


def decoder(envelope: Envelope) -> Callable[[Iterable[str]], Iterator[str]]:
    """Return the function that decodes lines of this envelope, keeping the number of lines."""
    return {
        Envelope.NONE: _as_they_are,
        Envelope.JSON: _decode_json,
        Envelope.CRI: _decode_cri,
    }[envelope]


def _as_they_are(lines: Iterable[str]) -> Iterator[str]:
    yield from lines


def _decode_json(lines: Iterable[str]) -> Iterator[str]:
    """Give the message of each JSON line; a part without a newline is joined with the next."""
    return _join(_json_part(line) for line in lines)


def _decode_cri(lines: Iterable[str]) -> Iterator[str]:
    return _join(_cri_part(line) for line in lines)


def _join(parts: Iterable[tuple[str, bool]]) -> Iterator[str]:
    """Join partial lines; the joined text stands at the last part, earlier ones become empty."""
    held: list[str] = []
    for text, complete in parts:
        held.append(text)
        if not complete and len(held) < _JOINED_PARTS:
            yield ""
            continue
        yield "".join(held)
        held.clear()
    if held:
        yield "".join(held)


def _json_part(line: str) -> tuple[str, bool]:
    message = _json_message(line)
    if message is None:
        return line, True
    complete = message.endswith("\n") or '"stream"' not in line
    return message.rstrip("\n").replace("\n", "\r"), complete


def _cri_part(line: str) -> tuple[str, bool]:
    match = _CRI.match(line)
    if match is None:
        return line, True
    return line[match.end() :], match["tag"] == "F"


def _json_message(line: str) -> str | None:
    if not line.startswith("{"):
        return None
    try:
        document = json.loads(line)
    except ValueError:
        return None
    if not isinstance(document, dict):
        return None
    for key in _MESSAGE_KEYS:
        value = document.get(key)
        if isinstance(value, str):
            return _with_ranks(document, value)
    return None


def _with_ranks(document: dict[str, object], message: str) -> str:
    """Give a JSON log record SGLang's own prefix where it carries only a time and a text."""
    time = document.get("asctime")
    if isinstance(time, str) and not message.startswith("["):
        return f"[{time}] {message}"
    return message
