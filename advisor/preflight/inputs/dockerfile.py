"""Server commands in Dockerfiles: CMD, ENTRYPOINT and RUN, in exec and shell form."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import regex

from advisor.facts.launch import server_start
from advisor.preflight.inputs.command import ServerCommand, of_script
from advisor.sources.shell import Word

_HEAD = regex.compile(r"\s*(?P<name>[A-Za-z]+)\s+(?P<rest>.*)", regex.DOTALL)
_COMMENT = regex.compile(r"\s*#")
_PAIR = regex.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>\"[^\"]*\"|'[^']*'|\S*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction with its continuation lines; comments inside it are blank lines."""

    name: str
    text: str
    line: int


def of_dockerfile(text: str, source: str) -> tuple[ServerCommand, ...]:
    """Return the servers that an image starts: ENTRYPOINT with CMD, else what RUN starts."""
    variables: dict[str, str] = {}
    lines: dict[str, int] = {}
    image: Word | None = None
    entry: Instruction | None = None
    command: Instruction | None = None
    found: list[ServerCommand] = []
    for item in instructions(text):
        match item.name:
            case "FROM":
                image, entry, command = _image(item, source, variables), None, None
            case "ENV" | "ARG":
                variables.update(_variables(item.text))
                lines |= dict.fromkeys(_variables(item.text), item.line)
            case "ENTRYPOINT":
                entry, command = item, None
            case "CMD":
                command = item
            case "RUN":
                found.extend(of_script(item.text, source=source, line=item.line))
            case _:
                pass
    started = list(_started(entry, command, source, variables))
    own = tuple(
        (name, Word(text=value, source=source, line=lines[name]))
        for name, value in variables.items()
    )
    return tuple(
        replace(one, image=image, variables=(*own, *one.variables), name=source)
        for one in started or found
    )


def instructions(text: str) -> Iterator[Instruction]:
    """Yield the instructions; line numbers survive continuations and comments."""
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        start = number
        held: list[str] = []
        while number < len(lines):
            line = lines[number]
            number += 1
            comment = _COMMENT.match(line) is not None
            held.append("\\" if comment and held else line)
            if comment and len(held) == 1:
                held = []
                start = number
                continue
            if not (comment or line.rstrip().endswith("\\") or not line.strip()):
                break
        match = _HEAD.match("\n".join(held))
        if match is not None:
            yield Instruction(name=match["name"].upper(), text=match["rest"], line=start + 1)


def _started(
    entry: Instruction | None,
    command: Instruction | None,
    source: str,
    variables: dict[str, str],
) -> Iterator[ServerCommand]:
    parts = [item for item in (entry, command) if item is not None]
    words = [word for item in parts for word in _exec_words(item, source) or ()]
    start = server_start(words)
    if start is not None:
        # Whoever runs the image may add arguments, or put others in the place of CMD.
        start = replace(start, complete=False)
        yield ServerCommand(name=source, source=source, start=start)
        return
    for item in parts:
        yield from of_script(item.text, source=source, line=item.line, variables=variables)


def _exec_words(item: Instruction, source: str) -> Sequence[Word] | None:
    """Return the words of the exec form, each with its line; None for the shell form."""
    body = item.text.replace("\\\n", "\n")
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        return None
    words: list[Word] = []
    position = 0
    for value in values:
        quoted = json.dumps(value, ensure_ascii=False)
        position = max(body.find(quoted, position), position)
        line = item.line + body.count("\n", 0, position)
        words.append(Word(text=value, source=source, line=line))
        position += len(quoted) if body.startswith(quoted, position) else 0
    return words


def _image(item: Instruction, source: str, variables: dict[str, str]) -> Word:
    words = [word for word in item.text.split() if not word.startswith("--")]
    name = words[0] if words else ""
    for variable, value in variables.items():
        name = name.replace(f"${{{variable}}}", value).replace(f"${variable}", value)
    return Word(text=name, source=source, line=item.line, resolved="$" not in name)


def _variables(text: str) -> dict[str, str]:
    pairs = {match["name"]: match["value"].strip("\"'") for match in _PAIR.finditer(text)}
    if not pairs and " " in text.strip():
        name, _, value = text.strip().partition(" ")
        return {name: value.strip()}
    return pairs
