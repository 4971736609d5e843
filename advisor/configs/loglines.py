"""What a server's log says about its MoE config files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from advisor.configs.lookup import Source
from advisor.configs.names import MoeConfigName, parse_moe_name
from advisor.errors import InputError

_MARK = r"[^\s\x00-\x1f\x7f-\x9f]"
_PATH = (
    rf"(?P<{{0}}>{_MARK}*?configs/(?:triton_[^/\s\x00-\x1f\x7f-\x9f]+/)?"
    r"E=\d+,N=\d+,device_name=[^\x00-\x1f\x7f-\x9f]*?\.json)"
)
_WORDINGS: tuple[tuple[Source, re.Pattern[str]], ...] = (
    (
        Source.FALLBACK,
        re.compile(
            rf"Config file not found at {_PATH.format('wanted')}\. Fallback to triton version "
            rf"(?P<triton>[0-9A-Za-z.+_-]+) and use MoE kernel config from {_PATH.format('path')}\."
        ),
    ),
    (Source.EXACT, re.compile(rf"Using MoE kernel config from {_PATH.format('path')}\.")),
    (
        Source.REUSED_UP,
        re.compile(rf"Down MoE config file not found at {_PATH.format('wanted')}; reusing"),
    ),
    (Source.DEFAULT, re.compile(rf"Config file not found at {_PATH.format('wanted')}, you can")),
)
_PLACE = re.compile(r"(?P<root>.*?)/?configs/(?:triton_(?P<triton>[^/]+)/)?(?P<name>[^/]+)")
_LONGEST_LINE = 4096
_LARGEST_LOG_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One lookup that a log reports.

    Attributes:
        source: `default` also stands for an old release's down file that falls back to up.
        name: Down files included.
        root: The folder that holds `configs/`, as the server spells it.
        triton: The running version; None in a flat tree.
        path: The file that was read; None if none was.
        line: Number of its first line in the log, from 1.
        count: Lines that say the same.
    """

    source: Source
    name: MoeConfigName
    root: str
    triton: str | None
    path: str | None
    line: int
    count: int = 1


def seen_in_log(path: Path) -> tuple[Seen, ...]:
    """Return the lookups in a log file, in order, each once.

    Raises:
        InputError: If the file cannot be read or reports none.
    """
    try:
        if path.stat().st_size > _LARGEST_LOG_BYTES:
            raise InputError(f"{path} is larger than 1 GiB; cut out the start-up part")
        with path.open(encoding="utf-8", errors="replace") as lines:
            seen = seen_in_lines(lines)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    if not seen:
        raise InputError(
            f"{path} has no line about a MoE kernel config: no MoE model, or another MoE runner"
        )
    return seen


def seen_in_lines(lines: Iterable[str]) -> tuple[Seen, ...]:
    """Return the lookups that lines report, in order, each once."""
    first: dict[tuple[Source, str], Seen] = {}
    counts: dict[tuple[Source, str], int] = {}
    for number, line in enumerate(lines, start=1):
        if "onfig" not in line or (one := _read(line[:_LONGEST_LINE], number)) is None:
            continue
        key = (one.source, one.name.file_name)
        first.setdefault(key, one)
        counts[key] = counts.get(key, 0) + 1
    return tuple(
        Seen(
            source=one.source,
            name=one.name,
            root=one.root,
            triton=one.triton,
            path=one.path,
            line=one.line,
            count=counts[key],
        )
        for key, one in first.items()
    )


def _read(line: str, number: int) -> Seen | None:
    for source, pattern in _WORDINGS:
        match = pattern.search(line)
        if match is None:
            continue
        groups = match.groupdict()
        place = _PLACE.fullmatch(groups.get("wanted") or groups["path"])
        if place is None:
            return None
        try:
            name = parse_moe_name(place["name"])
        except InputError:
            return None
        return Seen(
            source=source,
            name=name,
            root=place["root"],
            triton=place["triton"].replace("_", ".") if place["triton"] else None,
            path=groups.get("path"),
            line=number,
        )
    return None
