"""Where the shipped data lies: rules and templates beside the package, facts inside it."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import yaml

from advisor import shelf
from advisor.errors import AdvisorError

_KEPT = 2


def bundled(name: str) -> Traversable:
    """Return a bundled folder, from the wheel or from the checkout.

    A wheel holds the folders as `advisor/_<name>`; in a checkout they lie beside the package,
    so that an edited rule takes effect at once.

    Raises:
        AdvisorError: If neither place holds the folder: the install is broken.
    """
    installed = files("advisor").joinpath(f"_{name}")
    checkout = Path(__file__).resolve().parent.parent / name
    for home in (installed, checkout):
        if home.is_dir():
            return home
    raise AdvisorError(f"{name}/ is missing from this install of advisor: reinstall the package")


def read_data(name: str) -> object:
    """Return the parsed YAML of `advisor/data/<name>`, from the shelf where its text is known."""
    content = files("advisor").joinpath("data", name).read_bytes()
    key = hashlib.sha256(content).hexdigest()
    kept = shelf.load(name, key)
    if kept is not None:
        return kept
    parsed = parse_yaml(content.decode("utf-8"))
    shelf.store(name, key, parsed, kept=_KEPT)
    return parsed


def parse_yaml(text: str) -> object:
    """Parse YAML with the C loader where libyaml is there, else with the Python one."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(text, Loader=loader)  # noqa: S506, TID251  (a safe loader, chosen above)
