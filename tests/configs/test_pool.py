"""The pool, with a compiler that only pretends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from advisor.configs import pool
from advisor.configs.compiler import Resources
from advisor.configs.entries import Entry
from advisor.configs.launch import Launch, launch_of
from advisor.configs.pool import compile_all
from advisor.configs.problem import Gemm, MoeProblem
from advisor.configs.source import KernelSource, bundled_source
from advisor.configs.store import Job, Store

PROBLEM = MoeProblem(experts=8, width=768, hidden=2048, top_k=2)
DEADLY = 77


def job(sm: int) -> Job:
    entry = Entry(block_m=16, block_n=64, block_k=64, group_m=1)
    source = bundled_source()
    return Job(source=source, launch=launch_of(source, PROBLEM, Gemm.UP, entry, 90), sm=sm)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    def pretend(source: KernelSource, launch: Launch, sm: int) -> Resources:
        if sm == DEADLY:
            os._exit(1)
        return Resources(shared_bytes=sm)

    monkeypatch.setattr(pool, "compile_launch", pretend)
    return Store(folder=tmp_path, triton="3.6.0")


def test_each_job_gets_its_result(store: Store) -> None:
    results = compile_all([job(sm) for sm in (80, 90, 80, 120)], store, workers=2)
    assert {one.sm: result.shared_bytes for one, result in results.items()} == {
        80: 80,
        90: 90,
        120: 120,
    }


def test_a_dying_compiler_is_the_answer_of_its_job_alone(store: Store) -> None:
    results = compile_all([job(sm) for sm in (80, DEADLY, 90)], store, workers=2)
    errors = {one.sm: result.error for one, result in results.items()}
    assert errors == {80: None, 90: None, DEADLY: "the compiler's process died"}


def test_kept_results_are_not_compiled_again(store: Store) -> None:
    compile_all([job(80)], store)
    store.put(job(80), Resources(shared_bytes=1, registers=2))
    assert compile_all([job(80)], store)[job(80)] == Resources(shared_bytes=1, registers=2)


def test_another_triton_compiles_anew(store: Store) -> None:
    store.put(job(80), Resources(shared_bytes=1))
    other = Store(folder=store.folder, triton="3.7.1")
    assert compile_all([job(80)], other)[job(80)].shared_bytes == 80


def test_a_folder_that_cannot_be_written_is_no_error(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    blocked = Store(folder=tmp_path / "file" / "below", triton="3.6.0")
    assert compile_all([job(80)], blocked)[job(80)].shared_bytes == 80
