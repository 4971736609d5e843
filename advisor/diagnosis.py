"""Logs and rules in, a report out: the one place that joins sources, facts and rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from advisor.errors import EXIT_CLEAN, EXIT_FINDINGS, InputError
from advisor.facts.alarms import ALARM_LITERALS, sounds_alarming
from advisor.facts.arguments import changes
from advisor.facts.hits import Hit
from advisor.facts.literals import Value
from advisor.facts.model import RunFacts
from advisor.facts.noise import noise
from advisor.facts.patterns import Pattern, line_patterns
from advisor.facts.requested import redacted_arguments, requested_arguments
from advisor.facts.run import RunCollector
from advisor.facts.runs import RunSplitter
from advisor.facts.unrecognised import UnrecognisedKind
from advisor.findings import PlannedAction, Severity, Verdicts, plan
from advisor.rules.engine import diagnose
from advisor.rules.model import Rule
from advisor.sources.files import LogInput
from advisor.sources.reading import TRACEBACK_HEAD, Found, LogReader, LogStatistics
from advisor.sources.redaction import Redactor
from advisor.sources.scan import Scanner
from advisor.sources.serving_lines import SERVING_LITERALS, ServingBlock
from advisor.sources.shell import Word

if TYPE_CHECKING:
    from advisor.knowledge.environment import Environment

_ALARMS = frozenset(ALARM_LITERALS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSummary:
    """What was read of one input; `unread` counts lines that a pattern took too long on."""

    name: str
    lines: int
    bytes_: int
    unread: int
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A whole diagnosis of one run, ready to be shown.

    `unrecognised` are the warnings and errors of the run that no rule, fact line, change or known
    harmless line speaks of; no severity is claimed for them.
    """

    sources: tuple[SourceSummary, ...]
    run: RunFacts
    run_number: int
    run_count: int
    verdicts: Verdicts
    plan: tuple[PlannedAction, ...]
    fail_on: Severity | None
    exit_code: int
    unrecognised: tuple[UnrecognisedKind, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to diagnose and how. `fail_on` None never fails; `run_number` None is the last run.

    Attributes:
        launch: The arguments of the launch command as typed; they are read as the release of the
            run reads them.
        requested_args: The same by field name, for a caller that knows the names.
    """

    logs: tuple[LogInput, ...]
    rules: tuple[Rule, ...]
    environment: Environment | None = None
    launch: tuple[Word, ...] | None = None
    requested_args: Mapping[str, Value] | None = None
    fail_on: Severity | None = Severity.ERROR
    redact: bool = True
    run_number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLogs:
    """The runs found in the logs."""

    runs: tuple[RunCollector, ...]
    statistics: tuple[LogStatistics, ...]
    secrets: tuple[str, ...]


def diagnose_logs(request: Request, *, tolerant: bool = False) -> Report:
    """Read the logs and judge one run of them.

    A tolerant diagnosis accepts logs without any line that Advisor knows.

    Raises:
        InputError: If a log cannot be read, holds no SGLang line, or lacks the run asked for.
    """
    read = read_logs(request)
    if request.logs and not tolerant and not any(run.hits for run in read.runs):
        raise InputError(_nothing_known(read.statistics))
    number = _chosen_run(read, request.run_number)
    collector = read.runs[number - 1]
    collector.arguments.requested = _requested(request, collector)
    run = collector.result(
        name=request.logs[0].name if request.logs else None,
        lines=sum(item.lines for item in read.statistics),
        secrets=read.secrets,
    )
    verdicts = diagnose(run, request.rules)
    return Report(
        sources=tuple(
            SourceSummary(
                name=item.name,
                lines=item.lines,
                bytes_=item.bytes_,
                unread=item.unread,
                runs=len(read.runs),
            )
            for item in read.statistics
        ),
        run=run,
        run_number=number,
        run_count=len(read.runs),
        verdicts=verdicts,
        plan=plan(verdicts.findings),
        fail_on=request.fail_on,
        exit_code=exit_code(verdicts, request.fail_on),
        unrecognised=collector.unrecognised.result(),
    )


def _requested(request: Request, collector: RunCollector) -> Mapping[str, Value] | None:
    """Return what the launch command asked for, without secrets; None without a command."""
    asked = request.requested_args
    if request.launch is not None:
        asked = requested_arguments(request.launch, collector.releases)
    if asked is None:
        return None
    return redacted_arguments(asked, Redactor(enabled=request.redact))


def exit_code(verdicts: Verdicts, fail_on: Severity | None) -> int:
    """Return 1 where a finding is at or above the threshold, else 0."""
    if fail_on is None:
        return EXIT_CLEAN
    failed = any(finding.severity.rank <= fail_on.rank for finding in verdicts.findings)
    return EXIT_FINDINGS if failed else EXIT_CLEAN


def read_logs(request: Request) -> ReadLogs:
    """Read all logs in one pass each and split them into runs; at least one, even without logs.

    Raises:
        InputError: If a log cannot be read.
    """
    index = PatternIndex(patterns_of(request.rules))
    redactor = Redactor(enabled=request.redact)
    splitter = RunSplitter(environment=request.environment)
    statistics: list[LogStatistics] = []
    for log in request.logs:
        reader = LogReader(
            log,
            index.scanner,
            redactor,
            serving_blocks=not index.has_serving_signals,
            hints=index.alarms,
        )
        for number, found in enumerate(reader):
            if number == 0 and reader.statistics.first is not None:
                splitter.see(reader.statistics.first)
            if isinstance(found, ServingBlock):
                splitter.take_serving(found)
                continue
            if found.traceback:
                splitter.take_traceback(found.record)
            else:
                _sort(found, index, splitter, reader.statistics)
        if reader.statistics.last is not None:
            splitter.see(reader.statistics.last)
        statistics.append(reader.statistics)
    runs = splitter.finish()
    return ReadLogs(runs=runs, statistics=tuple(statistics), secrets=tuple(sorted(redactor.names)))


def _sort(
    found: Found, index: PatternIndex, splitter: RunSplitter, statistics: LogStatistics
) -> None:
    """Give a record to its run as what it is known for, or as a warning that nothing knows."""
    is_known = False
    for hit, use in index.hits(found, statistics):
        is_known = True
        if use is not Use.NOISE:
            splitter.take(hit, is_signal=use is Use.SIGNAL)
    if not is_known and index.is_alarm(found):
        splitter.take_unrecognised(found.record)


class Use(Enum):
    """What a pattern's hits are for: facts, the signals of rules, or to be known as harmless."""

    FACT = auto()
    SIGNAL = auto()
    NOISE = auto()


@dataclass(slots=True)
class PatternIndex:
    """All patterns by literal; fact lines first, then the rules' signals, then harmless lines.

    The words that make a line sound like a warning are literals without a pattern.
    """

    patterns: Sequence[tuple[Pattern, Use]]
    scanner: Scanner = field(init=False)
    _by_literal: list[list[int]] = field(init=False)
    alarms: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        owners: dict[str, list[int]] = {TRACEBACK_HEAD: []}
        for number, (pattern, _) in enumerate(self.patterns):
            for literal in pattern.literals:
                owners.setdefault(literal, []).append(number)
        for word in ALARM_LITERALS:
            owners.setdefault(word, [])
        self.scanner = Scanner(tuple(owners))
        self.alarms = frozenset(n for n, text in enumerate(owners) if text in _ALARMS)
        self._by_literal = list(owners.values())

    @property
    def has_serving_signals(self) -> bool:
        """Whether a rule looks for serving lines by the literals of the fact lines."""
        return any(
            use is Use.SIGNAL and not set(SERVING_LITERALS).isdisjoint(pattern.literals)
            for pattern, use in self.patterns
        )

    def is_alarm(self, found: Found) -> bool:
        """Whether a record is a warning or an error by its level or words."""
        if found.in_traceback or self.alarms.isdisjoint(found.literals):
            return False
        return sounds_alarming(found.record)

    def hits(self, found: Found, statistics: LogStatistics) -> Iterator[tuple[Hit, Use]]:
        """Yield the patterns that match a record, and what each is for."""
        numbers = {number for literal in found.literals for number in self._by_literal[literal]}
        for number in sorted(numbers):
            pattern, use = self.patterns[number]
            try:
                values = pattern.search(found.record.message)
            except TimeoutError:
                statistics.unread += 1
                continue
            if values is not None:
                hit = Hit(
                    key=pattern.key,
                    values=values,
                    record=found.record,
                    in_traceback=found.in_traceback,
                )
                yield hit, use


def patterns_of(rules: Sequence[Rule]) -> tuple[tuple[Pattern, Use], ...]:
    """Return every pattern that a log is searched for, and what each is for."""
    facts = [*line_patterns(), *(change.pattern for change in changes())]
    signals = [signal.pattern for rule in rules for signal in rule.signals]
    return (
        *((pattern, Use.FACT) for pattern in facts),
        *((pattern, Use.SIGNAL) for pattern in signals),
        *((entry.pattern, Use.NOISE) for entry in noise()),
    )


def _chosen_run(read: ReadLogs, asked: int | None) -> int:
    count = len(read.runs)
    if asked is None:
        return count
    if not 1 <= asked <= count:
        raise InputError(f"--run {asked}: the log holds {count} run{'s' if count > 1 else ''}")
    return asked


def _nothing_known(statistics: Sequence[LogStatistics]) -> str:
    count = sum(item.lines for item in statistics)
    lines = f"{count:,} line{'' if count == 1 else 's'}".replace(",", " ")
    names = ", ".join(item.name for item in statistics)
    return f"no SGLang line in {lines} of {names}: is this the server's log?"
