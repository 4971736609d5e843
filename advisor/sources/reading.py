"""Read one log into the records that matter, in order, in one pass and bounded memory."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace

from advisor.sources.blocks import decode_blocks, read_blocks
from advisor.sources.files import LogInput, open_log
from advisor.sources.records import (
    Record,
    is_request_log,
    parse_record,
    split_torn,
    starts_record,
)
from advisor.sources.redaction import Redactor
from advisor.sources.scan import Candidate, Scanner
from advisor.sources.serving_lines import (
    SERVING_LITERALS,
    ServingBlock,
    ServingParser,
    is_small,
    pieces,
)
from advisor.sources.wrappers import peel

TRACEBACK_HEAD = "Traceback (most recent call last)"
_LONGEST_TRACEBACK_LINES = 400
_MOST_HINTED_LINES = 10_000
_HEAD_BYTES = 300
_REQUEST_LOG = re.compile(rb'(?:Receive|Receive OpenAI|Finish): obj=|"event": "request\.')
_TAIL_BYTES = 1 << 14
_KEPT_TAILS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A record that holds literals of the scanner.

    `literals` are indexes into the scanner's list. Lines of a traceback that hold literals come on
    their own (`in_traceback`), then the whole traceback once (`traceback`).
    """

    record: Record
    literals: tuple[int, ...]
    traceback: bool = False
    in_traceback: bool = False


@dataclass(slots=True)
class LogStatistics:
    """What was read of one log; `first` and `last` are its first and last records with a time."""

    name: str
    lines: int = 0
    bytes_: int = 0
    unread: int = 0
    first: Record | None = None
    last: Record | None = None


@dataclass(slots=True)
class _OpenTraceback:
    head: Record
    body: list[str] = field(default_factory=list)


