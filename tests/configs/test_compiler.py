"""What the compiler says: needs the extra [verify], and for the servers' kernels their wheels."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.configs.entries import Entry
from advisor.configs.files import read_config, verify_files
from advisor.configs.names import ExpertDtype
from advisor.configs.problem import Gemm, MoeProblem, target_of_gpu, target_of_sm
from advisor.configs.repair import repair_file
from advisor.configs.trees import read_releases
from advisor.configs.verify import Basis, Question, Verdict, Verifier, verify_questions

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("with_triton")]

LARGE = Entry(block_m=64, block_n=128, block_k=128, group_m=1, num_warps=4, num_stages=4)
SMALL = Entry(block_m=16, block_n=64, block_k=64, group_m=1, num_warps=4, num_stages=3)
TMA = replace(SMALL, use_tma=True)
PLAIN = MoeProblem(experts=128, width=768, hidden=2048, top_k=8)
SCALED = replace(PLAIN, dtype=ExpertDtype.FP8_W8A8, block_shape=(128, 128))


def ask(
    verifier: Verifier, problem: MoeProblem, *entries: Entry, gemm: Gemm = Gemm.UP
) -> list[int]:
    questions = [Question(tokens=1, entry=entry, problem=problem, gemm=gemm) for entry in entries]
    checks = verify_questions(questions, verifier)
    assert all(check.basis is Basis.COMPILED for check in checks)
    return [check.shared_bytes for check in checks]


def test_the_recorded_grid_is_still_the_compilers(tmp_path: Path, grid: Any) -> None:
    draw = random.Random(7)  # noqa: S311
    for title in draw.sample(sorted(grid.titles), 5):
        kind, _, sm = title.rpartition(", SM")
        sample = draw.sample(list(grid.points(title)), 3)
        verifier = Verifier(target=target_of_sm(int(sm)), folder=tmp_path)
        measured = ask(verifier, grid.kinds[kind], *(entry for entry, _ in sample))
        assert measured == [recorded for _, recorded in sample], title


def test_the_figures_of_the_story(tmp_path: Path) -> None:
    verifier = Verifier(target=target_of_gpu("RTX PRO 6000"), folder=tmp_path)
    question = Question(tokens=2048, entry=LARGE, problem=PLAIN, gemm=Gemm.UP)
    (check,) = verify_questions([question], verifier)
    assert (check.verdict, check.shared_bytes) == (Verdict.TOO_LARGE, 147456)
    assert check.registers is not None
    assert check.registers > 0


def test_the_second_time_nothing_is_compiled(tmp_path: Path) -> None:
    verifier = Verifier(target=target_of_sm(90), folder=tmp_path)
    first = ask(verifier, PLAIN, SMALL)
    (kept,) = tmp_path.rglob("*.json")
    kept.write_text(kept.read_text().replace(str(first[0]), "12345"))
    assert ask(verifier, PLAIN, SMALL) == [12345]
    kept.write_text("damaged")
    assert ask(verifier, PLAIN, SMALL) == first


def test_types_that_a_gpu_lacks_are_refused(tmp_path: Path) -> None:
    verifier = Verifier(target=target_of_gpu("A100 SXM4 80GB"), folder=tmp_path)
    question = Question(tokens=1, entry=SMALL, problem=SCALED, gemm=Gemm.UP)
    (check,) = verify_questions([question], verifier)
    assert check.verdict is Verdict.REFUSED
    assert "fp8e4nv" in (check.detail or "")


def test_progress_ends_at_the_distinct_kernels(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    verifier = Verifier(target=target_of_sm(90), folder=tmp_path)
    questions = [
        Question(tokens=tokens, entry=entry, problem=PLAIN, gemm=Gemm.UP)
        for tokens, entry in ((1, SMALL), (2, SMALL), (4, LARGE))
    ]
    verify_questions(questions, verifier, on_done=lambda done, total: told.append((done, total)))
    assert told == [(0, 2), (1, 2), (2, 2)]


@pytest.mark.network
@pytest.mark.parametrize("version", read_releases())
def test_the_kernel_of_every_release_compiles(
    version: str, server_package: Callable[[str], Path], tmp_path: Path, grid: Any
) -> None:
    target = target_of_sm(90)
    theirs = Verifier(target=target, package=server_package(version), folder=tmp_path)
    ours = Verifier(target=target, folder=tmp_path)
    entries = (SMALL, LARGE, TMA) if version >= "0.5.6" else (SMALL, LARGE)
    for kind in ("bf16", "fp8 tensor", "int4 group 128", "int8 channel"):
        tried = entries[:2] if kind != "bf16" else entries
        measured = ask(theirs, grid.kinds[kind], *tried)
        swaps = kind.startswith("fp8") and version < "0.5.9"
        assert swaps or measured == ask(ours, grid.kinds[kind], *tried), kind
    if version >= "0.5.9":
        assert ask(theirs, SCALED, LARGE, TMA, gemm=Gemm.DOWN) == ask(
            ours, SCALED, LARGE, TMA, gemm=Gemm.DOWN
        )


@pytest.mark.network
def test_b200_files_on_an_rtx_pro_6000(
    server_package: Callable[[str], Path], tmp_path: Path
) -> None:
    """22 of the 25 bundled bf16 files do not fit, in 121 of 450 entries; repair mends each."""
    package = server_package("0.5.9")
    files = [
        read_config(path)
        for path in sorted(package.rglob("E=*device_name=NVIDIA_B200*.json"))
        if "dtype" not in path.name
    ]
    target = target_of_gpu("RTX PRO 6000")
    verifier = Verifier(target=target, package=package, folder=tmp_path / "kept")
    reports = verify_files(files, verifier)
    assert len(files) == 25
    assert sum(len(file.table.entries) for file in files) == 450
    assert sum(bool(report.unfit) for report in reports) == 22
    assert sum(len(report.unfit_tokens) for report in reports) == 121
    for report in reports:
        mended = tmp_path / report.file.path.name
        mended.write_text(repair_file(report.file, verifier).text)
        assert verify_files([read_config(mended)], verifier)[0].unfit == ()


@pytest.mark.network
def test_fp8_needs_more_than_its_tiles_in_old_releases(
    server_package: Callable[[str], Path], tmp_path: Path
) -> None:
    """The reason to compile the server's own kernel: 0.5.3 keeps a scale in shared memory."""
    old = Verifier(target=target_of_sm(90), package=server_package("0.5.3"), folder=tmp_path)
    new = Verifier(target=target_of_sm(90), package=server_package("0.5.23"), folder=tmp_path)
    assert SCALED.dtype is ExpertDtype.FP8_W8A8
    assert ask(old, SCALED, LARGE) == [98816]
    assert ask(new, SCALED, LARGE) == [98304]
