"""What is known of the server that is tuned for: from its log, and from a probe of its machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from advisor.configs.names import MoeConfigName, device_in_file_name
from advisor.errors import ConfigError
from advisor.knowledge.environment import Environment
from advisor.knowledge.ranges import Membership, VersionRange
from advisor.knowledge.releases import known_versions, parse_version
from advisor.tuner.hub import hub_cache

OVERLAY_VARIABLE = "SGLANG_MOE_CONFIG_DIR"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model as the server's arguments name it: a folder of its machine, or a name on the hub."""

    name: str
    revision: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSearch:
    """One look-up of a config file.

    Attributes:
        found: Whether there was a file of the running Triton version.
    """

    name: MoeConfigName
    found: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRun:
    """One start of a server, as its log tells it; None where the log is silent.

    Attributes:
        models: The model, then its draft model.
        releases: Those of SGLang that the log may be of.
        package: The `sglang/` folder, as the server spells it.
        overlay: The folder that replaces the bundled config files.
        redundant_experts: Over all ranks.
        ranks: Of one copy of the model, on which its experts are split: `--tp-size`.
        expert_parallel: `--ep-size`.
        activation: `bf16` or `fp16` if the server was told; None for the model's own.
        silence: Why the server looks up no file.
    """

    searches: tuple[ConfigSearch, ...] = ()
    models: tuple[ServedModel, ...] = ()
    triton: str | None = None
    releases: VersionRange | None = None
    package: str | None = None
    overlay: str | None = None
    redundant_experts: int = 0
    ranks: int | None = None
    expert_parallel: int = 1
    activation: str | None = None
    silence: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What log and probe say together.

    Attributes:
        devices: Names of its GPUs as in config files; empty if not known.
        releases: Those of SGLang that it may run.
        packages: Where its `sglang/` folder lies on its machine, the surest first.
        overlay: What SGLANG_MOE_CONFIG_DIR names there.
        caches: Where its Hugging Face cache lies on its machine.
        holders: Who held a GPU when the machine was probed, one line each.
    """

    triton: str | None = None
    devices: tuple[str, ...] = ()
    releases: VersionRange | None = None
    packages: tuple[Path, ...] = ()
    overlay: Path | None = None
    caches: tuple[Path, ...] = ()
    holders: tuple[str, ...] = ()

    @property
    def release(self) -> str | None:
        """Return the release whose rules are followed: of those that it may be, the newest known."""
        if self.releases is None or self.exact_release is not None:
            return self.exact_release
        inside = [one for one in known_versions() if self.releases.contains(one) is Membership.IN]
        return str(inside[-1]) if inside else None

    @property
    def exact_release(self) -> str | None:
        """Return its release if there is no doubt about it."""
        if self.releases is None or self.releases.first is None:
            return None
        return str(self.releases.first) if self.releases.first == self.releases.last else None

    def may_run(self, version: str | None) -> bool:
        """Say whether nothing speaks against the server being of this SGLang."""
        if version is None or self.releases is None:
            return True
        return self.releases.contains(version) is not Membership.OUT

    def describe(self) -> str:
        """Return in a few words what it runs, for a plan; empty if nothing is known."""
        sglang = f"SGLang {self.releases.describe()}" if self.releases else ""
        triton = f"Triton {self.triton}" if self.triton else ""
        return ", ".join(part for part in (sglang, triton, *self.devices) if part)


def server_of(run: ServerRun | None, device: str | None, environment: Environment | None) -> Server:
    """Join a log and a probe; `device` is the GPU's name in the log's file names.

    Raises:
        ConfigError: If the two cannot be of one server.
    """
    run = run or ServerRun()
    probed = environment or Environment()
    devices = _devices(probed)
    if device is not None and devices and device not in devices:
        raise _stranger(f"GPU {device}", ", ".join(devices))
    triton = probed.package_version("triton")
    if run.triton is not None and triton is not None and run.triton != triton:
        raise _stranger(f"Triton {run.triton}", triton)
    sglang = probed.package("sglang")
    packages = [sglang.path if sglang else None, run.package]
    overlay = run.overlay or probed.variable(OVERLAY_VARIABLE)
    return Server(
        triton=run.triton or triton,
        devices=(device,) if device is not None else devices,
        releases=_release(probed) or run.releases,
        packages=tuple(Path(path) for path in packages if path),
        overlay=Path(overlay) if overlay else None,
        caches=_caches(probed),
        holders=_holders(probed),
    )


def check_place(server: Server, device: str, triton: str) -> None:
    """Refuse to tune where the server would not read the files.

    Raises:
        ConfigError: If this GPU or this Triton is not the server's.
    """
    here = device_in_file_name(device)
    if server.devices and here not in server.devices:
        raise ConfigError(
            f"the server's GPU is {', '.join(server.devices)}, here is {here}: files made here are "
            "never read there; tune on the server's GPU"
        )
    if server.triton is not None and server.triton != triton:
        raise ConfigError(
            f"the server runs Triton {server.triton}, here is {triton}: files made here would be "
            "a fallback at best; run advisor with the server's Python"
        )


def _stranger(logged: str, probed: str) -> ConfigError:
    return ConfigError(
        f"the log is of {logged}, --env of {probed}: they are not of one server; probe its machine "
        "with its Python, or leave --env out"
    )


def _release(environment: Environment) -> VersionRange | None:
    """Return the probed release; None where a build from source has no number of a release."""
    version = parse_version(environment.package_version("sglang") or "")
    if version is None or version < known_versions()[0]:
        return None
    return VersionRange(first=version, last=version)


def _devices(environment: Environment) -> tuple[str, ...]:
    if environment.gpus is None:
        return ()
    names = [device_in_file_name(gpu.name) for gpu in environment.gpus.devices if gpu.name]
    return tuple(dict.fromkeys(names))


def _caches(environment: Environment) -> tuple[Path, ...]:
    """Return the hub's cache on the probed machine; its home is known from its default folder."""
    variables = {one.name: one.value for one in environment.variables}
    for cache in environment.caches:
        if cache.name == "huggingface":
            variables.setdefault("HF_HOME", cache.path)
    told = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME"} & set(variables)
    return (hub_cache(variables),) if told else ()


def _holders(environment: Environment) -> tuple[str, ...]:
    """Return the servers that ran when the machine was probed, else whoever held a GPU."""
    servers = [one.pid for one in environment.servers if one.role == "server"]
    if servers or environment.gpus is None:
        return tuple(f"the SGLang server, process {pid}" for pid in servers)
    return tuple(
        f"process {one.pid}{f' ({one.command})' if one.command else ''}"
        for one in environment.gpus.processes
    )
