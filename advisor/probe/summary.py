"""An environment as a short text for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from advisor.knowledge.environment import (
    Environment,
    Gpu,
    GpuLink,
    Limit,
    MoeConfigFolder,
    Package,
)

_LABEL_WIDTH = 20
_GIB = 1 << 30
_MIB = 1 << 20
_IN_BYTES = frozenset({"as", "core", "memlock", "stack"})
_SHOWN_PROCESSES = 8
_SHOWN_VALUE = 120


def summarise(environment: Environment) -> str:
    """Return the text; lines begin with a label."""
    parts = (_origin, _packages, _gpus, _moe_configs, _machine, _variables, _errors, _notes)
    rows = [row for part in parts for row in part(environment)]
    return "".join(f"{label:<{_LABEL_WIDTH}} {text}\n" for label, text in rows)


def _origin(environment: Environment) -> Iterator[tuple[str, str]]:
    if (probe := environment.probe) is not None:
        yield "probed", f"{probe.target} ({probe.interpreter_origin})"
    if (python := environment.python) is not None:
        yield "python", f"{python.version} {python.executable}"


def _packages(environment: Environment) -> Iterator[tuple[str, str]]:
    for package in environment.packages:
        yield package.name, _package(package)
    if (torch := environment.torch) is not None:
        built = f"CUDA {torch.cuda_version}" if torch.cuda_version else "no CUDA"
        built = f"ROCm {torch.hip_version}" if torch.hip_version else built
        nccl = f", NCCL {torch.nccl_version}" if torch.nccl_version else ""
        yield "torch build", f"{built}{nccl}"


def _package(package: Package) -> str:
    version = package.imported_version or package.version or ""
    if package.imported_version and package.version not in (None, package.imported_version):
        version += f" (metadata says {package.version})"
    return " ".join(filter(None, (version, package.error and f"! {package.error}")))


def _gpus(environment: Environment) -> Iterator[tuple[str, str]]:
    gpus = environment.gpus
    if gpus is None:
        return
    yield "driver", f"{gpus.driver_version}, CUDA up to {gpus.cuda_driver_version}"
    if gpus.installed_count not in (None, len(gpus.devices)):
        yield "gpus", f"{len(gpus.devices)} of {gpus.installed_count} are visible"
    for device in gpus.devices:
        yield f"gpu {device.index}", _gpu(device)
    kinds = Counter(_link(link) for link in gpus.links)
    if kinds:
        yield "links", ", ".join(f"{kind} (pairs: {count})" for kind, count in kinds.items())
    for process in gpus.processes[:_SHOWN_PROCESSES]:
        name = process.command or "not visible from here"
        text = f"process {process.pid} ({name}) holds {_gib(process.used_bytes)}"
        yield f"on gpu {process.installed_index}", text


def _link(link: GpuLink) -> str:
    reach = "NVLink" if link.nvlink else f"PCIe over {link.path or 'an unknown path'}"
    return reach if link.peer_access is not False else f"{reach} without peer access"


def _gpu(device: Gpu) -> str:
    used = f", {_gib(device.used_bytes)} in use" if device.used_bytes is not None else ""
    smem = device.shared_memory_per_block_optin_bytes
    return (
        f"{device.name}, SM {device.sm}, {_gib(device.memory_bytes)}{used}, "
        f"{_known(device.sm_count)} SMs, shared memory per block {_known(smem)} bytes"
    )


def _moe_configs(environment: Environment) -> Iterator[tuple[str, str]]:
    if environment.moe_configs is None:
        return
    for folder in environment.moe_configs.folders:
        yield "moe configs", f"{folder.origin}: {_folder(folder)}"


def _folder(folder: MoeConfigFolder) -> str:
    if folder.error:
        return f"{folder.path} ! {folder.error}"
    counts = [f"Triton {triton.version}: {triton.files}" for triton in folder.triton]
    loose = [f"without version: {folder.loose_files}"] if folder.loose_files else []
    return f"{folder.path} ({', '.join([*counts, *loose]) or 'empty'})"


def _machine(environment: Environment) -> Iterator[tuple[str, str]]:
    if (memory := environment.shared_memory) is not None:
        yield "shared memory", f"{_gib(memory.free_bytes)} of {_gib(memory.total_bytes)} free"
    limits = [f"{limit.name} {_limit(limit)}" for limit in environment.limits]
    if limits:
        yield "limits", ", ".join(limits)
    if environment.tools:
        yield "tools", ", ".join(_tool(t.name, t.version, t.error) for t in environment.tools)


def _limit(limit: Limit) -> str:
    if limit.soft == -1:
        return "unlimited"
    whole_mib = limit.soft is not None and limit.soft >= _MIB and limit.name in _IN_BYTES
    return f"{(limit.soft or 0) // _MIB} MiB" if whole_mib else _known(limit.soft)


def _tool(name: str, version: str | None, error: str | None) -> str:
    return f"{name} {error or version or 'found'}"


def _variables(environment: Environment) -> Iterator[tuple[str, str]]:
    for variable in environment.variables:
        value = variable.value
        if len(value) > _SHOWN_VALUE:
            value = f"{value[:_SHOWN_VALUE]}… ({len(value)} characters)"
        yield "variable", f"{variable.name}={value}"


def _errors(environment: Environment) -> Iterator[tuple[str, str]]:
    told = {package.name for package in environment.packages if package.error}
    for error in environment.errors:
        if error.item not in told:
            yield f"! {error.item}", error.error


def _notes(environment: Environment) -> Iterator[tuple[str, str]]:
    for note in environment.probe.notes if environment.probe else ():
        yield "note", note


def _known(value: int | None) -> str:
    return "?" if value is None else str(value)


def _gib(size_bytes: int | None) -> str:
    return "? GiB" if size_bytes is None else f"{size_bytes / _GIB:.1f} GiB"
