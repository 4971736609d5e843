"""Keep parsed rules between runs: composing and checking hundreds of YAML files takes too long.

The name of what is kept is the hash of all rule files, of the code that reads them and of the
versions of Advisor and Python.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files

from advisor import __version__, shelf
from advisor.errors import AdvisorError
from advisor.rules.codec import decode, encode
from advisor.rules.model import Rule

_KEPT = 4
_KIND = "rules"
_CODE = ("rules", "facts/model.py", "facts/sheet.py", "facts/patterns.py", "findings.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFile:
    """The text of a rule file and where it lies; `place` is what messages call it."""

    place: str
    family: str
    stem: str
    text: str


def cache_key(rule_files: Iterable[RuleFile]) -> str:
    """Return a hash of everything that the parsed rules depend on."""
    digest = hashlib.sha256(_code_digest())
    for file in rule_files:
        for part in (file.place, file.family, file.stem, file.text):
            digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


def load(key: str) -> tuple[Rule, ...] | None:
    """Return the rules kept under a key; None where there are none, or none to be trusted."""
    kept = shelf.load(_KIND, key)
    if not isinstance(kept, list):
        return None
    try:
        return tuple(decode(plain) for plain in kept)
    except (ValueError, TypeError, RecursionError, AdvisorError):
        return None


def store(key: str, rules: Sequence[Rule]) -> None:
    """Keep rules under a key; do nothing where that fails."""
    shelf.store(_KIND, key, [encode(rule) for rule in rules], kept=_KEPT)


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
