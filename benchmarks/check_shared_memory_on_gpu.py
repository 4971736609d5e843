"""Compare what `advisor configs verify` predicts with what a GPU says, and check the kernel's results.

Usage: PYTHONPATH=. python benchmarks/check_shared_memory_on_gpu.py --out result.json
Needs torch, triton, pyyaml and click. It takes one to two minutes on an H200 with 16 cores.

Three questions:
1. For random entries of random kinds, are the predicted shared memory and registers those that
   Triton reports after loading the kernel, and is OutOfResources predicted exactly where it occurs?
2. Does the bundled kernel compute what plain matrix products compute?
3. With --sglang DIR (the folder `sglang/` of an install): the first question for its kernel.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from advisor.configs.compiler import Resources, load_kernel
from advisor.configs.entries import Entry
from advisor.configs.estimate import estimate_shared_bytes
from advisor.configs.launch import Descriptor, Fixed, Integer, Pointer, is_grouped, launch_of
from advisor.configs.names import ExpertDtype
from advisor.configs.pool import compile_all, triton_version
from advisor.configs.problem import Gemm, MoeProblem, Target
from advisor.configs.source import KernelSource, bundled_source, server_source
from advisor.configs.store import Job, Store
from advisor.configs.verify import Verdict, judge

EXPERTS, WIDTH, HIDDEN, TOP_K, TOKENS, GROUP = 8, 768, 2048, 4, 128, 128
TMA_SHARE, DOWN_SHARE = 0.2, 0.3
NEAR = (0.7, 1.5)
TOLERANCE = 0.02
"""Of the largest output: bf16 keeps 8 bits, and sums run in another order."""


def problem(**fields: Any) -> MoeProblem:
    return MoeProblem(experts=EXPERTS, width=WIDTH, hidden=HIDDEN, top_k=TOP_K, **fields)


PROBLEMS: Mapping[str, MoeProblem] = {
    "bf16": problem(),
    "fp16": problem(activation="fp16"),
    "fp8 block": problem(dtype=ExpertDtype.FP8_W8A8, block_shape=(128, 128)),
    "fp8 tensor": problem(dtype=ExpertDtype.FP8_W8A8),
    "fp8 channel": problem(dtype=ExpertDtype.FP8_W8A8, per_channel=True),
    "int8 channel": problem(dtype=ExpertDtype.INT8_W8A8, per_channel=True),
    "int8 weights": problem(dtype=ExpertDtype.INT8_W8A16),
    "int4 weights": problem(dtype=ExpertDtype.INT4_W4A16, group_size=GROUP),
}
WEIGHTS = {
    "bf16": 6,
    "fp8 block": 5,
    "fp8 tensor": 2,
    "fp8 channel": 2,
    "int8 channel": 2,
    "int4 weights": 1,
}


@dataclass(frozen=True, kw_only=True)
class Point:
    kind: str
    gemm: Gemm
    entry: Entry

    @property
    def problem(self) -> MoeProblem:
        return PROBLEMS[self.kind]


def sample(count: int, seed: int, target: Target) -> Iterator[Point]:
    """Draw distinct points; every second one is near the GPU's limit, where a mistake would show."""
    draw = random.Random(seed)  # noqa: S311
    seen: set[Point] = set()
    while len(seen) < count:
        point = draw_point(draw)
        share = estimate_shared_bytes(point.problem, point.entry, target.sm)
        near = NEAR[0] < share / target.shared_memory_bytes < NEAR[1]
        if point not in seen and (near or len(seen) % 2):
            seen.add(point)
            yield point


def draw_point(draw: random.Random) -> Point:
    """Draw one point; TMA only where a server would use it."""
    kind = draw.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    scaled = PROBLEMS[kind].block_shape is not None
    tma = kind in {"bf16", "fp8 block"} and draw.random() < TMA_SHARE
    entry = Entry(
        block_m=draw.choice((16, 32, 64, 128, 256)),
        block_n=draw.choice((32, 64, 128, 256)),
        block_k=draw.choice((64, 128) if scaled else (64, 128, 256)),
        group_m=draw.choice((1, 16, 32, 64)),
        num_warps=draw.choice((4, 8)),
        num_stages=draw.choice((2, 3, 4, 5)),
        use_tma=tma or None,
    )
    down = tma or draw.random() < DOWN_SHARE
    return Point(kind=kind, gemm=Gemm.DOWN if down else Gemm.UP, entry=entry)


