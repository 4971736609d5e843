"""The head and the foot of a report for people: what runs where, how it went, what is not known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from advisor.diagnosis import Report
from advisor.facts.model import RunFacts
from advisor.findings import Severity, Skipped
from advisor.report.prose import one_line
from advisor.report.quantities import counted, duration

_LONGEST_MESSAGE = 160
_NAMED_GAPS = 4
_EXPLAINED = "explained by "


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A labelled line of the head; `detail` is of lesser weight."""

    label: str
    value: str
    detail: str = ""


def head(report: Report) -> tuple[Line, ...]:
    """Say what runs where; what is not known is left out, but for the release and the GPU."""
    run = report.run
    lines = (
        _model(run),
        _release(report),
        _gpus(report),
        Line(label="Layout", value=_layout(run)),
        Line(label="Software", value=_software(run)),
        _start(run),
        _which_run(report),
    )
    return tuple(
        replace(line, value=one_line(line.value), detail=one_line(line.detail))
        for line in lines
        if line is not None and line.value
    )


def _model(run: RunFacts) -> Line:
    if run.model is None:
        return Line(label="Model", value=run.model_class or "")
    return Line(label="Model", value=run.model, detail=run.model_class or "")


def _release(report: Report) -> Line:
    versions = report.run.versions
    if versions.sglang is None:
        return Line(label="SGLang", value="release not recognised" if report.sources else "")
    return Line(
        label="SGLang", value=versions.sglang.describe(), detail=versions.sglang_basis or ""
    )


def _gpus(report: Report) -> Line:
    gpu = report.run.gpu
    if gpu.name is None:
        return Line(label="GPU", value="not named in the input" if report.sources else "")
    count = gpu.count or report.run.parallel.world or 1
    details = [
        f"SM {gpu.sm // 10}.{gpu.sm % 10}" if gpu.sm is not None else "",
        f"{gpu.memory_gib:.0f} GiB" if gpu.memory_gib is not None else "",
    ]
    return Line(
        label="GPU",
        value=f"{count} × {gpu.name}" if count > 1 else gpu.name,
        detail=", ".join(part for part in details if part),
    )


def _layout(run: RunFacts) -> str:
    parallel = run.parallel
    shown = [("TP", parallel.tensor, 1), ("DP", parallel.data, 2), ("PP", parallel.pipeline, 2)]
    shown += [("EP", parallel.expert, 2)]
    parts = [
        f"{label} {size}" for label, size, least in shown if size is not None and size >= least
    ]
    if parallel.dp_attention:
        parts.append("DP attention")
    if parallel.nodes is not None and parallel.nodes > 1:
        parts.append(counted(parallel.nodes, "node"))
    return " · ".join(parts)


def _software(run: RunFacts) -> str:
    versions = run.versions
    named = [
        ("Triton", versions.triton),
        ("torch", versions.torch),
        ("NCCL", versions.nccl),
        ("driver", versions.driver),
    ]
    return " · ".join(f"{name} {version}" for name, version in named if version)


def _start(run: RunFacts) -> Line | None:
    startup = run.startup
    if startup.ready:
        value = "ready" if startup.ready_s is None else f"ready after {duration(startup.ready_s)}"
        return Line(label="Start", value=value)
    if not run.log.has_startup:
        return None
    if startup.open_phase is not None:
        spent = startup.open_phase_s
        lasted = f", {duration(spent)} after it began" if spent and spent >= 1 else ""
        return Line(label="Start", value=f"not ready; the log ends in {startup.open_phase}{lasted}")
    if startup.last_phase is not None:
        return Line(label="Start", value=f"not ready; last phase seen: {startup.last_phase}")
    return Line(label="Start", value="not ready")


def _which_run(report: Report) -> Line | None:
    if report.run_count <= 1:
        return None
    other = "the last" if report.run_number == report.run_count else "chosen"
    return Line(
        label="Run",
        value=f"{report.run_number} of {report.run_count}",
        detail=f"{other}; --run N judges another",
    )


