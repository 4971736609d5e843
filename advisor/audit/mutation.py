"""Take each part out of a rule in turn: an example that notices must be there for each.

Parts are the signals, each literal of several, each condition of `when` (of the rule and of its
cases), and each case. Deleting a signal or condition changes no fact, so each example is read
once; only for a literal is it read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from advisor.errors import AdvisorError
from advisor.examples import read_example, verdict_problem
from advisor.facts.model import RunFacts
from advisor.findings import Verdicts
from advisor.rules.conditions import (
    Combined,
    Condition,
    FactCondition,
    RuleCondition,
    SignalCondition,
)
from advisor.rules.engine import diagnose
from advisor.rules.model import Example, Rule, SignalPattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A rule without one of its parts; `rereads` where other lines would be found."""

    part: str
    rule: Rule
    rereads: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivor:
    """A part whose loss no example notices."""

    rule: str
    part: str


def survivors(rule: Rule) -> tuple[Survivor, ...]:
    """Return the parts of a rule that can be deleted without any example noticing."""
    runs = [(example, _facts(rule, example)) for example in rule.examples]
    plain = [_findings(rule, run) for _, run in runs]
    return tuple(
        Survivor(rule=rule.id, part=mutant.part)
        for mutant in mutants(rule)
        if not _is_noticed(mutant, runs, plain)
    )


def mutants(rule: Rule) -> Iterator[Mutant]:
    """Yield the rule without each of its parts."""
    for number, signal in enumerate(rule.signals):
        rest = (*rule.signals[:number], *rule.signals[number + 1 :])
        yield Mutant(part=f"signal {signal.name}", rule=replace(rule, signals=rest))
        for shorter, literal in _shorter_signals(signal):
            signals = (*rule.signals[:number], shorter, *rule.signals[number + 1 :])
            mutant = replace(rule, signals=signals)
            yield Mutant(part=f"literal {literal!r}", rule=mutant, rereads=True)
    for part, when in without_each_part(rule.when):
        yield Mutant(part=f"when: {part}", rule=replace(rule, when=when))
    for number, case in enumerate(rule.cases):
        before, after = rule.cases[:number], rule.cases[number + 1 :]
        yield Mutant(part=f"case {number + 1}", rule=replace(rule, cases=(*before, *after)))
        for part, when in without_each_part(case.when):
            cases = (*before, replace(case, when=when), *after)
            yield Mutant(part=f"case {number + 1}: {part}", rule=replace(rule, cases=cases))


def without_each_part(condition: Condition) -> Iterator[tuple[str, Condition]]:
    """Yield a condition without each of the parts that it combines, at any depth.

    Signals are deleted as such; what asks for other rules no example of this one can meet.
    """
    if not isinstance(condition, Combined):
        return
    for group in ("all_of", "any_of", "none_of"):
        parts: tuple[Condition, ...] = getattr(condition, group)
        for number, part in enumerate(parts):
            before, after = parts[:number], parts[number + 1 :]
            is_only_way = group == "any_of" and len(parts) == 1
            if not (_is_wrapper(part) or _is_elsewhere(part) or is_only_way):
                yield described(part), replace(condition, **{group: (*before, *after)})
            for name, changed in without_each_part(part):
                yield name, replace(condition, **{group: (*before, changed, *after)})


def described(condition: Condition) -> str:
    """Say a condition in a few words."""
    match condition:
        case FactCondition(path=path, operator=operator, operand=operand):
            return f"{path} {operator.value} {operand}"
        case SignalCondition(name=name):
            return f"signal {name}"
        case Combined(all_of=all_of, any_of=any_of, none_of=none_of):
            groups = {"all": all_of, "any": any_of, "none": none_of}
            return "; ".join(
                f"{word} of ({', '.join(map(described, parts))})"
                for word, parts in groups.items()
                if parts
            )
    return str(condition)


def _is_wrapper(condition: Condition) -> bool:
    """Whether a condition only holds others together that must all be met."""
    return isinstance(condition, Combined) and not (condition.any_of or condition.none_of)


def _is_elsewhere(condition: Condition) -> bool:
    """Whether a condition only asks for signals, deleted as such, or for rules, never met alone."""
    if isinstance(condition, Combined):
        parts = (*condition.all_of, *condition.any_of, *condition.none_of)
        return all(map(_is_elsewhere, parts))
    return isinstance(condition, SignalCondition | RuleCondition)


def _shorter_signals(signal: SignalPattern) -> Iterator[tuple[SignalPattern, str]]:
    literals = signal.pattern.literals
    if len(literals) < 2:  # noqa: PLR2004  (a signal keeps at least one)
        return
    for number, literal in enumerate(literals):
        rest = (*literals[:number], *literals[number + 1 :])
        yield replace(signal, pattern=replace(signal.pattern, literals=rest)), literal


def _facts(rule: Rule, example: Example) -> RunFacts:
    return read_example(rule, example).run


def _findings(rule: Rule, run: RunFacts) -> Verdicts:
    """Judge a run by a rule, with the signals that the rule has."""
    names = {f"{rule.id}/{signal.name}" for signal in rule.signals}
    signals = {key: hits for key, hits in run.signals.items() if key in names}
    return diagnose(replace(run, signals=signals), (rule,))


def _is_noticed(
    mutant: Mutant, runs: Iterable[tuple[Example, RunFacts]], plain: Sequence[Verdicts]
) -> bool:
    for (example, run), before in zip(runs, plain, strict=True):
        try:
            facts = _facts(mutant.rule, example) if mutant.rereads else run
            verdicts = _findings(mutant.rule, facts)
        except AdvisorError:
            return True
        if verdicts != before and verdict_problem(verdicts, example) is not None:
            return True
    return False
