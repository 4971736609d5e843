from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from advisor.configs.loaders import kernel_paths, loader_paths
from advisor.errors import InputError
from advisor.knowledge.wheels import wheel

FIXTURES = Path(__file__).parent.parent / "fixtures" / "configs"
B200_FILE = FIXTURES / "E=128,N=1344,device_name=NVIDIA_B200.json"


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
