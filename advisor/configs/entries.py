"""One config file as records: a tile configuration per batch size."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from advisor.errors import InputError

REQUIRED = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M")
OPTIONAL = ("num_warps", "num_stages")
TMA_KEY = "USE_TMA"
LAUNCH_OPTIONS = ("num_ctas", "maxnreg")
"""Options of Triton on NVIDIA GPUs that a file may hold beside warps and stages."""
LARGEST_VALUE = 65536
_LARGEST_FILE_BYTES = 16 * 1024 * 1024
_DEFAULT_WARPS = 4
_DEFAULT_STAGES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The tile configuration of one batch size.

    Attributes:
        num_warps: None where the file leaves it to Triton (4).
        num_stages: None where the file leaves it to Triton (3).
        use_tma: None where the file has no USE_TMA.
        options: Other launch options of Triton (`num_ctas`, `maxnreg`).
        extras: Keys that neither the kernel nor Triton knows on NVIDIA GPUs, values as JSON text.
    """

    block_m: int
    block_n: int
    block_k: int
    group_m: int
    num_warps: int | None = None
    num_stages: int | None = None
    use_tma: bool | None = None
    options: tuple[tuple[str, int], ...] = ()
    extras: tuple[tuple[str, str], ...] = ()

    @property
    def warps(self) -> int:
        """Return the warps that Triton will use."""
        return self.num_warps or _DEFAULT_WARPS

    @property
    def stages(self) -> int:
        """Return the pipeline stages that Triton will use."""
        return self.num_stages or _DEFAULT_STAGES

    def as_json(self) -> dict[str, object]:
        """Return the entry as it stands in a file."""
        values: dict[str, object] = dict(
            zip(REQUIRED, (self.block_m, self.block_n, self.block_k, self.group_m), strict=True)
        )
        optional = zip(
            (*OPTIONAL, TMA_KEY), (self.num_warps, self.num_stages, self.use_tma), strict=True
        )
        values |= {key: value for key, value in optional if value is not None}
        values |= dict(self.options)
        return values | {key: json.loads(text) for key, text in self.extras}

    @property
    def tiles(self) -> str:
        """Return the short form: M x N x K, stages, warps."""
        return (
            f"{self.block_m}x{self.block_n}x{self.block_k}, {self.stages} stages, "
            f"{self.warps} warps"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigTable:
    """The usable entries of one file, in file order, and what is wrong with the rest.

    Attributes:
        entries: Batch size and entry; empty for `{}`, which the server takes as no configuration.
        problems: One line each: a key or value that SGLang's loader or kernel refuses.
        extras: Keys beside the entries that are not batch sizes, such as vLLM's `triton_version`.
    """

    entries: tuple[tuple[int, Entry], ...]
    problems: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()

    def nearest(self, tokens: int) -> tuple[int, Entry]:
        """Return the entry that the server takes for a batch: least distance, first wins.

        Raises:
            ValueError: If the table is empty.
        """
        return min(self.entries, key=lambda item: abs(item[0] - tokens))

    def to_text(self) -> str:
        """Return the file's text: four spaces, as SGLang's tuner writes it."""
        document = {str(key): entry.as_json() for key, entry in self.entries}
        return json.dumps(document, indent=4) + "\n"


def read_table(path: Path) -> ConfigTable:
    """Read a config file.

    Raises:
        InputError: If it cannot be read or is not a JSON object.
    """
    try:
        if path.is_dir():
            raise InputError(f"{path} is a folder; name one config file (*.json)")
        if path.stat().st_size > _LARGEST_FILE_BYTES:
            raise InputError(f"{path} is larger than 16 MiB: not a config file")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: not a config file") from error
    return parse_table(text, str(path))


def parse_table(text: str, origin: str) -> ConfigTable:
    """Parse the text of a config file; `origin` names it in messages.

    Raises:
        InputError: If it is not a JSON object.
    """
    try:
        document = json.loads(text, object_pairs_hook=_Pairs)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{origin}:{error.lineno}:{error.colno}: not valid JSON: {error.msg}"
        ) from error
    except (RecursionError, ValueError) as error:
        raise InputError(f"{origin}: not a config file: {error}") from error
    if not isinstance(document, _Pairs):
        raise InputError(f"{origin}: a config file is one JSON object of batch sizes")
    return _table(document)


