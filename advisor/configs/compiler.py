"""Cross-compile one kernel for one GPU, without one. Importing Triton happens in here only."""

from __future__ import annotations

import ast
import functools
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.configs.cubin import kernel_usage
from advisor.configs.launch import Argument, Descriptor, Fixed, Integer, Launch, Pointer
from advisor.configs.source import KernelSource, jit_functions

WARP_SIZE = 32
_ALIGNMENT = 16
_LONGEST_ERROR = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a compiled kernel asks of a block, or why there is none.

    Attributes:
        shared_bytes: Shared memory, as Triton compares it with the GPU's limit.
        registers: Registers per thread; None where the binary does not tell.
        spill_bytes: Local memory per thread; None likewise.
        tensor_memory_columns: Tensor memory of Blackwell data-centre GPUs (of 512 columns).
        error: The compiler's complaint when it made no kernel; all numbers are then 0 or None.
    """

    shared_bytes: int
    registers: int | None = None
    spill_bytes: int | None = None
    tensor_memory_columns: int = 0
    error: str | None = None


def build_kernel(source: KernelSource, launch: Launch, sm: int) -> Any:
    """Return Triton's compiled kernel of a launch, from Triton's cache if it lies there.

    Raises whatever the compiler's passes raise.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel = load_kernel(source)
    signature, constants, attributes = _specialise(launch)
    described = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=attributes)
    target = GPUTarget("cuda", sm, WARP_SIZE)
    with warnings.catch_warnings():
        # Notices on future defaults (Triton 3.9) are no verdict on a tile.
        warnings.simplefilter("ignore")
        return triton.compile(described, target=target, options=dict(launch.options))


def compile_launch(source: KernelSource, launch: Launch, sm: int) -> Resources:
    """Compile a kernel as the server would have it compiled, and read off what it needs."""
    load_kernel(source)  # a source that is gone is no answer of the compiler's
    try:
        compiled = build_kernel(source, launch, sm)
    except Exception as error:  # noqa: BLE001  (the compiler raises whatever its passes raise)
        return Resources(shared_bytes=0, error=telling_line(error))
    usage = kernel_usage(compiled.asm.get("cubin", b""))
    return Resources(
        shared_bytes=int(compiled.metadata.shared),
        registers=usage.registers if usage else None,
        spill_bytes=usage.local_bytes if usage else None,
        tensor_memory_columns=int(getattr(compiled.metadata, "tmem_size", 0) or 0),
    )


def load_kernel(source: KernelSource) -> Any:
    """Return the kernel as Triton's `JITFunction`, defined apart from its file's other code."""
    return _load(source.path, source.functions)[source.kernel]


@functools.lru_cache(maxsize=8)
def _load(path: Path, functions: tuple[str, ...]) -> Mapping[str, Any]:
    """Define the lifted functions alone; their file is never imported.

    They keep their line numbers, so that Triton finds their text in the file itself.
    """
    import triton
    import triton.language as tl

    found = jit_functions(path)
    module = ast.Module(body=[found[name] for name in functions], type_ignores=[])
    scope: dict[str, Any] = {"__name__": "advisor.lifted", "triton": triton, "tl": tl}
    exec(compile(module, str(path), "exec"), scope)  # noqa: S102  (only @triton.jit definitions)
    return scope


def _specialise(
    launch: Launch,
) -> tuple[dict[str, str], dict[tuple[int, ...], Any], dict[tuple[int, ...], list[list[Any]]]]:
    """Return Triton's signature, constants and attributes of a launch."""
    signature: dict[str, str] = {}
    constants: dict[tuple[int, ...], Any] = {}
    attributes: dict[tuple[int, ...], list[list[Any]]] = {}
    for index, (name, argument) in enumerate(launch.arguments):
        kind, constant, aligned = _describe(name, argument)
        signature[name] = kind
        if kind == "constexpr":
            constants[index,] = constant
        elif aligned:
            attributes[index,] = [["tt.divisibility", _ALIGNMENT]]
    return signature, constants, attributes


def _describe(name: str, argument: Argument) -> tuple[str, Any, bool]:
    """Return the type of an argument in a signature, its constant, and whether 16 divides it."""
    match argument:
        case Pointer(element=element):
            return f"*{element}", None, True
        case Descriptor(element=element, block=block):
            return f"tensordesc<{element}[{', '.join(map(str, block))}]>", None, False
        case Integer(value=1):
            return "constexpr", 1, False
        case Integer(value=value):
            kind = "i32" if -(2**31) <= value < 2**31 else "i64"
            return kind, None, value % _ALIGNMENT == 0
        case Fixed(value=value):
            return "constexpr", _triton_type(str(value)) if name == "compute_type" else value, False


def _triton_type(name: str) -> Any:
    import triton.language as tl

    return {"bf16": tl.bfloat16, "fp16": tl.float16}[name]


def telling_line(error: BaseException) -> str:
    """Return the telling line of a compiler error, which quotes the source before it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    cause = error.__cause__
    if cause is not None and str(cause).strip():
        return telling_line(cause)
    text = lines[-1] if lines else type(error).__name__
    return text[:_LONGEST_ERROR]
