"""Build and take away an overlay folder for SGLANG_MOE_CONFIG_DIR.

The variable replaces the bundled folder, so an overlay holds all bundled files and ours on top. The
server's installation is never touched.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import cast

from advisor.configs.loaders import Loader
from advisor.configs.lookup import Lookup, Request, Source, lookup
from advisor.configs.names import MoeConfigName, parse_moe_name
from advisor.configs.trees import DiskFiles
from advisor.errors import ConfigError, InputError

MANIFEST = "advisor-manifest.json"
VARIABLE = "SGLANG_MOE_CONFIG_DIR"
_SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NewConfig:
    """A file to install: the name it gets, its text, and where it comes from."""

    name: MoeConfigName
    text: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayFile:
    """One file of an overlay, as its manifest records it.

    Attributes:
        path: Below the overlay folder, with forward slashes.
        kind: `bundled` or `added`.
        origin: The file it was copied, linked or made from.
    """

    path: str
    sha256: str
    kind: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """An installed overlay.

    Attributes:
        triton: Version whose folder holds the added files.
        sglang: Version of the install the bundled files come from; None without one.
    """

    folder: Path
    triton: str
    sglang: str | None
    files: tuple[OverlayFile, ...]

    @property
    def added(self) -> tuple[OverlayFile, ...]:
        """Return our files."""
        return tuple(file for file in self.files if file.kind == "added")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to build.

    Attributes:
        bundled: Folder that holds the bundled `configs/`; None for an overlay of our files alone.
        link: Link bundled files instead of copying them.
    """

    folder: Path
    loader: Loader
    triton: str
    new: tuple[NewConfig, ...]
    bundled: Path | None = None
    sglang: str | None = None
    link: bool = False


def install_overlay(plan: Plan) -> Overlay:
    """Build the overlay beside its place and move it there in one step.

    An overlay of ours that is there already is replaced; files added to it earlier stay, unless
    they are added anew. The lookup is proved before anything is moved.

    Raises:
        ConfigError: If this release reads no overlay, the folder holds anything else, or the
            server would not read an added file or would stop.
    """
    if not plan.loader.triton_folders:
        raise ConfigError(
            f"this SGLang reads no {VARIABLE}: its files lie flat in the install; use 0.5.3 or newer"
        )
    earlier = _earlier(plan.folder)
    target = plan.folder.absolute()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        building.chmod(0o755)
    except OSError as error:
        raise InputError(f"{target.parent}: {error.strerror or error}") from error
    try:
        overlay = _build(plan, earlier, building)
        prove(replace(overlay, folder=building), plan.loader)
        _swap(building, target)
    except OSError as error:
        raise InputError(f"{error.filename or target}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return overlay


def _earlier(folder: Path) -> Overlay | None:
    """Return the overlay that is there, if any.

    Raises:
        ConfigError: If something else is there.
    """
    if not folder.exists():
        return None
    if not folder.is_dir():
        raise ConfigError(f"{folder} is a file; name a folder for the overlay")
    if (folder / MANIFEST).is_file():
        return read_overlay(folder)
    if any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty and no overlay of Advisor; name a new folder")
    return None


def _build(plan: Plan, earlier: Overlay | None, building: Path) -> Overlay:
    files = {file.path: file for file in _copy_bundled(plan, building)}
    files |= {file.path: file for file in _keep_added(earlier, building)}
    files |= {file.path: file for file in _write_new(plan, building)}
    overlay = Overlay(
        folder=plan.folder.absolute(),
        triton=plan.triton,
        sglang=plan.sglang,
        files=tuple(files[path] for path in sorted(files)),
    )
    _write(building / MANIFEST, _manifest_text(overlay))
    return overlay


def _copy_bundled(plan: Plan, building: Path) -> Iterator[OverlayFile]:
    if plan.bundled is None:
        return
    root = plan.bundled / "configs"
    for path in sorted(root.glob("*/*.json")):
        relative = f"configs/{path.relative_to(root).as_posix()}"
        place = building / relative
        place.parent.mkdir(parents=True, exist_ok=True)
        if plan.link:
            place.symlink_to(path.resolve())
        else:
            shutil.copyfile(path, place)
        yield OverlayFile(path=relative, sha256=_hash(path), kind="bundled", origin=str(path))


def _keep_added(earlier: Overlay | None, building: Path) -> Iterator[OverlayFile]:
    if earlier is None:
        return
    for file in earlier.added:
        source = earlier.folder / file.path
        if not source.is_file():
            continue
        place = building / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        shutil.copyfile(source, place)
        yield OverlayFile(path=file.path, sha256=_hash(place), kind="added", origin=file.origin)


def _write_new(plan: Plan, building: Path) -> Iterator[OverlayFile]:
    for config in plan.new:
        relative = f"configs/{triton_folder(plan.triton)}/{config.name.file_name}"
        place = building / relative
        place.parent.mkdir(parents=True, exist_ok=True)
        _write(place, config.text)
        yield OverlayFile(path=relative, sha256=_hash(place), kind="added", origin=config.origin)


def triton_folder(version: str) -> str:
    """Return the folder that a running Triton looks into first."""
    return f"triton_{version.replace('.', '_')}"


def _write(path: Path, text: str) -> None:
    """Write a file anew; a link in its place is replaced, not followed."""
    path.unlink(missing_ok=True)
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _swap(building: Path, target: Path) -> None:
    """Put the new folder in place of the old one."""
    if target.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
        target.replace(old)
        building.replace(target)
        shutil.rmtree(old, ignore_errors=True)
    else:
        building.replace(target)


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _manifest_text(overlay: Overlay) -> str:
    document = {
        "schema_version": _SCHEMA,
        "variable": VARIABLE,
        "triton": overlay.triton,
        "sglang": overlay.sglang,
        "files": [asdict(file) for file in overlay.files],
    }
    return json.dumps(document, indent=2) + "\n"


def read_overlay(folder: Path) -> Overlay:
    """Read the manifest of an overlay.

    Raises:
        InputError: If there is none, or it is damaged.
    """
    path = folder / MANIFEST
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        files = tuple(OverlayFile(**row) for row in document["files"])
        triton, sglang = str(document["triton"]), document["sglang"]
    except FileNotFoundError as error:
        raise InputError(f"{folder} is no overlay of Advisor: it has no {MANIFEST}") from error
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path} is damaged: {error}") from error
    for file in files:
        _check_inside(path, file.path)
    return Overlay(
        folder=folder.absolute(), triton=triton, sglang=cast("str | None", sglang), files=files
    )


