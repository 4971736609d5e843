"""Environment variables that the input sets: read by the release, deprecated, or read by none."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.knowledge.flags import Renaming, renaming_of
from advisor.knowledge.ranges import VersionRange, describe_ranges
from advisor.knowledge.variables import (
    VariableFacts,
    current_prefix,
    is_of_sglang,
    near_variables,
    variable_facts,
)
from advisor.preflight.catalogue import Result, Undecided, fired
from advisor.preflight.situation import Situation
from advisor.rules.conditions import Answer
from advisor.sources.records import Evidence
from advisor.sources.redaction import HIDDEN
from advisor.sources.shell import Word

_PREFIX_SINCE = "0.5.3 – 0.5.23"
"""Releases that copy SGL_ variables to SGLANG_ with a warning (srt/environ.py)."""


def judge_variables(situation: Situation) -> Iterator[Result]:
    """Judge each SGLANG_ or SGL_ variable that the input sets, once."""
    for name, word in dict(situation.command.variables).items():
        if is_of_sglang(name):
            yield from _variable(situation, name, word)


def _variable(situation: Situation, name: str, word: Word) -> Iterator[Result]:
    facts, copied = variable_facts(name), current_prefix(name)
    if copied is not None and (facts is None or _within(situation, facts.seen) is Answer.NO):
        yield _copied(situation, name, copied, word)
    elif facts is not None:
        yield from _known(situation, facts, word)
    elif near := next(iter(near_variables(name)), None):
        values = {"name": name, "near": near, "value": _shown(situation, word)}
        yield fired("variable-unknown", _place(situation, name, word), values)


def _known(situation: Situation, facts: VariableFacts, word: Word) -> Iterator[Result]:
    """Judge a variable of some release: ignored or gone first, then deprecated."""
    seen, ignored = _within(situation, facts.seen), _within(situation, facts.ignored)
    if Answer.UNKNOWN in {seen, ignored}:
        reason = f"SGLang {describe_ranges(facts.seen)} reads {facts.name}: give --sglang"
        yield Undecided(check="variable-unread", reason=reason)
    elif seen is Answer.NO or ignored is Answer.YES:
        values = {"history": _history(facts, only_warns=seen is Answer.YES)}
        yield _fired(situation, "variable-unread", facts, word, values)
    elif _within(situation, facts.deprecated) is Answer.YES:
        values = {"deprecated": describe_ranges(facts.deprecated)}
        yield _fired(situation, "variable-deprecated", facts, word, values)


def _fired(
    situation: Situation, check: str, facts: VariableFacts, word: Word, values: dict[str, str]
) -> Result:
    advice, replacement = _advice(situation, facts, word)
    named = {"name": facts.name, "advice": advice, "replacement": replacement}
    place = _place(situation, facts.name, word)
    return fired(check, place, {**situation.wording(), **named, **values})


def _copied(situation: Situation, name: str, copied: str, word: Word) -> Result:
    values = {
        **situation.wording(),
        "name": name,
        "deprecated": _PREFIX_SINCE,
        "advice": f"Write {copied}",
        "replacement": f"{copied}={_shown(situation, word)}",
    }
    return fired("variable-deprecated", _place(situation, name, word), values)


def _history(facts: VariableFacts, *, only_warns: bool) -> str:
    if only_warns:
        return f"This release only warns of it (so in {describe_ranges(facts.ignored)})."
    return f"{facts.name} is known to SGLang {describe_ranges(facts.seen)}."


def _advice(situation: Situation, facts: VariableFacts, word: Word) -> tuple[str, str]:
    """Return what to do and what to write, as far as a replacement is known for the release."""
    row: Renaming | None = renaming_of(facts.name)
    if row is not None and row.new is not None and row.new.startswith("--"):
        return f"Use {row.new}", row.new
    new = facts.new or (row.new if row is not None else None)
    known = variable_facts(new) if new is not None else None
    if known is not None and _within(situation, known.seen) is Answer.YES:
        return f"Use {known.name}", f"{known.name}={_shown(situation, word)}"
    return "", ""


def _within(situation: Situation, ranges: tuple[VersionRange, ...]) -> Answer:
    return situation.target.within(describe_ranges(ranges)) if ranges else Answer.NO


def _place(situation: Situation, name: str, word: Word) -> tuple[Evidence, ...]:
    return (situation.evidence(word, f"{name}={word.text}"),)


def _shown(situation: Situation, word: Word) -> str:
    return situation.redactor.clean(word.text) if word.resolved else HIDDEN
