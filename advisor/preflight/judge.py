"""A launch command in, a report out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from advisor.diagnosis import Report, SourceSummary, exit_code
from advisor.facts.launch import read_options
from advisor.facts.model import GpuFacts, LogFacts, Parallel, RunFacts, Versions
from advisor.facts.requested import redacted_arguments
from advisor.findings import Finding, Severity, Skipped, Verdicts, order, plan
from advisor.knowledge.ranges import VersionRange
from advisor.preflight.catalogue import Fired, Result, Undecided, checks
from advisor.preflight.flags import judge_flags
from advisor.preflight.inputs.command import ServerCommand
from advisor.preflight.memory import judge_memory
from advisor.preflight.moe import judge_moe
from advisor.preflight.parallel import judge_parallel
from advisor.preflight.secrets import judge_secrets
from advisor.preflight.serving import DIFFUSION, judge_serving
from advisor.preflight.situation import Situation, Target
from advisor.preflight.support import judge_support
from advisor.preflight.variables import judge_variables
from advisor.sources.redaction import Redactor

_JUDGES: Sequence[Callable[[Situation], Iterator[Result]]] = (
    judge_flags,
    judge_serving,
    judge_support,
    judge_parallel,
    judge_moe,
    judge_memory,
    judge_secrets,
    judge_variables,
)
_MIB_PER_GIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One server of the input, judged."""

    situation: Situation
    verdicts: Verdicts


def preflight(
    commands: Sequence[tuple[ServerCommand, Target]],
    *,
    fail_on: Severity | None,
    redact: bool = True,
) -> Report:
    """Judge the server commands of one input; with several, findings name their server."""
    judged = [_judged(command, target, redact=redact) for command, target in commands]
    verdicts = _merged(judged)
    first = judged[0].situation
    return Report(
        sources=_sources(judged),
        run=_facts(first),
        run_number=1,
        run_count=len(judged),
        verdicts=verdicts,
        plan=plan(verdicts.findings),
        fail_on=fail_on,
        exit_code=exit_code(verdicts, fail_on),
    )


def situation_of(command: ServerCommand, target: Target, *, redact: bool = True) -> Situation:
    """Read the options of a command as the newest release in question does."""
    launch = read_options(command.words, target.releases[-1])
    return Situation(
        command=command,
        launch=launch,
        target=target,
        redactor=Redactor(enabled=redact),
        values=launch.fields(),
        unresolved=launch.unresolved_fields(),
    )


def judge(situation: Situation) -> Verdicts:
    """Judge one server: what fired, what could not be judged and why, what is quiet."""
    results = _results(situation)
    findings = _distinct(result.finding for result in results if isinstance(result, Fired))
    fired = {finding.rule for finding in findings}
    skipped: dict[str, list[str]] = {}
    for result in results:
        if isinstance(result, Undecided) and result.check not in fired:
            skipped.setdefault(result.check, []).append(result.reason)
    return Verdicts(
        findings=order(findings),
        skipped=tuple(
            Skipped(rule=check, reason=_joined(skipped[check]))
            for check in checks()
            if check in skipped
        ),
        quiet=tuple(check for check in checks() if check not in fired and check not in skipped),
    )


def _results(situation: Situation) -> list[Result]:
    """Run every judge; a diffusion server has options of its own, of which nothing is known."""
    kind = situation.command.start.model_type
    if kind is not None and kind.text == DIFFUSION:
        reason = "a diffusion server has other options than those that Advisor knows"
        return [Undecided(check=check, reason=reason) for check in checks()]
    return [result for judging in _JUDGES for result in judging(situation)]


def _joined(reasons: Sequence[str]) -> str:
    """Join the reasons of several rows, each part once."""
    parts = [part for reason in reasons for part in reason.split("; ")]
    return "; ".join(dict.fromkeys(parts))


def _judged(command: ServerCommand, target: Target, *, redact: bool) -> Judged:
    situation = situation_of(command, target, redact=redact)
    return Judged(situation=situation, verdicts=judge(situation))


def _distinct(findings: Iterator[Finding]) -> list[Finding]:
    """Drop a milder finding about an option where a worse one of the same check speaks of it."""
    held: dict[tuple[str, int, str], Finding] = {}
    for finding in findings:
        key = (finding.rule, finding.evidence[0].line, finding.evidence[0].text)
        known = held.get(key)
        if known is None or finding.severity.rank < known.severity.rank:
            held[key] = finding
    return list(held.values())


def _merged(judged: Sequence[Judged]) -> Verdicts:
    if len(judged) == 1:
        return judged[0].verdicts
    findings = [
        replace(
            finding,
            title=f"{one.situation.command.name}: {finding.title}",
            values={**finding.values, "server": one.situation.command.name},
        )
        for one in judged
        for finding in one.verdicts.findings
    ]
    fired = {finding.rule for finding in findings}
    skipped: dict[str, list[str]] = {}
    for one in judged:
        for item in one.verdicts.skipped:
            if item.rule not in fired:
                skipped.setdefault(item.rule, []).append(
                    f"{one.situation.command.name}: {item.reason}"
                )
    return Verdicts(
        findings=order(findings),
        skipped=tuple(
            Skipped(rule=check, reason="; ".join(skipped[check]))
            for check in checks()
            if check in skipped
        ),
        quiet=tuple(check for check in checks() if check not in fired and check not in skipped),
    )


def _sources(judged: Sequence[Judged]) -> tuple[SourceSummary, ...]:
    names: dict[str, list[Judged]] = {}
    for one in judged:
        names.setdefault(one.situation.command.source, []).append(one)
    return tuple(
        SourceSummary(
            name=name,
            lines=max(
                (word.line for one in held for word in one.situation.command.words), default=1
            ),
            bytes_=sum(len(word.text) + 1 for one in held for word in one.situation.command.words),
            unread=0,
            runs=len(held),
        )
        for name, held in names.items()
    )


def _facts(situation: Situation) -> RunFacts:
    target = situation.target
    gpu = target.gpu
    model = situation.values.get("model_path")
    memory = gpu.memory_mib if gpu is not None else None
    return RunFacts(
        model=str(model) if model is not None else None,
        model_class=target.model.architecture if target.model is not None else None,
        versions=Versions(
            sglang=VersionRange.between(target.releases[0], target.releases[-1]),
            sglang_basis=target.release_basis,
            triton=target.triton,
        ),
        gpu=GpuFacts(
            name=gpu.name if gpu is not None else None,
            device_name=gpu.device_name if gpu is not None else None,
            sm=gpu.sm if gpu is not None else None,
            shared_memory_bytes=gpu.shared_memory_bytes if gpu is not None else None,
            memory_gib=round(memory / _MIB_PER_GIB, 2) if memory is not None else None,
            count=target.gpu_count,
        ),
        parallel=Parallel(
            tensor=situation.number("tp_size"),
            data=situation.number("dp_size"),
            pipeline=situation.number("pp_size"),
            expert=situation.number("ep_size"),
            nodes=situation.number("nnodes"),
            dp_attention=situation.dp_attention,
            world=situation.world,
        ),
        requested_args=redacted_arguments(situation.values, situation.redactor),
        log=LogFacts(has_arguments=True),
    )
