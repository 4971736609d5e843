"""What Advisor claims of SGLang's wording: signals of rules, fact lines, changes, harmless lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from advisor.facts.noise import noise
from advisor.facts.patterns import Pattern
from advisor.knowledge.ranges import VersionRange
from advisor.resources import read_data
from advisor.rules.model import Rule


class ClaimKind(StrEnum):
    """Who claims a wording."""

    RULE = "rule"
    LINE = "line"
    CHANGE = "change"
    NOISE = "noise"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One pattern and where it says that SGLang emits it.

    `releases` is None where it speaks of other software; `modules` is empty where it does not say.
    """

    kind: ClaimKind
    pattern: Pattern
    releases: VersionRange | None
    modules: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What messages call it: `rule-id/signal`, or `line load-weight-end`."""
        if self.kind is ClaimKind.RULE:
            return self.pattern.key
        return f"{self.kind.value} {self.pattern.key.rpartition('/')[2]}"


_FILES = {ClaimKind.LINE: "lines.yaml", ClaimKind.CHANGE: "changes.yaml"}
_EXTERNAL = "(external)"
_REMARK = re.compile(r"\([^)]*\)")


def claims(rules: Iterable[Rule]) -> tuple[Claim, ...]:
    """Return the claims of the rules and of the shipped data."""
    return (
        *(claim for rule in rules for claim in rule_claims(rule)),
        *(claim for kind, file in _FILES.items() for claim in _data_claims(kind, file)),
        *(
            Claim(kind=ClaimKind.NOISE, pattern=entry.pattern, releases=entry.releases)
            for entry in noise()
        ),
    )


def rule_claims(rule: Rule) -> Iterator[Claim]:
    """Yield a claim for each signal of a rule."""
    for signal in rule.signals:
        yield Claim(
            kind=ClaimKind.RULE,
            pattern=signal.pattern,
            releases=signal.releases,
            modules=tuple(module for text in signal.modules for module in modules_in(text)),
        )


def modules_in(text: str) -> tuple[str, ...]:
    """Read a list of modules as the data files write it.

    >>> modules_in("model_loader/weight_utils (tqdm) -> model_loader/loader, server_args")
    ('model_loader/weight_utils', 'model_loader/loader', 'server_args')
    """
    return tuple(re.findall(r"[\w/.]+", _REMARK.sub("", text)))


def _data_claims(kind: ClaimKind, file: str) -> Iterator[Claim]:
    for row in cast("Sequence[Mapping[str, object]]", read_data(file)):
        literals = tuple(str(text) for text in cast("Sequence[object]", row["literals"]))
        emitted = row.get("emitted_by", "")
        written = emitted if isinstance(emitted, str) else " ".join(cast("list[str]", emitted))
        ends = cast("Sequence[object]", row.get("sglang", ()))
        external = _EXTERNAL in written or not ends
        yield Claim(
            kind=kind,
            pattern=Pattern(key=str(row["id"]), literals=literals, expression=str(row["regex"])),
            releases=None if external else VersionRange.between(str(ends[0]), str(ends[1])),
            modules=() if external else modules_in(written),
        )
