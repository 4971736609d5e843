"""A rule after validation: nothing in it can be malformed any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from advisor.facts.patterns import Pattern
from advisor.findings import Category, Confidence, Severity
from advisor.knowledge.ranges import VersionRange
from advisor.rules.conditions import Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalPattern:
    """A log pattern of a rule.

    `releases` is where SGLang has this wording, `modules` where it emits it (for the audit; empty
    for text of other software). `every_rank` marks a message that each rank must print, so that
    one from only some of them is news of its own.
    """

    name: str
    pattern: Pattern
    releases: VersionRange | None = None
    modules: tuple[str, ...] = ()
    every_rank: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionText:
    """An action whose texts are templates; it is offered only while `when` holds."""

    title: str
    command: str = ""
    expect: str = ""
    risk: str = ""
    verify: str = ""
    cost: int = 5
    when: Condition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """What a finding says; every text is a template."""

    severity: Severity
    confidence: Confidence
    title: str
    summary: str
    why: str
    actions: tuple[ActionText, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Another wording for a special situation; the first case that holds is used."""

    when: Condition
    wording: Wording


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A test of the rule that is also its documentation.

    `evidence` is how many places the finding points at.
    """

    name: str
    expect: str
    log: str = ""
    args: str = ""
    env: str = ""
    severity: Severity | None = None
    summary: str | None = None
    evidence: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule: identity, when it applies, what it says, and its proof.

    A `fallback` rule has no cause of its own to tell: its finding stays only where no other rule
    found an error. `places` are the lines of its keys in the file (`actions.0.title`), for messages;
    a rule from the cache has none.
    """

    id: str
    family: str
    topic: str
    category: Category
    since: str
    signals: tuple[SignalPattern, ...]
    when: Condition
    wording: Wording
    cases: tuple[Case, ...] = ()
    limits: str = ""
    references: tuple[str, ...] = ()
    suppresses: tuple[str, ...] = ()
    evidence_paths: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()
    fallback: bool = False
    origin: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)

    def where(self, path: str = "") -> str:
        """Return the file and line of a key, or of the nearest known key that holds it."""
        while path and path not in self.places:
            path = path.rpartition(".")[0]
        return f"{self.origin}:{self.places.get(path, 1)}"
