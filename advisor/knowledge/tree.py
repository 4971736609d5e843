"""The source of an SGLang release, read from a wheel or a folder, never imported."""

from __future__ import annotations

import ast
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path

from advisor.errors import InputError

_PACKAGE = "sglang"
_VERSION_FILES = ("_version.py", "version.py")
_METADATA_VERSION = re.compile(r"^Version: (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTree:
    """The Python files of one SGLang release.

    Attributes:
        package: The folder `sglang` itself, on disk or inside a wheel.
        site: The folder that holds it, where the METADATA lies in an installation or wheel.
        origin: What to call it in messages: the path that the user gave.
    """

    package: Traversable
    site: Traversable
    origin: str

    def read(self, path: str) -> str | None:
        """Return a file below the package ("srt/server_args.py"); None if it does not exist."""
        file = self.package.joinpath(*path.split("/"))
        return _text(file) if file.is_file() else None

    def python_files(self, below: str = "") -> Iterator[str]:
        """Yield the path of every Python file of the package, or of a folder in it, sorted."""
        prefix = f"{below}/" if below else ""
        if isinstance(self.package, zipfile.Path):
            yield from sorted(_zipped_python_files(self.package, prefix))
            return
        folder = self.package.joinpath(*filter(None, below.split("/")))
        if folder.is_dir():
            yield from sorted(_python_files(folder, prefix))

    def parse(self, path: str) -> ast.Module | None:
        """Return the syntax tree of a file; None if it does not exist.

        Raises:
            InputError: If the file is no Python that this interpreter can parse.
        """
        text = self.read(path)
        if text is None:
            return None
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError) as error:
            raise InputError(f"{self.origin}: {path} cannot be parsed: {error}") from error

    def metadata(self) -> str | None:
        """Return the METADATA of the distribution; None in a plain source tree."""
        for folder in self.site.iterdir():
            if folder.name.startswith(f"{_PACKAGE}-") and folder.name.endswith(".dist-info"):
                return _text(folder.joinpath("METADATA"))
        return None

    def version(self) -> str | None:
        """Return the version that the METADATA or a version file states."""
        if match := _METADATA_VERSION.search(self.metadata() or ""):
            return match[1]
        return next(filter(None, map(self._stated_version, _VERSION_FILES)), None)

    def _stated_version(self, path: str) -> str | None:
        match = re.search(
            r"""^(?:__)?version(?:__)?\s*(?:=\s*version\s*)?=\s*["']([^"']+)["']""",
            self.read(path) or "",
            re.MULTILINE,
        )
        return match[1] if match else None


def open_tree(path: Path) -> SourceTree:
    """Open a wheel, an installation or a checkout of SGLang.

    Args:
        path: A wheel; or a folder that is `sglang`, holds it (site-packages, `python/`) or holds
            `python/sglang` (a Git checkout).

    Raises:
        InputError: If there is no SGLang in it.
    """
    sites: list[Traversable] = [path, path / "python", path.parent]
    if path.is_file():
        sites = [_open_wheel(path)]
    for site in sites:
        package = site.joinpath(_PACKAGE)
        if package.joinpath("srt").is_dir():
            return SourceTree(package=package, site=site, origin=str(path))
    raise InputError(f"{path}: holds no sglang/srt: give a wheel of SGLang or its site-packages")


def _text(file: Traversable) -> str:
    return file.read_bytes().decode("utf-8-sig", errors="replace")


def _open_wheel(path: Path) -> Traversable:
    try:
        return zipfile.Path(path)
    except (OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: is no wheel that can be read: {error}") from error


def _python_files(folder: Traversable, prefix: str) -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _python_files(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".py"):
            yield f"{prefix}{entry.name}"


def _zipped_python_files(package: zipfile.Path, prefix: str) -> Iterator[str]:
    """Yield files by one look at the archive's list: walking a zip folder by folder is slow."""
    for name in package.root.namelist():
        if name.startswith(package.at + prefix) and name.endswith(".py"):
            yield name.removeprefix(package.at)