def outcome(run: RunFacts) -> str:
    """Say in one sentence how the run went, as far as the log tells; may be empty."""
    if run.failure.fatal:
        what = "stopped while it ran" if run.startup.ready else "did not start"
        return f"The server {what}{_cause(run)}."
    if run.startup.ready:
        return "The server became ready."
    if run.log.has_startup:
        return _unfinished(run)
    if run.log.has_serving:
        return "The log holds serving only; its start is not in it."
    return ""


def _cause(run: RunFacts) -> str:
    name = (run.failure.exception or "").rpartition(".")[2]
    message = opening(run.failure.message or "")
    return "".join(f": {part}" for part in (name, message) if part).rstrip(".")


def opening(text: str) -> str:
    """Return the first sentences of a text, as many as fit into two lines."""
    sentences = one_line(text).split(". ")
    shown = sentences[0]
    for sentence in sentences[1:]:
        if len(shown) + len(sentence) + 2 > _LONGEST_MESSAGE:
            break
        shown = f"{shown}. {sentence}"
    return shown if len(shown) <= _LONGEST_MESSAGE else f"{shown[: _LONGEST_MESSAGE - 1]}…"


def _unfinished(run: RunFacts) -> str:
    startup = run.startup
    if startup.listening:
        return "The server listens, but the log does not say that it became ready."
    if startup.open_phase is None:
        return "The log ends before the server is ready."
    since = "" if startup.open_phase_s is None else f", {duration(startup.open_phase_s)} into it"
    return f"The log ends during {startup.open_phase}{since}."


def verdict(report: Report) -> str:
    """Count the findings, worst first."""
    counts = Counter(finding.severity for finding in report.verdicts.findings)
    if not counts:
        return "Nothing to report."
    text = ", ".join(
        counted(counts[severity], severity.value) for severity in Severity if counts[severity]
    )
    failed = counts[Severity.ERROR] or report.run.failure.fatal
    return f"{text}." if failed else f"{text}; nothing failed."


def gate(report: Report) -> str:
    """Say which threshold applied and what came of it."""
    threshold = "never" if report.fail_on is None else report.fail_on.value
    result = "passed" if report.exit_code == 0 else "failed"
    return f"gate: fail-on={threshold} -> {result}"


def reading(report: Report) -> str:
    """Say what was read."""
    names = ", ".join(source.name for source in report.sources)
    lines = sum(source.lines for source in report.sources)
    return one_line(f"{names} ({counted(lines, 'line')})") if names else ""


def limits(report: Report) -> tuple[str, ...]:
    """Say what this report does not cover: rules without their inputs, unread lines, secrets."""
    result: list[str] = []
    skipped = [item for item in report.verdicts.skipped if not _is_explained(item)]
    explained = len(report.verdicts.skipped) - len(skipped)
    if skipped:
        gaps = _gaps(skipped)
        result.append(
            f"{counted(len(skipped), 'rule')} not judged: the inputs do not show what they need"
            + (f" (most often {', '.join(gaps)})." if gaps else ".")
        )
    if explained:
        verb = "is" if explained == 1 else "are"
        result.append(f"{counted(explained, 'further finding')} {verb} explained by those above.")
    if accepted := len(report.verdicts.suppressed):
        named = ", ".join(sorted({item.by for item in report.verdicts.suppressed}))
        result.append(f"{counted(accepted, 'finding')} accepted by {named}.")
    if unread := sum(source.unread for source in report.sources):
        result.append(f"{counted(unread, 'line')} took too long to read and were passed over.")
    if report.run.log.secrets:
        result.append(f"Secrets met in the input: {', '.join(report.run.log.secrets)}.")
    return tuple(result)


def _is_explained(item: Skipped) -> bool:
    return item.reason.startswith(_EXPLAINED)


def _gaps(skipped: Iterable[Skipped]) -> list[str]:
    """Name the facts that most of the skipped rules lack."""
    missing: Counter[str] = Counter()
    for item in skipped:
        _, colon, names = item.reason.partition(": ")
        missing.update(name for name in names.split(", ") if colon and name)
    ranked = sorted(missing.items(), key=lambda pair: (-pair[1], pair[0]))
    return [name for name, _ in ranked[:_NAMED_GAPS]]
