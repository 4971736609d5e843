"""Wheels of SGLang releases: found in a cache folder, else fetched through pip."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from advisor.errors import InputError
from advisor.knowledge.releases import parse_version

CACHE_VARIABLE = "ADVISOR_SGLANG_CACHE"
_TIMEOUT_S = 600
_PIP = ("-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet")
# The source is the same for every platform: any wheel will do where this machine has none.
_ANY_PLATFORM = (
    *("--platform", "manylinux_2_34_x86_64", "--platform", "manylinux2014_x86_64"),
    *("--python-version", "3.11", "--implementation", "cp"),
)


def cache_folder() -> Path:
    """Return where wheels are kept: $ADVISOR_SGLANG_CACHE or ~/.cache/sglang-advisor/wheels."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else Path.home() / ".cache" / "sglang-advisor" / "wheels"


def find_wheel(version: str) -> Path | None:
    """Return the wheel of a release in the cache; None if it is not there."""
    wanted = parse_version(version)
    found = (path for path in sorted(cache_folder().glob("sglang-*.whl")) if _is_of(path, wanted))
    return next(found, None)


def wheel(version: str) -> Path:
    """Return the wheel of a release, fetched into the cache if it is not there.

    Runs `pip download --no-deps sglang==VERSION`; nothing is installed or executed.

    Raises:
        InputError: If the text is no version, or pip cannot fetch it.
    """
    if parse_version(version) is None:
        raise InputError(f"{version!r} is no SGLang version: write one such as 0.5.12")
    return find_wheel(version) or _download(version)


def _download(version: str) -> Path:
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".fetching-") as passing:
            complaint = _fetch(version, passing)
            for path in Path(passing).glob("*.whl"):
                return path.replace(folder / path.name)
    except OSError as error:
        raise InputError(f"sglang {version} cannot be kept in {folder}: {error}") from error
    raise InputError(
        f"sglang {version} is not in {folder} and pip cannot fetch it ({complaint}):"
        f" put its wheel there or check the network"
    )


def _fetch(version: str, folder: str) -> str:
    """Let pip download into a folder; return the last line of its complaint, or ''."""
    complaint = ""
    for options in ((), _ANY_PLATFORM):
        command = [sys.executable, *_PIP, *options, "--dest", folder, f"sglang=={version}"]
        try:
            done = subprocess.run(  # noqa: S603  (a fixed program; the version was parsed)
                command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            return f"no answer in {_TIMEOUT_S} s"
        if done.returncode == 0:
            return ""
        complaint = complaint or (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    return complaint


def _is_of(path: Path, version: object) -> bool:
    try:
        return parse_wheel_filename(path.name)[1] == version
    except InvalidWheelFilename:
        return False
