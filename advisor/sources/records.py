"""One log record: the grammar of SGLang's line prefixes, 0.4.6.post5 to 0.5.23.

The default format has no level and no logger name: `[2026-03-04 05:06:07 DP1 TP3] message`.
Milliseconds come with SGLANG_LOG_MS; the order of the rank labels changed between releases, so
they are read as a set (managers/scheduler.py of each release).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import regex

SHOWN_TEXT_LENGTH = 600

_STAMP = r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(?:[.,]\d{3})?"
_PREFIX = regex.compile(
    rf"\[(?P<time>{_STAMP})"
    r"(?P<ranks>(?: (?:DP|PP|ATTN_CP|MOE_DP|TP|EP)\d+)+"
    r"| encode_server| encode_dp_worker\[\d+\])?\](?: |(?=\[)|$)"
)
_MODULE_LEVEL = regex.compile(
    r"(?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) [\w.]+\.py:\d+: )"
    r"|(?:\[[\w.]+\.py:\d+\]\[(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)\]:? )"
    r"|(?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL):(?:[A-Za-z_][\w.]*:|\s+))"
)
_TORN = regex.compile(rf"(?<=.)\[{_STAMP}(?: (?:DP|PP|ATTN_CP|MOE_DP|TP|EP)\d+)*\] ")
_REQUEST_LOG = regex.compile(
    r'(?:Receive|Receive OpenAI|Finish): obj=|\{"timestamp": "[^"]*", "event": "request\.'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A place in an input that a fact or finding rests on.

    `text` is the record as read, cut to a bounded length; `count` and `ranks` say how often and
    from which ranks the same message came.
    """

    source: str
    line: int
    text: str
    count: int = 1
    ranks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One message of the log, its wrapper and prefix peeled off.

    `time` is local time without a zone, as printed; `ranks` are labels such as `TP0`, empty for
    the main process. `body` holds the lines of a traceback that belong to this record.
    """

    source: str
    line: int
    time: datetime | None = None
    ranks: tuple[str, ...] = ()
    level: str | None = None
    message: str
    body: tuple[str, ...] = ()

    @property
    def rank(self) -> str:
        """The rank labels joined, such as `DP0 TP3`; empty for the main process."""
        return " ".join(self.ranks)

    def evidence(self) -> Evidence:
        """Point at this record."""
        return Evidence(
            source=self.source,
            line=self.line,
            text=shown(self.message),
            ranks=(self.rank,) if self.ranks else (),
        )


def shown(text: str) -> str:
    """Cut a text to the length that reports show."""
    if len(text) <= SHOWN_TEXT_LENGTH:
        return text
    return text[: SHOWN_TEXT_LENGTH - 1] + "…"


def parse_time(text: str) -> datetime | None:
    """Read a log time; None where the digits are no date.

    >>> parse_time("2026-03-04 05:06:07.123")
    datetime.datetime(2026, 3, 4, 5, 6, 7, 123000)
    """
    try:
        return datetime.fromisoformat(text.replace(",", "."))
    except ValueError:
        return None


def split_torn(text: str) -> list[str]:
    """Split a physical line where another record starts in its middle.

    Progress bars end with a carriage return and several processes share one stream, so that one
    line can hold several records.
    """
    if "\r" not in text and text.find("[2", 1) < 0:
        return [text]
    pieces: list[str] = []
    for part in text.split("\r"):
        start = 0
        for match in _TORN.finditer(part, timeout=1.0):
            if _opens_inside_quotes(part, match.start()):
                continue
            pieces.append(part[start : match.start()])
            start = match.start()
        pieces.append(part[start:])
    return [piece for piece in pieces if piece]


def _opens_inside_quotes(text: str, position: int) -> bool:
    """Whether a would-be record start lies in a quoted value (a prompt in a request log)."""
    return is_request_log(text[:position]) or text[:position].count("'") % 2 == 1


def parse_record(text: str, *, source: str, line: int) -> Record:
    """Read one peeled line; a line without a prefix becomes a record without time and rank."""
    match = _PREFIX.match(text)
    if match is None:
        level, rest = _split_level(text)
        return Record(source=source, line=line, level=level, message=rest)
    level, rest = _split_level(text[match.end() :])
    return Record(
        source=source,
        line=line,
        time=parse_time(match["time"]),
        ranks=tuple((match["ranks"] or "").split()),
        level=level,
        message=rest,
    )


def starts_record(text: str) -> bool:
    """Whether a peeled line begins with SGLang's own time and rank prefix."""
    return _PREFIX.match(text) is not None


def is_request_log(message: str) -> bool:
    """Whether a message is a request log: it holds user text, which no rule may see."""
    return _REQUEST_LOG.match(message) is not None


def _split_level(text: str) -> tuple[str | None, str]:
    match = _MODULE_LEVEL.match(text)
    if match is None:
        return None, text
    return match["level"], text[match.end() :]
