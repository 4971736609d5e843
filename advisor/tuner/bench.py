"""Timing tiles on one GPU: CUDA graph replays over cold weights, and a check of the numbers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from advisor.configs.launch import Descriptor, Launch, Pointer
from advisor.configs.problem import Gemm, extent
from advisor.tuner.kernels import Kernels, shared_form
from advisor.tuner.operands import Weights, make_weights
from advisor.tuner.problem import padded_rows
from advisor.tuner.reference import Reference
from advisor.tuner.routing import Routing
from advisor.tuner.tensors import BatchTensors
from advisor.tuner.work import (
    Entrant,
    Failed,
    Failure,
    Outcome,
    Part,
    Race,
    Raced,
    Timed,
    Trial,
    Work,
)

_FEWEST_REPLAYS, _MOST_REPLAYS = 4, 12
_SCREENING_US = 8000.0
_FEWEST_ROUNDS, _MOST_ROUNDS = 10, 40
_RACE_US = 300_000.0
_LARGEST_ERROR_RATIO = 0.02
_FATAL = ("illegal", "misaligned", "launch failure", "device-side assert", "hardware")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSetup:
    """Measuring on real GPUs: a setup for pools."""

    kernels: Kernels
    routing: Routing
    seed: int = 0

    def recipes(self, work: Work) -> tuple[object, ...]:
        """Return the kernels of a piece of work."""
        return self.kernels.recipes(work)

    def compile(self, recipe: object) -> Failed | None:
        """Compile one kernel into the cache."""
        if not isinstance(recipe, Launch):
            raise TypeError(f"not a recipe of this setup: {recipe!r}")
        built = self.kernels.build(recipe)
        return built if isinstance(built, Failed) else None

    def open(self, gpu: int) -> GpuBench:
        """Take a GPU."""
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        os.environ["CUDA_VISIBLE_DEVICES"] = str(gpu)
        return GpuBench(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checked:
    """The launches of one part, one per routing."""

    calls: list[Callable[[], None]]
    error_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """An entrant as a CUDA graph of `launches` turns."""

    graph: Any
    launches: int
    error_ratio: float


class GpuBench:
    """One GPU with the problem's weights on it."""

    def __init__(self, setup: GpuSetup) -> None:
        """Take the GPU that `CUDA_VISIBLE_DEVICES` shows and fill its memory."""
        import torch

        self._torch = torch
        self._kernels = setup.kernels
        self._problem = setup.kernels.problem
        self._routing = setup.routing
        self._seed = setup.seed
        self.poisoned = False
        self.device = str(torch.cuda.get_device_name(0))
        torch.manual_seed(setup.seed)
        self._weights: dict[Gemm, Weights] = {
            gemm: make_weights(self._problem, gemm, "cuda") for gemm in Gemm
        }
        self._built: dict[Launch, Any] = {}
        self._batches: dict[int, BatchTensors] = {}
        self._references: dict[tuple[int, Gemm], Reference] = {}

    def measure(self, work: Work) -> Outcome:
        """Time a piece of work; whatever goes wrong is an answer, not an exception."""
        try:
            if isinstance(work, Race):
                return self._race(work)
            return self._screen(work)
        except Exception as error:  # noqa: BLE001  (whatever a candidate raises is its answer)
            return self._failure(error)

    def _failure(self, error: Exception) -> Failed:
        text = (str(error).splitlines() or [type(error).__name__])[0][:300]
        try:
            self._torch.cuda.synchronize()
        except RuntimeError:
            self.poisoned = True
        self.poisoned = self.poisoned or any(word in text for word in _FATAL)
        resources = type(error).__name__ == "OutOfResources"
        return Failed(failure=Failure.RESOURCES if resources else Failure.LAUNCH, text=text)

    def _screen(self, trial: Trial) -> Timed | Failed:
        batch = self._batch_of(trial.tokens)
        checked = self._checked(batch, trial.part)
        if isinstance(checked, Failed):
            return checked
        graph, launches = self._capture(checked.calls), len(checked.calls)
        first_us = self._replay_us(graph, launches) * launches
        replays = max(_FEWEST_REPLAYS, min(_MOST_REPLAYS, round(_SCREENING_US / first_us)))
        samples_us = tuple(self._replay_us(graph, launches) for _ in range(replays))
        return Timed(samples_us=samples_us, error_ratio=checked.error_ratio)

    def _race(self, race: Race) -> Raced:
        batch = self._batch_of(race.tokens)
        prepared = [self._prepare(batch, entrant) for entrant in race.entrants]
        running = {place: one for place, one in enumerate(prepared) if not isinstance(one, Failed)}
        samples = self._rounds(running)
        return Raced(
            answers=tuple(
                one
                if isinstance(one, Failed)
                else Timed(samples_us=tuple(samples[place]), error_ratio=one.error_ratio)
                for place, one in enumerate(prepared)
            )
        )

    def _rounds(self, running: Mapping[int, _Ready]) -> dict[int, list[float]]:
        """Replay all in turns, each round in the other direction; the first one only warms up."""
        warm_us = sum(self._replay_us(one.graph, 1) for one in running.values())
        rounds = max(_FEWEST_ROUNDS, min(_MOST_ROUNDS, 2 * round(_RACE_US / 2 / max(warm_us, 1.0))))
        order = tuple(running)
        samples: dict[int, list[float]] = {place: [] for place in order}
        for turn in range(rounds):
            for place in order if turn % 2 else order[::-1]:
                one = running[place]
                samples[place].append(self._replay_us(one.graph, one.launches))
        return samples

    def _prepare(self, batch: BatchTensors, entrant: Entrant) -> _Ready | Failed:
        """Capture an entrant; say why if it cannot run or computes wrong numbers."""
        parts: list[_Checked] = []
        for part in entrant.parts():
            checked = self._checked(batch, part)
            if isinstance(checked, Failed):
                return checked
            parts.append(checked)
        turns = [call for turn in zip(*(one.calls for one in parts), strict=True) for call in turn]
        return _Ready(
            graph=self._capture(turns),
            launches=len(parts[0].calls),
            error_ratio=max(one.error_ratio for one in parts),
        )

    def _capture(self, calls: list[Callable[[], None]]) -> Any:
        graph = self._torch.cuda.CUDAGraph()
        with self._torch.cuda.graph(graph):
            for call in calls:
                call()
        return graph

    def _replay_us(self, graph: Any, launches: int) -> float:
        start, end = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1000.0 / launches

    def _checked(self, batch: BatchTensors, part: Part) -> _Checked | Failed:
        """Return one launch per routing; the first of them has run, and its numbers are right."""
        launch = self._kernels.launch(part, batch.tokens)
        kernel = self._build(launch)
        if isinstance(kernel, Failed):
            return kernel
        columns = extent(self._problem, part.gemm)[0]
        length = padded_rows(self._problem, batch.tokens, part.tile.block_m)
        tiles = -(-length // part.tile.block_m) * -(-columns // part.tile.block_n)
        runner = kernel[tiles, 1, 1]
        calls: list[Callable[[], None]] = []
        for turn in range(len(batch.routings)):
            tensors = batch.of_launch(part, self._weights[part.gemm], turn)
            calls.append(_call(runner, _arguments(launch, tensors), self._torch))
        batch.poison(part)
        calls[0]()
        error = self._reference(batch, part.gemm).error_ratio(batch, part)
        if not error <= _LARGEST_ERROR_RATIO:
            text = f"{part.gemm} {part.tile.key}: differs from the reference by {error:.2g}"
            return Failed(failure=Failure.WRONG, text=text)
        return _Checked(calls=calls, error_ratio=error)

    def _build(self, launch: Launch) -> Any:
        recipe = shared_form(launch)
        if recipe not in self._built:
            self._built[recipe] = self._kernels.build(recipe)
        return self._built[recipe]

    def _reference(self, batch: BatchTensors, gemm: Gemm) -> Reference:
        key = batch.tokens, gemm
        if key not in self._references:
            self._references[key] = Reference(batch, gemm, self._weights[gemm])
        return self._references[key]

    def _batch_of(self, tokens: int) -> BatchTensors:
        if tokens not in self._batches:
            self._batches[tokens] = BatchTensors(
                self._problem, self._routing, tokens, seed=self._seed, device="cuda"
            )
        return self._batches[tokens]


def _call(runner: Any, arguments: tuple[Any, ...], torch: Any) -> Callable[[], None]:
    def call() -> None:
        runner(*arguments, stream=torch.cuda.current_stream().cuda_stream)

    return call


def _arguments(launch: Launch, tensors: dict[str, Any]) -> tuple[Any, ...]:
    """Return the launch's arguments in the kernel's order."""
    arguments: list[Any] = []
    for name, known in launch.arguments:
        if isinstance(known, Pointer):
            arguments.append(tensors[name])
        elif isinstance(known, Descriptor):
            arguments.append(_descriptor(tensors[name.replace("_desc", "_ptr")], known))
        else:
            arguments.append(known.value)
    return tuple(arguments)


def _descriptor(tensor: Any, known: Descriptor) -> Any:
    from triton.tools.tensor_descriptor import TensorDescriptor

    return TensorDescriptor.from_tensor(tensor, list(known.block))