@dataclass(frozen=True, kw_only=True)
class Operands:
    """Tensors of one GEMM, by parameter name, and what a correct kernel makes of them."""

    tensors: Mapping[str, Any]
    integers: Mapping[str, int]
    expected: Any
    tiles: int


def quantise(kind: MoeProblem, a: Any, b: Any) -> dict[str, Any]:
    """Return stored tensors, scales, and the values they stand for (`a_value`, `b_value`)."""
    import torch

    if kind.dtype is None:
        return {"a_ptr": a, "b_ptr": b, "a_value": a.float(), "b_value": b.float()}
    if kind.dtype is ExpertDtype.INT4_W4A16:
        return quantise_int4(a, b)
    eight = torch.float8_e4m3fn if kind.dtype is ExpertDtype.FP8_W8A8 else torch.int8
    top = 448.0 if eight is torch.float8_e4m3fn else 127.0

    def stored(values: Any, scale: Any) -> Any:
        scaled = (values.float() / scale).clamp(-top, top)
        return scaled.round().to(eight) if eight is torch.int8 else scaled.to(eight)

    if kind.block_shape:
        block_n, block_k = kind.block_shape
        a_scale = a.float().unflatten(1, (-1, block_k)).abs().amax(2) / top
        tiles = b.float().unflatten(2, (-1, block_k)).unflatten(1, (-1, block_n))
        b_scale = tiles.abs().amax((2, 4)) / top
        a_wide = a_scale.repeat_interleave(block_k, 1)
        b_wide = b_scale.repeat_interleave(block_n, 1).repeat_interleave(block_k, 2)
    elif kind.per_channel or kind.dtype is ExpertDtype.INT8_W8A16:
        a_scale = a.float().abs().amax(1, keepdim=True) / top
        b_scale = b.float().abs().amax(2) / top
        a_wide, b_wide = a_scale, b_scale[..., None]
    else:
        a_scale = a.float().abs().amax().reshape(1) / top
        b_scale = b.float().abs().amax((1, 2)) / top
        a_wide, b_wide = a_scale, b_scale[:, None, None]
    b_stored = stored(b, b_wide)
    values = {"b_ptr": b_stored, "b_scale_ptr": b_scale, "b_value": b_stored.float() * b_wide}
    if kind.dtype is ExpertDtype.INT8_W8A16:
        return values | {"a_ptr": a, "a_value": a.float()}
    a_stored = stored(a, a_wide)
    return values | {
        "a_ptr": a_stored,
        "a_scale_ptr": a_scale,
        "a_value": a_stored.float() * a_wide,
    }


def quantise_int4(a: Any, b: Any) -> dict[str, Any]:
    import torch

    groups = b.float().unflatten(2, (-1, GROUP))
    scale = (groups.abs().amax(3) / 7).to(b.dtype)
    numbers = (groups / scale.float()[..., None]).round().clamp(-8, 7).flatten(2)
    nibbles = (numbers + 8).to(torch.uint8)
    packed = nibbles[..., 0::2] | (nibbles[..., 1::2] << 4)
    wide = scale.float().repeat_interleave(GROUP, 2)
    return {
        "a_ptr": a,
        "b_ptr": packed,
        "b_scale_ptr": scale,
        "a_value": a.float(),
        "b_value": numbers * wide,
    }


