"""What a server's log says is missing, as a problem to tune."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.configs.loglines import Seen, seen_in_log
from advisor.configs.lookup import Source
from advisor.configs.models import MoeModel, read_model
from advisor.configs.names import MoeConfigName, device_in_file_name
from advisor.configs.problem import MoeProblem, problem_of_name
from advisor.errors import ConfigError, InputError

_MODEL_PATH = re.compile(r"model_path='([^'\x00-\x1f]{1,1024})'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A shape for which a server found no file of its own.

    Attributes:
        name: Of the up file.
        triton: The version that the server runs; None if the log does not tell.
        others: Further shapes that lack a file.
    """

    name: MoeConfigName
    triton: str | None
    others: tuple[MoeConfigName, ...] = ()


def missing_in_log(log: Path) -> Missing:
    """Return the first shape whose up or down file the server lacked.

    Raises:
        InputError: If the log cannot be read or reports no look-up.
        ConfigError: If every look-up found the file of the running Triton version.
    """
    lacking: dict[MoeConfigName, Seen] = {}
    for seen in seen_in_log(log):
        if seen.source is not Source.EXACT:
            lacking.setdefault(seen.name.for_down(down=False), seen)
    if not lacking:
        raise ConfigError(
            f"{log}: every MoE config file was found for the running Triton version; nothing is "
            "missing. To tune anyway, use --model or --shape"
        )
    first, *others = lacking
    return Missing(name=first, triton=lacking[first].triton, others=tuple(others))


def check_place(missing: Missing, device: str, triton: str) -> None:
    """Refuse to tune where the files would not be read.

    Raises:
        ConfigError: If this GPU or this Triton is not that of the log.
    """
    if missing.name.device != device_in_file_name(device):
        raise ConfigError(
            f"the log is from {missing.name.device}, here is {device_in_file_name(device)}: files "
            "made here are never read there; tune on the server's GPU"
        )
    if missing.triton is not None and missing.triton != triton:
        raise ConfigError(
            f"the server runs Triton {missing.triton}, here is {triton}: files made here would be "
            "a fallback at best; run advisor with the server's Python"
        )


def problem_of_log(log: Path, missing: Missing, model: Path | None) -> MoeProblem:
    """Return the problem behind a missing file; sizes that no name tells come from the model.

    Raises:
        InputError: If the model's config.json cannot be read.
        ConfigError: If there is no model at hand, or it does not fit the log.
    """
    found = read_model(model or _model_of_log(log))
    return problem_of_missing(missing.name, found)


def _model_of_log(log: Path) -> Path:
    with log.open(encoding="utf-8", errors="replace") as lines:
        named = next((match[1] for line in lines if (match := _MODEL_PATH.search(line))), None)
    if named is not None and (Path(named) / "config.json").is_file():
        return Path(named)
    where = f" ({named} is not here)" if named else ""
    raise ConfigError(
        f"hidden size and top-k stand in no log{where}: add --model PATH of its config.json"
    )


def problem_of_missing(name: MoeConfigName, model: MoeModel) -> MoeProblem:
    """Join what the file name tells with the model's hidden size and top-k.

    A rank holds all routed experts, or an equal share of them; fused shared experts come on top and
    are chosen by every token.

    Raises:
        ConfigError: If no split of the model gives the name's sizes.
    """
    fused = _fused_experts(name, model)
    if fused is None or model.width % name.width:
        raise ConfigError(
            f"the log's E={name.experts}, N={name.width} is no split of this model "
            f"({model.experts} experts of width {model.width}): is it another model?"
        )
    problem = problem_of_name(name, hidden=model.hidden, top_k=model.top_k + fused)
    return replace(problem, activation=model.quantisation.activation, gated=model.gated)


def _fused_experts(name: MoeConfigName, model: MoeModel) -> int | None:
    for fused in {0, model.fusable_shared}:
        routed = name.experts - fused
        if routed > 0 and model.experts % routed == 0:
            return fused
    return None


def readable_log(log: Path) -> Path:
    """Return the log if it is a file.

    Raises:
        InputError: If it is not.
    """
    if not log.is_file():
        raise InputError(f"{log} is no readable file; name one log of the server")
    return log
