"""Which pair goes into the files: never one that is not better than today's beyond noise."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from advisor.tuner.batch import BatchSearch, Pair, answers_of
from advisor.tuner.space import Tile
from advisor.tuner.work import Outcome, Race, Timed

SMALLEST_GAIN_RATIO = 0.01
"""Re-timing moved the best tiles by up to 1 % on an H200; less is noise."""

_SCREENING_GAIN_RATIO = 0.03
_SPREADS = 1.0


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
        today_us: The same with what is on the server's disk; None where that is the default.
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
    answers = answers_of(final, raced)
    timed = {entrant: answer for entrant, answer in answers.items() if isinstance(answer, Timed)}
    references = search.references
    default = timed.get(references.default.entrant)
    today = timed.get(references.today.entrant) if references.today else None
    current = timed.get(references.current.entrant)
    best = min(timed.items(), key=lambda item: item[1].median_us, default=None)
    if best is None:
        reason = next(
            (answer.text for answer in answers.values() if not isinstance(answer, Timed)), ""
        )
        return _kept(search, Proof.UNMEASURED, f"nothing could be timed: {reason}")
    entrant, winner = best
    pair = _pair_of(entrant.up, entrant.down)
    times = {
        "default_us": default.median_us if default else None,
        "today_us": today.median_us if today else None,
        "best_us": winner.median_us,
    }
    if current is not None and not beats(winner, current) and pair != references.current:
        gain = current.median_us / winner.median_us - 1
        note = f"fastest pair is {gain:.1%} faster: not beyond noise, kept what is there"
        return _kept(search, Proof.RACED, note, current, times)
    return Choice(
        tokens=search.tokens,
        pair=pair,
        origin=_origin(search, pair),
        proof=Proof.RACED,
        chosen_us=winner.median_us,
        spread_ratio=winner.spread_ratio,
        error_ratio=winner.error_ratio,
        note="" if current else "what the server has now cannot run here",
        **times,
    )


def beats(winner: Timed, current: Timed) -> bool:
    """Say whether a latency is better beyond noise: by 1 %, and by the samples' own spread."""
    margin = max(SMALLEST_GAIN_RATIO, _SPREADS * max(winner.spread_ratio, current.spread_ratio))
    return winner.median_us * (1 + margin) <= current.median_us


def decide_screened(search: BatchSearch) -> Choice:
    """Choose without a race, because time ran out: only a gain of 3 % counts."""
    pairs = search.screened()
    current = search.screened_us(search.references.current)
    if not pairs:
        return _kept(search, Proof.UNMEASURED, "not measured before time ran out")
    best_pair = next(iter(pairs))
    best = search.screened_us(best_pair) or pairs[best_pair]
    default = search.screened_us(search.references.default)
    today = search.screened_us(search.references.today) if search.references.today else None
    if current is not None and best * (1 + _SCREENING_GAIN_RATIO) > current:
        times = {"default_us": default, "today_us": today, "best_us": best}
        return _kept(search, Proof.SCREENED, "time ran out before the final race", None, times)
    return Choice(
        tokens=search.tokens,
        pair=best_pair,
        origin=_origin(search, best_pair),
        proof=Proof.SCREENED,
        chosen_us=best,
        default_us=default,
        today_us=today,
        best_us=best,
        note="time ran out before the final race",
    )


def keep_unmeasured(tokens: int, pair: Pair, origin: Origin) -> Choice:
    """Choose what the server has now, for a batch size that was never begun."""
    return Choice(
        tokens=tokens,
        pair=pair,
        origin=origin,
        proof=Proof.UNMEASURED,
        note="not measured before time ran out",
    )


def _kept(
    search: BatchSearch,
    proof: Proof,
    note: str,
    current: Timed | None = None,
    times: dict[str, float | None] | None = None,
) -> Choice:
    pair = search.references.current
    measured = current.median_us if current else search.screened_us(pair)
    return Choice(
        tokens=search.tokens,
        pair=pair,
        origin=_origin(search, pair),
        proof=proof,
        chosen_us=measured,
        spread_ratio=current.spread_ratio if current else None,
        error_ratio=current.error_ratio if current else None,
        note=note,
        **(times or {}),
    )


def _origin(search: BatchSearch, pair: Pair) -> Origin:
    if pair == search.references.today:
        return Origin.TODAY
    return Origin.DEFAULT if pair == search.references.default else Origin.TUNED


def _pair_of(up: Tile | None, down: Tile | None) -> Pair:
    if up is None or down is None:
        raise TypeError("the last race is between pairs")
    return Pair(up=up, down=down)
