"""One batch size: search both GEMMs together, race the best, decide.

Both GEMMs share one sort of the rows, so BLOCK_SIZE_M is chosen for them together: a tile is worth
measuring if, with the best tile of the same height in the other GEMM, it would beat the best pair.
What is asked depends on whole rounds only, never on the order in which answers come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from advisor.configs.problem import Gemm
from advisor.tuner.effort import Ceiling, Effort
from advisor.tuner.pairing import answers_of, paired
from advisor.tuner.space import Tile, best_of
from advisor.tuner.work import Entrant, Failed, Outcome, Race, Timed, Trial

_TILES_PER_HEIGHT = 4
_LAST_PAIRS = 4
_LAST_SHORT_PAIRS = 12
_SHORT_US = 100.0
"""Kernels that short overlap their neighbours, and single times say less about a pair (H200)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The tiles of one GEMM at one batch size, with their prior scores.

    Attributes:
        tma_us: What a tile with TMA costs outside its own kernel, by BLOCK_SIZE_M.
    """

    tiles: tuple[Tile, ...]
    scores: tuple[float, ...]
    tma_us: Mapping[int, float] = field(default_factory=dict)

    def extra_us(self, tile: Tile | None) -> float:
        """Return what to add to a tile's latency."""
        return self.tma_us.get(tile.block_m, 0.0) if tile is not None and tile.tma else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A tile for each GEMM; both have the same BLOCK_SIZE_M."""

    up: Tile
    down: Tile

    @property
    def entrant(self) -> Entrant:
        """Return the pair as it runs in a race."""
        return Entrant(up=self.up, down=self.down)


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """What the server would run without tuning.

    Attributes:
        default: SGLang's built-in tile.
        today: What a file on the server's disk gives; None without one.
    """

    default: Pair
    today: Pair | None = None

    @property
    def current(self) -> Pair:
        """Return what the server runs now."""
        return self.today or self.default

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Return the distinct pairs, today's first."""
        return tuple(dict.fromkeys((self.current, self.default)))