class LogReader:
    """Yields the records of one log that hold any of the scanner's literals.

    With `serving_blocks`, plain Prefill and Decode lines come as whole blocks, in their place
    between the records; only those that are torn, wrapped or hold other literals are records.
    Of the lines that hold nothing but `hints` only the first many are read, request logs not at all.
    """

    def __init__(
        self,
        log: LogInput,
        scanner: Scanner,
        redactor: Redactor,
        *,
        serving_blocks: bool = True,
        hints: frozenset[int] = frozenset(),
    ) -> None:
        self.statistics = LogStatistics(name=log.name)
        self._redactor = redactor
        self._log = log
        self._scanner = scanner
        self._others = scanner.without(SERVING_LITERALS) if serving_blocks else scanner
        self._parser = ServingParser() if serving_blocks else None
        self._serving = tuple(
            (literal.encode(), scanner.literals.index(literal))
            for literal in SERVING_LITERALS
            if literal in scanner.literals
        )
        self._hints = hints
        self._hinted_lines = 0
        self._open: _OpenTraceback | None = None
        self._tails: deque[tuple[int, bytes]] = deque(maxlen=_KEPT_TAILS)

    def __iter__(self) -> Iterator[Found | ServingBlock]:
        with open_log(self._log) as stream:
            for block in decode_blocks(read_blocks(stream)):
                if not self.statistics.lines:
                    self.statistics.first = self._find_first(block)
                yield from self._read_block(block)
        yield from self._close_traceback()
        self.statistics.last = self._find_last()

    def _read_block(self, block: bytes) -> Iterator[Found | ServingBlock]:
        position = 0
        number = self.statistics.lines
        for candidate in self._others.candidates(block):
            if self._is_passed_over(block, candidate):
                continue
            number = yield from self._read_between(block, position, number, candidate.start)
            yield from self._read_candidate(block, candidate, number + 1)
            position = min(candidate.end + 1, len(block))
            number += 1
        self.statistics.lines = yield from self._read_between(block, position, number, len(block))
        self.statistics.bytes_ += len(block)
        self._tails.append((self.statistics.lines, block[-_TAIL_BYTES:]))

    def _is_passed_over(self, block: bytes, candidate: Candidate) -> bool:
        """Whether a line holds hints only, and is a request log or one of too many."""
        if not self._hints.issuperset(candidate.literals):
            return False
        head = min(candidate.start + _HEAD_BYTES, candidate.end)
        if _REQUEST_LOG.search(block, candidate.start, head):
            return True
        self._hinted_lines += 1
        return self._hinted_lines > _MOST_HINTED_LINES

    def _read_between(
        self, block: bytes, position: int, number: int, stop: int
    ) -> Generator[Found | ServingBlock, None, int]:
        """Read lines without other literals: a traceback's body, serving lines, or nothing.

        Returns the number of the last line before `stop`.
        """
        if self._open is not None:
            position, number = yield from self._read_body(block, position, number, stop=stop)
        text = block[position:stop]
        if text:
            if self._parser is not None:
                yield from self._read_serving(self._parser, text, number)
            number += text.count(b"\n")
        return number

    def _read_serving(
        self, parser: ServingParser, text: bytes, number: int
    ) -> Iterator[Found | ServingBlock]:
        """Read plain serving lines at once; a text that holds others is cut until it is small."""
        lines = parser.parse(text)
        if lines is not None:
            if lines:
                yield ServingBlock(
                    lines=lines, text=text, source=self._log.name, first_line=number + 1
                )
        elif is_small(text):
            yield from self._read_small(text, number)
        else:
            for piece in pieces(text):
                yield from self._read_serving(parser, piece, number)
                number += piece.count(b"\n")

    def _read_small(self, text: bytes, number: int) -> Iterator[Found]:
        position = 0
        for candidate in self._scanner.candidates(text):
            number += text.count(b"\n", position, candidate.start)
            yield from self._read_candidate(text, candidate, number + 1)
            position = candidate.end + 1
            number += 1

    def _read_candidate(self, block: bytes, candidate: Candidate, number: int) -> Iterator[Found]:
        line = block[candidate.start : candidate.end]
        serving = (index for literal, index in self._serving if literal in line)
        known = tuple(sorted({*candidate.literals, *serving}))
        parts = split_torn(line.decode("utf-8", "replace"))
        for part in parts:
            peeled = self._redactor.clean(peel(part), number)
            literals = self._literals_of(peeled, known) if len(parts) > 1 else known
            if starts_record(peeled):
                yield from self._close_traceback()
            record = parse_record(peeled, source=self._log.name, line=number)
            if is_request_log(record.message):
                continue
            yield from self._read_record(record, literals)

    def _read_record(self, record: Record, literals: tuple[int, ...]) -> Iterator[Found]:
        if TRACEBACK_HEAD in record.message:
            if self._open is None:
                self._open = _OpenTraceback(head=record)
            else:
                self._open.body.append(record.message)
        elif self._open is not None and len(self._open.body) < _LONGEST_TRACEBACK_LINES:
            self._open.body.append(record.message)
            record = replace(record, time=self._open.head.time, ranks=self._open.head.ranks)
        if literals:
            yield Found(record=record, literals=literals, in_traceback=self._open is not None)

    def _read_body(
        self, block: bytes, position: int, number: int, *, stop: int
    ) -> Generator[Found, None, tuple[int, int]]:
        """Collect the lines of an open traceback up to `stop`; returns position and line."""
        while self._open is not None and position < stop:
            end = block.find(b"\n", position)
            end = len(block) if end < 0 else end
            for piece in split_torn(block[position:end].decode("utf-8", "replace")):
                text = self._redactor.clean(peel(piece), number + 1)
                if starts_record(text) or len(self._open.body) >= _LONGEST_TRACEBACK_LINES:
                    yield from self._close_traceback()
                    break
                self._open.body.append(text)
            position, number = end + 1, number + 1
        return position, number

    def _close_traceback(self) -> Iterator[Found]:
        if self._open is None:
            return
        head, body = self._open.head, tuple(self._open.body)
        self._open = None
        yield Found(record=replace(head, body=body), literals=(), traceback=True)

    def _literals_of(self, text: str, known: tuple[int, ...]) -> tuple[int, ...]:
        names = self._scanner.literals
        return tuple(index for index in known if names[index] in text)

    def _find_first(self, block: bytes) -> Record | None:
        """Find the first record that carries a time: where the log begins."""
        head = block[:_TAIL_BYTES].decode("utf-8", "replace").split("\n")
        for number, line in enumerate(head, start=1):
            text = peel(line.rpartition("\r")[2] or line)
            if starts_record(text):
                return parse_record(text, source=self._log.name, line=number)
        return None

    def _find_last(self) -> Record | None:
        """Find the last record that carries a time: where the log stops."""
        for number, tail in reversed(self._tails):
            for piece in reversed(tail.decode("utf-8", "replace").replace("\r", "\n").split("\n")):
                text = peel(piece)
                if starts_record(text):
                    return parse_record(text, source=self._log.name, line=number)
        return None
