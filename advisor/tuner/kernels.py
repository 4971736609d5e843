"""The kernel of a tile at a batch size: what it is compiled from, and its place in the cache."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from advisor.configs.compiler import build_kernel, telling_line
from advisor.configs.launch import Argument, Fixed, Integer, Launch, launch_of, launches_early
from advisor.configs.problem import Gemm, MoeProblem, Target
from advisor.configs.source import KernelSource
from advisor.tuner.problem import padded_rows
from advisor.tuner.work import Failed, Failure, Part, Trial, Work

EARLY_ROWS = 512
"""Rows of A up to which a release with programmatic launches starts its successor early (0.5.19).

A down GEMM with TMA has the padding among its rows.
"""

_ALIGNMENT = 16
_WIDE_FROM = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """How kernels are made for one problem on one GPU.

    Attributes:
        cache: Triton's cache folder, shared by compile workers and benches; it may travel.
    """

    source: KernelSource
    problem: MoeProblem
    target: Target
    cache: Path

    def launch(self, part: Part, tokens: int) -> Launch:
        """Return the launch of a tile, specialised as the server's at this batch size."""
        entry = part.tile.entry()
        general = launch_of(self.source, self.problem, part.gemm, entry, self.target.sm)
        rows = tokens * self.problem.top_k
        padded = padded_rows(self.problem, tokens, part.tile.block_m)
        inputs = tokens if part.gemm is Gemm.UP else padded if part.tile.tma else rows
        early = launches_early(self.source, self.target.sm) and inputs <= EARLY_ROWS
        known: dict[str, Argument] = {
            "EM": Integer(value=padded),
            "num_valid_tokens": Integer(value=rows),
            "c_sorted": Fixed(value=part.sorted_output),
            "GDC_EARLY": Fixed(value=early),
        }
        arguments = tuple((name, known.get(name, value)) for name, value in general.arguments)
        return replace(general, arguments=arguments)

    def recipes(self, work: Work) -> tuple[Launch, ...]:
        """Return the distinct kernels of a piece of work, in the form that batch sizes share."""
        if isinstance(work, Trial):
            return (shared_form(self.launch(work.part, work.tokens)),)
        launches = [
            shared_form(self.launch(part, work.tokens))
            for entrant in work.entrants
            for part in entrant.parts()
        ]
        return tuple(dict.fromkeys(launches))

    def build(self, launch: Launch) -> Any | Failed:
        """Return Triton's kernel, or why there is none; compiles what the cache lacks."""
        self.use_cache()
        try:
            with _quiet():
                kernel = build_kernel(self.source, launch, self.target.sm)
        except Exception as error:  # noqa: BLE001  (the compiler raises whatever its passes raise)
            return Failed(failure=Failure.COMPILE, text=telling_line(error))
        need = int(kernel.metadata.shared)
        if need > self.target.shared_memory_bytes:
            limit = self.target.shared_memory_bytes
            text = f"needs {need} bytes of shared memory of {limit}"
            return Failed(failure=Failure.RESOURCES, text=text)
        return kernel

    def use_cache(self) -> None:
        """Point Triton at the cache folder."""
        os.environ["TRITON_CACHE_DIR"] = str(self.cache)
        os.environ["TRITON_STORE_BINARY_ONLY"] = "1"


def shared_form(launch: Launch) -> Launch:
    """Return a launch with each integer replaced by one of its class: 1, divisible by 16, other.

    Triton makes one kernel per class; batch sizes whose row counts fall into the same classes share
    it.
    """
    arguments = tuple(
        (name, _class_of(known) if isinstance(known, Integer) else known)
        for name, known in launch.arguments
    )
    return replace(launch, arguments=arguments)


def _class_of(argument: Integer) -> Integer:
    if argument.value == 1:
        return argument
    base = 0 if abs(argument.value) < _WIDE_FROM else 2 * _WIDE_FROM
    divisible = argument.value % _ALIGNMENT == 0
    return Integer(value=base + (_ALIGNMENT if divisible else _ALIGNMENT + 1))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide what compiler passes print when they fail: pages of MLIR on both streams."""
    saved = [os.dup(stream) for stream in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            for stream in (1, 2):
                os.dup2(nowhere, stream)
            yield
    finally:
        for stream, copy in zip((1, 2), saved, strict=True):
            os.dup2(copy, stream)
            os.close(copy)
        os.close(nowhere)
