"""Check each claimed wording against the texts of a release."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from packaging.version import Version

from advisor.audit.claims import Claim
from advisor.audit.emissions import Template
from advisor.audit.matching import Corpus, fits
from advisor.audit.scope import is_below
from advisor.audit.source import Source
from advisor.knowledge.ranges import Membership, VersionRange
from advisor.knowledge.releases import known_versions, parse_version


class Outcome(StrEnum):
    """What became of a claim; only MISSING is drift.

    MISSING: no text of the release holds a literal. UNPROVEN: one does, but the pattern matches it
    with none of the likely fillings of its holes. MOVED: the text stands in other modules than named. INDIRECT: the literal
    stands in the source, where it is not seen to be logged. WIDER: the release has the wording
    although the claimed releases leave it out.
    """

    HOLDS = "holds"
    MISSING = "missing"
    UNPROVEN = "unproven"
    MOVED = "moved"
    INDIRECT = "indirect"
    WIDER = "wider"
    ELSEWHERE = "elsewhere"


DRIFT = (Outcome.MISSING,)
_TELLING_LENGTH = 20  # a literal of this length tells its text apart, whatever fills the holes


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A claim judged against one release; `templates` are the texts that its pattern reads."""

    claim: Claim
    outcome: Outcome
    templates: tuple[Template, ...]

    @property
    def is_drift(self) -> bool:
        """Whether the release lacks what is claimed."""
        return self.outcome in DRIFT


def judge(claims: Iterable[Claim], source: Source) -> tuple[Verdict, ...]:
    """Judge every claim; those of other software need nothing of the release."""
    corpus = Corpus(source.templates)
    return tuple(_judge(claim, source, corpus) for claim in claims)


def speaks_of(releases: VersionRange | None, version: str) -> bool:
    """Whether a range certainly covers a release.

    A release newer than all that were read is expected to have what the newest of them has.
    """
    if releases is None:
        return False
    parsed, newest = parse_version(version), known_versions()[-1]
    if parsed is not None and parsed > newest:
        return releases.contains(newest) is Membership.IN
    return releases.contains(parsed or Version("0")) is Membership.IN


def _judge(claim: Claim, source: Source, corpus: Corpus) -> Verdict:
    near = _holding(claim, corpus)
    read = tuple(template for template in near if fits(claim.pattern, template))
    telling = max(map(len, claim.pattern.literals)) >= _TELLING_LENGTH
    return Verdict(
        claim=claim,
        outcome=_outcome(claim, source, near, read),
        templates=read or (near if telling else ()),
    )


def _holding(claim: Claim, corpus: Corpus) -> tuple[Template, ...]:
    """Return the texts that hold any of a claim's literals, if need be across their holes."""
    found = [
        template
        for literal in claim.pattern.literals
        for template in corpus.holding(literal) or corpus.spanned(literal)
    ]
    return tuple(dict.fromkeys(found))


def _outcome(
    claim: Claim, source: Source, near: Sequence[Template], read: Sequence[Template]
) -> Outcome:
    at_home = not claim.modules or any(is_home(item.module, claim.modules) for item in near)
    if not speaks_of(claim.releases, source.version):
        wider = claim.releases is not None and read and at_home
        return Outcome.WIDER if wider else Outcome.ELSEWHERE
    if not near:
        return Outcome.INDIRECT if _in_strings(claim, source) else Outcome.MISSING
    if not read:
        return Outcome.UNPROVEN
    return Outcome.HOLDS if at_home else Outcome.MOVED


def is_home(module: str, named: Sequence[str]) -> bool:
    """Whether a module is one of those named, or lies in a folder that is."""
    return is_below(module, named) or is_below(module, [f"{name}/" for name in named])


def _in_strings(claim: Claim, source: Source) -> bool:
    """Whether a literal stands in any string of the modules that are named."""
    corpus = Corpus([text for module in claim.modules for text in source.strings(module)])
    return bool(_holding(claim, corpus))
