"""Ranked candidates for a shape that has no config file."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from packaging.version import InvalidVersion, Version

from advisor.configs.entries import ConfigTable, parse_table
from advisor.configs.names import MoeConfigName
from advisor.configs.pool import OnDone
from advisor.configs.problem import MoeProblem
from advisor.configs.trees import ConfigFiles, ListedConfig
from advisor.configs.verify import EntryCheck, Verifier, questions_of, verify_questions
from advisor.errors import InputError
from advisor.knowledge.gpus import find_gpu

_OTHER_GPU = 0.4
_OTHER_FAMILY = 1.5
_OTHER_TRITON = 0.05
_WIDTH_WEIGHT = 1.0
_EXPERTS_WEIGHT = 0.3
_FARTHEST = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A file that may stand in for a missing one.

    Attributes:
        distance: 0 for the very shape, GPU and Triton; a doubled width counts 1.
        reasons: What differs, in words; empty if nothing does.
        checks: Its entries, verified as entries of the wanted shape; empty if its text is unknown.
    """

    config: ListedConfig
    distance: float
    reasons: tuple[str, ...]
    checks: tuple[EntryCheck, ...] = ()

    @property
    def unfit(self) -> tuple[int, ...]:
        """Return the batch sizes that do not fit the target."""
        return tuple(dict.fromkeys(check.tokens for check in self.checks if not check.fits))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The missing file: its name, the running Triton, and the problem to verify for."""

    name: MoeConfigName
    triton: str
    problem: MoeProblem


def nearest_configs(
    wanted: Wanted,
    configs: Iterable[ListedConfig],
    files: ConfigFiles,
    verifier: Verifier,
    *,
    limit: int = 5,
    on_done: OnDone | None = None,
) -> tuple[Candidate, ...]:
    """Return the best candidates, nearest first, each verified for the target.

    Only files of the same types and quantisation block count: tiles of other types tell nothing.
    """
    ranked = sorted(
        (
            candidate
            for config in configs
            if (candidate := _candidate(config, wanted, verifier.target.sm)) is not None
        ),
        key=lambda one: (one.distance, one.config.path),
    )[:limit]
    tables = [_table(candidate.config, files) for candidate in ranked]
    asked = [
        questions_of(table.entries if table else (), wanted.problem, down=wanted.name.down)
        for table in tables
    ]
    flat = [question for questions in asked for question in questions]
    answers = iter(verify_questions(flat, verifier, on_done=on_done))
    return tuple(
        replace(candidate, checks=tuple(next(answers) for _ in questions))
        for candidate, questions in zip(ranked, asked, strict=True)
    )


def _table(config: ListedConfig, files: ConfigFiles) -> ConfigTable | None:
    text = files.text(config.path)
    if text is None:
        return None
    try:
        return parse_table(text, config.path)
    except InputError:
        return None


def _candidate(config: ListedConfig, wanted: Wanted, sm: int) -> Candidate | None:
    name, target = config.name, wanted.name
    same_kind = (name.dtype, name.block_shape, name.per_channel, name.down) == (
        target.dtype,
        target.block_shape,
        target.per_channel,
        target.down,
    )
    if not same_kind or not name.device:
        return None
    parts = (
        _gpu_distance(name.device, target.device, sm),
        _ratio(name.width, target.width, _WIDTH_WEIGHT, "N"),
        _ratio(name.experts, target.experts, _EXPERTS_WEIGHT, "E"),
        _triton_distance(config.triton, wanted.triton),
    )
    distance = sum(value for value, _ in parts)
    if distance > _FARTHEST:
        return None
    reasons = tuple(text for _, text in parts if text)
    return Candidate(config=config, distance=round(distance, 3), reasons=reasons)


def _gpu_distance(device: str, wanted: str, sm: int) -> tuple[float, str]:
    if device == wanted:
        return 0.0, ""
    gpu = find_gpu(device)
    if gpu is None:
        return math.inf, "unknown GPU"
    if gpu.sm // 10 == sm // 10:
        return _OTHER_GPU, f"{gpu.name}, same family"
    return _OTHER_FAMILY, f"{gpu.name}, another family"


def _ratio(value: int, wanted: int, weight: float, label: str) -> tuple[float, str]:
    if value == wanted:
        return 0.0, ""
    return weight * abs(math.log2(value / wanted)), f"{label}={value}"


def _triton_distance(version: str, wanted: str) -> tuple[float, str]:
    if version == wanted:
        return 0.0, ""
    try:
        steps = abs(Version(version).minor - Version(wanted).minor)
    except InvalidVersion:
        steps = 1
    return _OTHER_TRITON * (1 + steps), f"Triton {version}"
