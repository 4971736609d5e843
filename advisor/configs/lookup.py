"""Replay what an SGLang server does to find the fused-MoE config of a shape.

The order of tests and the log lines are those of `get_moe_configs` and `try_get_optimal_moe_config`
of the read releases; the rules of a release come as a `Loader`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import StrEnum

from advisor.configs.agreement import BlockConflict, block_conflicts
from advisor.configs.defaults import default_entry
from advisor.configs.entries import ConfigTable, parse_table
from advisor.configs.loaders import DownRule, Loader
from advisor.configs.names import MoeConfigName
from advisor.configs.trees import ConfigFiles

TUNING_URL = "https://github.com/sgl-project/sglang/tree/main/benchmark/kernels/fused_moe_triton"


class Source(StrEnum):
    """Where a GEMM's configuration comes from."""

    EXACT = "exact"
    """The file of the running Triton version."""

    FALLBACK = "fallback"
    """The file of another Triton version."""

    REUSED_UP = "reuse-up"
    """No down file: the up table serves the second GEMM too."""

    DEFAULT = "default"
    """No file: SGLang's built-in tiles."""

    CRASH = "crash"
    """The lookup itself stops the server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line that the server prints, without time and rank prefix."""

    level: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one GEMM gets.

    Attributes:
        wanted: The path looked for first, as the server spells it; None if nothing is looked for.
        path: The file that is read; None without one.
        triton: Version of the folder it was found in; None in flat trees and without a file.
        table: Its entries; None if only the file's name is known, or without a file.
        reason: For crash and default: why, in one line.
    """

    source: Source
    wanted: str | None
    path: str | None = None
    triton: str | None = None
    table: ConfigTable | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One lookup.

    Attributes:
        name: The shape; `down` in it does not matter.
        triton: The running Triton version, local suffix included.
        deterministic: `--enable-deterministic-inference`.
        shared_memory_bytes: The GPU's limit per block, for the built-in fp8 tiles.
    """

    name: MoeConfigName
    triton: str
    deterministic: bool = False
    shared_memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """What the server does for one shape.

    Attributes:
        down: None in releases that serve both GEMMs from one file.
        lines: All lines, in the order printed. Each appears once per process.
        conflicts: Batch sizes at which the two GEMMs disagree about BLOCK_SIZE_M.
    """

    up: Outcome
    down: Outcome | None
    lines: tuple[LogLine, ...]
    conflicts: tuple[BlockConflict, ...] = ()

    @property
    def crash(self) -> str | None:
        """Return why the server stops, if it does."""
        reasons = [one.reason for one in (self.up, self.down) if one and one.source is Source.CRASH]
        return next(iter(reasons), None)


def lookup(request: Request, files: ConfigFiles, loader: Loader) -> Lookup:
    """Return what a server with these rules does with these files."""
    name = request.name.for_down(down=False)
    if not loader.per_channel_in_name:
        name = replace(name, per_channel=False)
    lines: list[LogLine] = []
    up = _find(request, name, files, loader, lines)
    if loader.down is DownRule.NONE or up.source is Source.CRASH:
        return Lookup(up=up, down=None, lines=tuple(lines))
    found = _find(request, name.for_down(down=True), files, loader, lines)
    down = _settle_down(found, up, loader, lines)
    conflicts = _conflicts(request, up, down, loader)
    if conflicts and loader.down is DownRule.ASSERTED:
        first = conflicts[0]
        down = replace(
            down,
            source=Source.CRASH,
            reason=(
                f"AssertionError at {first.tokens} tokens: BLOCK_SIZE_M is {first.up} for up and "
                f"{first.down} for down"
            ),
        )
    return Lookup(up=up, down=down, lines=tuple(lines), conflicts=conflicts)


def _find(
    request: Request,
    name: MoeConfigName,
    files: ConfigFiles,
    loader: Loader,
    lines: list[LogLine],
) -> Outcome:
    """Search one file as `get_moe_configs` does; the missing-file lines of down come later."""
    if request.deterministic and loader.down is not DownRule.NONE:
        text = "Deterministic inference is enabled, using default MoE kernel config."
        lines.append(LogLine(level="WARNING", text=text))
        return Outcome(
            source=Source.DEFAULT, wanted=None, reason="deterministic inference reads no file"
        )
    folder = f"triton_{request.triton.replace('.', '_')}" if loader.triton_folders else ""
    relative = f"{folder}/{name.file_name}" if folder else name.file_name
    wanted = _spelled(files, relative)
    if files.holds(relative):
        lines.append(LogLine(level="INFO", text=f"Using MoE kernel config from {wanted}."))
        triton = request.triton if folder else None
        return _load(files, relative, wanted, Source.EXACT, triton)
    versions = _fallback_versions(request.triton, files, loader)
    if isinstance(versions, str):
        return Outcome(source=Source.CRASH, wanted=wanted, reason=versions)
    for version in versions:
        other = f"triton_{version.replace('.', '_')}/{name.file_name}"
        if files.holds(other):
            path = _spelled(files, other)
            text = (
                f"Config file not found at {wanted}. Fallback to triton version {version} and use "
                f"MoE kernel config from {path}. Performance might be sub-optimal!"
            )
            lines.append(LogLine(level="WARNING", text=text))
            return _load(files, other, wanted, Source.FALLBACK, version)
    if not name.down:
        lines.append(LogLine(level="WARNING", text=_default_line(wanted)))
    return Outcome(
        source=Source.DEFAULT, wanted=wanted, reason="no file for this shape in any Triton folder"
    )


