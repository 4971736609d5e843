"""What a probe says about a server's environment: the types and their parser.

The JSON comes from another machine, so it is bounded, checked against the types, and freed of
control characters. Unknown keys are ignored and absent ones are None or empty.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from advisor.errors import InputError
from advisor.knowledge.records import decode_record, encode_record, field_types, shown

SCHEMA_VERSION = 1
MAX_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTarget:
    """Which machine and interpreter were asked, and what is worth saying about the choice."""

    target: str | None = None
    interpreter_origin: str | None = None
    pid: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonInterpreter:
    """The interpreter that answered."""

    executable: str | None = None
    version: str | None = None
    prefix: str | None = None
    virtual_environment: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """The machine or container; `memory_limit_bytes` is the limit of its cgroup."""

    hostname: str | None = None
    kernel: str | None = None
    machine: str | None = None
    cpu_count: int | None = None
    memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    in_container: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One package; `error` says why it is missing or does not import.

    `name` is the import name (`sgl_kernel`), `distribution` the installed one (`sglang-kernel`).
    `imported_version` is what the module says of itself, known for torch and triton.
    """

    name: str
    distribution: str | None = None
    version: str | None = None
    imported_version: str | None = None
    path: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchBuild:
    """What the installed torch was built for."""

    imported_version: str | None = None
    cuda_version: str | None = None
    hip_version: str | None = None
    nccl_version: str | None = None
    cuda_available: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One visible GPU; `index` is CUDA's, `installed_index` the driver's."""

    index: int
    name: str | None = None
    sm: str | None = None
    memory_bytes: int | None = None
    used_bytes: int | None = None
    sm_count: int | None = None
    shared_memory_per_block_optin_bytes: int | None = None
    installed_index: int | None = None
    uuid: str | None = None
    pci_bus_id: str | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    nvlink_count: int | None = None
    numa_node: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process that holds memory of a GPU; `command` is None where it cannot be seen."""

    pid: int
    installed_index: int | None = None
    used_bytes: int | None = None
    command: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLink:
    """How two installed GPUs reach each other."""

    first: int
    second: int
    path: str | None = None
    nvlink: bool | None = None
    peer_access: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """The GPUs, through `source`: torch, libcuda, nvml or nvidia-smi."""

    source: str | None = None
    driver_version: str | None = None
    cuda_driver_version: str | None = None
    installed_count: int | None = None
    devices: tuple[Gpu, ...] = ()
    processes: tuple[GpuProcess, ...] = ()
    links: tuple[GpuLink, ...] = ()
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonFolder:
    """The files of one `triton_X_Y_Z` folder."""

    version: str
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeConfigFolder:
    """One folder that SGLang's MoE config lookup reads; `loose_files` lie beside the Triton ones.

    `origin` is `bundled` or `override` (SGLANG_MOE_CONFIG_DIR, which replaces the bundled one).
    """

    path: str
    origin: str | None = None
    layout: str | None = None
    loose_files: int | None = None
    triton: tuple[TritonFolder, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeConfigs:
    """MoE kernel configs on disk; `override` is SGLANG_MOE_CONFIG_DIR."""

    override: str | None = None
    folders: tuple[MoeConfigFolder, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """An environment variable; a secret value reads `[redacted]`."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemory:
    """The shared memory folder through which NCCL and the ranks talk."""

    path: str | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A resource limit (`nofile`, `memlock`, ...); -1 is unlimited."""

    name: str
    soft: int | None = None
    hard: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A build tool that kernels compiled at run time need."""

    name: str
    path: str | None = None
    version: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheFolder:
    """Where compiled kernels or weights are kept."""

    name: str
    path: str
    exists: bool | None = None
    writable: bool | None = None
    free_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InterpreterSummary:
    """Another interpreter on the machine and the versions that it holds."""

    path: str
    origin: str | None = None
    python: str | None = None
    torch: str | None = None
    triton: str | None = None
    sglang: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProcess:
    """A running SGLang process; secrets in `command` are redacted."""

    pid: int
    role: str | None = None
    interpreter: str | None = None
    command: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemError:
    """A part of the environment that could not be read."""

    item: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A server's environment as `advisor probe` saw it.

    Attributes:
        errors: The parts that could not be read; such a part is None or empty.
    """

    probe: ProbeTarget | None = None
    python: PythonInterpreter | None = None
    system: System | None = None
    packages: tuple[Package, ...] = ()
    torch: TorchBuild | None = None
    gpus: Gpus | None = None
    moe_configs: MoeConfigs | None = None
    variables: tuple[Variable, ...] = ()
    shared_memory: SharedMemory | None = None
    limits: tuple[Limit, ...] = ()
    tools: tuple[Tool, ...] = ()
    caches: tuple[CacheFolder, ...] = ()
    interpreters: tuple[InterpreterSummary, ...] = ()
    servers: tuple[ServerProcess, ...] = ()
    errors: tuple[ItemError, ...] = ()

    def package(self, name: str) -> Package | None:
        """Return a package by import name (`triton`, `sgl_kernel`)."""
        return next((package for package in self.packages if package.name == name), None)

    def package_version(self, name: str) -> str | None:
        """Return what the module says of itself, else what its metadata says."""
        package = self.package(name)
        return (package.imported_version or package.version) if package else None

    def variable(self, name: str) -> str | None:
        """Return an environment variable of the server; None if unset."""
        return next((v.value for v in self.variables if v.name == name), None)

    def error(self, item: str) -> str | None:
        """Return why a part could not be read; None if it could."""
        return next((e.error for e in self.errors if e.item == item), None)


def parse_environment(text: str, source: str) -> Environment:
    """Parse and check the JSON of a probe.

    Raises:
        InputError: If it is too long, no JSON, not from a probe, or of wrong types.
    """
    document = _load(text, source)
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{source}: schema_version is {shown(version)}, expected {SCHEMA_VERSION}: "
            "make it with `advisor probe` of this version"
        )
    try:
        return decode_record(Environment, _with_errors(document), "")
    except ValueError as error:
        raise InputError(f"{source}: {error}") from None


def render_environment(environment: Environment) -> dict[str, object]:
    """Return the JSON object of an environment: absent items are left out."""
    document = {"schema_version": SCHEMA_VERSION, **encode_record(environment)}
    document.pop("errors")
    for failed in environment.errors:
        document[failed.item] = {"error": failed.error}
    return document


def _load(text: str, source: str) -> dict[str, object]:
    if len(text) > MAX_BYTES:
        raise InputError(
            f"{source}: longer than {MAX_BYTES >> 20} MiB, so not from `advisor probe`"
        )
    try:
        document = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source}: not JSON ({str(error)[:100]})") from None
    if not isinstance(document, dict) or "schema_version" not in document:
        raise InputError(f"{source}: not an environment: make one with `advisor probe > env.json`")
    return document


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON number")


def _with_errors(document: dict[str, object]) -> dict[str, object]:
    """Move each part that is only {"error": "..."} into the list of errors."""
    sections = {n: document.get(n) for n in field_types(Environment) if n != "errors"}
    failed = [n for n, v in sections.items() if isinstance(v, dict) and set(v) == {"error"}]
    errors = [{"item": name, **sections.pop(name)} for name in failed]  # type: ignore[dict-item]
    return {**sections, "errors": errors}
