"""Read the Prefill and Decode lines of a whole block at once, as columns of bytes.

A busy server prints little else, so these lines do not take the way of other records. The parser
learns the shape of a line (its prefix width, its fields and their order) from the first one that
it meets, makes one expression of it, and reads a block with one search per shape. Every release
from 0.4.6.post5 to 0.5.23 has its own fields; unknown ones are passed over.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

DECODE_LITERAL = b"Decode batch"
PREFILL_LITERAL = b"Prefill batch"
SERVING_LITERALS = (DECODE_LITERAL.decode(), PREFILL_LITERAL.decode())

_LEARNING_BYTES = 1 << 13
_MOST_SHAPES = 16
_TIME_WIDTH = len("26-03-04 05:06:07")


class ServingKind(StrEnum):
    """Which of the two lines."""

    DECODE = "decode"
    PREFILL = "prefill"


_SHARED: Mapping[bytes, str] = {
    b"#running-req": "running",
    b"#queue-req": "queue",
    b"#prealloc-req": "prealloc",
}
_FIELDS: Mapping[ServingKind, Mapping[bytes, str]] = {
    ServingKind.DECODE: {
        **_SHARED,
        b"#token": "tokens",
        b"token usage": "usage",
        b"#full token": "full_tokens",
        b"full token usage": "full_usage",
        b"swa token usage": "swa_usage",
        b"mamba usage": "mamba_usage",
        b"gpu token usage": "gpu_usage",
        b"cpu token usage": "cpu_usage",
        b"accept len": "accept_len",
        b"accept rate": "accept_rate",
        b"pre-allocated usage": "prealloc_usage",
        b"#transfer-req": "transfer",
        b"#retracted-req": "retracted",
        b"cuda graph": "graph",
        b"cpu graph": "graph",
        b"npu graph": "graph",
        b"gen throughput (token/s)": "gen_tps",
        b"fwd occupancy": "occupancy",
    },
    ServingKind.PREFILL: {
        **_SHARED,
        b"#new-seq": "new_seq",
        b"#new-token": "new_token",
        b"#cached-token": "cached_token",
        b"#bootstrap-req": "bootstrap",
        b"#unbootstrapped-req": "bootstrap",
        b"#inflight-req": "inflight",
        b"#transferring-req": "inflight",
    },
}
_REQUIRED = {
    ServingKind.DECODE: frozenset({"running", "queue", "graph", "gen_tps"}),
    ServingKind.PREFILL: frozenset({"new_seq", "new_token", "cached_token", "running", "queue"}),
}
_LINE = re.compile(
    rb"^\[20[-0-9 :]{17}(?P<fraction>[.,]\d{3})?(?P<ranks>(?: [A-Z_]{2,8}\d{1,5}){0,6})\] "
    rb"(?P<kind>Decode|Prefill) batch(?P<separator>\. | \[\d{1,12}\], |, )"
    rb"(?P<fields>[^\n\r\x1b]{1,1000})\r?$",
    re.MULTILINE,
)
_ITERATION = re.compile(rb"\d+")
_TIME = operator.itemgetter(0)
_PLAIN_VALUE = re.compile(rb"[0-9.]{1,16}|True|False")
_NUMBER = re.compile(rb"[0-9.]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingLines:
    """Lines of one kind, shape and rank, in order, as columns of equal length, never empty.

    `rank` joins the rank labels, such as `DP0 TP0`; it is empty where the lines have none.
    `columns` holds the fields that the shape has, under the names of the fact lines' captures.
    """

    kind: ServingKind
    rank: str
    times: Sequence[bytes]
    columns: Mapping[str, Sequence[bytes]]

    def __len__(self) -> int:
        return len(self.times)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingBlock:
    """The serving lines of one piece of a log, whose `text` begins at line `first_line`."""

    lines: tuple[ServingLines, ...]
    text: bytes
    source: str
    first_line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """One form of line. Its pattern gives a row of empty groups for lines of other forms.

    A row holds the time, the ranks where the form has them, and the named fields.
    """

    kind: ServingKind
    names: tuple[str, ...]
    ranked: bool
    pattern: re.Pattern[bytes]

    def read(self, rows: Sequence[tuple[bytes, ...]]) -> Iterator[ServingLines]:
        """Yield the lines of each rank; every row must be of this form."""
        if not self.ranked:
            times, *columns = zip(*rows, strict=True)
            yield self._lines(b"", times, columns)
            return
        times, ranks, *columns = zip(*rows, strict=True)
        if len(set(ranks)) == 1:
            yield self._lines(ranks[0], times, columns)
            return
        groups: dict[bytes, list[tuple[bytes, ...]]] = {}
        for row in rows:
            groups.setdefault(row[1], []).append(row)
        for rank, group in groups.items():
            times, _, *columns = zip(*group, strict=True)
            yield self._lines(rank, times, columns)

    def _lines(
        self, rank: bytes, times: Sequence[bytes], columns: Sequence[Sequence[bytes]]
    ) -> ServingLines:
        return ServingLines(
            kind=self.kind,
            rank=rank.decode("ascii").strip(),
            times=times,
            columns=dict(zip(self.names, columns, strict=True)),
        )


@dataclass(slots=True)
class _Forms:
    """The known forms of one kind of line, the most usual first."""

    literal: bytes
    shapes: list[_Shape] = field(default_factory=list)

    def read(self, text: bytes) -> list[ServingLines] | None:
        """Read every line of the kind; None if one of them has no known form."""
        if not self.shapes:
            return None if self.literal in text else []
        found: list[ServingLines] = []
        open_lines: int | None = None
        for shape in self.shapes:
            rows = shape.pattern.findall(text)
            open_lines = len(rows) if open_lines is None else open_lines
            if not all(map(_TIME, rows)):
                rows = [row for row in rows if row[0]]
            if rows:
                found.extend(shape.read(rows))
                open_lines -= len(rows)
            if not open_lines:
                return found
        return None


@dataclass(slots=True)
class ServingParser:
    """Reads plain serving lines; forms are learned from small pieces of text only."""

    _forms: Mapping[ServingKind, _Forms] = field(
        default_factory=lambda: {
            ServingKind.DECODE: _Forms(literal=DECODE_LITERAL),
            ServingKind.PREFILL: _Forms(literal=PREFILL_LITERAL),
        }
    )

    def parse(self, text: bytes) -> tuple[ServingLines, ...] | None:
        """Read every serving line of a text of whole lines; None if one of them is not plain."""
        lines = self._read(text)
        if lines is not None or not is_small(text) or not self._learn(text):
            return lines
        return self._read(text)

    def _read(self, text: bytes) -> tuple[ServingLines, ...] | None:
        found: list[ServingLines] = []
        for forms in self._forms.values():
            lines = forms.read(text)
            if lines is None:
                return None
            found.extend(lines)
        return tuple(found)

    def _learn(self, text: bytes) -> bool:
        """Learn the forms of the text's lines; whether there was a new one."""
        learned = False
        for match in _LINE.finditer(text):
            shape = _shape(match)
            shapes = self._forms[shape.kind].shapes if shape is not None else []
            if shape is None or shape in shapes or len(shapes) >= _MOST_SHAPES:
                continue
            shapes.append(shape)
            learned = True
        return learned


