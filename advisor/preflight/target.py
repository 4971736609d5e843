"""Find out what a command is judged against: options first, then the probe, then the input."""

from __future__ import annotations

from dataclasses import dataclass, replace

import regex

from advisor.errors import ConfigError
from advisor.facts.launch import read_options
from advisor.knowledge.environment import Environment
from advisor.knowledge.gpus import Gpu, find_gpu, gpu_near_misses, shared_memory_bytes
from advisor.knowledge.releases import default_triton, known_versions, parse_version
from advisor.preflight.inputs.command import ServerCommand
from advisor.preflight.model_config import ModelConfig
from advisor.preflight.situation import Target

_COUNTED = regex.compile(r"(?P<name>.+?)(?::(?P<count>\d{1,5}))?")
_TAG = regex.compile(r"sglang\S*:v?(?P<version>\d+\.\d+\.\d+(?:\.?(?:post|rc)\d+)?)")
_BYTES_PER_MIB = 1 << 20
_SAME_MODEL_RATIO = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the user says of the target; None where they say nothing."""

    sglang: str | None = None
    triton: str | None = None
    gpu: str | None = None
    environment: Environment | None = None
    model: ModelConfig | None = None


def target_of(command: ServerCommand, given: Given) -> Target:
    """Return the target of one command.

    Raises:
        ConfigError: If the release is no version or the GPU is not known.
    """
    version, basis = _release(command, given)
    releases = (version,) if version else _fitting(command)
    gpu, count, gpu_basis = _gpu(command, given)
    return Target(
        releases=releases,
        release_basis=basis,
        gpu=gpu,
        gpu_basis=gpu_basis,
        gpu_count=count,
        triton=_triton(version, given),
        cuda_major=_cuda_major(given),
        model=given.model,
    )


def _release(command: ServerCommand, given: Given) -> tuple[str | None, str]:
    if given.sglang is not None:
        parsed = parse_version(given.sglang)
        if parsed is None:
            raise ConfigError(f"--sglang {given.sglang!r} is no version: write one such as 0.5.12")
        return str(parsed), "given with --sglang"
    probed = given.environment.package_version("sglang") if given.environment else None
    if probed is not None and parse_version(probed) is not None:
        return str(parse_version(probed)), "installed, as the probe says"
    if command.image is not None and (match := _TAG.search(command.image.text)):
        return match["version"], f"tag of the image {command.image.text}"
    return None, "not given: the known releases whose parsers take every option, else all of them"


def _fitting(command: ServerCommand) -> tuple[str, ...]:
    """Return the known releases that take all options of a command; all releases if none does."""
    known = tuple(str(item) for item in known_versions())
    fitting = tuple(
        version
        for version in known
        if all(len(option.flags) == 1 for option in read_options(command.words, version).options)
    )
    return fitting or known


def _triton(version: str | None, given: Given) -> str | None:
    if given.triton is not None:
        if parse_version(given.triton) is None:
            raise ConfigError(f"--triton {given.triton!r} is no version: write one such as 3.6.0")
        return given.triton
    probed = given.environment.package_version("triton") if given.environment else None
    return probed or (default_triton(version) if version else None)


def _listed_or(listed: int | None, probed: int | None) -> int | None:
    """Prefer the listed memory, unless the probe saw another model of the GPU.

    SGLang computes with what nvidia-smi prints, as listed; torch sees a little less.
    """
    if listed is None or probed is None:
        return probed or listed
    return listed if abs(listed - probed) < _SAME_MODEL_RATIO * listed else probed


def _cuda_major(given: Given) -> int | None:
    torch = given.environment.torch if given.environment is not None else None
    major = (torch.cuda_version or "").partition(".")[0] if torch is not None else ""
    return int(major) if major.isdigit() else None


def _gpu(command: ServerCommand, given: Given) -> tuple[Gpu | None, int | None, str]:
    if given.gpu is not None:
        gpu, count = parse_gpu(given.gpu)
        return gpu, count or command.gpu_count, "given with --gpu"
    devices = given.environment.gpus.devices if given.environment and given.environment.gpus else ()
    if devices:
        return _probed(given), len(devices), "as the probe says"
    return None, command.gpu_count, "not given"


def parse_gpu(text: str) -> tuple[Gpu, int | None]:
    """Read `NAME[:COUNT]`.

    Raises:
        ConfigError: If no known GPU is meant; the nearest names are told.
    """
    match = _COUNTED.fullmatch(text)
    name = match["name"] if match else text
    gpu = find_gpu(name)
    if gpu is None:
        near = gpu_near_misses(name)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ConfigError(f"--gpu {name!r} is no GPU that Advisor knows{hint}")
    return gpu, int(match["count"]) if match and match["count"] else None


def _probed(given: Given) -> Gpu | None:
    """Return the first GPU of the probe: a known model with what the probe measured."""
    gpus = given.environment.gpus if given.environment else None
    if gpus is None or not gpus.devices:
        return None
    device = gpus.devices[0]
    name = device.name or ""
    known = find_gpu(name)
    sm = (
        int(device.sm.replace(".", ""))
        if device.sm and device.sm.replace(".", "").isdigit()
        else None
    )
    memory = device.memory_bytes // _BYTES_PER_MIB if device.memory_bytes else None
    shared = device.shared_memory_per_block_optin_bytes
    if known is not None:
        return replace(
            known,
            device_name=name.replace(" ", "_") or known.device_name,
            sm=sm or known.sm,
            memory_mib=_listed_or(known.memory_mib, memory),
            shared_memory_bytes=shared or known.shared_memory_bytes,
        )
    if sm is None:
        return None
    return Gpu(
        name=name or f"SM{sm}",
        device_name=name.replace(" ", "_") or None,
        sm=sm,
        shared_memory_bytes=shared or shared_memory_bytes(sm),
        memory_mib=memory,
    )
