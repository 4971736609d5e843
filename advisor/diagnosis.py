"""Logs and rules in, a report out: the one place that joins sources, facts and rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from advisor.errors import EXIT_CLEAN, EXIT_FINDINGS, InputError
from advisor.facts.arguments import changes
from advisor.facts.hits import Hit
from advisor.facts.literals import Value
from advisor.facts.model import RunFacts
from advisor.facts.patterns import Pattern, line_patterns
from advisor.facts.run import RunCollector
from advisor.facts.runs import RunSplitter
from advisor.findings import PlannedAction, Severity, Verdicts, plan
from advisor.knowledge.environment import Environment
from advisor.rules.engine import diagnose
from advisor.rules.model import Rule
from advisor.sources.files import LogInput
from advisor.sources.reading import TRACEBACK_HEAD, Found, LogReader, LogStatistics
from advisor.sources.redaction import Redactor
from advisor.sources.scan import Scanner
from advisor.sources.serving_lines import SERVING_LITERALS, ServingBlock


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
    """A whole diagnosis of one run, ready to be shown."""

    sources: tuple[SourceSummary, ...]
    run: RunFacts
    run_number: int
    run_count: int
    verdicts: Verdicts
    plan: tuple[PlannedAction, ...]
    fail_on: Severity | None
    exit_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to diagnose and how. `fail_on` None never fails; `run_number` None is the last run."""

    logs: tuple[LogInput, ...]
    rules: tuple[Rule, ...]
    environment: Environment | None = None
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
    collector.arguments.requested = request.requested_args
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
    )


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
    index = PatternIndex(_patterns(request.rules))
    redactor = Redactor(enabled=request.redact)
    splitter = RunSplitter(environment=request.environment)
    statistics: list[LogStatistics] = []
    for log in request.logs:
        reader = LogReader(
            log, index.scanner, redactor, serving_blocks=not index.has_serving_signals
        )
        for found in reader:
            if isinstance(found, ServingBlock):
                splitter.take_serving(found)
                continue
            if found.traceback:
                splitter.take_traceback(found.record)
                continue
            for hit, is_signal in index.hits(found, reader.statistics):
                splitter.take(hit, is_signal=is_signal)
        if reader.statistics.last is not None:
            splitter.see(reader.statistics.last)
        statistics.append(reader.statistics)
    runs = splitter.finish()
    return ReadLogs(runs=runs, statistics=tuple(statistics), secrets=tuple(sorted(redactor.names)))


@dataclass(slots=True)
class PatternIndex:
    """All patterns by literal; fact lines first, then the rules' signals."""

    patterns: Sequence[tuple[Pattern, bool]]
    scanner: Scanner = field(init=False)
    _by_literal: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        owners: dict[str, list[int]] = {TRACEBACK_HEAD: []}
        for number, (pattern, _) in enumerate(self.patterns):
            for literal in pattern.literals:
                owners.setdefault(literal, []).append(number)
        self.scanner = Scanner(tuple(owners))
        self._by_literal = list(owners.values())

    @property
    def has_serving_signals(self) -> bool:
        """Whether a rule looks for serving lines by the literals of the fact lines."""
        return any(
            is_signal and not set(SERVING_LITERALS).isdisjoint(pattern.literals)
            for pattern, is_signal in self.patterns
        )

    def hits(self, found: Found, statistics: LogStatistics) -> Iterator[tuple[Hit, bool]]:
        """Yield the patterns that match a record, and whether each belongs to a rule."""
        numbers = {number for literal in found.literals for number in self._by_literal[literal]}
        for number in sorted(numbers):
            pattern, is_signal = self.patterns[number]
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
                yield hit, is_signal


def _patterns(rules: Sequence[Rule]) -> tuple[tuple[Pattern, bool], ...]:
    facts = [*line_patterns(), *(change.pattern for change in changes())]
    signals = [signal.pattern for rule in rules for signal in rule.signals]
    return (*((pattern, False) for pattern in facts), *((pattern, True) for pattern in signals))


def _chosen_run(read: ReadLogs, asked: int | None) -> int:
    count = len(read.runs)
    if asked is None:
        return count
    if not 1 <= asked <= count:
        raise InputError(f"--run {asked}: the log holds {count} run{'s' if count > 1 else ''}")
    return asked


def _nothing_known(statistics: Sequence[LogStatistics]) -> str:
    lines = f"{sum(item.lines for item in statistics):,}".replace(",", " ")
    names = ", ".join(item.name for item in statistics)
    return f"no SGLang line in {lines} lines of {names}: is this the server's log?"
