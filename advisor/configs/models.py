"""The MoE layer that a model's config.json describes, over `advisor/data/moe_architectures.yaml`."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from advisor.configs.names import LARGEST_SIZE
from advisor.configs.quantisation import Quantisation, read_quantisation
from advisor.errors import InputError
from advisor.resources import read_data

DATA_FILE = "moe_architectures.yaml"
_LARGEST_FILE_BYTES = 64 * 1024 * 1024

Json = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeModel:
    """The routed experts of a model, whole (not per rank).

    Attributes:
        architecture: First of `architectures` in config.json.
        width: Intermediate size of one expert.
        fusable_shared: Shared experts that the server fuses into the routed ones by default.
        gated: Whether the up GEMM makes gate and up.
        second: Experts and width of a second group (Ernie VL's vision experts); None without.
    """

    architecture: str
    experts: int
    top_k: int
    width: int
    hidden: int
    quantisation: Quantisation
    fusable_shared: int = 0
    gated: bool = True
    second: tuple[int, int] | None = None


def read_model(path: Path, *, quantization: str | None = None) -> MoeModel:
    """Read a model's folder, or its config.json; `quantization` is the server's flag.

    Raises:
        InputError: If there is no readable config.json, or it describes no MoE model we can name
            the config file of; the missing field is named.
    """
    file = path / "config.json" if path.is_dir() else path
    return model_of(read_object(file), origin=str(file), quantization=quantization)


def read_object(file: Path, *, largest_bytes: int = _LARGEST_FILE_BYTES) -> Json:
    """Return the JSON object of one of a model's files.

    Raises:
        InputError: If there is no such file, or it is too large or no JSON object.
    """
    try:
        if file.stat().st_size > largest_bytes:
            raise InputError(f"{file} is too large for a model's config.json")
        document = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} is not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise InputError(f"{file} is not a model's config.json: no JSON object")
    return document


def model_of(config: Json, *, origin: str, quantization: str | None = None) -> MoeModel:
    """Return the MoE layer of a parsed config.json; `origin` names it in messages.

    Raises:
        InputError: If a field is missing or no size.
    """
    names = config.get("architectures")
    architecture = _printable(names[0]) if isinstance(names, list) and names else "(none)"
    row = _row(architecture)
    if row is None:
        row = _UNKNOWN
    layers = _Layers(
        config=config, origin=origin, architecture=architecture, known=row is not _UNKNOWN
    )
    experts = layers.sizes(row["experts"])
    width = layers.sizes(row["width"])
    return MoeModel(
        architecture=architecture,
        experts=experts[0],
        top_k=layers.sizes(row["top_k"])[0],
        width=width[0],
        hidden=layers.sizes(row.get("hidden", "hidden_size"))[0],
        quantisation=read_quantisation(config, origin=origin, flag=quantization),
        fusable_shared=_fusable(row, layers, experts[0]),
        gated=bool(row.get("gated", True)),
        second=(experts[1], width[1]) if len(experts) > 1 and len(width) > 1 else None,
    )


def _printable(value: object) -> str:
    """Return a text from a file so that it cannot drive the terminal."""
    return "".join(mark if mark.isprintable() else "?" for mark in str(value)[:80])


_UNKNOWN: Json = {
    "experts": ["num_experts", "n_routed_experts", "num_local_experts"],
    "top_k": ["num_experts_per_tok", "moe_topk"],
    "width": ["moe_intermediate_size"],
}
"""Fields that most MoE models share, for architectures not in the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layers:
    """A config.json in which fields are looked up, `text_config` first."""

    config: Json
    origin: str
    architecture: str
    known: bool

    def find(self, path: str) -> object:
        """Return the value of a dotted field; None if no level has it."""
        for level in (
            self.config.get("text_config"),
            self.config.get("language_config"),
            self.config,
        ):
            value: object = level
            for part in path.split("."):
                value = value.get(part) if isinstance(value, dict) else None
            if value is not None:
                return value
        return None

    def sizes(self, fields: object) -> tuple[int, ...]:
        """Return the distinct values of the first field present: one, or one per expert group."""
        paths = [fields] if isinstance(fields, str) else cast("Sequence[str]", fields)
        found = next((path for path in paths if self.find(path) is not None), None)
        if found is None:
            raise InputError(self._missing(paths))
        value = self.find(found)
        items = value if isinstance(value, list) else [value]
        if not items or not all(_is_size(item) for item in items):
            raise InputError(
                f"{self.origin}: {found} must be a whole number between 1 and {LARGEST_SIZE}"
            )
        return tuple(dict.fromkeys(cast("list[int]", items)))

    def _missing(self, paths: Sequence[str]) -> str:
        wanted = " or ".join(paths)
        if self.known:
            return f"{self.origin}: {self.architecture} needs the field {wanted}"
        return (
            f"{self.origin}: architecture {self.architecture} is unknown and has no field {wanted}; "
            "give --experts, --width and --hidden-size yourself"
        )


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= LARGEST_SIZE


def _fusable(row: Json, layers: _Layers, experts: int) -> int:
    """Return how many shared experts this checkpoint lets the server fuse."""
    rule = cast("Json | None", row.get("fused"))
    if rule is None or layers.find("n_shared_experts") != rule["shared"]:
        return 0
    routed = cast("Sequence[int] | None", rule.get("routed"))
    return cast("int", rule["shared"]) if routed is None or experts in routed else 0


@functools.cache
def _rows() -> Sequence[Json]:
    data = cast("Json", read_data(DATA_FILE))
    return cast("Sequence[Json]", data["architectures"])


def known_architectures() -> tuple[str, ...]:
    """Return the architectures whose fields are known, a trailing * for a prefix."""
    return tuple(name for row in _rows() for name in cast("Sequence[str]", row["names"]))


def _row(architecture: str) -> Json | None:
    for row in _rows():
        for name in cast("Sequence[str]", row["names"]):
            if architecture == name or (name.endswith("*") and architecture.startswith(name[:-1])):
                return row
    return None
