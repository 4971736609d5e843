"""Read a launch command, or a file that holds one, into argument fields."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from advisor.errors import InputError
from advisor.facts.literals import Value

_MODULES = ("sglang.launch_server", "sglang.srt.entrypoints.http_server")
_ALIASES = {
    "model": "model_path",
    "tp": "tp_size",
    "tensor_parallel_size": "tp_size",
    "dp": "dp_size",
    "data_parallel_size": "dp_size",
    "pp": "pp_size",
    "pipeline_parallel_size": "pp_size",
    "ep": "ep_size",
    "expert_parallel_size": "ep_size",
}


def parse_launch(command: str) -> Mapping[str, Value]:
    """Return the arguments of a launch command by field name; a bare flag is true.

    Raises:
        InputError: If the quotes do not close, or no option is in it.
    """
    try:
        words = shlex.split(command.replace("\\\n", " "), comments=True)
    except ValueError as error:
        raise InputError(f"launch command: {error}: {command[:60]!r}") from None
    options = _options(words)
    if not options:
        raise InputError(f"launch command: no --option in {command[:60]!r}")
    return options


def _options(words: Sequence[str]) -> dict[str, Value]:
    options: dict[str, Value] = {}
    name: str | None = None
    for word in words:
        if word.startswith("--"):
            key, equals, value = word[2:].partition("=")
            name = _field(key)
            options[name] = typed(value) if equals else True
            name = None if equals else name
        elif name is not None:
            options[name] = _extended(options[name], typed(word))
    return options


def _extended(held: Value, value: Value) -> Value:
    """Give an option its value; an option with several values holds them all."""
    if held is True:
        return value
    return (*held, value) if isinstance(held, tuple) else (held, value)


def _field(flag: str) -> str:
    name = flag.replace("-", "_")
    return _ALIASES.get(name, name)


def typed(text: str) -> Value:
    """Give a word of a command the type that the argument dump would show."""
    words: Mapping[str, Value] = {"None": None, "True": True, "False": False}
    if text in words:
        return words[text]
    if text.lstrip("-").isdigit():
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text