def _check_inside(manifest: Path, relative: str) -> None:
    parts = PurePosixPath(relative).parts
    if not parts or parts[0] != "configs" or ".." in parts:
        raise InputError(f"{manifest} is damaged: it names {relative!r}")


def changed_files(overlay: Overlay) -> tuple[str, ...]:
    """Return the files that are no longer what was installed, or gone."""
    return tuple(file.path for file in overlay.files if not _untouched(overlay, file))


def _untouched(overlay: Overlay, file: OverlayFile) -> bool:
    path = overlay.folder / file.path
    return path.is_file() and _hash(path) == file.sha256


def uninstall_overlay(folder: Path, *, force: bool = False) -> tuple[str, ...]:
    """Take an overlay away: exactly the files of its manifest; return those removed.

    Raises:
        InputError: If it is no overlay.
        ConfigError: If a file of it was changed since and `force` is not given.
    """
    overlay = read_overlay(folder)
    edited = [path for path in changed_files(overlay) if (folder / path).exists()]
    if edited and not force:
        raise ConfigError(
            f"{folder}: changed since it was installed: {', '.join(edited[:3])}; "
            "keep a copy, then repeat with --force"
        )
    removed = [
        file.path
        for file in overlay.files
        if (folder / file.path).is_symlink() or (folder / file.path).exists()
    ]
    for path in removed:
        (folder / path).unlink()
    (folder / MANIFEST).unlink()
    _remove_empty(folder)
    return tuple(removed)


def _remove_empty(folder: Path) -> None:
    """Remove the folders that became empty, from the inside out; others stay."""
    inner = sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True)
    for path in (*inner, folder):
        if not any(path.iterdir()):
            path.rmdir()


def prove(overlay: Overlay, loader: Loader) -> tuple[Lookup, ...]:
    """Replay the lookup of every added shape in the overlay.

    Raises:
        ConfigError: If the server would not read exactly an added file, or would stop.
    """
    files = DiskFiles(folder=overlay.folder)
    proofs: dict[MoeConfigName, Lookup] = {}
    for file in overlay.added:
        name = parse_moe_name(PurePosixPath(file.path).name)
        up = name.for_down(down=False)
        if up not in proofs:
            proofs[up] = lookup(Request(name=up, triton=overlay.triton), files, loader)
        result = proofs[up].down if name.down else proofs[up].up
        expected = str(overlay.folder / file.path)
        if result is None or result.source is not Source.EXACT or result.path != expected:
            reason = result.reason if result else "this release reads no down file"
            raise ConfigError(f"the server would not read {file.path}: {reason or result}")
        if proofs[up].crash is not None:
            raise ConfigError(f"with {file.path} the server would stop: {proofs[up].crash}")
    return tuple(proofs.values())