def operands(point: Point, device: str) -> Operands:
    """Make a GEMM's operands: routing sorted by expert, padded to BLOCK_SIZE_M."""
    import torch

    torch.manual_seed(0)
    kind, down = point.problem, point.gemm is Gemm.DOWN
    n, k = (HIDDEN, WIDTH) if down else (2 * WIDTH, HIDDEN)
    dtype = torch.float16 if kind.activation == "fp16" else torch.bfloat16
    choices = 1 if down else TOP_K
    sources = TOKENS * TOP_K // choices
    a = torch.randn(sources, k, device=device, dtype=dtype)
    b = torch.randn(EXPERTS, n, k, device=device, dtype=dtype) / k**0.5
    made = quantise(kind, a, b)
    experts = torch.randint(0, EXPERTS, (TOKENS * TOP_K,), device=device)
    order, tiles, padded = route(experts, point.entry.block_m)
    weights = torch.rand(TOKENS * TOP_K, device=device)
    rows = made["a_value"].repeat_interleave(choices, 0)
    expected = torch.zeros(TOKENS * TOP_K, n, device=device)
    for expert in range(EXPERTS):
        mine = experts == expert
        expected[mine] = rows[mine] @ made["b_value"][expert].T
    if down:
        expected = expected * weights[:, None]
    if point.entry.use_tma and down:
        index = order.clamp(max=TOKENS * TOP_K - 1).long()
        made |= {name: made[name][index] for name in ("a_ptr", "a_scale_ptr") if name in made}
    tensors = made | {
        "c_ptr": torch.zeros(TOKENS * TOP_K, n, device=device, dtype=dtype),
        "topk_weights_ptr": weights,
        "sorted_token_ids_ptr": order,
        "expert_ids_ptr": tiles,
        "num_tokens_post_padded_ptr": torch.tensor([padded], device=device, dtype=torch.int32),
    }
    integers = {"EM": order.shape[0], "num_valid_tokens": TOKENS * TOP_K}
    grid = -(-order.shape[0] // point.entry.block_m) * -(-n // point.entry.block_n)
    return Operands(tensors=tensors, integers=integers, expected=expected, tiles=grid)


def route(experts: Any, block_m: int) -> tuple[Any, Any, int]:
    """Return row ids sorted by expert and padded, the expert of each tile, and the padded count."""
    import torch

    order: list[Any] = []
    tiles: list[int] = []
    for expert in range(EXPERTS):
        mine = (experts == expert).nonzero().flatten()
        padding = -len(mine) % block_m
        order += [mine, mine.new_full((padding,), len(experts))]
        tiles += [expert] * ((len(mine) + padding) // block_m)
    rows = torch.cat(order).to(torch.int32)
    return rows, torch.tensor(tiles, device=experts.device, dtype=torch.int32), len(rows)


def run_kernel(source: KernelSource, point: Point, made: Operands, sm: int) -> Any:
    """Launch as a server would; return the loaded kernel."""
    import triton.language as tl

    launch = launch_of(source, point.problem, point.gemm, point.entry, sm)
    arguments = {}
    for name, argument in launch.arguments:
        match argument:
            case Pointer():
                arguments[name] = made.tensors[name]
            case Integer(value=value):
                arguments[name] = made.integers.get(name, value)
            case Descriptor(block=block):
                from triton.tools.tensor_descriptor import TensorDescriptor

                tensor = made.tensors[name.replace("_desc", "_ptr")]
                arguments[name] = TensorDescriptor.from_tensor(tensor, list(block))
            case Fixed(value=value):
                types = {"bf16": tl.bfloat16, "fp16": tl.float16}
                arguments[name] = types[str(value)] if name == "compute_type" else value
    kernel = load_kernel(source)
    return kernel[(made.tiles,)](**arguments, **dict(launch.options))


def source_of(point: Point, package: Path | None) -> KernelSource:
    grouped = is_grouped(point.problem)
    return server_source(package, grouped=grouped) if package else bundled_source(grouped=grouped)


def predict(
    points: list[Point], target: Target, package: Path | None
) -> list[tuple[Job, Resources]]:
    """Compile all points over the cores, as `verify` does."""
    jobs = []
    for point in points:
        source = source_of(point, package)
        launch = launch_of(source, point.problem, point.gemm, point.entry, target.sm)
        jobs.append(Job(source=source, launch=launch, sm=target.sm))
    with tempfile.TemporaryDirectory() as folder:
        results = compile_all(jobs, Store(folder=Path(folder), triton=triton_version() or ""))
    return [(job, results[job]) for job in jobs]


def compare(
    points: list[Point],
    predictions: list[tuple[Job, Resources]],
    target: Target,
    journal: Path,
) -> dict[str, Any]:
    """Answer the first question for one kernel, with a process a core: each launch compiles."""
    started = time.perf_counter()
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(_processes(), multiprocessing.get_context("spawn")) as pool:
        waiting = [
            pool.submit(compare_one, point, job.source, needs, target)
            for point, (job, needs) in zip(points, predictions, strict=True)
        ]
        for done in as_completed(waiting):
            rows.append(done.result())
            with journal.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(rows[-1]) + "\n")
    return {
        "kernel": "bundled" if predictions[0][0].source.bundled else "SGLang's",
        "entries": len(rows),
        "verdicts": Counter(str(row["actual"]) for row in rows),
        "shared_memory_equal": sum(row["shared_equal"] for row in rows),
        "registers_equal": sum(row["registers_equal"] for row in rows),
        "verdict_equal": sum(row["verdict_equal"] for row in rows),
        "disagreements": [row for row in rows if not row["agrees"]],
        "launched_s": round(time.perf_counter() - started, 1),
    }


def _processes() -> int:
    return max(1, min(12, os.cpu_count() or 1))


def compare_one(
    point: Point, source: KernelSource, needs: Resources, target: Target
) -> dict[str, Any]:
    from triton.runtime.errors import OutOfResources

    verdict = judge(needs, target)[0]
    actual, shared, registers, text = Verdict.FITS, 0, None, ""
    try:
        loaded = run_kernel(source, point, operands(point, "cuda"), target.sm)
        shared, registers = loaded.metadata.shared, loaded.n_regs
    except OutOfResources as error:
        actual, shared, text = Verdict.TOO_LARGE, error.required, str(error)
    except Exception as error:  # noqa: BLE001  (whatever the compiler raises is an answer here)
        actual, text = Verdict.REFUSED, str(error)[-300:]
    same_shared = shared == needs.shared_bytes
    same_verdict = verdict is actual
    return {
        "point": f"{point.kind}, {point.gemm}, {point.entry.tiles}, TMA {bool(point.entry.use_tma)}",
        "predicted": verdict,
        "predicted_bytes": needs.shared_bytes,
        "actual": actual,
        "actual_bytes": shared,
        "shared_equal": same_shared,
        "registers_equal": registers is None or registers == needs.registers,
        "verdict_equal": same_verdict,
        "agrees": same_shared and same_verdict,
        "text": text,
    }


def check_results(sm: int, device: str) -> list[dict[str, Any]]:
    """Answer the second question: every kind, both GEMMs, wide and narrow tiles, TMA."""
    tiles = (
        Entry(block_m=16, block_n=64, block_k=64, group_m=1, num_warps=4, num_stages=3),
        Entry(block_m=64, block_n=128, block_k=128, group_m=16, num_warps=4, num_stages=3),
    )
    points = [
        Point(kind=kind, gemm=gemm, entry=entry)
        for kind in PROBLEMS
        for gemm in Gemm
        for entry in tiles
    ]
    if device == "cuda":
        points += [
            replace(point, entry=replace(point.entry, use_tma=True))
            for point in points
            if point.kind in {"bf16", "fp8 block"}
        ]
    return [check_result(point, sm, device) for point in points]


def check_result(point: Point, sm: int, device: str) -> dict[str, Any]:
    made = operands(point, device)
    run_kernel(source_of(point, None), point, made, sm)
    error = (made.tensors["c_ptr"].float() - made.expected).abs().max() / made.expected.abs().max()
    return {
        "point": f"{point.kind}, {point.gemm}, {point.entry.tiles}, TMA {bool(point.entry.use_tma)}",
        "relative_error": round(float(error), 5),
        "right": bool(error < TOLERANCE),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--entries", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sglang", type=Path, help="sglang/ folder of an install")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    import torch
    import triton

    properties = torch.cuda.get_device_properties(0)
    sm = 10 * properties.major + properties.minor
    target = Target(
        name=properties.name, sm=sm, shared_memory_bytes=properties.shared_memory_per_block_optin
    )
    points = list(sample(arguments.entries, arguments.seed, target))
    packages = (None, arguments.sglang) if arguments.sglang else (None,)
    # All predictions come before the first launch: their processes fork.
    started = time.perf_counter()
    predictions = [predict(points, target, package) for package in packages]
    predicted_s = round(time.perf_counter() - started, 1)
    summary = {
        "gpu": properties.name,
        "sm": sm,
        "limit_bytes": target.shared_memory_bytes,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "predicted_s": predicted_s,
        "comparisons": [
            compare(points, one, target, arguments.out.with_suffix(".jsonl")) for one in predictions
        ],
        "results": check_results(sm, "cuda"),
    }
    summary["right_results"] = sum(row["right"] for row in summary["results"])
    arguments.out.write_text(json.dumps(summary, indent=2) + "\n")
    wrong = any(one["disagreements"] for one in summary["comparisons"])
    wrong |= summary["right_results"] < len(summary["results"])
    print(json.dumps({key: value for key, value in summary.items() if key != "results"}, indent=2))
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
