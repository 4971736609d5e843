"""Every text that one SGLang release can give out, read from its wheel or folder."""

from __future__ import annotations

import ast
import gc
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path

from advisor.audit.emissions import Level, Template, templates_of
from advisor.audit.texts import has_words, readings
from advisor.errors import InputError
from advisor.knowledge.releases import parse_version
from advisor.knowledge.tree import SourceTree, open_tree
from advisor.knowledge.wheels import wheel

_SERVER = "srt/"
_NO_SERVER = ("multimodal_gen/", "test/", "lang/", "eval/", "benchmark/", "bench_")
_FEW_FILES = 300
_MOST_PROCESSES = 4
_Read = tuple[tuple[Template, ...], tuple[str, ...]]


@dataclass(frozen=True)
class Source:
    """The templates of one release.

    Attributes:
        path: The wheel or folder that they were read from.
        unread: Files that this Python cannot parse.
    """

    version: str
    path: Path
    templates: tuple[Template, ...]
    unread: tuple[str, ...] = ()

    @cached_property
    def tree(self) -> SourceTree:
        """The opened wheel or folder."""
        return open_tree(self.path)

    def strings(self, module: str) -> tuple[Template, ...]:
        """Return every string of a module, logged or not, as templates; none for no module."""
        path = next(filter(None, (_existing(self.tree, name) for name in _paths(module))), None)
        tree = self.tree.parse(path) if path is not None else None
        if tree is None:
            return ()
        nodes = (node for node in ast.walk(tree) if isinstance(node, ast.expr))
        return tuple(
            Template(module=module, line=node.lineno, level=Level.DEBUG, text=text)
            for node in nodes
            if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp)
            for text in readings(node, {})
            if has_words(text)
        )


def read_release(named: str) -> Source:
    """Read a release that is named by its version, or by the path of a wheel or folder.

    A version is taken from the cache of wheels, else fetched by pip.

    Raises:
        InputError: If it is neither a path nor a version that pip can fetch, or holds no SGLang.
    """
    path = Path(named)
    if not path.exists():
        if parse_version(named) is None:
            raise InputError(f"{named}: no such wheel or folder, and no version of SGLang")
        path = wheel(named)
    return read_source(path)


def read_source(path: Path) -> Source:
    """Read every template of the SGLang in a wheel or folder.

    Raises:
        InputError: If there is no SGLang in it or it states no version.
    """
    tree = open_tree(path)
    version = tree.version()
    if version is None:
        raise InputError(f"{path}: states no version of SGLang")
    files = [name for name in tree.python_files() if not name.startswith(_NO_SERVER)]
    templates, unread = _read_all(path, files)
    return Source(version=version, path=path, templates=templates, unread=unread)


def module_name(path: str) -> str:
    """Return a file's module as rules name it.

    >>> module_name("srt/managers/scheduler.py"), module_name("launch_server.py")
    ('managers/scheduler', 'launch_server')
    """
    return path.removeprefix(_SERVER).removesuffix(".py")


def _paths(module: str) -> tuple[str, ...]:
    return tuple(
        f"{root}{module}{end}" for root in (_SERVER, "") for end in (".py", "/__init__.py")
    )


def _existing(tree: SourceTree, path: str) -> str | None:
    return path if tree.read(path) is not None else None


def _read_all(path: Path, files: Sequence[str]) -> _Read:
    """Read the files, spread over a few processes where there are many."""
    processes = min(_MOST_PROCESSES, os.cpu_count() or 1)
    if len(files) < _FEW_FILES or processes == 1:
        return _read_files(path, files)
    shares = [files[number::processes] for number in range(processes)]
    with ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=gc.disable
    ) as pool:
        parts = list(pool.map(_read_files, [path] * processes, shares))
    templates = [template for found, _ in parts for template in found]
    templates.sort(key=lambda item: (item.module, item.line, item.text.pieces))
    return tuple(templates), tuple(sorted(name for _, unread in parts for name in unread))


def _read_files(path: Path, files: Sequence[str]) -> _Read:
    tree = open_tree(path)
    templates: list[Template] = []
    unread: list[str] = []
    for file in files:
        try:
            parsed = tree.parse(file)
        except InputError:
            unread.append(file)
            continue
        if parsed is not None:
            templates.extend(templates_of(module_name(file), parsed))
    return tuple(templates), tuple(unread)
