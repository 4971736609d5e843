"""Replace entries that do not fit by the nearest that do."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from advisor.configs.entries import ConfigTable, Entry
from advisor.configs.estimate import estimate_shared_bytes
from advisor.configs.files import ConfigFile, ProblemOf, verify_files
from advisor.configs.pool import OnDone
from advisor.configs.problem import MoeProblem, problem_of_name
from advisor.configs.verify import EntryCheck, Verifier, verify_entries
from advisor.errors import ConfigError

_SMALLEST_TILE = 16
_SMALLEST_K = 32
_MOST_HALVINGS = 4
_FEWEST_STAGES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One entry that was replaced.

    Attributes:
        reason: Why the old one could not stay.
        after: Verified check of the new entry.
    """

    tokens: int
    old: Entry
    new: Entry
    reason: str
    after: EntryCheck

    @property
    def text(self) -> str:
        """Return what changed, as `BLOCK_SIZE_K 128 to 64`."""
        return ", ".join(
            f"{key} {old} to {self.new.as_json()[key]}"
            for key, old in (self.old.as_json() | _implied(self.old)).items()
            if old != (self.new.as_json() | _implied(self.new))[key]
        )


def _implied(entry: Entry) -> dict[str, object]:
    return {"num_stages": entry.stages}


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """A file that fits.

    Attributes:
        text: The mended file; entries that fitted are as they were.
        changes: Empty if nothing had to change.
    """

    text: str
    changes: tuple[Change, ...]


def repair_file(
    file: ConfigFile,
    verifier: Verifier,
    *,
    problem_of: ProblemOf = problem_of_name,
    on_done: OnDone | None = None,
) -> Repair:
    """Mend a file for the verifier's target.

    BLOCK_SIZE_M is left alone, so that the file of the other GEMM still agrees, unless nothing
    else helps and there is no such file.

    Raises:
        ConfigError: If the file has mistakes other than entries that do not fit, or an entry has
            no neighbour that fits.
    """
    if file.table.problems:
        raise ConfigError(f"{file.path}: mend this first: {file.table.problems[0]}")
    report = verify_files([file], verifier, problem_of=problem_of, on_done=on_done)[0]
    reasons = dict(_reasons(file, report.unfit))
    problem = problem_of(file.name)
    broken = {tokens: entry for tokens, entry in file.table.entries if tokens in reasons}
    found = _mend(file, broken, problem, verifier, on_done)
    changes = tuple(
        Change(
            tokens=tokens,
            old=entry,
            new=found[tokens].entry,
            reason=reasons[tokens],
            after=found[tokens],
        )
        for tokens, entry in broken.items()
    )
    return Repair(text=_rewritten(file.table, changes), changes=changes)


def _reasons(file: ConfigFile, unfit: Sequence[EntryCheck]) -> Iterator[tuple[int, str]]:
    """Yield the batch sizes to mend, with the reason."""
    block = file.name.block_shape
    for tokens, entry in file.table.entries:
        if block and block[1] % entry.block_k:
            yield tokens, f"BLOCK_SIZE_K does not divide the quantisation block of {block[1]}"
    for check in unfit:
        if check.shared_bytes > check.limit_bytes:
            yield check.tokens, f"{check.shared_bytes} of {check.limit_bytes} bytes"
        else:
            yield check.tokens, check.detail or check.verdict


def _mend(
    file: ConfigFile,
    broken: Mapping[int, Entry],
    problem: MoeProblem,
    verifier: Verifier,
    on_done: OnDone | None,
) -> Mapping[int, EntryCheck]:
    """Return the worst check of the first neighbour that fits, by batch size.

    Round by round the next candidate of every open entry is compiled, all in one go; candidates
    that by estimate do not fit are passed over.
    """
    hopeful = {
        tokens: _hopeful(entry, problem, verifier, keep_m=file.sibling is not None)
        for tokens, entry in broken.items()
    }
    found: dict[int, EntryCheck] = {}
    while len(found) < len(broken):
        tried = [
            (tokens, _next(file, tokens, broken[tokens], candidates, verifier))
            for tokens, candidates in hopeful.items()
            if tokens not in found
        ]
        checks = verify_entries(tried, problem, verifier, down=file.name.down, on_done=on_done)
        for tokens, _ in tried:
            mine = [check for check in checks if check.tokens == tokens]
            if all(check.fits for check in mine):
                found[tokens] = max(mine, key=lambda check: check.shared_bytes)
    return found


def _hopeful(
    entry: Entry, problem: MoeProblem, verifier: Verifier, *, keep_m: bool
) -> Iterator[Entry]:
    limit = verifier.target.shared_memory_bytes
    for candidate in neighbours(entry, problem, keep_m=keep_m):
        if estimate_shared_bytes(problem, candidate, verifier.target.sm) <= limit:
            yield candidate


def _next(
    file: ConfigFile,
    tokens: int,
    entry: Entry,
    candidates: Iterator[Entry],
    verifier: Verifier,
) -> Entry:
    candidate = next(candidates, None)
    if candidate is None:
        raise ConfigError(
            f"{file.path}: batch size {tokens} ({entry.tiles}) has no neighbour that fits "
            f"{verifier.target.name}; tune it anew"
        )
    return candidate


def neighbours(entry: Entry, problem: MoeProblem, *, keep_m: bool) -> Iterator[Entry]:
    """Yield other entries from near to far: fewer stages first, then smaller tiles.

    Tiles shrink in K before N before M; of one tile the most stages come first. BLOCK_SIZE_K always
    divides the quantisation block.
    """
    powers = range(_MOST_HALVINGS + 1)
    halvings = sorted(product(powers, repeat=3), key=lambda one: (sum(one), one[2], one[1]))
    for k_halved, n_halved, m_halved in halvings:
        tile = replace(
            entry,
            block_m=entry.block_m >> m_halved,
            block_n=entry.block_n >> n_halved,
            block_k=entry.block_k >> k_halved,
        )
        if (m_halved and keep_m) or not _sensible(tile, entry, problem):
            continue
        for stages in range(entry.stages, min(entry.stages, _FEWEST_STAGES) - 1, -1):
            candidate = tile if stages == entry.stages else replace(tile, num_stages=stages)
            if candidate != entry:
                yield candidate


def _sensible(tile: Entry, original: Entry, problem: MoeProblem) -> bool:
    """Say whether a tile is large enough for the matrix units, and its K step allowed."""
    floors = (
        tile.block_m >= min(_SMALLEST_TILE, original.block_m)
        and tile.block_n >= min(_SMALLEST_TILE, original.block_n)
        and tile.block_k >= min(_SMALLEST_K, original.block_k)
    )
    block = problem.block_shape
    return floors and (block is None or block[1] % tile.block_k == 0)


def _rewritten(table: ConfigTable, changes: Sequence[Change]) -> str:
    """Return the file's text with the changed values put in, keys and order kept."""
    new: Mapping[int, Entry] = {change.tokens: change.new for change in changes}
    document = {str(tokens): new.get(tokens, entry).as_json() for tokens, entry in table.entries}
    return json.dumps(document, indent=4) + "\n"
