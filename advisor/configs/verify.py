"""Whether the entries of a config file fit a GPU, found out without that GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from advisor.configs.compiler import Resources
from advisor.configs.entries import Entry
from advisor.configs.estimate import estimate_shared_bytes
from advisor.configs.launch import is_grouped, launch_of
from advisor.configs.pool import OnDone, compile_all, triton_version
from advisor.configs.problem import Gemm, MoeProblem, Target
from advisor.configs.source import KernelSource, bundled_source, server_source
from advisor.configs.store import Job, Store, default_folder

TENSOR_MEMORY_COLUMNS = 512
"""What Triton allows on Blackwell data-centre GPUs (triton/compiler/compiler.py, 3.6.0)."""


_FIRST_WITH_DESCRIPTORS = (3, 4)
MOST_TILE_ELEMENTS = 2**18
MOST_STAGES = 64
MOST_WARPS = 32
"""Beyond these no GPU runs a kernel, and the compiler may take hours to say so."""


class Verdict(StrEnum):
    """What becomes of an entry on the target."""

    FITS = "fits"
    TOO_LARGE = "too large"
    """Triton raises OutOfResources when the server first launches it."""

    REFUSED = "refused"
    """The compiler makes no kernel of it for this GPU."""


class Basis(StrEnum):
    """How a figure was found."""

    COMPILED = "compiled"
    ESTIMATED = "estimated"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryCheck:
    """One entry in one GEMM on one GPU.

    Attributes:
        tokens: Its batch size key.
        shared_bytes: Shared memory of a block; 0 for a refused entry.
        limit_bytes: What the GPU allows.
        registers: Per thread; None if estimated.
        spill_bytes: Local memory per thread; None if estimated.
        detail: The compiler's complaint, or which resource is exceeded; None if it fits.
    """

    tokens: int
    entry: Entry
    gemm: Gemm
    verdict: Verdict
    shared_bytes: int
    limit_bytes: int
    basis: Basis
    registers: int | None = None
    spill_bytes: int | None = None
    detail: str | None = None

    @property
    def fits(self) -> bool:
        """Say whether the server can launch it."""
        return self.verdict is Verdict.FITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifier:
    """How entries are verified.

    Attributes:
        package: `sglang/` folder of the server whose kernel is compiled; None for the bundled one.
        estimate: Never compile, even where Triton is installed.
        workers: Compiling processes; None for one per core.
        folder: Where results are kept.
    """

    target: Target
    package: Path | None = None
    estimate: bool = False
    workers: int | None = None
    folder: Path = field(default_factory=default_folder)

    @property
    def basis(self) -> Basis:
        """Return what the figures of this verifier will be."""
        estimated = self.estimate or triton_version() is None
        return Basis.ESTIMATED if estimated else Basis.COMPILED

    def source(self, problem: MoeProblem) -> KernelSource:
        """Return the kernel that a problem is compiled with.

        Raises:
            InputError: If the given install has none.
        """
        grouped = is_grouped(problem)
        if self.package is None:
            return bundled_source(grouped=grouped)
        return server_source(self.package, grouped=grouped)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """An entry to verify: its batch size, problem and GEMM."""

    tokens: int
    entry: Entry
    problem: MoeProblem
    gemm: Gemm


def verify_entries(
    entries: Sequence[tuple[int, Entry]],
    problem: MoeProblem,
    verifier: Verifier,
    *,
    down: bool = False,
    on_done: OnDone | None = None,
) -> tuple[EntryCheck, ...]:
    """Verify the entries of one file, in file order.

    An entry of an up file is checked in the up GEMM; also in the down GEMM, where it may serve too,
    when that is specialised otherwise (BLOCK_SIZE_K divides only one of the two K).
    """
    return verify_questions(questions_of(entries, problem, down=down), verifier, on_done=on_done)


def questions_of(
    entries: Sequence[tuple[int, Entry]], problem: MoeProblem, *, down: bool
) -> tuple[Question, ...]:
    """Return what has to be asked about the entries of one file."""
    return tuple(
        Question(tokens=tokens, entry=entry, problem=problem, gemm=gemm)
        for tokens, entry in entries
        for gemm in _gemms(entry, problem, down=down)
    )


def verify_questions(
    questions: Sequence[Question], verifier: Verifier, *, on_done: OnDone | None = None
) -> tuple[EntryCheck, ...]:
    """Verify entries of any number of files in one go, in the order given.

    Raises:
        InputError: If the given install's kernel cannot be used.
    """
    version = triton_version()
    if verifier.basis is Basis.ESTIMATED or version is None:
        return tuple(_estimated(question, verifier.target) for question in questions)
    sources: dict[bool, KernelSource] = {}
    sane = [question for question in questions if absurdity(question.entry) is None]
    jobs = dict(zip(sane, _jobs(sane, verifier, sources, version), strict=True))
    store = Store(folder=verifier.folder, triton=version)
    results = compile_all(list(jobs.values()), store, workers=verifier.workers, on_done=on_done)
    return tuple(
        _compiled(question, results[jobs[question]], verifier.target)
        if question in jobs
        else _estimated(question, verifier.target)
        for question in questions
    )


def absurdity(entry: Entry) -> str | None:
    """Return why an entry need not be compiled to be refused; None if it must be."""
    m, n, k = entry.block_m, entry.block_n, entry.block_k
    if max(m * n, m * k, n * k) > MOST_TILE_ELEMENTS:
        return f"a tile of more than {MOST_TILE_ELEMENTS} elements"
    if entry.stages > MOST_STAGES:
        return f"{entry.stages} stages"
    return "more than 1024 threads" if entry.warps > MOST_WARPS else None


def _gemms(entry: Entry, problem: MoeProblem, *, down: bool) -> Iterator[Gemm]:
    if down:
        yield Gemm.DOWN
        return
    yield Gemm.UP
    even_up = problem.hidden % entry.block_k == 0
    even_down = problem.width % entry.block_k == 0
    if even_up != even_down:
        yield Gemm.DOWN


def _jobs(
    questions: Sequence[Question],
    verifier: Verifier,
    sources: dict[bool, KernelSource],
    triton: str,
) -> Iterator[Job]:
    """Yield the kernels to compile; before Triton 3.4 the server knows no TMA descriptors."""
    from packaging.version import Version

    has_descriptors = Version(triton).release >= _FIRST_WITH_DESCRIPTORS
    sm = verifier.target.sm
    for question in questions:
        grouped = is_grouped(question.problem)
        if grouped not in sources:
            sources[grouped] = verifier.source(question.problem)
        entry = question.entry if has_descriptors else replace(question.entry, use_tma=None)
        launch = launch_of(sources[grouped], question.problem, question.gemm, entry, sm)
        yield Job(source=sources[grouped], launch=launch, sm=sm)


def _compiled(question: Question, needs: Resources, target: Target) -> EntryCheck:
    verdict, detail = judge(needs, target)
    return EntryCheck(
        tokens=question.tokens,
        entry=question.entry,
        gemm=question.gemm,
        verdict=verdict,
        shared_bytes=needs.shared_bytes,
        limit_bytes=target.shared_memory_bytes,
        basis=Basis.COMPILED,
        registers=needs.registers,
        spill_bytes=needs.spill_bytes,
        detail=detail,
    )


def judge(needs: Resources, target: Target) -> tuple[Verdict, str | None]:
    """Return what Triton says to these needs when it loads the kernel on the target, and why."""
    if needs.error is not None:
        return Verdict.REFUSED, needs.error
    if needs.shared_bytes > target.shared_memory_bytes:
        return Verdict.TOO_LARGE, "shared memory"
    if needs.tensor_memory_columns > TENSOR_MEMORY_COLUMNS:
        return Verdict.TOO_LARGE, f"tensor memory ({needs.tensor_memory_columns} of 512 columns)"
    return Verdict.FITS, None


def _estimated(question: Question, target: Target) -> EntryCheck:
    needed = estimate_shared_bytes(question.problem, question.entry, target.sm)
    absurd = absurdity(question.entry)
    verdict, detail = Verdict.FITS, None
    if absurd is not None:
        verdict, detail = Verdict.REFUSED, absurd
    elif needed > target.shared_memory_bytes:
        verdict, detail = Verdict.TOO_LARGE, "shared memory"
    return EntryCheck(
        tokens=question.tokens,
        entry=question.entry,
        gemm=question.gemm,
        verdict=verdict,
        shared_bytes=needed,
        limit_bytes=target.shared_memory_bytes,
        basis=Basis.ESTIMATED,
        detail=detail,
    )
