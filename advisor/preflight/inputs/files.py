"""Tell what kind of file holds the launch command, and read it."""

from __future__ import annotations

from pathlib import Path

import yaml

from advisor.errors import InputError
from advisor.preflight.inputs.command import ServerCommand, of_script
from advisor.preflight.inputs.config import looks_like_config, of_config
from advisor.preflight.inputs.containers import of_compose, of_kubernetes
from advisor.preflight.inputs.dockerfile import of_dockerfile
from advisor.preflight.inputs.documents import at, mappings

_LARGEST_BYTES = 4 << 20
_DATA_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
KINDS = "a shell script, Dockerfile, compose file, Kubernetes manifest or SGLang YAML config"


def read_file(path: Path, *, may_be_none: bool = False) -> tuple[ServerCommand, ...]:
    """Return the servers that a file starts; `may_be_none` accepts a file that starts none.

    Raises:
        InputError: If the file cannot be read or starts none.
    """
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise InputError(f"{path}: larger than 4 MiB, so no launch file")
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    found = read_text(text, path.as_posix())
    if not found and not may_be_none:
        raise InputError(
            f"{path}: no SGLang server is started in it (sglang.launch_server or sglang serve): "
            f"give {KINDS}"
        )
    return found


def read_text(text: str, source: str) -> tuple[ServerCommand, ...]:
    """Return the servers in the text of a file; its name and its content tell the kind."""
    name = source.rpartition("/")[2]
    if name.lower().startswith("dockerfile") or name.lower().endswith(
        (".dockerfile", "containerfile")
    ):
        return of_dockerfile(text, source)
    if Path(name).suffix.lower() in _DATA_SUFFIXES:
        return _of_data(text, source)
    return of_script(text, source=source)


def _of_data(text: str, source: str) -> tuple[ServerCommand, ...]:
    documents = mappings(text, source)
    kubernetes = [node for node in documents if at(node, "kind") is not None]
    if kubernetes:
        return of_kubernetes(kubernetes, text, source)
    compose = [node for node in documents if isinstance(at(node, "services"), yaml.MappingNode)]
    if compose:
        return of_compose(compose[0], text, source)
    if len(documents) == 1 and looks_like_config(documents[0]):
        return (of_config(text, source),)
    return ()
