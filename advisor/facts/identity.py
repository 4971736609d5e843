"""Which software and hardware a run used, and how sure that is.

SGLang never prints its version: the range of releases is inferred from the names of the arguments
that it dumps. The GPU's name stands in configuration file names and in check_env text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import regex

from advisor.facts.arguments import Arguments
from advisor.facts.hits import Hit
from advisor.facts.literals import Value
from advisor.facts.model import GpuFacts, MoeFacts, Parallel, Versions
from advisor.knowledge.arguments import Evidence as Inference
from advisor.knowledge.arguments import infer_releases
from advisor.knowledge.gpus import Gpu, find_gpu, shared_memory_bytes
from advisor.knowledge.ranges import VersionRange
from advisor.sources.records import Evidence

if TYPE_CHECKING:
    from advisor.knowledge.environment import Environment

_RANK = regex.compile(r"(?P<dimension>DP|PP|TP|EP)(?P<number>\d+)")
_GIB_IN_MIB = 1024
_BASES = {
    Inference.EXACT: "inferred: the arguments are exactly those of this release",
    Inference.CONTAINS: "inferred: the arguments fit these releases",
    Inference.BETWEEN: "inferred: the arguments fit a release between these",
    Inference.NEWER: "inferred: some arguments are newer than every release that is known",
}


@dataclass(slots=True)
class IdentityCollector:
    """Keeps names and versions that the log or the environment gives away."""

    environment: Environment | None = None
    evidence: dict[str, Evidence] = field(default_factory=dict)
    _packages: dict[str, str] = field(default_factory=dict)
    _gpu_name: str | None = None
    _gpu_count: int = 0
    _capability: str | None = None

    def take(self, hit: Hit) -> None:
        """Note a line that names the GPU, NCCL or a package."""
        match hit.key:
            case "nccl-version":
                self._packages.setdefault("nccl", hit.values["version"])
            case "environment-package":
                self._packages.setdefault(hit.values["package"], hit.values["version"])
            case "environment-gpu":
                self._gpu_name = self._gpu_name or hit.values["name"].strip()
                self._gpu_count += 1
                self.evidence.setdefault("gpu.name", hit.record.evidence())
            case "environment-capability":
                self._capability = self._capability or hit.values["capability"]
            case "device-name":
                self._gpu_name = self._gpu_name or hit.values["device"]
                self.evidence.setdefault("gpu.name", hit.record.evidence())

    def versions(self, arguments: Arguments, moe: MoeFacts) -> Versions:
        """Return the versions, the most direct source first."""
        exact = self._package("sglang")
        inferred = infer_releases(arguments.field_names) if arguments.field_names else None
        releases, basis = None, None
        if exact is not None:
            releases, basis = (
                VersionRange.between(exact, exact),
                "printed by the server's environment",
            )
        elif inferred is not None:
            releases, basis = inferred.range, _BASES[inferred.evidence]
        return Versions(
            sglang=releases,
            sglang_basis=basis,
            triton=moe.triton or self._package("triton"),
            torch=self._package("torch") or self._packages.get("PyTorch"),
            nccl=self._package("nccl"),
            driver=self._packages.get("CUDA Driver Version") or self._environment_driver(),
        )

    def _package(self, name: str) -> str | None:
        if self.environment is not None and (found := self.environment.package_version(name)):
            return found
        return self._packages.get(name)

    def _environment_driver(self) -> str | None:
        if self.environment is None or self.environment.gpus is None:
            return None
        return self.environment.gpus.driver_version

    def gpu(self, moe: MoeFacts, ranks: tuple[str, ...]) -> GpuFacts:
        """Return the GPU by its first name found; `count` is what the ranks show."""
        name = self._name(moe)
        known = find_gpu(name) if name is not None else None
        sm = _capability(self._capability) or (None if known is None else known.sm)
        return GpuFacts(
            name=_torch_name(name, known),
            device_name=None if name is None else name.replace(" ", "_"),
            sm=sm,
            shared_memory_bytes=None if sm is None else shared_memory_bytes(sm),
            memory_gib=None
            if known is None or known.memory_mib is None
            else round(known.memory_mib / _GIB_IN_MIB, 1),
            count=self._count(ranks),
        )

    def _name(self, moe: MoeFacts) -> str | None:
        if self.environment is not None and self.environment.gpus is not None:
            first = next(iter(self.environment.gpus.devices), None)
            if first is not None and first.name is not None:
                return first.name
        return self._gpu_name or next((item.device_name for item in moe.lookups), None)

    def _count(self, ranks: tuple[str, ...]) -> int | None:
        return self._gpu_count or len(ranks) or None

    def parallel(self, args: Mapping[str, Value] | None, ranks: tuple[str, ...]) -> Parallel:
        """Return the layout from the arguments, else from the highest rank labels."""
        highest: dict[str, int] = {}
        for match in _RANK.finditer(" ".join(ranks)):
            size = int(match["number"]) + 1
            highest[match["dimension"]] = max(size, highest.get(match["dimension"], 0))
        known = args or {}
        tensor = _integer(known, "tp_size") or highest.get("TP")
        pipeline = _integer(known, "pp_size") or highest.get("PP")
        dp_attention = known.get("enable_dp_attention")
        return Parallel(
            tensor=tensor,
            data=_integer(known, "dp_size") or highest.get("DP"),
            pipeline=pipeline,
            expert=_integer(known, "ep_size") or highest.get("EP"),
            nodes=_integer(known, "nnodes"),
            node_rank=_integer(known, "node_rank"),
            dp_attention=dp_attention if isinstance(dp_attention, bool) else None,
            world=None if tensor is None else tensor * (pipeline or 1),
        )


def _torch_name(name: str | None, known: Gpu | None) -> str | None:
    if known is not None and known.torch_name is not None:
        return known.torch_name
    return None if name is None else name.replace("_", " ")


def _capability(text: str | None) -> int | None:
    return None if text is None else int(text.replace(".", ""))


def _integer(args: Mapping[str, Value], name: str) -> int | None:
    value = args.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
