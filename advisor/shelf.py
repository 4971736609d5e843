"""Keep plain values between runs: parsing hundreds of YAML files at every start takes too long.

What is kept is only ever a shortcut. It is JSON (nothing in it is run), carries the hash of its own
content, and is passed over where it is broken, belongs to somebody else or cannot be written.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from pathlib import Path

FOLDER_VARIABLE = "ADVISOR_CACHE"
OFF = "off"
_LARGEST_BYTES = 64 << 20
_KEY_LENGTH = 32


def folder() -> Path | None:
    """Return where values are kept; None where that is switched off or there is no home.

    $ADVISOR_CACHE (a folder, or `off`), else $XDG_CACHE_HOME/sglang-advisor or
    ~/.cache/sglang-advisor.
    """
    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen:
        return None if chosen == OFF else Path(chosen)
    home = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(home) if home else Path.home() / ".cache") / "sglang-advisor"
    except RuntimeError:
        return None


def load(kind: str, key: str) -> object | None:
    """Return what was kept under a key; None where there is nothing, or nothing to be trusted."""
    place = folder()
    if place is None:
        return None
    try:
        content = _own_content(_path(place, kind, key))
        checksum, _, payload = content.partition(b"\n")
        if checksum.decode("ascii") != hashlib.sha256(payload).hexdigest():
            return None
        value: object = json.loads(payload)
    except (OSError, ValueError, RecursionError):
        return None
    return value


def store(kind: str, key: str, value: object, *, kept: int) -> None:
    """Keep a value under a key, and drop all but the newest few of its kind.

    A value that JSON would change (keys that are no text), or a folder that cannot be written,
    is passed over.
    """
    place = folder()
    if place is None:
        return
    try:
        payload = json.dumps(value, separators=(",", ":")).encode()
        if json.loads(payload) != value:
            return
        content = hashlib.sha256(payload).hexdigest().encode() + b"\n" + payload
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(_path(place, kind, key), content)
        _drop_oldest(place, kind, kept)
    except (OSError, TypeError, ValueError):
        return


def _path(place: Path, kind: str, key: str) -> Path:
    return place / f"{kind}-{key[:_KEY_LENGTH]}.json"


def _own_content(path: Path) -> bytes:
    """Return a file's bytes if it is a plain file that nobody else could have written.

    Raises:
        OSError: If there is no such file or it cannot be read.
        ValueError: If it is not one's own, or too large.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(stream.fileno())
        is_own = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
        is_shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not stat.S_ISREG(status.st_mode) or not is_own or is_shared:
            raise ValueError(f"{path}: somebody else may have written it")
        if status.st_size > _LARGEST_BYTES:
            raise ValueError(f"{path}: too large")
        return stream.read()


def _write(path: Path, content: bytes) -> None:
    """Write a file so that no half-written one is ever seen."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _drop_oldest(place: Path, kind: str, kept: int) -> None:
    files = sorted(place.glob(f"{kind}-*.json"), key=lambda path: path.stat().st_mtime)
    for path in files[:-kept]:
        path.unlink(missing_ok=True)
