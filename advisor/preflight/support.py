"""Options that the GPU, the release or another option does not carry: `advisor/data/flag_support.yaml`."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from advisor.facts.launch import Option
from advisor.facts.literals import Value
from advisor.findings import Action, Category, Confidence, Finding
from advisor.knowledge.releases import speakers
from advisor.preflight.catalogue import Fired, Outcome, Result, Undecided, checks, outcomes
from advisor.preflight.conditions import condition, reason
from advisor.preflight.situation import Situation
from advisor.resources import read_data
from advisor.rules.conditions import ALWAYS, Answer, Condition, FactCondition, Operator
from advisor.rules.wording import render
from advisor.sources.records import Evidence

DATA_FILE = "flag_support.yaml"
_REMOVE = "remove"
_ENDING = frozenset({"start_fails", "crashes"})
_SOURCE_URL = "https://github.com/sgl-project/sglang/blob/v{version}/python/sglang/srt/{path}"
_BASES = {
    "read": "read",
    "inferred": "inferred from what was read, not executed",
    "thread": "read, and told in a public thread",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportRow:
    """One row of flag_support.yaml; the fields are told in its head.

    Attributes:
        works_on: The capabilities on which the row stays quiet; None where it asks for none.
        decided_without: First words of facts whose absence does not matter.
    """

    check: str
    flags: tuple[str, ...]
    values: tuple[Value, ...]
    sglang: str
    works_on: FactCondition | None
    when: Condition
    otherwise: str
    title: str
    where: tuple[str, ...]
    message: str
    raised_by: str
    note: str
    instead: str
    add: str
    basis: str
    references: tuple[str, ...]
    decided_without: tuple[str, ...]
    shown_sm: str


def judge_support(situation: Situation) -> Iterator[Result]:
    """Judge the command by every row; several rows of one finding may each speak."""
    for row in rows():
        yield from _judge(row, situation)


def _judge(row: SupportRow, situation: Situation) -> Iterator[Result]:
    options = _options(row, situation)
    if row.flags and not options:
        return
    release = situation.target.within(row.sglang)
    if release is Answer.NO:
        return
    works = Answer.NO if row.works_on is None else row.works_on.ask(situation)
    holds = row.when.ask(situation)
    if works is Answer.YES or holds is Answer.NO:
        return
    missing = [
        *(row.works_on.missing(situation) if row.works_on is not None else ()),
        *row.when.missing(situation),
    ]
    missing = [path for path in missing if path.split(".")[0] not in row.decided_without]
    if missing:
        if row.flags:
            yield Undecided(check=row.check, reason=reason(missing, situation))
        return
    if release is Answer.UNKNOWN:
        yield Undecided(check=row.check, reason=_open_release(row, situation))
        return
    for option in options or (None,):
        yield Fired(finding=_finding(row, situation, option))


def _open_release(row: SupportRow, situation: Situation) -> str:
    option = row.flags[0] if row.flags else "this"
    return (
        f"{option} behaves so in SGLang {row.sglang}, and {situation.target.shown_release} is "
        "judged here: give --sglang"
    )


def _options(row: SupportRow, situation: Situation) -> tuple[Option, ...]:
    """Return the options that the row speaks of: the last of each flag."""
    found: list[Option] = []
    for flag in row.flags:
        option = situation.launch.last(flag)
        if option is None or option.facts is None:
            continue
        if row.values and not (option.resolved and _value_of(option) in row.values):
            continue
        if situation.values.get(option.facts.field or "") is False:
            continue
        found.append(option)
    return tuple(found)


def _value_of(option: Option) -> Value:
    return option.values[0] if option.values else True


def _finding(row: SupportRow, situation: Situation, option: Option | None) -> Finding:
    check, outcome, target = checks()[row.check], outcomes()[row.otherwise], situation.target
    values: dict[str, object] = {
        "option": option.text if option is not None else "SGLang",
        "release": target.shown_release,
        "gpu": target.shown_gpu,
        "model_config": target.model,
        "version_range": row.sglang,
        "where": list(row.where),
        "message": row.message or None,
        "basis": row.basis,
        "sm": getattr(target.gpu, "sm", None),
    }
    title = outcome.title if row.works_on is not None else outcome.title_anywhere
    return Finding(
        rule=check.id,
        title=render(row.title or title, values),
        topic=check.topic,
        severity=outcome.severity,
        confidence=_confidence(row, outcome),
        category=Category.STARTUP if row.otherwise in _ENDING else check.category,
        summary=_summary(row, outcome, values),
        why=_why(row, outcome),
        evidence=_evidence(situation, option),
        actions=_actions(row, option),
        values={key: value for key, value in values.items() if key != "model_config"},
        references=(*row.references, *_source_links(row, target.releases[-1])),
    )


def _confidence(row: SupportRow, outcome: Outcome) -> Confidence:
    inferred = row.basis == "inferred" and outcome.confidence is Confidence.CERTAIN
    return Confidence.LIKELY if inferred else outcome.confidence


def _summary(row: SupportRow, outcome: Outcome, values: Mapping[str, object]) -> str:
    parts = [f"{render(outcome.text, values)} (seen in {row.sglang})."]
    if row.shown_sm:
        parts.append(f"It works on {row.shown_sm}; this is {values['gpu']}.")
    if row.note:
        parts.append(render(row.note, values))
    if row.message:
        parts.append(f"Message: “{row.message}”.")
    return " ".join(parts)


def _why(row: SupportRow, outcome: Outcome) -> str:
    places = ", ".join(f"srt/{path}" for path in row.where)
    return f"{outcome.why} Source: SGLang {row.sglang}, {places} ({_BASES[row.basis]})."


def _source_links(row: SupportRow, version: str) -> tuple[str, ...]:
    """Link the first place at the tag of the release, when only one place is named."""
    known = speakers(version)
    if len(row.where) != 1 or not known:
        return ()
    return (_SOURCE_URL.format(version=known[-1], path=row.where[0]),)


def _evidence(situation: Situation, option: Option | None) -> tuple[Evidence, ...]:
    if option is None:
        return (situation.whole(),)
    return (situation.evidence(option.word, option.text),)


def _actions(row: SupportRow, option: Option | None) -> tuple[Action, ...]:
    check = "advisor preflight again: the finding is gone"
    if row.add:
        return (Action(title=f"Add {row.add}", command=row.add, verify=check, cost=1),)
    if option is None or row.otherwise in {"adjusts", "depends"}:
        return ()
    if row.instead != _REMOVE:
        command = f"{option.flag} {row.instead}"
        title = f"Write {command} instead of {option.text}"
        return (Action(title=title, command=command, verify=check, cost=1),)
    return (Action(title=f"Remove {option.text}", verify=check, cost=0),)


@functools.cache
def rows() -> tuple[SupportRow, ...]:
    """Return the rows in the order of the data."""
    data = cast("Mapping[str, Sequence[Mapping[str, object]]]", read_data(DATA_FILE))
    return tuple(_row(row) for row in data["rows"])


def _row(row: Mapping[str, object]) -> SupportRow:
    when = condition(row["when"]) if "when" in row else ALWAYS
    return SupportRow(
        check=str(row["check"]),
        flags=_texts(row, "flags"),
        values=tuple(cast("Sequence[Value]", row.get("values", ()))),
        sglang=str(row["sglang"]),
        works_on=_works_on(row),
        when=when,
        otherwise=str(row["otherwise"]),
        title=str(row.get("title", "")),
        where=_texts(row, "where"),
        message=str(row.get("message", "")),
        raised_by=str(row.get("raised_by", "SGLang")),
        note=str(row.get("note", "")),
        instead=str(row.get("instead", _REMOVE)),
        add=str(row.get("add", "")),
        basis=str(row["basis"]),
        references=_texts(row, "references"),
        decided_without=_texts(row, "decided_without"),
        shown_sm=_shown_sm(row),
    )


def _texts(row: Mapping[str, object], key: str) -> tuple[str, ...]:
    return tuple(cast("Sequence[str]", row.get(key, ())))


def _works_on(row: Mapping[str, object]) -> FactCondition | None:
    if "sm_from" in row:
        least = cast("int", row["sm_from"])
        return FactCondition(path="gpu.sm", operator=Operator.AT_LEAST, operand=least)
    if "sm" in row:
        listed = tuple(cast("Sequence[int]", row["sm"]))
        return FactCondition(path="gpu.sm", operator=Operator.ONE_OF, operand=listed)
    return None


def _shown_sm(row: Mapping[str, object]) -> str:
    if "sm_from" in row:
        return f"SM{row['sm_from']} and later"
    return ", ".join(f"SM{sm}" for sm in cast("Sequence[int]", row.get("sm", ())))
