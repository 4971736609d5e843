"""From what a user names (files, folders, globs, standard input) to streams of bytes."""

from __future__ import annotations

import bz2
import glob
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from advisor.errors import InputError

LOG_SUFFIXES = (".log", ".txt", ".out", ".err", ".stdout", ".stderr")
ARCHIVE_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
_SNIFFED_BYTES = 8192
_STANDARD_INPUT = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogInput:
    """One log to read: its name in reports, and its path (None for standard input).

    `text` is a log given as it is, as the examples of rules are.
    """

    name: str
    path: Path | None = None
    text: str | None = None


def expand(arguments: Sequence[str]) -> tuple[LogInput, ...]:
    """Turn the user's arguments into logs: each file once, in the order named.

    Raises:
        InputError: If an argument names nothing, or a folder without logs.
    """
    found: dict[str, LogInput] = {}
    for argument in arguments:
        for log in _expand_one(argument):
            found.setdefault(log.name, log)
    return tuple(found.values())


def _expand_one(argument: str) -> list[LogInput]:
    if argument == _STANDARD_INPUT:
        return [LogInput(name="stdin")]
    path = Path(argument)
    if path.is_dir():
        return _logs_in_folder(path)
    if path.exists():
        return [LogInput(name=argument, path=path)]
    matches = sorted(glob.glob(argument, recursive=True)) if _has_wildcard(argument) else []  # noqa: PTH207
    if not matches:
        raise InputError(f"{argument}: no such file; name a log, a folder of logs, or - for stdin")
    return [LogInput(name=match, path=Path(match)) for match in matches if Path(match).is_file()]


def _has_wildcard(argument: str) -> bool:
    return any(character in argument for character in "*?[")


def _logs_in_folder(folder: Path) -> list[LogInput]:
    logs = [
        LogInput(name=str(path), path=path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and _looks_like_log(path)
    ]
    if not logs:
        wanted = " ".join(LOG_SUFFIXES)
        raise InputError(
            f"{folder}: no logs in this folder (looked for {wanted}, plain or compressed)"
        )
    return logs


def _looks_like_log(path: Path) -> bool:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in ARCHIVE_SUFFIXES:
        suffixes.pop()
    while suffixes and suffixes[-1][1:].isdigit():
        suffixes.pop()
    return bool(suffixes) and suffixes[-1] in LOG_SUFFIXES


@contextmanager
def open_log(log: LogInput) -> Iterator[IO[bytes]]:
    """Open a log for reading, decompressed by its content, not by its name.

    Raises:
        InputError: If it cannot be read, is empty, or is no text.
    """
    try:
        with _open_raw(log) as raw:
            yield _text_stream(log, _decompressed(raw))
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{log.name}: broken archive: {error}") from None
    except OSError as error:
        raise InputError(f"{log.name}: {error.strerror or error}") from None


@contextmanager
def _open_raw(log: LogInput) -> Iterator[IO[bytes]]:
    if log.text is not None:
        yield io.BytesIO(log.text.encode("utf-8", "surrogateescape"))
        return
    if log.path is None:
        yield sys.stdin.buffer
        return
    with log.path.open("rb") as stream:
        yield stream


class _Rewound:
    """A stream whose first bytes were read to judge it, given back at its head."""

    def __init__(self, head: bytes, stream: IO[bytes]) -> None:
        self._head = head
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        if not self._head:
            return self._stream.read(size)
        if size < 0:
            head, self._head = self._head, b""
            return head + self._stream.read()
        head, self._head = self._head[:size], self._head[size:]
        return head + self._stream.read(size - len(head)) if len(head) < size else head


def _rewound(stream: IO[bytes], size: int) -> tuple[bytes, IO[bytes]]:
    head = stream.read(size)
    return head, cast("IO[bytes]", _Rewound(head, stream))


def _decompressed(stream: IO[bytes]) -> IO[bytes]:
    magic, stream = _rewound(stream, 6)
    if magic.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", gzip.GzipFile(fileobj=stream))
    if magic.startswith(b"BZh"):
        return cast("IO[bytes]", bz2.BZ2File(stream))
    if magic.startswith(b"\xfd7zXZ\x00"):
        return cast("IO[bytes]", lzma.LZMAFile(stream))
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        import zstandard

        return cast("IO[bytes]", zstandard.ZstdDecompressor().stream_reader(stream))
    return stream


def _text_stream(log: LogInput, stream: IO[bytes]) -> IO[bytes]:
    head, stream = _rewound(stream, _SNIFFED_BYTES)
    if not head:
        raise InputError(f"{log.name}: the file is empty")
    if b"\x00" in head:
        raise InputError(f"{log.name}: a binary file, not a log")
    return stream
