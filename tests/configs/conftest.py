from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from advisor.configs.entries import Entry
from advisor.configs.loaders import kernel_paths, loader_paths
from advisor.configs.names import ExpertDtype
from advisor.configs.problem import MoeProblem
from advisor.errors import InputError
from advisor.knowledge.wheels import wheel

FIXTURES = Path(__file__).parent.parent / "fixtures" / "configs"


@pytest.fixture(scope="session")
def server_package(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Give the `sglang/` folder of a release: its loader, kernels, configs and metadata."""
    unpacked: dict[str, Path] = {}

    def package(version: str) -> Path:
        if version not in unpacked:
            try:
                archive = wheel(version)
            except InputError as error:
                pytest.skip(str(error))
            root = tmp_path_factory.mktemp(version.replace(".", "_"))
            with zipfile.ZipFile(archive) as files:
                files.extractall(root, [name for name in files.namelist() if _needed(name)])
            unpacked[version] = root / "sglang"
        return unpacked[version]

    return package


def _needed(name: str) -> bool:
    relative = name.removeprefix("sglang/")
    config = "/configs/" in name and "/E=" in name and name.endswith(".json")
    return config or relative in {*loader_paths(), *kernel_paths()} or name.endswith("/METADATA")


@pytest.fixture(scope="session")
def with_triton() -> None:
    """Skip, visibly, where Triton is not installed."""
    pytest.importorskip("triton", reason="needs the extra [verify]")


def _problem(**fields: Any) -> MoeProblem:
    return MoeProblem(experts=128, width=768, hidden=2048, top_k=8, **fields)


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Shared memory that Triton 3.6.0 reported for the bundled kernel over the tuning grid.

    Attributes:
        titles: `<kind>, SM<capability>`.
        kinds: The problem of each kind.
    """

    titles: tuple[str, ...]
    kinds: dict[str, MoeProblem]
    axes: dict[str, Any]
    measured: dict[str, list[int]]

    def points(self, title: str) -> Iterator[tuple[Entry, int]]:
        """Yield the entries of one grid with the bytes that the compiler reported, 0 for none."""
        steps = self.axes["k"]["bf16" if title.startswith("bf16") else "other"]
        axes = (self.axes["m"], self.axes["n"], steps, self.axes["warps"], self.axes["stages"])
        for (m, n, k, warps, stages), shared in zip(
            product(*axes), self.measured[title], strict=True
        ):
            entry = Entry(
                block_m=m, block_n=n, block_k=k, group_m=1, num_warps=warps, num_stages=stages
            )
            yield entry, shared


@pytest.fixture(scope="session")
def grid() -> Grid:
    document = json.loads((FIXTURES / "shared_memory_grid.json").read_text())
    return Grid(
        titles=tuple(document["grids"]),
        axes=document["axes"],
        measured=document["grids"],
        kinds={
            "bf16": _problem(),
            "fp8 block 128": _problem(dtype=ExpertDtype.FP8_W8A8, block_shape=(128, 128)),
            "fp8 tensor": _problem(dtype=ExpertDtype.FP8_W8A8),
            "fp8 channel": _problem(dtype=ExpertDtype.FP8_W8A8, per_channel=True),
            "int8 channel": _problem(dtype=ExpertDtype.INT8_W8A8, per_channel=True),
            "int4 group 128": _problem(dtype=ExpertDtype.INT4_W4A16, group_size=128),
            "int8 weights": _problem(dtype=ExpertDtype.INT8_W8A16),
        },
    )