def read_fields(kind: ServingKind, text: str) -> dict[str, bytes] | None:
    """Read the fields of one line that stands alone; None if one that each line has is missing."""
    values: dict[str, bytes] = {}
    for part in text.encode("utf-8", "replace").split(b", "):
        label, _, value = part.rpartition(b": ")
        name = _FIELDS[kind].get(label)
        plain = _PLAIN_VALUE.match(value)
        if name is not None and plain is not None:
            values.setdefault(name, plain[0])
    return values if _REQUIRED[kind] <= set(values) else None


def pieces(text: bytes) -> Iterator[bytes]:
    """Cut a text of whole lines at line ends into eight pieces or fewer."""
    start, step = 0, max(len(text) // 8, _LEARNING_BYTES // 2)
    while start < len(text):
        end = text.find(b"\n", min(start + step, len(text)) - 1) + 1
        end = end or len(text)
        yield text[start:end]
        start = end


def is_small(text: bytes) -> bool:
    """Whether a text is too short to be cut further."""
    return len(text) <= _LEARNING_BYTES


def _shape(match: re.Match[bytes]) -> _Shape | None:
    """Make the expression that reads lines like this one; None if it lacks a field."""
    kind = ServingKind(match["kind"].decode().lower())
    names, fields = _fields(kind, match["fields"])
    if not _REQUIRED[kind] <= set(names) or len(set(names)) != len(names):
        return None
    label = match["kind"] + rb" batch"
    ranks = rb"([ A-Z_0-9]{%d})" % len(match["ranks"]) if match["ranks"] else rb""
    time_width = _TIME_WIDTH + len(match["fraction"] or b"")
    prefix = rb"(?<=^\[(20.{%d})%s\] %s)" % (time_width, ranks, label)
    separator = rb"\d+".join(re.escape(part) for part in _ITERATION.split(match["separator"]))
    expression = label + rb"(?:" + prefix + separator + fields + rb"|)"
    return _Shape(
        kind=kind,
        names=names,
        ranked=bool(match["ranks"]),
        pattern=re.compile(expression, re.MULTILINE),
    )


def _fields(kind: ServingKind, text: bytes) -> tuple[tuple[str, ...], bytes]:
    """Return the names of the fields to read, in order, and the expression of the fields.

    It goes up to the label behind the last of them, so that no line has two forms: what is passed
    over is never a number with a name that is read elsewhere.
    """
    names: list[str] = []
    labels: list[bytes] = []
    parts: list[bytes] = []
    read = 0
    for part in text.rstrip(b", ").split(b", "):
        label, colon, value = part.rpartition(b": ")
        name = _FIELDS[kind].get(label)
        if name is None or (group := _value(value)) is None:
            known = rb"(?![0-9])" if name is not None else rb""
            labels.append(re.escape(label + colon) + known)
            parts.append(labels[-1] + (rb"[^,\n]{0,80}" if colon else rb"[^,:\n]{0,80}"))
            continue
        names.append(name)
        labels.append(re.escape(label + colon))
        parts.append(labels[-1] + group)
        read = len(parts)
    end = b", " + labels[read] if read < len(parts) else rb"[, ]*\r?$"
    return tuple(names), b", ".join(parts[:read]) + rb"(?=" + end + rb")"


def _value(value: bytes) -> bytes | None:
    """Return the group that reads a value; None for a value of unknown form."""
    if value.startswith((b"True", b"False")):
        return rb"(True|False)"
    number = _NUMBER.match(value)
    if number is None:
        return None
    return rb"([0-9.]{1,16})" + re.escape(value[number.end() :])
