from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.diagnosis import Report, Request, SourceSummary, diagnose_logs, exit_code
from advisor.facts.model import (
    CapacityFacts,
    ChangedArgument,
    Failure,
    GpuFacts,
    Graphs,
    LogFacts,
    MemoryFacts,
    MoeFacts,
    MoeLookup,
    MoeOutcome,
    Parallel,
    Phase,
    RunFacts,
    Serving,
    Startup,
    Versions,
)
from advisor.findings import (
    Action,
    Category,
    Confidence,
    Finding,
    Severity,
    Skipped,
    Verdicts,
    plan,
)
from advisor.knowledge.ranges import VersionRange
from advisor.rules.load import read_folder
from advisor.sources.files import LogInput
from advisor.sources.records import Evidence

FIXTURES = Path(__file__).parent.parent / "fixtures"
LONG_PATH = "/" + "/".join(["directory-of-a-cluster"] * 12) + "/server-of-the-night-shift.log"
HOSTILE = (
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2J back\rover \u202ereversed\u202c\n"
    "```\n# heading\n</pre></style></script><script>alert(1)</script> <img src=x onerror=alert(1)>\n"
    "![image](https://evil.invalid/x.png) [link](javascript:alert(1)) @everyone #123 | cell | ~~~\n"
    "::error file=a::%0A::set-output name=x::y %25 100% {{ 7 * 7 }} {0} ]]> &amp; \x00\x07 \udcff $x$"
)


def evidence(text: str = "a line of the log", **changes: object) -> Evidence:
    place = Evidence(source="logs/server.log", line=7, text=text)
    return replace(place, **changes)  # type: ignore[arg-type]


