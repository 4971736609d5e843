"""Comparing what ran in turns: round by round, so that heat and clocks cancel out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from advisor.tuner.work import Entrant, Failed, Outcome, Race, Raced, Timed, spread_of

SMALLEST_GAIN_RATIO = 0.005
"""Compared round by round, re-timing the same pair moves it by less (H200)."""


def answers_of(race: Race, raced: Outcome) -> dict[Entrant, Timed | Failed]:
    """Return each entrant's answer; all failed if the race as a whole did."""
    if isinstance(raced, Raced):
        return dict(zip(race.entrants, raced.answers, strict=True))
    if isinstance(raced, Failed):
        return dict.fromkeys(race.entrants, raced)
    raise TypeError(f"a race cannot end as {type(raced).__name__}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedRun:
    """An entrant's race, freed of what slowed all entrants alike in a round (heat, clocks).

    Attributes:
        shares: Its latency in each round over the geometric mean of that round.
        level_us: Geometric mean of the middle round.
    """

    shares: tuple[float, ...]
    level_us: float

    @property
    def latency_us(self) -> float:
        """Return the latency at the race's middle level."""
        return self.level_us * median(self.shares)

    @property
    def spread_ratio(self) -> float:
        """Return the distance of the middle half of the shares over their median."""
        return spread_of(self.shares)


def paired(answers: Mapping[Entrant, Timed | Failed]) -> dict[Entrant, PairedRun]:
    """Compare entrants round by round; those that failed are left out."""
    timed = {
        entrant: answer.samples_us
        for entrant, answer in answers.items()
        if isinstance(answer, Timed)
    }
    rounds = min(map(len, timed.values()), default=0)
    if not rounds:
        return {}
    levels = [
        math.exp(sum(math.log(samples[turn]) for samples in timed.values()) / len(timed))
        for turn in range(rounds)
    ]
    return {
        entrant: PairedRun(
            shares=tuple(sample / level for sample, level in zip(samples, levels, strict=False)),
            level_us=median(levels),
        )
        for entrant, samples in timed.items()
    }


def beats(winner: PairedRun, current: PairedRun) -> bool:
    """Say whether a latency is better beyond noise: by 0.5 %, and by the rounds' own spread."""
    gains = [theirs / ours for ours, theirs in zip(winner.shares, current.shares, strict=True)]
    return median(gains) >= 1 + max(SMALLEST_GAIN_RATIO, spread_of(gains))
