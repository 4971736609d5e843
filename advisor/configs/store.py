"""Results of compilations on disk, so that the second verification is instant."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from advisor.configs.compiler import Resources
from advisor.configs.launch import Launch
from advisor.configs.source import KernelSource

_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One kernel to compile for one GPU."""

    source: KernelSource
    launch: Launch
    sm: int

    def key(self, triton: str) -> str:
        """Return the hash of all that determines the result, Triton's version included."""
        parts = (_FORMAT, triton, self.source.digest, self.source.kernel, self.sm, self.launch)
        return hashlib.sha256(repr(parts).encode()).hexdigest()


def default_folder() -> Path:
    """Return the folder for results: `sglang-advisor/kernels` in the user's cache."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "sglang-advisor" / "kernels"


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Results by key, one small file each; a damaged file counts as absent.

    Attributes:
        triton: The Triton version that compiles; results of another one are not returned.
    """

    folder: Path
    triton: str

    def get(self, job: Job) -> Resources | None:
        """Return a kept result."""
        try:
            values = json.loads(self._path(job).read_text(encoding="utf-8"))
            return Resources(**values)
        except (OSError, ValueError, TypeError):
            return None

    def put(self, job: Job, result: Resources) -> None:
        """Keep a result; a cache that cannot be written is no error."""
        path = self._path(job)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", dir=path.parent, delete=False, encoding="utf-8"
            ) as file:
                json.dump(asdict(result), file)
            Path(file.name).replace(path)
        except OSError:
            return

    def _path(self, job: Job) -> Path:
        key = job.key(self.triton)
        return self.folder / key[:2] / f"{key[2:]}.json"
