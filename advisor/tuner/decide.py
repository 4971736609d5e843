"""Which pair goes into the files: never one that is not better than today's beyond noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from advisor.tuner.batch import BatchSearch, Pair
from advisor.tuner.pairing import beats, paired
from advisor.tuner.space import Tile
from advisor.tuner.work import Failed, Outcome, Race, Timed

_SCREENING_GAIN_RATIO = 0.03


class Origin(StrEnum):
    """Where an entry comes from."""

    TUNED = "tuned"
    TODAY = "today"
    DEFAULT = "default"


class Proof(StrEnum):
    """How an entry was chosen."""

    RACED = "raced"
    SCREENED = "screened"
    UNMEASURED = "unmeasured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The entry of one batch size.

    Attributes:
        chosen_us: Latency of both GEMMs with the chosen pair; None if never measured.
        default_us: The same with SGLang's built-in tile; None if it cannot run or was not timed.
        today_us: The same with what is on the server's disk; None without a file there.
        best_us: The fastest pair seen, whether chosen or not.
        spread_ratio: Spread of the chosen pair's samples.
        error_ratio: Deviation of the chosen pair from the reference.
        note: Why a faster pair was not taken, or what could not be measured; empty if nothing.
    """

    tokens: int
    pair: Pair
    origin: Origin
    proof: Proof
    chosen_us: float | None = None
    default_us: float | None = None
    today_us: float | None = None
    best_us: float | None = None
    spread_ratio: float | None = None
    error_ratio: float | None = None
    note: str = ""

    @property
    def gain_ratio(self) -> float | None:
        """Return how many times faster than what the server has now; None if not known."""
        before = self.today_us or self.default_us
        return None if before is None or not self.chosen_us else before / self.chosen_us


def decide_raced(search: BatchSearch, final: Race, raced: Outcome) -> Choice:
    """Choose by the last race."""
    answers = search.answers(final, raced)
    runs = paired(answers)
    if not runs:
        reasons = (answer.text for answer in answers.values() if isinstance(answer, Failed))
        return _kept(search, Proof.UNMEASURED, f"nothing could be timed: {next(reasons, '')}")
    references = search.references
    current = runs.get(references.current.entrant)
    entrant = min(runs, key=lambda one: (runs[one].latency_us, one.key))
    pair, winner = _pair_of(entrant.up, entrant.down), runs[entrant]
    note = "" if current else "what the server has now cannot run here"
    if current is not None and pair != references.current and not beats(winner, current):
        gain = current.latency_us / winner.latency_us - 1
        note = f"fastest pair is {gain:.1%} faster: not beyond noise, kept what is there"
        pair, winner = references.current, current
    answer = answers[pair.entrant]
    default = runs.get(references.default.entrant)
    today = runs.get(references.today.entrant) if references.today else None
    return Choice(
        tokens=search.tokens,
        pair=pair,
        origin=_origin(search, pair),
        proof=Proof.RACED,
        chosen_us=winner.latency_us,
        default_us=default.latency_us if default else None,
        today_us=today.latency_us if today else None,
        best_us=runs[entrant].latency_us,
        spread_ratio=winner.spread_ratio,
        error_ratio=answer.error_ratio if isinstance(answer, Timed) else None,
        note=note,
    )


def decide_screened(search: BatchSearch) -> Choice:
    """Choose without a race, because the run ended early: only a gain of 3 % counts."""
    pairs = search.screened()
    current = search.screened_us(search.references.current)
    if not pairs:
        return _kept(search, Proof.UNMEASURED, "not measured: the run ended early")
    best_pair = next(iter(pairs))
    best = search.screened_us(best_pair) or pairs[best_pair]
    default = search.screened_us(search.references.default)
    today = search.screened_us(search.references.today) if search.references.today else None
    if current is not None and best * (1 + _SCREENING_GAIN_RATIO) > current:
        times = {"default_us": default, "today_us": today, "best_us": best}
        return _kept(search, Proof.SCREENED, "no final race: the run ended early", times)
    return Choice(
        tokens=search.tokens,
        pair=best_pair,
        origin=_origin(search, best_pair),
        proof=Proof.SCREENED,
        chosen_us=best,
        default_us=default,
        today_us=today,
        best_us=best,
        note="no final race: the run ended early",
    )


def keep_unmeasured(tokens: int, pair: Pair, origin: Origin) -> Choice:
    """Choose what the server has now, for a batch size that was never begun."""
    return Choice(
        tokens=tokens,
        pair=pair,
        origin=origin,
        proof=Proof.UNMEASURED,
        note="not measured: the run ended early",
    )


def _kept(
    search: BatchSearch, proof: Proof, note: str, times: Mapping[str, float | None] | None = None
) -> Choice:
    pair = search.references.current
    return Choice(
        tokens=search.tokens,
        pair=pair,
        origin=_origin(search, pair),
        proof=proof,
        chosen_us=search.screened_us(pair),
        note=note,
        **(times or {}),
    )


def _origin(search: BatchSearch, pair: Pair) -> Origin:
    if pair == search.references.default:
        return Origin.DEFAULT
    return Origin.TODAY if pair == search.references.today else Origin.TUNED


def _pair_of(up: Tile | None, down: Tile | None) -> Pair:
    if up is None or down is None:
        raise TypeError("the last race is between pairs")
    return Pair(up=up, down=down)
