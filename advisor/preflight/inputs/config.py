"""SGLang's own YAML configuration (`--config FILE`): keys are flags without dashes in front.

Semantics of `ConfigArgumentMerger` (server_args_config_parser.py, 0.5.3 to 0.5.23): the file's
arguments come first, so the command line wins; `true` gives a bare flag, `false` nothing, a list
several values. A key is passed on as written, so `tp_size` becomes `--tp_size`, which no release
knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import yaml

from advisor.errors import InputError
from advisor.facts.launch import ServerStart
from advisor.preflight.inputs.command import ServerCommand
from advisor.preflight.inputs.documents import at, fields, line_of, one_mapping, sequence, word
from advisor.rules.nodes import scalar
from advisor.sources.shell import Word

_OPTION = "--config"


def of_config(text: str, source: str) -> ServerCommand:
    """Return the arguments of a configuration file.

    Raises:
        InputError: If it is no YAML mapping.
    """
    words = tuple(config_words(one_mapping(text, source), source))
    return ServerCommand(name=source, source=source, start=ServerStart(arguments=words))


def config_words(node: yaml.MappingNode, source: str) -> Iterator[Word]:
    """Yield the words that a configuration file puts on the command line."""
    for key, value in fields(node).items():
        flag = Word(text=f"--{key}", source=source, line=_key_line(node, key))
        if isinstance(value, yaml.SequenceNode):
            if value.value:
                yield flag
                yield from (word(item, source) for item in sequence(value))
        elif scalar(value) is True:
            yield flag
        elif isinstance(value, yaml.MappingNode):
            yield flag
            yield Word(text="{}", source=source, line=line_of(value), resolved=False)
        elif scalar(value) is not False:
            yield flag
            shown = word(value, source)
            yield replace(shown, text="None") if scalar(value) is None else shown


def with_config_file(command: ServerCommand, folder: Path) -> tuple[ServerCommand, str | None]:
    """Put the arguments of the file behind `--config` in front, as SGLang does.

    Returns:
        The command, and why the file was not read (None if it was, or if there is none).
    """
    texts = [item.text for item in command.words]
    if _OPTION not in texts or texts.index(_OPTION) + 1 >= len(texts):
        return command, None
    place = texts.index(_OPTION)
    path = folder / texts[place + 1]
    try:
        text = path.read_text(encoding="utf-8")
        node = one_mapping(text, str(path))
    except (OSError, UnicodeDecodeError, InputError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return command, f"{texts[place + 1]} is not readable here ({reason})"
    rest = (*command.words[:place], *command.words[place + 2 :])
    words = (*config_words(node, str(path)), *rest)
    return replace(command, start=replace(command.start, arguments=words)), None


def looks_like_config(node: yaml.MappingNode) -> bool:
    """Say whether a mapping may be a server's configuration: it names a model or a port."""
    keys = {key.replace("_", "-") for key in fields(node)}
    return not keys.isdisjoint(
        {"model-path", "model", "tp-size", "tp", "tensor-parallel-size"}
    ) or (at(node, "port") is not None and at(node, "host") is not None)


def _key_line(node: yaml.MappingNode, key: str) -> int:
    lines = [item.start_mark.line for item, _ in node.value if item.value == key]
    return int(lines[-1]) + 1 if lines else 1
