"""One tuning session from decided options: its plan in words, and its execution."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from advisor.configs.launch import launches_early
from advisor.configs.loaders import Loader
from advisor.configs.lookup import Lookup
from advisor.configs.problem import Gemm, MoeProblem, Target
from advisor.configs.source import KernelSource
from advisor.knowledge.gpus import find_gpu
from advisor.tuner.effort import EFFORTS
from advisor.tuner.gpus import LocalGpu
from advisor.tuner.journal import Journal
from advisor.tuner.kernels import Kernels
from advisor.tuner.output import Tuned, files_of
from advisor.tuner.planning import make_plan, tma_gemms
from advisor.tuner.pool import Pool
from advisor.tuner.prior import shipped_prior
from advisor.tuner.problem import config_name, label, weight_bytes
from advisor.tuner.report import Conditions
from advisor.tuner.routing import Routing, RoutingKind
from advisor.tuner.run import Plan, Progress, Run

_COMPILE_S = 0.6
_TRIAL_S = 0.012
_RACE_S = 0.4
_START_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What to tune, with everything decided.

    Attributes:
        device: Torch's name of the GPU, which the config files carry.
        compilers: Compile processes.
        source: The kernel that is timed.
        today: What the server finds on its disk; None if not known.
        budget_s: None for as long as it takes.
        driver: Of the GPU; empty where there is none.
        seen: What was on the GPUs when the session was made; empty where they are elsewhere.
        sglang: The release whose rules are followed.
    """

    problem: MoeProblem
    target: Target
    device: str
    gpus: tuple[int, ...]
    compilers: int
    batch_sizes: tuple[int, ...]
    effort: str
    loader: Loader
    source: KernelSource
    routing: Routing
    triton: str
    cache: Path
    journal: Path
    today: Lookup | None = None
    budget_s: float | None = None
    driver: str = ""
    seen: tuple[LocalGpu, ...] = ()
    sglang: str = ""

    @property
    def kernels(self) -> Kernels:
        """Return how kernels are made."""
        return Kernels(
            source=self.source, problem=self.problem, target=self.target, cache=self.cache
        )

    @property
    def kernel_name(self) -> str:
        """Return whose kernel is timed, in words."""
        return "Advisor's own (same tiling)" if self.source.bundled else "the server's"

    @property
    def routing_name(self) -> str:
        """Return how experts are drawn, in words."""
        recorded = self.routing.kind is RoutingKind.RECORDED
        return "recorded loads" if recorded else str(self.routing.kind)

    @property
    def cautious_loader(self) -> Loader:
        """Return the release's rules; where it is not known, those of the least able one.

        USE_TMA in an up file would stop a server before 0.5.18.
        """
        if self.sglang:
            return self.loader
        return replace(
            self.loader, up_tma_understood=False, padding_skipped=False, sorted_ranks=False
        )

    def plan(self) -> Plan:
        """Return the spaces and references."""
        return make_plan(
            self.problem,
            self.target,
            self.batch_sizes,
            loader=self.cautious_loader,
            prior=shipped_prior(),
            effort=EFFORTS[self.effort],
            today=self.today,
        )

    def identity(self) -> dict[str, str]:
        """Return what a journal is bound to: whatever changes a latency."""
        return {
            "problem": label(self.problem),
            "device": self.device,
            "triton": self.triton,
            "kernel": self.source.digest,
            "routing": json.dumps([self.routing.kind, *self.routing.weights]),
        }

    def conditions(self, gpus: int) -> Conditions:
        """Return under what a run on so many GPUs is made, for the report."""
        gpu = find_gpu(self.device)
        versions = [("triton", self.triton), ("torch", _version("torch")), ("driver", self.driver)]
        versions.append(("SGLang", self.sglang))
        return Conditions(
            problem=self.problem,
            device=self.device,
            gpus=gpus,
            kernel=self.kernel_name,
            routing=self.routing_name,
            bandwidth_gb_s=gpu.bandwidth_gb_s if gpu else None,
            versions=tuple((name, version) for name, version in versions if version),
            early_launch=launches_early(self.source, self.target.sm),
            today_known=self.today is not None,
        )

    def expected_s(self) -> float:
        """Return a guess of the run's duration from a cold cache."""
        effort = EFFORTS[self.effort]
        trials = 2 * effort.evaluations * len(self.batch_sizes)
        compiling = 0.5 * trials * _COMPILE_S / max(1, self.compilers)
        timing = (trials * _TRIAL_S + 2 * _RACE_S * len(self.batch_sizes)) / max(1, len(self.gpus))
        return _START_S + max(compiling, timing) + 0.3 * min(compiling, timing)

    def execute(self, pool: Pool, on_progress: Callable[[Progress], None]) -> Tuned:
        """Run over a pool, keeping every measurement in the journal."""
        with Journal(self.journal) as journal:
            journal.identify(self.identity())
            run = Run(self.plan(), pool, journal, budget_s=self.budget_s, on_progress=on_progress)
            result = run.tune()
        return Tuned(
            problem=self.problem,
            device=self.device,
            triton=self.triton,
            result=result,
            conditions=self.conditions(len(pool.lanes)),
            loader=self.loader,
        )


def plan_text(session: Session, out: Path) -> str:
    """Return what a session would do, for a dry run."""
    effort = EFFORTS[session.effort]
    gib = sum(weight_bytes(session.problem, gemm) for gemm in Gemm) / 2**30
    folder = f"configs/triton_{session.triton.replace('.', '_')}"
    files = [
        f"  {out / folder / config_name(session.problem, session.device, gemm, session.loader).file_name}"
        for gemm in files_of(session.loader)
    ]
    gpus = f"GPU {', '.join(map(str, session.gpus))}" if session.gpus else "GPU: elsewhere"
    many = "" if session.compilers == 1 else "es"
    minutes = session.expected_s() / 60
    budget = f", at most {math.ceil(session.budget_s / 60)}" if session.budget_s else ""
    return "\n".join(
        [
            f"tune {label(session.problem)} for {session.device}, Triton {session.triton}",
            f"batch sizes: {', '.join(map(str, session.batch_sizes))}",
            f"kernel: {session.kernel_name}; routing: {session.routing_name}",
            f"{gpus}; {session.compilers} compile process{many}; {gib:.1f} GiB of weights per GPU",
            f"effort {session.effort}: up to {effort.evaluations} tiles per GEMM and batch size",
            f"tiles with TMA: {_tma(session)}",
            f"today: {_today(session.today)}",
            f"expected: about {max(1, round(minutes))} min from a cold cache{budget}",
            "files:",
            *files,
            f"  {out / 'tune-report.md'} (.html, .svg, .json)",
            f"journal: {session.journal} ({'continues' if session.journal.exists() else 'new'})",
        ]
    )


def _tma(session: Session) -> str:
    gemms, able = (
        tma_gemms(session.problem, session.target, loader)
        for loader in (session.cautious_loader, session.loader)
    )
    hint = ""
    if more := " and ".join(gemm for gemm in able if gemm not in gemms):
        hint = f"; for {more}, too, say which release with --sglang or --sglang-version"
    return (" and ".join(gemms) or "none") + hint


def _today(today: Lookup | None) -> str:
    if today is None:
        return "not known (no SGLang found): compared with SGLang's built-in tiles only"
    down = f", down {today.down.source}" if today.down else ""
    path = f" ({today.up.path})" if today.up.path else ""
    return f"up {today.up.source}{down}{path}"


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
