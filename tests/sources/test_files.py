"""Opening what users name, and one clear line for what cannot be used."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from pathlib import Path

import pytest
import zstandard

from advisor.errors import InputError
from advisor.sources.blocks import LONGEST_LINE_BYTES
from advisor.sources.files import LogInput, expand, open_log
from advisor.sources.reading import Found, LogReader
from advisor.sources.redaction import Redactor
from advisor.sources.scan import Scanner

TEXT = b"[2026-03-04 05:06:07] The server is fired up and ready to roll!\n"
COMPRESSED = {
    "gz": gzip.compress(TEXT, mtime=0),
    "bz2": bz2.compress(TEXT),
    "xz": lzma.compress(TEXT),
    "zst": zstandard.ZstdCompressor().compress(TEXT),
    "log": TEXT,
}


def lines_of(path: Path) -> int:
    reader = LogReader(LogInput(name=path.name, path=path), Scanner(["fired up"]), Redactor())
    assert len(list(reader)) > 0
    return reader.statistics.lines


@pytest.mark.parametrize("suffix", COMPRESSED)
def test_compressed_logs_are_read_by_their_content(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "misnamed"
    path.write_bytes(COMPRESSED[suffix])
    assert lines_of(path) == 1


def test_concatenated_gzip_members_are_one_log(tmp_path: Path) -> None:
    path = tmp_path / "rotated.gz"
    path.write_bytes(COMPRESSED["gz"] * 3)
    assert lines_of(path) == 3


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("empty.log", b"", "empty"),
        ("core.log", b"\x7fELF\x02\x01\x00\x00", "binary"),
        ("cut.gz", COMPRESSED["gz"][:-12], "broken archive"),
        ("cut.xz", COMPRESSED["xz"][:-12], "broken archive"),
        ("garbled.bz2", COMPRESSED["bz2"][:20] + b"xxxxxxxxxxxxxxxxxxxx", "garbled.bz2"),
    ],
    ids=["empty", "binary", "cut gzip", "cut xz", "garbled bzip2"],
)
def test_unusable_files_are_named_with_the_reason(
    tmp_path: Path, name: str, content: bytes, complaint: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    log = LogInput(name=name, path=path)
    with pytest.raises(InputError, match=complaint):
        list(LogReader(log, Scanner(["fired up"]), Redactor()))


def test_a_folder_gives_its_logs_and_nothing_else(tmp_path: Path) -> None:
    for name in ("a.log", "a.log.1", "b.log.2.gz", "notes.md", "config.json", "sub.out"):
        (tmp_path / name).write_bytes(TEXT)
    names = [Path(log.name).name for log in expand([str(tmp_path)])]
    assert names == ["a.log", "a.log.1", "b.log.2.gz", "sub.out"]


def test_a_pattern_and_a_repeated_name_give_each_file_once(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(TEXT)
    logs = expand([str(tmp_path / "*.log"), str(tmp_path / "a.log")])
    assert len(logs) == 1


@pytest.mark.parametrize("argument", ["missing.log", "missing-*.log"])
def test_a_missing_file_is_said_so(tmp_path: Path, argument: str) -> None:
    with pytest.raises(InputError, match="no such file"):
        expand([str(tmp_path / argument)])


def test_a_folder_without_logs_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no logs"):
        expand([str(tmp_path)])


def test_an_endless_line_is_cut_and_the_next_one_still_read(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    path.write_bytes(b"x" * (3 * LONGEST_LINE_BYTES + 17) + b"\n" + TEXT)
    reader = LogReader(LogInput(name="long", path=path), Scanner(["fired up"]), Redactor())
    assert [found.record.line for found in reader if isinstance(found, Found)] == [2]


def test_an_unreadable_file_is_said_so(tmp_path: Path) -> None:
    path = tmp_path / "gone.log"
    path.write_bytes(TEXT)
    log = LogInput(name="gone.log", path=path)
    os.unlink(path)  # noqa: PTH108  (the file goes away between naming and reading)
    with pytest.raises(InputError, match=r"gone\.log"), open_log(log):
        pass