def _spelled(files: ConfigFiles, relative: str) -> str:
    root = f"{files.root}/" if files.root else ""
    return f"{root}configs/{relative}"


def _default_line(wanted: str) -> str:
    return (
        "Using default MoE kernel config. Performance might be sub-optimal! "
        f"Config file not found at {wanted}, you can create them with {TUNING_URL}"
    )


def _fallback_versions(running: str, files: ConfigFiles, loader: Loader) -> tuple[str, ...] | str:
    """Return the versions to try, or why listing them stops the server."""
    if not loader.triton_folders:
        return ()
    if loader.fallback is not None:
        return tuple(version for version in loader.fallback if version != running)
    children = files.children()
    if children is None:
        return f"FileNotFoundError: {_spelled(files, '').rstrip('/')} does not exist"
    found = [
        child.removeprefix("triton_").replace("_", ".")
        for child in children
        if child.startswith("triton_")
    ]
    try:
        newest_first = sorted(found, key=_version_key, reverse=True)
    except ValueError:
        foreign = next(version for version in found if not _is_version(version))
        return f"ValueError: the folder of Triton {foreign!r} is not made of numbers"
    return tuple(version for version in newest_first if version != running)


def _version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _is_version(version: str) -> bool:
    try:
        _version_key(version)
    except ValueError:
        return False
    return True


def _load(
    files: ConfigFiles, relative: str, wanted: str, source: Source, triton: str | None
) -> Outcome:
    """Read a file as the server does: it only turns the keys into integers."""
    outcome = Outcome(source=source, wanted=wanted, path=_spelled(files, relative), triton=triton)
    text = files.text(relative)
    if text is None:
        return outcome
    try:
        document = json.loads(text)
        keys = [int(key) for key in document]
    except (ValueError, TypeError, RecursionError) as error:
        return replace(outcome, source=Source.CRASH, reason=f"{type(error).__name__}: {error}")
    if not keys:
        return replace(outcome, source=Source.DEFAULT, reason="the file is an empty object")
    return replace(outcome, table=parse_table(text, relative))


def _settle_down(found: Outcome, up: Outcome, loader: Loader, lines: list[LogLine]) -> Outcome:
    """Say what the second GEMM uses when it has no file of its own, and print that."""
    if found.source is not Source.DEFAULT:
        return found
    if found.path is None and found.wanted is not None:
        lines.append(LogLine(level="WARNING", text=_down_line(found.wanted, up, loader)))
    if up.table is None and up.source is Source.DEFAULT:
        return found
    return replace(found, source=Source.REUSED_UP, path=up.path, triton=up.triton, table=up.table)


def _down_line(wanted: str, up: Outcome, loader: Loader) -> str:
    if loader.down is not DownRule.REUSED:
        return (
            "Using MoE kernel config with down_moe=False. Performance might be sub-optimal! "
            f"Config file not found at {wanted}, you can create them with {TUNING_URL}"
        )
    if up.path is None:
        return _default_line(wanted)
    return (
        f"Down MoE config file not found at {wanted}; reusing the tuned up-projection config "
        "without TMA. Performance might be sub-optimal."
    )


def _conflicts(
    request: Request, up: Outcome, down: Outcome, loader: Loader
) -> tuple[BlockConflict, ...]:
    if down.source not in {Source.EXACT, Source.FALLBACK} or down.table is None:
        return ()
    if up.table is None and up.source is not Source.DEFAULT:
        return ()

    def default_block(tokens: int) -> int:
        limit = request.shared_memory_bytes
        entry = default_entry(request.name, tokens, loader, shared_memory_bytes=limit)
        return entry.block_m

    boundaries = (request.name.experts, request.name.experts + 1)
    return block_conflicts(up.table, down.table, default_block=default_block, extra=boundaries)
