"""Options that several `advisor configs` commands share, and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import click

from advisor.configs.models import read_model
from advisor.configs.names import (
    LARGEST_SIZE,
    ExpertDtype,
    MoeConfigName,
    device_in_file_name,
)
from advisor.configs.problem import MoeProblem, Target, problem_of_name, target_of_gpu, target_of_sm
from advisor.configs.shapes import MoeShape, Parallelism, moe_shape
from advisor.configs.trees import SglangTree, open_tree
from advisor.errors import ConfigError
from advisor.knowledge.gpus import Gpu, find_gpu, gpu_near_misses

F = TypeVar("F", bound=Callable[..., Any])
SIZE = click.IntRange(min=1, max=LARGEST_SIZE)


def block_shape(text: str) -> tuple[int, int]:
    """Parse the two sizes of a quantisation block, like 128,128.

    Raises:
        ValueError: If they are not two sizes; click names the option.
    """
    parts = text.strip("[]").replace(" ", "").split(",")
    sizes = [int(part) for part in parts if part.isascii() and part.isdigit()]
    if len(parts) != len(("n", "k")) or len(sizes) != len(parts):
        raise ValueError(text)
    if not all(0 < size <= LARGEST_SIZE for size in sizes):
        raise ValueError(text)
    return sizes[0], sizes[1]


def _together(options: Sequence[Callable[[F], F]]) -> Callable[[F], F]:
    return lambda function: reduce(lambda inner, option: option(inner), reversed(options), function)


format_option = click.option(
    "--format",
    "format_",
    type=click.Choice(["terminal", "json"]),
    default="terminal",
    show_default=True,
)

tree_options = _together(
    [
        click.option(
            "--sglang",
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="The server's SGLang: site-packages/sglang, or a checkout.",
        ),
        click.option("--sglang-version", metavar="VERSION", help="Its release, such as 0.5.12."),
    ]
)

target_options = _together(
    [
        click.option("--gpu", metavar="NAME", help="Target GPU, by any of its names."),
        click.option(
            "--sm", type=click.IntRange(min=70, max=130), help="Target capability, like 120."
        ),
    ]
)

compile_options = _together(
    [
        click.option(
            "--estimate", is_flag=True, help="Estimate shared memory instead of compiling."
        ),
        click.option(
            "--jobs",
            type=click.IntRange(min=1, max=1024),
            help="Compiling processes. Default: all cores.",
        ),
    ]
)

shape_options = _together(
    [
        click.option(
            "--model",
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="The model's folder or config.json.",
        ),
        click.option("--tp", type=SIZE, default=1, show_default=True, help="--tp-size."),
        click.option("--ep", type=SIZE, default=1, show_default=True, help="--ep-size."),
        click.option(
            "--redundant-experts", type=click.IntRange(min=0, max=LARGEST_SIZE), default=0
        ),
        click.option("--quantization", metavar="NAME", help="--quantization of the server."),
        click.option(
            "--no-shared-fusion",
            is_flag=True,
            help="The shared expert is not fused (flag, DeepEP, or the log says so).",
        ),
        click.option("--experts", type=SIZE, metavar="E", help="E of the file name."),
        click.option("--width", type=SIZE, metavar="N", help="N of the file name."),
        click.option(
            "--dtype", type=click.Choice(list(ExpertDtype)), help="dtype of the file name."
        ),
        click.option(
            "--block-shape", type=block_shape, metavar="N,K", help="Quantisation block: 128,128."
        ),
        click.option("--per-channel", is_flag=True, help="per_channel_quant of the file name."),
        click.option("--gpu", metavar="NAME", help="The GPU, by any of its names."),
        click.option(
            "--device", metavar="NAME", help="Torch's device name, if the GPU is unknown."
        ),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeOptions:
    """The shape that options describe: a model, or explicit numbers.

    Attributes:
        values: Click's parameters by name.
        shape: From the model; None without one.
    """

    values: dict[str, Any]
    gpu: Gpu | None
    shape: MoeShape | None

    @classmethod
    def of(cls, context: click.Context) -> ShapeOptions:
        """Read the options of a command.

        Raises:
            ConfigError: If the GPU is unknown, or the sizes do not divide.
            InputError: If the model cannot be read.
        """
        values = dict(context.params)
        gpu = known_gpu(values["gpu"]) if values["gpu"] else None
        shape = None
        if values["model"] is not None:
            model = read_model(values["model"], quantization=values["quantization"])
            split = Parallelism(
                tensor=values["tp"],
                expert=values["ep"],
                redundant=values["redundant_experts"],
                fuse_shared=False if values["no_shared_fusion"] else None,
            )
            device = _device(values, gpu)
            shape = moe_shape(model, split, device=device, sm=gpu.sm if gpu else None)
        return cls(values=values, gpu=gpu, shape=shape)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what was assumed about the model."""
        return self.shape.notes if self.shape else ()

    def name(self) -> MoeConfigName:
        """Return the name of the up file.

        Raises:
            ConfigError: If neither a model nor E and N are given.
        """
        if self.shape is not None:
            return self.shape.name
        values = self.values
        if values["experts"] is None or values["width"] is None:
            raise ConfigError(
                "which shape? add --model DIR, or --experts E and --width N, or --from LOG"
            )
        return MoeConfigName(
            experts=values["experts"],
            width=values["width"],
            device=_device(values, self.gpu),
            dtype=ExpertDtype(values["dtype"]) if values["dtype"] else None,
            block_shape=values["block_shape"],
            per_channel=values["per_channel"],
        )

    def problem(self) -> MoeProblem:
        """Return the kernel's problem; without a model, hidden size and top-k are assumed."""
        return self.shape.problem if self.shape else problem_of_name(self.name())


