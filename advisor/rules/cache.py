"""Keep parsed rules between runs: composing and checking hundreds of YAML files takes too long.

A cache is only ever a shortcut. Its name is the hash of all rule files, of the code that reads them
and of the versions of Advisor and Python; it is JSON (nothing in it is run), carries the hash of its
own content, and is passed over where it is broken, belongs to somebody else or cannot be written.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from advisor import __version__
from advisor.errors import AdvisorError
from advisor.rules.codec import decode, encode
from advisor.rules.model import Rule

FOLDER_VARIABLE = "ADVISOR_RULE_CACHE"
OFF = "off"
_KEPT = 4
_LARGEST_BYTES = 64 << 20
_PREFIX = "rules-"
_CODE = ("rules", "facts/model.py", "facts/sheet.py", "facts/patterns.py", "findings.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFile:
    """The text of a rule file and where it lies; `place` is what messages call it."""

    place: str
    family: str
    stem: str
    text: str


def cache_folder() -> Path | None:
    """Return where caches are kept; None where that is switched off or there is no home.

    $ADVISOR_RULE_CACHE (a folder, or `off`), else $XDG_CACHE_HOME/sglang-advisor or
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


def cache_key(rule_files: Iterable[RuleFile]) -> str:
    """Return a hash of everything that the parsed rules depend on."""
    digest = hashlib.sha256(_code_digest())
    for file in rule_files:
        for part in (file.place, file.family, file.stem, file.text):
            digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


def load(key: str) -> tuple[Rule, ...] | None:
    """Return the rules kept under a key; None where there are none, or none to be trusted."""
    folder = cache_folder()
    if folder is None:
        return None
    try:
        content = _own_content(_path(folder, key))
        checksum, _, payload = content.partition(b"\n")
        if checksum.decode("ascii") != hashlib.sha256(payload).hexdigest():
            return None
        return tuple(decode(plain) for plain in json.loads(payload))
    except (OSError, ValueError, TypeError, RecursionError, AdvisorError):
        return None


def store(key: str, rules: Sequence[Rule]) -> None:
    """Keep rules under a key, and drop the oldest of too many; do nothing where that fails."""
    folder = cache_folder()
    if folder is None:
        return
    payload = json.dumps([encode(rule) for rule in rules], separators=(",", ":")).encode()
    content = hashlib.sha256(payload).hexdigest().encode() + b"\n" + payload
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(_path(folder, key), content)
        _drop_oldest(folder)
    except OSError:
        return


def _path(folder: Path, key: str) -> Path:
    return folder / f"{_PREFIX}{key[:32]}.json"


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
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{_PREFIX}")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _drop_oldest(folder: Path) -> None:
    kept = sorted(folder.glob(f"{_PREFIX}*.json"), key=lambda path: path.stat().st_mtime)
    for path in kept[:-_KEPT]:
        path.unlink(missing_ok=True)


@functools.cache
def _code_digest() -> bytes:
    """Hash the versions and the code that turns text into rules."""
    digest = hashlib.sha256(f"{__version__} {sys.version}".encode())
    package = files("advisor")
    for name in _CODE:
        place = package.joinpath(*name.split("/"))
        parts = sorted(place.iterdir(), key=lambda item: item.name) if place.is_dir() else [place]
        for part in parts:
            if part.name.endswith(".py"):
                digest.update(part.read_bytes())
    return digest.digest()
