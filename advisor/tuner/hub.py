"""Find a model's config.json in the local Hugging Face cache, without network or the hub's library.

The layout is that of huggingface_hub: `models--ORG--NAME/snapshots/COMMIT/config.json`, a link into
`blobs/`, with the commit of a branch in `refs/BRANCH`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

_NAME = re.compile(r"(?!.*\.\.)[\w.-]{1,128}(?:/[\w.-]{1,128})?", re.ASCII)
_REVISION = re.compile(r"(?!.*\.\.)[\w.-]{1,128}(?:/[\w.-]{1,128}){0,8}", re.ASCII)
_COMMIT = re.compile(r"[0-9A-Za-z]{1,64}", re.ASCII)
_DEFAULT_BRANCH = "main"
_LONGEST_REFERENCE = 256


def hub_cache(variables: Mapping[str, str]) -> Path:
    """Return the folder of downloaded models that these environment variables mean."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if variables.get(name):
            return _expanded(variables[name])
    home = variables.get("HF_HOME")
    if home:
        return _expanded(home) / "hub"
    cache = variables.get("XDG_CACHE_HOME")
    return (_expanded(cache) if cache else _expanded("~/.cache")) / "huggingface" / "hub"


def is_hub_name(name: str) -> bool:
    """Say whether a model's name can stand on the hub: `org/name`, or an old `name`."""
    return _NAME.fullmatch(name) is not None and "--" not in name


def cached_config(name: str, revision: str | None, cache: Path) -> Path | None:
    """Return config.json of a model in a cache; None if it is not there.

    Without a reference of that name a lone snapshot is taken for it.
    """
    if not is_hub_name(name) or (revision is not None and not _REVISION.fullmatch(revision)):
        return None
    folder = cache / "models--{}".format(name.replace("/", "--"))
    commit = _commit(folder, revision or _DEFAULT_BRANCH)
    config = folder / "snapshots" / commit / "config.json" if commit else None
    return config if config is not None and config.is_file() else None


def _commit(folder: Path, revision: str) -> str | None:
    snapshots = folder / "snapshots"
    if _COMMIT.fullmatch(revision) and (snapshots / revision).is_dir():
        return revision
    try:
        with (folder / "refs" / revision).open(encoding="ascii") as reference:
            commit = reference.read(_LONGEST_REFERENCE).strip()
    except (OSError, UnicodeDecodeError):
        return _lone_snapshot(snapshots) if revision == _DEFAULT_BRANCH else None
    return commit if _COMMIT.fullmatch(commit) else None


def _lone_snapshot(snapshots: Path) -> str | None:
    try:
        there = [path.name for path in snapshots.iterdir()]
    except OSError:
        return None
    return there[0] if len(there) == 1 else None


def _expanded(path: str) -> Path:
    # pathlib's own raises where a user is not known
    return Path(os.path.expanduser(os.path.expandvars(path)))  # noqa: PTH111
