"""A fused-MoE kernel's source, lifted out of its file by AST; nothing is imported or run here."""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.configs.loaders import kernel_paths
from advisor.errors import InputError

MAIN_KERNELS = ("fused_moe_kernel", "moe_gemm")
GROUPED_KERNELS = ("fused_moe_kernel_gptq_awq", "moe_gemm_grouped")
BUNDLED = Path(__file__).with_name("kernel.py")
EARLY_SWITCH = "USE_GDC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of a kernel.

    Attributes:
        default: The default as Python source; None without one.
    """

    name: str
    constant: bool
    default: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSource:
    """One kernel with the `@triton.jit` functions that it calls.

    Attributes:
        path: The file that holds them.
        kernel: The kernel's function name.
        functions: Names of all lifted functions, in file order.
        digest: Hash of their code; comments and layout do not count.
        bundled: Whether this is Advisor's own kernel and not a server's.
        early_launch: Whether it is launched before its predecessor has ended, on SM90 and newer.
    """

    path: Path
    kernel: str
    functions: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    digest: str
    bundled: bool
    early_launch: bool = False


def bundled_source(*, grouped: bool = False, early_launch: bool = False) -> KernelSource:
    """Return Advisor's own kernel.

    Args:
        grouped: For 4-bit and grouped 8-bit weights.
        early_launch: As releases launch theirs from 0.5.19 on.
    """
    source = read_source(BUNDLED, grouped=grouped)
    if not early_launch:
        return source
    return replace(source, early_launch=True, digest=f"{source.digest}-early")


def server_source(package: Path, *, grouped: bool = False) -> KernelSource:
    """Return the kernel of an SGLang install; `package` is its `sglang/` folder.

    Raises:
        InputError: If none of the places of known releases holds the kernel.
    """
    for relative in kernel_paths():
        path = package / relative
        if path.is_file() and _find_kernel(path, grouped=grouped):
            return read_source(path, grouped=grouped)
    raise InputError(
        f"no fused-MoE Triton kernel below {package}: looked in {', '.join(kernel_paths())}"
    )


def read_source(path: Path, *, grouped: bool = False) -> KernelSource:
    """Lift the kernel out of a source file.

    Raises:
        InputError: If the file cannot be read or parsed, or holds no such kernel.
    """
    kernel = _find_kernel(path, grouped=grouped)
    if kernel is None:
        raise InputError(f"{path} holds no fused-MoE Triton kernel")
    functions = jit_functions(path)
    needed = _closure(kernel, functions)
    code = "\n".join(ast.unparse(functions[name]) for name in needed)
    parameters = tuple(_parameters(functions[kernel]))
    bundled = path == BUNDLED
    return KernelSource(
        path=path,
        kernel=kernel,
        functions=needed,
        parameters=parameters,
        digest=hashlib.sha256(code.encode()).hexdigest(),
        bundled=bundled,
        early_launch=not bundled and any(one.name == EARLY_SWITCH for one in parameters),
    )


def jit_functions(path: Path) -> Mapping[str, ast.FunctionDef]:
    """Return the plain `@triton.jit` functions of a file by name, in file order.

    Raises:
        InputError: If the file cannot be read or is not Python.
    """
    try:
        return _jit_functions(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{path} is not Python that can be parsed: {error}") from error


@functools.lru_cache(maxsize=8)
def _jit_functions(path: Path, _changed_ns: int) -> Mapping[str, ast.FunctionDef]:
    """Parse a file once, unless it has changed since."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return {node.name: node for node in functions if _is_jit(node)}


def _is_jit(node: ast.FunctionDef) -> bool:
    return [ast.unparse(decorator) for decorator in node.decorator_list] == ["triton.jit"]


def _find_kernel(path: Path, *, grouped: bool) -> str | None:
    wanted = GROUPED_KERNELS if grouped else MAIN_KERNELS
    functions = jit_functions(path)
    return next((name for name in wanted if name in functions), None)


def _closure(kernel: str, functions: Mapping[str, ast.FunctionDef]) -> tuple[str, ...]:
    """Return the kernel and all lifted functions it calls, directly or not, in file order."""
    needed = {kernel}
    waiting = [kernel]
    while waiting:
        names = {
            node.id for node in ast.walk(functions[waiting.pop()]) if isinstance(node, ast.Name)
        }
        fresh = names & functions.keys() - needed
        needed |= fresh
        waiting += sorted(fresh)
    return tuple(name for name in functions if name in needed)


def _parameters(node: ast.FunctionDef) -> Iterator[Parameter]:
    arguments = node.args.args
    missing: list[ast.expr | None] = [None] * (len(arguments) - len(node.args.defaults))
    for argument, default in zip(arguments, [*missing, *node.args.defaults], strict=True):
        yield Parameter(
            name=argument.arg,
            constant=argument.annotation is not None
            and "constexpr" in ast.unparse(argument.annotation),
            default=ast.unparse(default) if default is not None else None,
        )
