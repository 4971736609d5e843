"""Apply rules to the facts of one run. Pure: the same facts and rules give the same verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from advisor.errors import RuleError
from advisor.facts.model import RunFacts, Signal
from advisor.facts.sheet import FactSheet, FactValue
from advisor.findings import Action, Finding, Severity, Skipped, Verdicts, order
from advisor.knowledge.flags import flag_name
from advisor.knowledge.ranges import VersionRange
from advisor.knowledge.releases import known_versions
from advisor.rules.conditions import Answer
from advisor.rules.model import ActionText, Rule, SignalPattern, Wording
from advisor.rules.wording import plain, render
from advisor.sources.records import Evidence

_SHOWN_EVIDENCE = 8
_DIVERGENT_TEXT = 90
_ARGUMENTS = "args."


class RunSubject:
    """What the conditions of one rule are asked of."""

    def __init__(self, rule: Rule, sheet: FactSheet, met: frozenset[str]) -> None:
        self._rule = rule
        self._sheet = sheet
        self._met = met

    def fact(self, path: str) -> FactValue:
        """Return the value at a path."""
        return self._sheet.get(path)

    def argument_is_default(self, path: str) -> bool:
        """Whether an argument is absent, or None, while the arguments are known."""
        return path.startswith(_ARGUMENTS) and self._sheet.has_arguments()

    def has_signal(self, name: str) -> bool:
        """Whether a pattern of this rule was met."""
        return f"{self._rule.id}/{name}" in self._sheet.run.signals

    def fired(self, rule: str) -> bool:
        """Whether any pattern of another rule was met."""
        return rule in self._met


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fired:
    rule: Rule
    finding: Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quiet:
    rule: Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class _Skipped:
    rule: Rule
    reason: str


_Outcome = _Fired | _Quiet | _Skipped


def diagnose(run: RunFacts, rules: Sequence[Rule]) -> Verdicts:
    """Judge a run by every rule; what one rule explains away is skipped with that reason."""
    run = _with_divergence(run, rules)
    sheet = FactSheet(run)
    met = frozenset(key.split("/")[0] for key in run.signals)
    outcomes = [_judge(rule, sheet, met) for rule in rules]
    fired = [outcome for outcome in outcomes if isinstance(outcome, _Fired)]
    explained = _explained(fired)
    return Verdicts(
        findings=order([item.finding for item in fired if item.rule.id not in explained]),
        skipped=tuple(_skipped(outcomes, explained)),
        quiet=tuple(item.rule.id for item in outcomes if isinstance(item, _Quiet)),
    )


def _judge(rule: Rule, sheet: FactSheet, met: frozenset[str]) -> _Outcome:
    subject = RunSubject(rule, sheet, met)
    match rule.when.ask(subject):
        case Answer.YES:
            return _fired(rule, sheet, subject)
        case Answer.NO:
            return _Quiet(rule=rule)
        case _:
            missing = ", ".join(rule.when.missing(subject))
            return _Skipped(rule=rule, reason=f"not known from these inputs: {missing}")


def _fired(rule: Rule, sheet: FactSheet, subject: RunSubject) -> _Outcome:
    """Word a finding; a rule whose texts fail must not take the whole report with it."""
    try:
        return _Fired(rule=rule, finding=_finding(rule, sheet, subject))
    except RuleError as error:
        return _Skipped(rule=rule, reason=str(error))


def _explained(fired: Sequence[_Fired]) -> Mapping[str, str]:
    """Map the ids that fired rules explain away to the rule that does.

    What rules name under `suppresses` goes first; then a fallback gives way to any error left.
    """
    ids = {item.rule.id for item in fired}
    explained = {
        other: item.rule.id for item in fired for other in item.rule.suppresses if other in ids
    }
    errors = [
        item.rule.id
        for item in fired
        if item.finding.severity is Severity.ERROR
        and not item.rule.fallback
        and item.rule.id not in explained
    ]
    if errors:
        fallbacks = [item.rule.id for item in fired if item.rule.fallback]
        explained.update(dict.fromkeys(fallbacks, errors[0]))
    return explained


def _skipped(outcomes: Iterable[_Outcome], explained: Mapping[str, str]) -> Iterable[Skipped]:
    for outcome in outcomes:
        rule = outcome.rule.id
        if isinstance(outcome, _Skipped):
            yield Skipped(rule=rule, reason=outcome.reason)
        elif isinstance(outcome, _Fired) and rule in explained:
            yield Skipped(rule=rule, reason=f"explained by {explained[rule]}")


def _finding(rule: Rule, sheet: FactSheet, subject: RunSubject) -> Finding:
    wording = _wording(rule, subject)
    context = _context(rule, sheet)
    return Finding(
        rule=rule.id,
        title=render(wording.title, context),
        topic=rule.topic,
        severity=wording.severity,
        confidence=wording.confidence,
        category=rule.category,
        summary=render(wording.summary, context),
        why=render(wording.why, context),
        evidence=_evidence(rule, sheet),
        actions=tuple(
            _action(action, context)
            for action in wording.actions
            if action.when is None or action.when.ask(subject) is Answer.YES
        ),
        values=_values(rule, sheet, context),
        references=rule.references,
    )


def _wording(rule: Rule, subject: RunSubject) -> Wording:
    for case in rule.cases:
        if case.when.ask(subject) is Answer.YES:
            return case.wording
    return rule.wording


def _action(action: ActionText, context: Mapping[str, object]) -> Action:
    """Fill an action; its command spells each flag in one way, so that it can be pasted.

    Where the release is not known well enough to choose, the risk names the other spellings.
    """
    spellings = cast("_Spellings", context["spellings"])
    others: dict[str, None] = {}

    def pasted(name: str) -> str:
        written, full = spellings.newest(name), spellings.all(name)
        if full != written:
            others.setdefault(full)
        return written

    command = render(action.command, {**context, "flag": pasted})
    remark = f"Spelled by release: {'; '.join(others)}." if others else ""
    return Action(
        title=render(action.title, context),
        command=command,
        expect=render(action.expect, context),
        risk=" ".join(text for text in (render(action.risk, context), remark) if text),
        verify=render(action.verify, context),
        cost=action.cost,
    )


def _context(rule: Rule, sheet: FactSheet) -> dict[str, object]:
    """Give the templates the facts, the captures of the first hits, and the helpers."""
    run = sheet.run
    context: dict[str, object] = {
        name: getattr(run, name)
        for name in (
            "model",
            "model_class",
            "versions",
            "gpu",
            "parallel",
            "moe",
            "graphs",
            "capacity",
            "memory",
            "startup",
            "failure",
            "serving",
            "log",
            "ranks",
            "changed_args",
        )
    }
    context["args"] = _Defaulting(run.args or {})
    context["requested_args"] = _Defaulting(run.requested_args or {})
    spellings = _Spellings(releases=run.versions.sglang)
    context["flag"] = spellings.all
    context["spellings"] = spellings
    context.update(_captures(rule, sheet))
    context["signals"] = {signal.name: _signals(rule, signal, sheet) for signal in rule.signals}
    context["count"] = sum(
        hit.evidence.count for signal in rule.signals for hit in _signals(rule, signal, sheet)
    )
    for name, template in rule.values.items():
        context[name] = render(template, context)
    return context


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spellings:
    """How the releases that fit a run spell a flag."""

    releases: VersionRange | None

    def all(self, name: str) -> str:
        """Return the spelling, or every spelling with its releases where there are several."""
        return flag_name(name, self.releases) or name

    def newest(self, name: str) -> str:
        """Return the spelling of the newest release that fits."""
        last = self.releases.last if self.releases is not None else None
        return flag_name(name, str(last or known_versions()[-1])) or name


class _Defaulting(dict[str, object]):
    """Arguments by name; one that the dump lacks reads as absent."""

    def __missing__(self, key: str) -> None:
        return None


def _captures(rule: Rule, sheet: FactSheet) -> dict[str, object]:
    from advisor.facts.patterns import compiled

    captures: dict[str, object] = {}
    for signal in rule.signals:
        for name in compiled(signal.pattern.expression).groupindex:
            captures.setdefault(name, None)
        for hit in _signals(rule, signal, sheet):
            for name, value in hit.values.items():
                if captures.get(name) is None:
                    captures[name] = value
    return captures


def _signals(rule: Rule, signal: SignalPattern, sheet: FactSheet) -> tuple[Signal, ...]:
    return sheet.run.signals.get(f"{rule.id}/{signal.name}", ())


def _evidence(rule: Rule, sheet: FactSheet) -> tuple[Evidence, ...]:
    """Gather the places a finding rests on: its signals, then the facts that it names."""
    places = [hit.evidence for signal in rule.signals for hit in _signals(rule, signal, sheet)]
    places = sorted(places, key=lambda place: (place.source, place.line))[:_SHOWN_EVIDENCE]
    known = sheet.run.evidence
    places += [known[path] for path in rule.evidence_paths if path in known]
    if not places and "args" in known:
        places.append(known["args"])
    if not places:
        places.extend(list(known.values())[:1])
    return tuple(dict.fromkeys(places))


def _values(rule: Rule, sheet: FactSheet, context: Mapping[str, object]) -> Mapping[str, object]:
    values = {name: value for name, value in _captures(rule, sheet).items() if value is not None}
    values.update({name: plain(context[name]) for name in rule.values})
    return values


def _with_divergence(run: RunFacts, rules: Iterable[Rule]) -> RunFacts:
    """Note the messages that each rank should print but only some did."""
    tensor_ranks = frozenset(rank for rank in run.ranks if "TP" in rank)
    found = [
        f"{hit.evidence.text[:_DIVERGENT_TEXT]!r} ({', '.join(hit.evidence.ranks)})"
        for rule in rules
        for signal in rule.signals
        if signal.every_rank
        for hit in run.signals.get(f"{rule.id}/{signal.name}", ())
        if hit.evidence.ranks and tensor_ranks - frozenset(hit.evidence.ranks)
    ]
    return (
        replace(run, log=replace(run.log, divergent=tuple(dict.fromkeys(found)))) if found else run
    )
