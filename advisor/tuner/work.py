"""Pieces of work for a GPU and what comes back; all of it survives JSON and pickling."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import assert_never, cast

from advisor.configs.problem import Gemm
from advisor.errors import InputError
from advisor.tuner.space import Tile, parse_tile


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One launch of an entrant.

    Attributes:
        sorted_output: Whether the rows of the result stay in the order of the sort, padded, as a
            down GEMM with TMA wants its inputs.
    """

    gemm: Gemm
    tile: Tile
    sorted_output: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Screen one tile of one GEMM at one batch size."""

    tokens: int
    gemm: Gemm
    tile: Tile

    @property
    def key(self) -> str:
        """Return the name under which a journal keeps it."""
        return f"screen/{self.tokens}/{self.gemm}/{self.tile.key}"

    @property
    def part(self) -> Part:
        """Return what is launched."""
        return Part(gemm=self.gemm, tile=self.tile)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant:
    """What runs as one in a race: one GEMM, or up and down one after the other."""

    up: Tile | None = None
    down: Tile | None = None

    @property
    def key(self) -> str:
        """Return both tiles in one word."""
        return "+".join(tile.key if tile else "none" for tile in (self.up, self.down))

    def parts(self) -> tuple[Part, ...]:
        """Return the GEMMs in the order in which they run."""
        parts = []
        if self.up is not None:
            sorts = self.down is not None and self.down.tma
            parts.append(Part(gemm=Gemm.UP, tile=self.up, sorted_output=sorts))
        if self.down is not None:
            parts.append(Part(gemm=Gemm.DOWN, tile=self.down))
        return tuple(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """Time entrants in turns, so that heat and clocks meet all alike, and check their results."""

    tokens: int
    entrants: tuple[Entrant, ...]

    @property
    def key(self) -> str:
        """Return the name under which a journal keeps it."""
        names = "|".join(entrant.key for entrant in self.entrants)
        return f"race/{self.tokens}/{hashlib.sha256(names.encode()).hexdigest()[:16]}"


Work = Trial | Race


def spread_of(values: Sequence[float]) -> float:
    """Return the distance of the middle half of some values over their median."""
    ordered = sorted(values)
    quarter = len(ordered) // 4
    return (ordered[len(ordered) - 1 - quarter] - ordered[quarter]) / median(ordered)


class Failure(StrEnum):
    """Why something could not be timed."""

    COMPILE = "compile"
    RESOURCES = "resources"
    LAUNCH = "launch"
    WRONG = "wrong"
    CRASHED = "crashed"
    HUNG = "hung"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """Latencies of one launch, in us, one per replay.

    Attributes:
        error_ratio: Norm of the deviation from the reference over the reference's norm; None
            where nothing was compared.
    """

    samples_us: tuple[float, ...]
    error_ratio: float | None = None

    @property
    def median_us(self) -> float:
        """Return the middle sample."""
        return median(self.samples_us)

    @property
    def spread_ratio(self) -> float:
        """Return the distance of the middle half of the samples over their median."""
        return spread_of(self.samples_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Why there is no latency."""

    failure: Failure
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Raced:
    """One answer per entrant of a race, in their order."""

    answers: tuple[Timed | Failed, ...]


Outcome = Timed | Failed | Raced


def outcome_to_json(outcome: Outcome) -> str:
    """Return an outcome as one line of JSON."""
    return json.dumps(_encode(outcome), separators=(",", ":"))


def _encode(outcome: Outcome) -> dict[str, object]:
    match outcome:
        case Timed(samples_us=samples, error_ratio=error):
            shown: dict[str, object] = {"us": [round(sample, 4) for sample in samples]}
            return shown if error is None else shown | {"error_ratio": float(f"{error:.3e}")}
        case Failed(failure=failure, text=text):
            return {"failed": str(failure), "text": text}
        case Raced(answers=answers):
            return {"raced": [_encode(answer) for answer in answers]}
        case _:
            assert_never(outcome)


def outcome_from_json(text: str) -> Outcome:
    """Parse an outcome.

    Raises:
        InputError: If it is none.
    """
    try:
        return _decode(cast("Mapping[str, object]", json.loads(text)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"not a measurement: {text[:80]!r}") from error


def _decode(fields: Mapping[str, object]) -> Outcome:
    if "raced" in fields:
        answers = [_decode(field) for field in cast("list[dict[str, object]]", fields["raced"])]
        return Raced(answers=tuple(cast("list[Timed | Failed]", answers)))
    if "failed" in fields:
        return Failed(failure=Failure(str(fields["failed"])), text=str(fields["text"]))
    samples = tuple(float(sample) for sample in cast("list[float]", fields["us"]))
    return Timed(samples_us=samples, error_ratio=cast("float | None", fields.get("error_ratio")))


def trial_from_key(key: str) -> Trial | None:
    """Parse a journal's name for a trial; None for a race."""
    kind, *rest = key.split("/")
    if kind != "screen":
        return None
    tokens, gemm, tile = rest
    return Trial(tokens=int(tokens), gemm=Gemm(gemm), tile=parse_tile(tile))
