"""Where config files lie: an SGLang install, an overlay folder, or the list of a release."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Protocol, cast

from advisor.configs.loaders import Loader, loader_of_version, loader_paths
from advisor.configs.names import MoeConfigName, parse_moe_name
from advisor.errors import InputError
from advisor.resources import read_data

FLAT = "flat"
INDEX_FILE = "moe_configs_bundled.yaml"
_FOLDER = re.compile(r"triton_(.+)")


class ConfigFiles(Protocol):
    """The config files that one server would see.

    `root` is the folder that holds `configs/`, as the server spells it in its log lines.
    """

    @property
    def root(self) -> str:
        """Return the folder that holds `configs/`."""

    def holds(self, relative: str) -> bool:
        """Say whether `configs/<relative>` exists."""

    def children(self) -> tuple[str, ...] | None:
        """Return the names directly below `configs/`; None if that folder does not exist."""

    def text(self, relative: str) -> str | None:
        """Return the text of `configs/<relative>`; None where only its name is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFiles:
    """Config files on disk.

    Attributes:
        folder: The folder that holds `configs/`.
        spelled: The folder as SGLANG_MOE_CONFIG_DIR spells it, where that differs; "" is the
            server's working folder.
    """

    folder: Path
    spelled: str | None = None

    @property
    def root(self) -> str:
        """Return the folder as the server writes it."""
        return str(self.folder) if self.spelled is None else self.spelled.removesuffix("/")

    def holds(self, relative: str) -> bool:
        """Say whether `configs/<relative>` exists."""
        return (self.folder / "configs" / relative).exists()

    def children(self) -> tuple[str, ...] | None:
        """Return the names directly below `configs/`, sorted."""
        try:
            return tuple(sorted(path.name for path in (self.folder / "configs").iterdir()))
        except OSError:
            return None

    def text(self, relative: str) -> str | None:
        """Return the text of `configs/<relative>`."""
        return (self.folder / "configs" / relative).read_text(encoding="utf-8", errors="replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFiles:
    """The bundled files of a release of which only the names are known.

    Attributes:
        root: The loader's folder in an install, from `sglang/` on.
        names: Paths below `configs/`.
    """

    root: str
    names: frozenset[str]

    def holds(self, relative: str) -> bool:
        """Say whether the release bundles `configs/<relative>`."""
        return relative in self.names

    def children(self) -> tuple[str, ...] | None:
        """Return the Triton folders of the release, sorted."""
        return tuple(sorted({name.split("/")[0] for name in self.names if "/" in name}))

    def text(self, relative: str) -> str | None:  # noqa: ARG002  (the protocol's parameter)
        """Return None: only names are known."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SglangTree:
    """An SGLang install.

    Attributes:
        package: Its `sglang/` folder.
        version: From its metadata; None if it has none.
        loader: Its lookup rules.
        files: Its bundled fused-MoE files.
    """

    package: Path
    version: str | None
    loader: Loader
    files: DiskFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedConfig:
    """One fused-MoE file of a tree.

    Attributes:
        triton: Version in the folder's name; `flat` in trees without Triton folders.
        path: Path below `configs/`.
    """

    triton: str
    name: MoeConfigName
    path: str


def open_tree(folder: Path, *, version: str | None = None) -> SglangTree:
    """Find an SGLang install: its `sglang/` folder or the folder that holds it.

    Raises:
        InputError: If there is none, or its release cannot be told.
    """
    package = next(
        (
            place
            for place in (folder, folder / "sglang", folder / "python" / "sglang")
            if any((place / path).is_file() for path in loader_paths())
        ),
        None,
    )
    if package is None:
        raise InputError(
            f"{folder} holds no SGLang install; name the folder site-packages/sglang of the server "
            '(python -c "import sglang; print(sglang.__path__[0])")'
        )
    found = version or installed_version(package)
    if found is None:
        raise InputError(f"{package} does not tell its version; add --sglang-version")
    loader = loader_of_version(found)
    return SglangTree(
        package=package,
        version=found,
        loader=loader,
        files=DiskFiles(folder=package / loader.folder),
    )


def installed_version(package: Path) -> str | None:
    """Return the version in the metadata beside a package folder, or in its `_version.py`."""
    for distribution in metadata.distributions(path=[str(package.parent)]):
        if distribution.metadata["Name"].lower() == "sglang":
            return distribution.version
    stamp = package / "_version.py"
    if stamp.is_file():
        text = stamp.read_text(encoding="utf-8", errors="replace")
        match = re.search(r"^(?:__version__ = )?version = ['\"]([^'\"]+)", text, re.MULTILINE)
        return match[1] if match else None
    return None


def files_of_release(version: str) -> ListedFiles:
    """Return the names that a release bundles; a release in between gets those of the older read.

    Raises:
        InputError: If the version is unknown.
    """
    loader = loader_of_version(version)
    return ListedFiles(
        root=f"sglang/{loader.folder}", names=_release_names(release_read_for(version))
    )


def read_releases() -> tuple[str, ...]:
    """Return the releases whose bundled files were listed, oldest first."""
    return tuple(cast("Sequence[str]", _index()["releases"]))


def release_read_for(version: str) -> str:
    """Return the release whose list of bundled files stands for a version: it or the one before."""
    from packaging.version import Version

    wanted = Version(version).release
    older = [known for known in read_releases() if Version(known).release <= wanted]
    return older[-1]


@functools.lru_cache(maxsize=2)
def _release_names(release: str) -> frozenset[str]:
    order = read_releases()
    position = order.index(release)
    rows = cast("Sequence[Sequence[str]]", _index()["files"])
    return frozenset(
        path for first, last, path in rows if order.index(first) <= position <= order.index(last)
    )


@functools.cache
def _index() -> Mapping[str, object]:
    return cast("Mapping[str, object]", read_data(INDEX_FILE))


def listed_configs(files: ConfigFiles) -> Iterator[ListedConfig]:
    """Yield the fused-MoE files of a tree by Triton version and name; foreign names are left out."""
    if isinstance(files, ListedFiles):
        paths = sorted(files.names)
    else:
        root = Path(files.root) / "configs"
        paths = sorted(path.relative_to(root).as_posix() for path in root.glob("**/*.json"))
    for path in paths:
        folder, _, base = path.rpartition("/")
        match = _FOLDER.fullmatch(folder)
        try:
            name = parse_moe_name(base)
        except InputError:
            continue
        triton = match[1].replace("_", ".") if match else FLAT
        yield ListedConfig(triton=triton, name=name, path=path)
