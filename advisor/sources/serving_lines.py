"""Read the Prefill and Decode lines of a whole block at once, as columns of bytes.

A busy server prints little else, so these lines do not take the way of other records. The parser
learns the shape of a line (its prefix width, its fields and their order) from the first one that
it meets, makes one expression of it, and reads a block with one search per shape. Every release
from 0.4.6.post5 to 0.5.23 has its own fields; unknown ones are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

DECODE_LITERAL = b"Decode batch"
PREFILL_LITERAL = b"Prefill batch"
SERVING_LITERALS = (DECODE_LITERAL.decode(), PREFILL_LITERAL.decode())

_COMMON_LITERAL = b" batch"
_LEARNING_BYTES = 1 << 13
_MOST_SHAPES = 24


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
    rb"(?P<fields>[^\n\r\x1b]{1,1000})\r?\n",
    re.MULTILINE,
)
_ITERATION = re.compile(rb"\d+")
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
    kind: ServingKind
    names: tuple[str, ...]
    pattern: re.Pattern[bytes]

    def read(self, text: bytes) -> Iterator[ServingLines]:
        """Yield the lines of each rank."""
        rows = self.pattern.findall(text)
        if not rows:
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
class ServingParser:
    """Reads plain serving lines; shapes are learned from small pieces of text only."""

    _shapes: dict[bytes, _Shape] = field(default_factory=dict)

    def parse(self, text: bytes) -> tuple[ServingLines, ...] | None:
        """Read every serving line of a text of whole lines; None if one of them is not plain."""
        lines = self._read(text)
        if _is_complete(text, lines):
            return lines
        if len(text) > _LEARNING_BYTES or not self._learn(text):
            return None
        lines = self._read(text)
        return lines if _is_complete(text, lines) else None

    def _read(self, text: bytes) -> tuple[ServingLines, ...]:
        return tuple(lines for shape in self._shapes.values() for lines in shape.read(text))

    def _learn(self, text: bytes) -> bool:
        """Learn the shapes of the text's lines; whether there was a new one."""
        before = len(self._shapes)
        for match in _LINE.finditer(text):
            if len(self._shapes) >= _MOST_SHAPES:
                break
            shape = _shape(match)
            if shape is not None:
                self._shapes.setdefault(shape.pattern.pattern, shape)
        return len(self._shapes) > before


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


def _is_complete(text: bytes, lines: tuple[ServingLines, ...]) -> bool:
    found = sum(map(len, lines))
    if text.count(_COMMON_LITERAL) == found:
        return True
    return text.count(DECODE_LITERAL) + text.count(PREFILL_LITERAL) == found


def _shape(match: re.Match[bytes]) -> _Shape | None:
    """Make the expression that reads lines like this one; None if it lacks a field."""
    kind = ServingKind(match["kind"].decode().lower())
    names, fields = _fields(kind, match["fields"])
    if not _REQUIRED[kind] <= set(names) or len(set(names)) != len(names):
        return None
    label = rb"\] " + match["kind"] + rb" batch"
    time_width = 17 + len(match["fraction"] or b"")
    prefix = rb"(?<=^\[(20[-0-9 :.,]{%d})([ A-Z_0-9]{%d})%s)" % (
        time_width,
        len(match["ranks"]),
        label,
    )
    separator = rb"\d+".join(re.escape(part) for part in _ITERATION.split(match["separator"]))
    expression = label + prefix + separator + fields + rb"\n"
    return _Shape(
        kind=kind,
        names=names,
        pattern=re.compile(expression, re.MULTILINE),
    )


def _fields(kind: ServingKind, text: bytes) -> tuple[tuple[str, ...], bytes]:
    """Return the names of the fields to read, in order, and the expression of all fields.

    What follows the last of them is not looked at.
    """
    names: list[str] = []
    parts: list[bytes] = []
    read = 0
    for part in text.split(b", "):
        label, colon, value = part.rpartition(b": ")
        name = _FIELDS[kind].get(label)
        if name is not None and (group := _value(value)) is not None:
            names.append(name)
            parts.append(re.escape(label) + b": " + group)
            read = len(parts)
        else:
            skipped = rb"[0-9.]*" if _NUMBER.fullmatch(value) else rb"[^,\n]*"
            parts.append(re.escape(label + colon) + skipped)
    return tuple(names), b", ".join(parts[:read]) + rb".*"


def _value(value: bytes) -> bytes | None:
    """Return the group that reads a value; None for a value of unknown form."""
    if value.startswith((b"True", b"False")):
        return rb"(True|False)"
    return rb"([0-9.]{1,16})" if _NUMBER.fullmatch(value.rstrip(b"% ")) else None