class _Pairs(list[tuple[str, object]]):
    """A JSON object in file order, repeated keys included."""


def _table(document: _Pairs) -> ConfigTable:
    entries: dict[int, Entry] = {}
    problems: list[str] = []
    extras: list[str] = []
    for key, value in document:
        tokens = batch_size(key)
        if tokens is None:
            extras.append(key)
            problems.append(_foreign_key(key))
            continue
        if tokens in entries:
            problems.append(f"batch size {tokens} occurs twice; the server keeps the last one")
        result = _entry(key, value)
        if isinstance(result, Entry):
            entries[tokens] = result
        else:
            problems.extend(result)
    return ConfigTable(
        entries=tuple(entries.items()), problems=tuple(problems), extras=tuple(extras)
    )


def batch_size(key: str) -> int | None:
    """Return the batch size that a key means; None if it is not a whole number above zero."""
    if not key.isascii() or not key.isdigit() or len(key) > len(str(LARGEST_VALUE)) + 4:
        return None
    return int(key) or None


def _foreign_key(key: str) -> str:
    if key == "triton_version":
        return (
            'key "triton_version" (a vLLM file): SGLang turns every key into an integer and '
            "stops; remove it"
        )
    return f"key {json.dumps(key[:40])} is not a batch size (a whole number above zero)"


def _entry(key: str, value: object) -> Entry | list[str]:
    if not isinstance(value, _Pairs):
        return [f"batch size {key}: not an object of block sizes"]
    fields = dict(value)
    problems = list(_entry_problems(key, fields))
    if problems:
        return problems
    numbers = cast("Mapping[str, int]", fields)
    known = {*REQUIRED, *OPTIONAL, *LAUNCH_OPTIONS, TMA_KEY}
    return Entry(
        block_m=numbers["BLOCK_SIZE_M"],
        block_n=numbers["BLOCK_SIZE_N"],
        block_k=numbers["BLOCK_SIZE_K"],
        group_m=numbers["GROUP_SIZE_M"],
        num_warps=numbers.get("num_warps"),
        num_stages=numbers.get("num_stages"),
        use_tma=cast("bool | None", fields.get(TMA_KEY)),
        options=tuple((name, numbers[name]) for name in LAUNCH_OPTIONS if name in fields),
        extras=tuple(
            (name, json.dumps(_plain(field))) for name, field in fields.items() if name not in known
        ),
    )


def _plain(value: object) -> object:
    if isinstance(value, _Pairs):
        return {name: _plain(field) for name, field in value}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _entry_problems(key: str, fields: Mapping[str, object]) -> Iterable[str]:
    for name in REQUIRED:
        if name not in fields:
            yield f"batch size {key}: {name} is missing"
    for name in (*REQUIRED, *OPTIONAL, *LAUNCH_OPTIONS):
        if name in fields and (problem := _number_problem(name, fields[name])):
            yield f"batch size {key}: {problem}"
    if TMA_KEY in fields and not isinstance(fields[TMA_KEY], bool):
        yield f"batch size {key}: {TMA_KEY} must be true or false"


def _number_problem(name: str, value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return f"{name} must be a whole number"
    if not 0 < value <= LARGEST_VALUE:
        shown = value if abs(value) <= 10 * LARGEST_VALUE else "a huge number"
        return f"{name} must lie between 1 and {LARGEST_VALUE}, not {shown}"
    if (name.startswith("BLOCK") or name == "num_warps") and value & (value - 1):
        return f"{name} must be a power of two, not {value} (Triton refuses it)"
    return None
