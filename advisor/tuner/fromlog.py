"""What the starts of a server, as its log tells them, lack; and the problem behind each shape."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.configs.models import MoeModel, model_of, read_object
from advisor.configs.names import MoeConfigName
from advisor.configs.problem import MoeProblem, problem_of_name
from advisor.errors import ConfigError, InputError
from advisor.tuner.hub import cached_config, hub_cache, is_hub_name
from advisor.tuner.server import ServedModel, ServerRun

_CONFIG = "config.json"
_QUANTISED = "quantization_config"


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A shape for which a server found no file of its own.

    Attributes:
        name: Of the up file.
        run: The last start that lacked it.
    """

    name: MoeConfigName
    run: ServerRun

    @property
    def slug(self) -> str:
        """Return a short name for folders: `E256_N256_fp8_w8a8_128x128`."""
        name = self.name
        block = f"_{name.block_shape[0]}x{name.block_shape[1]}" if name.block_shape else ""
        channel = "_per_channel" if name.per_channel else ""
        return (
            f"E{name.experts}_N{name.width}{f'_{name.dtype}' if name.dtype else ''}{block}{channel}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """A missing shape with the sizes that stand in no file name.

    Attributes:
        config: The config.json that told them.
    """

    problem: MoeProblem
    config: Path


def missing_in_runs(runs: Sequence[ServerRun], origin: str) -> tuple[Missing, ...]:
    """Return the shapes whose up or down file lacks, in order; the last start that asked counts.

    Args:
        runs: The starts in a log, the earliest first.
        origin: The log's name, for messages.

    Raises:
        InputError: If no start looked a file up.
        ConfigError: If every file of the running Triton version was found.
    """
    last: dict[MoeConfigName, tuple[bool, ServerRun]] = {}
    for run in runs:
        last.update(_found_by_name(run))
    if not last:
        reason = next((run.silence for run in reversed(runs) if run.silence), None)
        raise InputError(
            f"{origin} has no line about a MoE kernel config: "
            f"{reason or 'no MoE model, or another MoE runner'}"
        )
    lacking = {name.for_down(down=False): run for name, (found, run) in last.items() if not found}
    if not lacking:
        raise ConfigError(
            f"{origin}: every MoE config file was found for the running Triton version; nothing is "
            "missing. To tune anyway, use --model or --shape"
        )
    return tuple(Missing(name=name, run=run) for name, run in lacking.items())


def _found_by_name(run: ServerRun) -> Mapping[MoeConfigName, tuple[bool, ServerRun]]:
    """Return whether all ranks of a start found a file, by its name."""
    found: dict[MoeConfigName, bool] = {}
    for search in run.searches:
        found[search.name] = found.get(search.name, True) and search.found
    return {name: (there, run) for name, there in found.items()}


def sized(missing: Missing, models: Sequence[Path], caches: Sequence[Path] = ()) -> Sized:
    """Return the problem behind a missing file, with the sizes of the model that it is a split of.

    Of several such models the one that the server's parallelism splits so, else the first.

    Args:
        missing: The shape.
        models: Folders or config.json files that the user names; those of the log come after them.
        caches: Hugging Face caches besides this user's own.

    Raises:
        ConfigError: If no model at hand fits; the text says where was looked.
    """
    reasons: list[str] = []
    fitting: list[tuple[bool, Sized]] = []
    for config in _configs(missing.run.models, models, caches, reasons):
        try:
            model = _experts_of(config)
        except InputError as error:
            reasons.append(str(error))
            continue
        split = _split(missing, model)
        if split is None:
            at = f", split over {ranks}" if (ranks := missing.run.ranks or 1) > 1 else ""
            reasons.append(f"{config} has {model.experts} experts of width {model.width}{at}")
        else:
            fitting.append((split.is_of(missing.run), _sized(missing, model, split, config)))
    if fitting:
        return next((one for likely, one in fitting if likely), fitting[0][1])
    name = missing.name
    looked = "; ".join(dict.fromkeys(reasons)) or "the log names no model"
    raise ConfigError(
        f"which model gives E={name.experts}, N={name.width}? hidden size and top-k stand in no "
        f"log, and {looked}: add --model PATH of its config.json"
    )


def _configs(
    served: Sequence[ServedModel], named: Sequence[Path], caches: Sequence[Path], reasons: list[str]
) -> Iterator[Path]:
    """Yield the config.json files to try; what is not at hand becomes a reason."""
    for path in named:
        try:
            yield named_config(path, caches)
        except InputError as error:
            reasons.append(str(error))
    places = _places(caches)
    for model in served:
        folder = Path(model.name)
        here = folder / _CONFIG if folder.is_dir() else folder
        if here.name == _CONFIG and here.is_file():
            yield here
            continue
        cached = [cached_config(model.name, model.revision, place) for place in places]
        hits = [config for config in cached if config is not None]
        yield from hits
        if not hits:
            where = " and not in " + ", ".join(map(str, places)) if is_hub_name(model.name) else ""
            reasons.append(f"{model.name} is no model folder here{where}")


def named_config(path: Path, caches: Sequence[Path] = ()) -> Path:
    """Return the config.json that a user means: a folder's, a file, or that of a name on the hub.

    Raises:
        InputError: If there is no such file or folder, nor a model of that name in a cache.
    """
    if path.is_dir():
        return path / _CONFIG
    if path.exists():
        return path
    places = _places(caches)
    cached = (cached_config(str(path), None, place) for place in places)
    found = next((config for config in cached if config is not None), None)
    if found is None:
        where = ", nor a model in " + ", ".join(map(str, places)) if is_hub_name(str(path)) else ""
        raise InputError(f"--model {path}: no such file or folder{where}")
    return found


def _places(caches: Sequence[Path]) -> tuple[Path, ...]:
    """Return this user's Hugging Face cache and others, each once."""
    return tuple(dict.fromkeys((hub_cache(os.environ), *caches)))


def _experts_of(config: Path) -> MoeModel:
    """Read a model without its quantisation: the file's name tells how its weights are."""
    document = {key: value for key, value in read_object(config).items() if key != _QUANTISED}
    text = document.get("text_config")
    if isinstance(text, dict):
        document["text_config"] = {key: text[key] for key in text if key != _QUANTISED}
    return model_of(document, origin=str(config))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    """How a model gives the sizes of a file's name: fused shared experts, and ranks each way."""

    fused: int
    expert: int
    tensor: int

    def may_be_of(self, run: ServerRun) -> bool:
        """Say whether the server has ranks for it; it may hold several copies of the experts."""
        return run.ranks is None or run.ranks % (self.expert * self.tensor) == 0

    def is_of(self, run: ServerRun) -> bool:
        """Say whether the server's arguments ask for just this."""
        return (self.expert, self.expert * self.tensor) == (run.expert_parallel, run.ranks)


def _split(missing: Missing, model: MoeModel) -> _Split | None:
    """Return how the model is split into the name's sizes; None if it cannot be.

    A rank holds all routed experts, or an equal share of them; fused shared experts come on top.
    """
    width = problem_of_name(missing.name).width
    groups = [(model.experts, model.width), *([model.second] if model.second else [])]
    for experts, whole_width in groups:
        held = experts + missing.run.redundant_experts
        for fused in dict.fromkeys((0, model.fusable_shared)):
            routed = missing.name.experts - fused
            if routed <= 0 or held % routed or whole_width % width:
                continue
            split = _Split(fused=fused, expert=held // routed, tensor=whole_width // width)
            if split.may_be_of(missing.run):
                return split
    return None


def _sized(missing: Missing, model: MoeModel, split: _Split, config: Path) -> Sized:
    """Join what the file's name tells with the model; every token chooses the fused experts."""
    top_k = model.top_k + split.fused
    problem = replace(
        problem_of_name(missing.name, hidden=model.hidden, top_k=top_k),
        activation=missing.run.activation or model.quantisation.activation,
        gated=model.gated,
        expert_parallel=split.expert,
    )
    return Sized(problem=problem, config=config)
