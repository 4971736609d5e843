"""Search strategies over recorded tables: how many measurements until how near to the best."""

from __future__ import annotations

import gzip
import json
import math
import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, cast

from advisor.configs.entries import TMA_KEY
from advisor.configs.problem import Gemm, MoeProblem
from advisor.errors import InputError
from advisor.tuner.journal import Journal
from advisor.tuner.problem import check_batch_sizes, check_problem, problem_of_label
from advisor.tuner.search import Strategy
from advisor.tuner.space import Tile
from advisor.tuner.work import Timed, trial_from_key

_COLUMNS = (
    "BLOCK_SIZE_M",
    "BLOCK_SIZE_N",
    "BLOCK_SIZE_K",
    "GROUP_SIZE_M",
    "num_warps",
    "num_stages",
)
_SQLITE_MAGIC = b"SQLite format 3\x00"
_GZIP_MAGIC = b"\x1f\x8b"
_ROUND = 8
_CHECKPOINTS = (16, 32, 48, 64, 100, 200)
_WITHIN = (1.02, 1.01)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Every tile of one GEMM at one batch size, with its samples in us; empty for what cannot run.

    Attributes:
        gemm: None where the samples are of both GEMMs with one tile.
    """

    name: str
    tokens: int
    gemm: Gemm | None
    samples: Mapping[Tile, tuple[float, ...]]

    @property
    def tma(self) -> bool:
        """Say whether tiles with TMA are among them."""
        return any(tile.tma for tile in self.samples)

    @property
    def best_us(self) -> float:
        """Return the lowest median."""
        return min(median(samples) for samples in self.samples.values() if samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """How a strategy fares on a table.

    Attributes:
        within: For each ratio over the best, measurements until a tile that good was measured:
            median over the repetitions; None if half of them never got there.
        ratios: After so many measurements, the best measured tile's true latency over the best:
            mean and worst over the repetitions.
    """

    strategy: str
    table: str
    within: tuple[tuple[float, float | None], ...]
    ratios: tuple[tuple[int, float, float], ...]


def simulate(
    table: Table,
    name: str,
    start: Callable[[int], Strategy],
    *,
    repetitions: int,
    budget: int,
) -> Curve:
    """Let a strategy search a table; each answer is one recorded sample, so noise is real.

    Args:
        table: What is known.
        name: The strategy's name.
        start: Makes the strategy for a repetition.
        repetitions: How often to search, with other samples drawn.
        budget: Measurements at most.
    """
    paths = [_search(table, start(seed), budget, seed) for seed in range(repetitions)]
    reached = {
        ratio: sorted(_first_within(path, ratio, budget) for path in paths) for ratio in _WITHIN
    }
    middle = repetitions // 2
    return Curve(
        strategy=name,
        table=table.name,
        within=tuple(
            (ratio, float(counts[middle]) if counts[middle] <= budget else None)
            for ratio, counts in reached.items()
        ),
        ratios=tuple(_at(count, paths) for count in _CHECKPOINTS if count <= budget),
    )


def _search(table: Table, strategy: Strategy, budget: int, seed: int) -> list[float]:
    """Return, after each measurement, the true ratio of the best tile measured so far."""
    generator = random.Random(seed)  # noqa: S311  (no secret)
    path: list[float] = []
    best = float("inf")
    while len(path) < budget:
        asked = strategy.ask(min(_ROUND, budget - len(path)))
        if not asked:
            break
        for tile in asked:
            samples = table.samples.get(tile, ())
            strategy.tell(tile, generator.choice(samples) if samples else None)
            if samples:
                best = min(best, median(samples) / table.best_us)
            path.append(best)
    return path


def _first_within(path: Sequence[float], ratio: float, budget: int) -> int:
    return next((count for count, value in enumerate(path, 1) if value <= ratio), budget + 1)


def _at(count: int, paths: Sequence[Sequence[float]]) -> tuple[int, float, float]:
    values = [path[min(count, len(path)) - 1] for path in paths]
    return count, sum(values) / len(values), max(values)


def read_tables(path: Path) -> tuple[Table, ...]:
    """Read recorded tables: a journal of ours, or an exhaustive JSON table.

    Raises:
        InputError: If the file is neither, or holds no measurement.
    """
    tables = _from_journal(path) if _is_journal(path) else (_from_json(path),)
    if not any(any(table.samples.values()) for table in tables):
        raise InputError(f"{path} holds no measurement")
    return tables


def _is_journal(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE_MAGIC)) == _SQLITE_MAGIC
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error


def _from_journal(path: Path) -> tuple[Table, ...]:
    found: dict[tuple[int, Gemm], dict[Tile, tuple[float, ...]]] = {}
    with Journal(path) as journal:
        for key, outcome in journal.results():
            trial = trial_from_key(key)
            if trial is not None:
                samples = outcome.samples_us if isinstance(outcome, Timed) else ()
                found.setdefault((trial.tokens, trial.gemm), {})[trial.tile] = samples
    return tuple(
        Table(name=f"batch {tokens}, {gemm}", tokens=tokens, gemm=gemm, samples=samples)
        for (tokens, gemm), samples in sorted(found.items())
    )


def _document(path: Path) -> Any:
    try:
        raw = path.read_bytes()
        return json.loads(gzip.decompress(raw) if raw.startswith(_GZIP_MAGIC) else raw)
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        raise InputError(
            f"{path} is neither a tuning journal nor an exhaustive table: {error}"
        ) from error


def _from_json(path: Path) -> Table:
    document = _document(path)
    try:
        columns = document["columns"]
        places = [columns.index(column) for column in _COLUMNS]
        samples_at = columns.index("us_samples")
        tokens = int(document["M"])
        gemm = Gemm(document["gemm"]) if "gemm" in document else None
        tma_at = columns.index(TMA_KEY) if TMA_KEY in columns else None
        samples = {
            _tile([int(row[place]) for place in places], tma=tma_at is not None and row[tma_at]): (
                _samples(row[samples_at] or ())
            )
            for row in cast("list[list[Any]]", document["rows"])
        }
    except (ValueError, KeyError, TypeError, IndexError, OverflowError) as error:
        raise InputError(f"{path} is no exhaustive table: {error}") from error
    check_batch_sizes((tokens,))
    name = f"batch {tokens}, {gemm}" if gemm else f"batch {tokens}, both"
    return Table(name=name, tokens=tokens, gemm=gemm, samples=samples)


def _samples(values: Sequence[Any]) -> tuple[float, ...]:
    samples = tuple(float(value) for value in values)
    if not all(0 < sample < math.inf for sample in samples):
        raise ValueError("a latency that is no positive number")
    return samples


def _tile(numbers: Sequence[int], *, tma: bool) -> Tile:
    block_m, block_n, block_k, group_m, warps, stages = numbers
    return Tile(block_m, block_n, block_k, group_m, warps, stages, tma=bool(tma))


def problem_of_table(path: Path) -> MoeProblem:
    """Return the shape that recorded measurements belong to.

    Raises:
        InputError: If the file does not tell.
        ConfigError: If no kernel could be of that shape.
    """
    if _is_journal(path):
        with Journal(path) as journal:
            return problem_of_label(journal.identity().get("problem", ""))
    document = _document(path)
    try:
        sizes = [int(document["meta"][name]) for name in ("E", "N", "K", "topk")]
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise InputError(f"{path} does not tell the shape it was measured on: {error}") from error
    experts, width, hidden, top_k = sizes
    return check_problem(MoeProblem(experts=experts, width=width, hidden=hidden, top_k=top_k))