class BatchSearch:
    """The measurements of one batch size, round by round."""

    def __init__(
        self,
        tokens: int,
        spaces: Mapping[Gemm, Space],
        references: References,
        effort: Effort,
        *,
        neighbours: Sequence[Pair] = (),
        one_tile: bool = False,
    ) -> None:
        """Prepare the search.

        Args:
            tokens: Batch size.
            spaces: Space of each GEMM.
            references: What the server would run without tuning; always measured.
            effort: How much to measure.
            neighbours: Winners of near batch sizes, tried first.
            one_tile: Both GEMMs must use the same tile, as in releases without a down file.
        """
        from advisor.tuner.search import GuidedSearch  # brings numpy, which a dry run does without

        self.tokens = tokens
        self.references = references
        self._spaces = spaces
        self._effort = effort
        self._one_tile = one_tile
        self._latencies: dict[Gemm, dict[Tile, float | None]] = {gemm: {} for gemm in Gemm}
        musts = [*references.pairs, *neighbours]
        self._searches = {
            gemm: GuidedSearch(
                spaces[gemm].tiles,
                spaces[gemm].scores,
                effort,
                [pair.up if gemm is Gemm.UP else pair.down for pair in musts],
            )
            for gemm in ((Gemm.UP,) if one_tile else Gemm)
        }
        self._rounds = 0

    def next_round(self) -> tuple[Trial, ...]:
        """Return the next trials; none when the search is over."""
        count = self._effort.round_size if self._rounds else self._effort.seeds
        ceilings = self._ceilings()
        self._rounds += 1
        asked = {
            gemm: search.ask(count, ceilings.get(gemm)) for gemm, search in self._searches.items()
        }
        if self._one_tile:
            asked[Gemm.DOWN] = asked[Gemm.UP]
        return tuple(
            Trial(tokens=self.tokens, gemm=gemm, tile=tile)
            for gemm, tiles in asked.items()
            for tile in tiles
        )

    def take(self, trial: Trial, outcome: Outcome) -> None:
        """Take the answer to a trial."""
        extra_us = self._spaces[trial.gemm].extra_us(trial.tile)
        latency = outcome.median_us + extra_us if isinstance(outcome, Timed) else None
        self._latencies[trial.gemm][trial.tile] = latency
        if not self._one_tile:
            self._searches[trial.gemm].tell(trial.tile, latency)
        elif all(trial.tile in known for known in self._latencies.values()):
            parts = [known[trial.tile] for known in self._latencies.values()]
            total = sum(part for part in parts if part is not None) if None not in parts else None
            self._searches[Gemm.UP].tell(trial.tile, total)

    def screened(self) -> dict[Pair, float]:
        """Return the best pairs with the sum of their screened latencies in us."""
        if self._one_tile:
            totals = self._searches[Gemm.UP].measured()
            return {Pair(up=tile, down=tile): totals[tile] for tile in best_of(totals, len(totals))}
        ups, downs = (_by_height(self._searches[gemm].measured()) for gemm in Gemm)
        sums = {
            Pair(up=up, down=down): up_us + down_us
            for height in ups.keys() & downs.keys()
            for up, up_us in ups[height].items()
            for down, down_us in downs[height].items()
        }
        return dict(sorted(sums.items(), key=lambda item: (item[1], item[0].up, item[0].down)))

    def screened_us(self, pair: Pair) -> float | None:
        """Return the screened latency of a pair as measured; None if a half has none."""
        up, down = self._latencies[Gemm.UP].get(pair.up), self._latencies[Gemm.DOWN].get(pair.down)
        return None if up is None or down is None else up + down

    def heats(self) -> Race | None:
        """Return the race of single GEMMs: the best of each; None if nothing ran."""
        pairs = list(self.screened())
        if not pairs:
            return None
        if self._one_tile:
            entrants = [pair.entrant for pair in pairs[: self._effort.finalists]]
            return Race(tokens=self.tokens, entrants=tuple(entrants))
        ups = list(dict.fromkeys(pair.up for pair in pairs))[: self._effort.finalists]
        downs = list(dict.fromkeys(pair.down for pair in pairs))[: self._effort.finalists]
        return Race(
            tokens=self.tokens,
            entrants=(
                *(Entrant(up=tile) for tile in ups),
                *(Entrant(down=tile) for tile in downs),
            ),
        )

    def final(self, heats: Race, raced: Outcome) -> Race:
        """Return the last race: the best pairs of the heats against what the server has."""
        times = {
            entrant: run.latency_us for entrant, run in paired(self.answers(heats, raced)).items()
        }
        sums = {
            pair: total
            for pair in self.screened()
            if (total := _pair_us(pair, times, one_tile=self._one_tile)) is not None
        }
        best = sorted(sums, key=lambda pair: (sums[pair], pair.up, pair.down))
        short = bool(best) and sums[best[0]] < _SHORT_US
        count = _LAST_SHORT_PAIRS if short else _LAST_PAIRS
        chosen = dict.fromkeys([*best[:count], *self.references.pairs])
        return Race(tokens=self.tokens, entrants=tuple(pair.entrant for pair in chosen))

    def answers(self, race: Race, raced: Outcome) -> dict[Entrant, Timed | Failed]:
        """Return each entrant's answer with what it costs outside its kernels added."""
        return {
            entrant: self._charged(entrant, answer)
            for entrant, answer in answers_of(race, raced).items()
        }

    def _charged(self, entrant: Entrant, answer: Timed | Failed) -> Timed | Failed:
        extra_us = self._spaces[Gemm.UP].extra_us(entrant.up)
        extra_us += self._spaces[Gemm.DOWN].extra_us(entrant.down)
        if not extra_us or isinstance(answer, Failed):
            return answer
        return replace(answer, samples_us=tuple(us + extra_us for us in answer.samples_us))

    def _ceilings(self) -> dict[Gemm, Ceiling]:
        if self._one_tile or not self._rounds:
            return {}
        expected = {gemm: search.expected_us() for gemm, search in self._searches.items()}
        totals = list(self.screened().values())
        if not totals:
            return {}
        best = totals[0]
        return {
            Gemm.UP: partial(_room, best, expected[Gemm.DOWN]),
            Gemm.DOWN: partial(_room, best, expected[Gemm.UP]),
        }


def _room(best_us: float, other: Mapping[int, float], height: int) -> float:
    """Return what is left for one GEMM if the other takes its best at this BLOCK_SIZE_M."""
    return best_us - other.get(height, best_us)


def _by_height(measured: Mapping[Tile, float]) -> dict[int, dict[Tile, float]]:
    """Return the best few tiles of each BLOCK_SIZE_M."""
    heights: dict[int, dict[Tile, float]] = {}
    for tile in best_of(measured, len(measured)):
        at_height = heights.setdefault(tile.block_m, {})
        if len(at_height) < _TILES_PER_HEIGHT:
            at_height[tile] = measured[tile]
    return heights


def _pair_us(pair: Pair, times: Mapping[Entrant, float], *, one_tile: bool) -> float | None:
    if one_tile:
        return times.get(pair.entrant)
    up, down = times.get(Entrant(up=pair.up)), times.get(Entrant(down=pair.down))
    return None if up is None or down is None else up + down
