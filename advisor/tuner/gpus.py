"""What nvidia-smi says about the GPUs of this machine, before any of them is touched."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from advisor.errors import AdvisorError

_FIELDS = "index,uuid,name,memory.used,memory.total,driver_version"
_TIMEOUT_S = 20
_IDLE_MIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalGpu:
    """One GPU of this machine.

    Attributes:
        name: As torch prints it.
        used_mib: Both sizes are None where the GPU shares its memory with the host, as a GB10 does.
        processes: Programs that hold memory on it, as `pid name`.
    """

    index: int
    name: str
    used_mib: int | None
    total_mib: int | None
    driver: str
    processes: tuple[str, ...] = ()

    @property
    def busy(self) -> bool:
        """Say whether somebody works on it: measuring there would disturb both."""
        return bool(self.processes) or (self.used_mib or 0) > _IDLE_MIB


def is_gpu_number(text: str) -> bool:
    """Say whether a GPU is given by its number; else by its name."""
    return text.isascii() and text.isdecimal()


def local_gpus() -> tuple[LocalGpu, ...]:
    """Return the GPUs of this machine in nvidia-smi's order; none without a driver.

    Both questions are asked at once, for an idle driver takes seconds to wake.
    """
    questions = (f"--query-gpu={_FIELDS}", "--query-compute-apps=gpu_uuid,pid,name")
    with ThreadPoolExecutor(len(questions)) as pool:
        rows, apps = pool.map(_query, questions)
    holders: dict[str, list[str]] = {}
    for uuid, pid, name in (_split(row, 3) for row in apps):
        holders.setdefault(uuid, []).append(f"{pid} {name}")
    return tuple(_gpu(_split(row, 6), holders) for row in rows)


def _gpu(cells: list[str], holders: dict[str, list[str]]) -> LocalGpu:
    index, uuid, name, used, total, driver = cells
    try:
        return LocalGpu(
            index=int(index),
            name=name,
            used_mib=_mib(used),
            total_mib=_mib(total),
            driver=driver,
            processes=tuple(holders.get(uuid, ())),
        )
    except ValueError as error:
        raise AdvisorError(f"nvidia-smi says {', '.join(cells)!r}: not understood") from error


def _mib(cell: str) -> int | None:
    """Return a size; None for `[N/A]` and `[Not Supported]`."""
    return None if cell.startswith("[") else int(cell)


def _split(row: str, count: int) -> list[str]:
    cells = [cell.strip() for cell in row.split(",", count - 1)]
    return cells + [""] * (count - len(cells))


def _query(what: str) -> list[str]:
    try:
        answer = subprocess.run(  # noqa: S603  (fixed arguments)
            ["nvidia-smi", what, "--format=csv,noheader,nounits"],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = [line for line in answer.stdout.splitlines() if line.strip()]
    return lines if answer.returncode == 0 else []