def finding(
    severity: Severity = Severity.WARNING, rule: str = "some-rule", **changes: object
) -> Finding:
    made = Finding(
        rule=rule,
        title="Something costs something",
        topic="moe_config",
        severity=severity,
        confidence=Confidence.CERTAIN,
        category=Category.PERFORMANCE,
        summary="It is the case.",
        why="Because of the cause.",
        evidence=(evidence(),),
        actions=(
            Action(
                title="Mend it",
                command="advisor configs repair --device 'NVIDIA H200'",
                expect="It is mended.",
                risk="None.",
                verify="The line is gone.",
            ),
        ),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def report(
    *findings: Finding,
    run: RunFacts | None = None,
    source: str = "logs/server.log",
    skipped: tuple[Skipped, ...] = (),
    fail_on: Severity | None = Severity.ERROR,
) -> Report:
    verdicts = Verdicts(findings=findings, skipped=skipped, quiet=("quiet-rule",))
    return Report(
        sources=(SourceSummary(name=source, lines=1204, bytes_=99, unread=0, runs=1),),
        run=RunFacts() if run is None else run,
        run_number=1,
        run_count=1,
        verdicts=verdicts,
        plan=plan(findings),
        fail_on=fail_on,
        exit_code=exit_code(verdicts, fail_on),
    )


def healthy_run() -> RunFacts:
    return RunFacts(
        model="org/Model-8B",
        model_class="ModelForCausalLM",
        versions=Versions(
            sglang=VersionRange.between("0.5.9", "0.5.12"),
            sglang_basis="inferred from the arguments",
            triton="3.6.0",
            torch="2.9.1",
        ),
        gpu=GpuFacts(name="NVIDIA H200", sm=90, memory_gib=140.4, count=4),
        parallel=Parallel(tensor=4, data=2, pipeline=1, expert=4, nodes=2, dp_attention=True),
        capacity=CapacityFacts(max_running_requests=26, max_total_num_tokens=1_234_567),
        memory=MemoryFacts(
            before_weights_gib=139.1, weights_gib=56.9, kv_gib=68.7, kv_tokens=1_234_567,
            kv_dtype="torch.bfloat16", tightest_rank="TP2",
        ),
        graphs=Graphs(decode_gib=0.45),
        moe=MoeFacts(lookups=(lookup(MoeOutcome.EXACT),), triton="3.6.0"),
        startup=Startup(
            ready=True,
            ready_s=95.0,
            phases=(
                Phase(name="weight loading", began=None, seconds=42.0, basis="logged", evidence=None),
                Phase(name="warm-up", began=None, seconds=None, basis="logged", evidence=None),
            ),
        ),
        serving=Serving(
            decode_lines=8, prefill_lines=40, duration_s=5.0, max_running=24, max_queue=0,
            max_token_usage=0.034, eager_share=0.0, cached_ratio=0.5,
            mean_gen_tokens_per_s=721.2, max_gen_tokens_per_s=1240.1, mean_accept_length=2.5,
        ),
        log=LogFacts(lines=1204, has_startup=True, has_serving=True),
    )  # fmt: skip


def lookup(
    outcome: MoeOutcome, file_name: str = "E=8,N=96,device_name=NVIDIA_H200.json"
) -> MoeLookup:
    return MoeLookup(
        projection="up",
        outcome=outcome,
        experts=8,
        width=96,
        device_name="NVIDIA_H200",
        dtype=None,
        block_shape=None,
        per_channel=False,
        triton="3.6.0",
        file_name=file_name,
        folder="/configs",
        used_path=None,
        used_triton=None,
        evidence=evidence(),
    )


def hostile_report() -> Report:
    text = HOSTILE
    return report(
        finding(
            Severity.ERROR,
            title=text,
            summary=text,
            why=text,
            evidence=(evidence(text, source=text, ranks=(text,)),),
            actions=(Action(title=text, command=text, expect=text, risk=text, verify=text),),
            values={text: text},
            references=("javascript:alert(1)", "https://example.org/a", text),
        ),
        run=RunFacts(
            model=text,
            model_class=text,
            versions=Versions(sglang_basis=text, triton=text, torch=text),
            gpu=GpuFacts(name=text),
            args={text: text},
            changed_args=(
                ChangedArgument(name=text, requested=text, effective=text, evidence=evidence(text)),
            ),
            moe=MoeFacts(lookups=(lookup(MoeOutcome.DEFAULT, text),), triton=text),
            failure=Failure(exception=text, message=text, fatal=True),
            log=LogFacts(secrets=(text,)),
            ranks=(text,),
        ),
        source=text,
        skipped=(Skipped(rule="other-rule", reason=text),),
    )


def crash_report() -> Report:
    return report(
        finding(Severity.ERROR, "memory-ran-out"),
        finding(
            Severity.WARNING,
            "a-warning",
            evidence=(evidence(count=8, ranks=("TP0", "TP1", "TP2", "TP3")),),
        ),
        finding(Severity.NOTE, "a-note", actions=(), why=""),
        run=RunFacts(
            startup=Startup(ready=False, last_phase="weight loading"),
            failure=Failure(
                exception="torch.OutOfMemoryError",
                message="CUDA out of memory. Tried to allocate 8.83 GiB.",
                fatal=True,
            ),
            log=LogFacts(has_startup=True),
        ),
        skipped=(
            Skipped(
                rule="blind-rule", reason="not known from these inputs: gpu.sm, versions.triton"
            ),
            Skipped(rule="echo-rule", reason="explained by memory-ran-out"),
        ),
    )


def bare_report() -> Report:
    return replace(report(), sources=(), run_count=1)


def long_path_report() -> Report:
    place = evidence("Config file not found at " + LONG_PATH, source=LONG_PATH)
    run = replace(healthy_run(), model=LONG_PATH)
    made = report(
        finding(summary=f"No file at {LONG_PATH}.", evidence=(place,)), run=run, source=LONG_PATH
    )
    return replace(made, run_number=2, run_count=3)


MADE: dict[str, Callable[[], Report]] = {
    "healthy": lambda: report(run=healthy_run()),
    "crash": crash_report,
    "hostile": hostile_report,
    "long-path": long_path_report,
    "bare": bare_report,
}
LOGS = (
    "qwen3moe-default",
    "qwen35-hybrid-default",
    "qwen35-nextn-oom",
    "qwen3moe-overlay-too-much-smem",
    "llama-retract",
)


def diagnose(log: str) -> Report:
    """Judge a real log by the small fixed rule set, under a name without a folder."""
    path = FIXTURES / "logs" / f"{log}.log"
    rules = read_folder(FIXTURES / "report" / "rules")
    return diagnose_logs(Request(logs=(LogInput(name=f"logs/{log}.log", path=path),), rules=rules))


@pytest.fixture(params=[*MADE, *LOGS])
def any_report(request: pytest.FixtureRequest) -> Report:
    name = request.param
    return MADE[name]() if name in MADE else diagnose(name)


@pytest.fixture
def made() -> dict[str, Report]:
    return {name: make() for name, make in MADE.items()}


@pytest.fixture(name="diagnosed")
def diagnosed_fixture() -> Callable[[str], Report]:
    return diagnose


@pytest.fixture(name="make_finding")
def make_finding_fixture() -> Callable[..., Finding]:
    return finding


@pytest.fixture(name="make_evidence")
def make_evidence_fixture() -> Callable[..., Evidence]:
    return evidence


@pytest.fixture(name="make_report")
def make_report_fixture() -> Callable[..., Report]:
    return report