def known_gpu(text: str) -> Gpu:
    """Return the GPU that a name means.

    Raises:
        ConfigError: If none is meant.
    """
    gpu = find_gpu(text)
    if gpu is None:
        near = gpu_near_misses(text)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise ConfigError(f"unknown GPU {text!r}{hint}")
    return gpu


def device_of(gpu: Gpu, text: str) -> str:
    """Return a GPU's name in config files.

    Raises:
        ConfigError: If several models share the name, so that their files differ.
    """
    if gpu.device_name is None:
        names = ", ".join(gpu_near_misses(text))
        raise ConfigError(f"{text!r} names several models with files of their own: {names}")
    return gpu.device_name


def _device(values: dict[str, Any], gpu: Gpu | None) -> str:
    if values["device"]:
        return device_in_file_name(values["device"])
    if gpu is None:
        raise ConfigError("which GPU? add --gpu NAME, or --device with torch's name of it")
    return device_of(gpu, values["gpu"])


def find_target(gpu: str | None, sm: int | None, device: str | None = None) -> Target:
    """Return the target of the options, or else the GPU that a file is named for.

    Raises:
        ConfigError: If there is none, or it is unknown.
    """
    if gpu is not None and sm is not None:
        raise ConfigError("--gpu and --sm exclude each other")
    if sm is not None:
        return target_of_sm(sm)
    if gpu is not None:
        return target_of_gpu(gpu)
    if device and find_gpu(device) is not None:
        return target_of_gpu(device)
    raise ConfigError("which GPU? add --gpu NAME or --sm CAPABILITY")


def find_tree(sglang: Path | None, version: str | None) -> SglangTree | None:
    """Return the install of the options; None without one.

    Raises:
        InputError: If there is no SGLang in that folder.
    """
    return open_tree(sglang, version=version) if sglang is not None else None


problem_options = _together(
    [
        click.option(
            "--model",
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="Take hidden size, top-k and group size from a model.",
        ),
        click.option("--hidden-size", type=SIZE, help="Hidden size; in no file name."),
        click.option("--top-k", type=SIZE, help="Experts per token; in no file name."),
        click.option("--group-size", type=SIZE, help="Elements per scale of int4 weights."),
    ]
)


def problems_of(context: click.Context) -> Callable[[MoeConfigName], MoeProblem]:
    """Return how a file's name becomes a problem, with what `problem_options` add to it.

    Raises:
        InputError: If the model cannot be read.
    """
    values = context.params
    model = read_model(values["model"]) if values["model"] is not None else None
    hidden = values["hidden_size"] or (model.hidden if model else None)
    top_k = values["top_k"] or (model.top_k if model else None)
    group = values["group_size"] or (model.quantisation.group_size if model else None)

    def problem_of(name: MoeConfigName) -> MoeProblem:
        problem = problem_of_name(name, hidden=hidden, top_k=top_k, group_size=group)
        if model is None:
            return problem
        return replace(problem, activation=model.quantisation.activation, gated=model.gated)

    return problem_of
