"""Read a launch command as SGLang's own argparse would, without running it.

argparse accepts an unambiguous beginning of a flag (`--tp` for `--tp-size`), `--flag value` and
`--flag=value`, and lets the last of two equal flags win; so does this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import regex

from advisor.errors import InputError
from advisor.facts.literals import Value
from advisor.knowledge.flag_kinds import Takes
from advisor.knowledge.flags import FlagFacts, all_flags, expand, flag_facts, flag_history
from advisor.knowledge.releases import known_versions
from advisor.sources.shell import Word, split_shell

_MODULES = ("sglang.launch_server", "sglang.srt.entrypoints.http_server")
_SCRIPT = "launch_server.py"
_MODEL_TYPE = "--model-type"
_MODEL_FLAGS = frozenset({"--model-path", "--model"})
_NEGATIVE = regex.compile(r"-\d+$|-\d*\.\d+$")
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ash"})
_DEEPEST = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of the command line.

    Attributes:
        written: The flag as typed, without a value.
        flags: What argparse takes it for: one flag, several for an ambiguous beginning, none for
            an unknown one.
        values: The words behind it that argparse gives to it.
        joined: Written as `--flag=value`.
        resolved: Its values are known; False for shell parameters and templates.
        facts: The flag as the release knows it; None unless `flags` is one flag.
    """

    written: str
    flags: tuple[str, ...]
    values: tuple[str, ...]
    word: Word
    joined: bool = False
    resolved: bool = True
    facts: FlagFacts | None = None

    @property
    def flag(self) -> str:
        """Return the full name where there is just one, else what was typed."""
        return self.flags[0] if len(self.flags) == 1 else self.written

    @property
    def text(self) -> str:
        """Return the option as one would type it."""
        if self.joined:
            return f"{self.written}={self.values[0]}"
        return " ".join((self.written, *self.values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The options of a server command, and the words that belong to none of them."""

    options: tuple[Option, ...]
    stray: tuple[Word, ...] = ()

    def last(self, flag: str) -> Option | None:
        """Return the option that counts for a flag: the last one."""
        found = [option for option in self.options if option.flag == flag]
        return found[-1] if found else None

    def fields(self) -> dict[str, Value]:
        """Return the arguments by ServerArgs field; unresolved ones are left out."""
        held: dict[str, Value] = {}
        for option in self.options:
            facts = option.facts
            if facts is None or facts.field is None:
                continue
            held.pop(facts.field, None)
            if option.resolved:
                held[facts.field] = _value(facts, option.values)
        return held

    def unresolved_fields(self) -> frozenset[str]:
        """Return the fields that are given, but with a value that only the shell knows."""
        given = {o.facts.field for o in self.options if o.facts is not None and o.facts.field}
        return frozenset(given) - frozenset(self.fields())


def parse_launch(command: str) -> Mapping[str, Value]:
    """Return the arguments of a launch command or script by field name, whatever the release.

    Raises:
        InputError: If there is no option in it.
    """
    commands = split_shell(command, source="launch command")
    starts = [start for one in commands if (start := server_start(one.words)) is not None]
    words = starts[0].arguments if starts else tuple(word for one in commands for word in one.words)
    launch = read_options(words, None)
    if not launch.options:
        raise InputError(f"launch command: no --option in {command[:60]!r}")
    return {
        **launch.fields(),
        **{
            option.written[2:].replace("-", "_"): _guessed(option.values)
            for option in launch.options
            if option.facts is None
        },
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStart:
    """How a command starts a server.

    Attributes:
        arguments: What the server's own parser gets.
        complete: The whole command was seen, so that what is not in it is not given.
        serve: The word `serve` of `sglang serve`; None for the module.
        positional: The model stands behind it without a flag (0.5.16 and later).
        model_type: The value of `--model-type`, which `sglang serve` takes for itself.
        names_model: The words themselves, not a file behind `--config`, name the model.
    """

    arguments: tuple[Word, ...]
    complete: bool = False
    serve: Word | None = None
    positional: bool = False
    model_type: Word | None = None
    names_model: bool = False


def server_start(words: Sequence[Word], depth: int = 0) -> ServerStart | None:
    """Return how a command starts an SGLang server; None where it starts none.

    `sh -c "..."` is looked into.
    """
    texts = [word.text for word in words]
    for number, text in enumerate(texts):
        name = text.rpartition("/")[2]
        if text in _MODULES or text.endswith(_SCRIPT):
            return ServerStart(arguments=tuple(words[number + 1 :]), complete=True)
        if name == "sglang" and texts[number + 1 : number + 2] == ["serve"]:
            return _served(words[number + 1], words[number + 2 :])
        if name in _SHELLS and depth < _DEEPEST:
            inner = _in_shell(words[number + 1 :], depth)
            if inner is not None:
                return inner
    return None


def _served(serve: Word, words: Sequence[Word]) -> ServerStart:
    """Turn the positional model into its flag and take out `--model-type`, as `sglang serve` does.

    Source: sglang/cli/serve.py of 0.5.10 to 0.5.23.
    """
    rest: list[Word] = []
    model_type: Word | None = None
    is_type = False
    for word in words:
        flag, equals, value = word.text.partition("=")
        if is_type:
            model_type, is_type = word, False
        elif flag == _MODEL_TYPE:
            model_type, is_type = replace(word, text=value), not equals
        else:
            rest.append(word)
    positional = bool(rest) and not rest[0].text.startswith("-")
    if positional:
        rest.insert(0, Word(text="--model-path", source=rest[0].source, line=rest[0].line))
    return ServerStart(
        arguments=tuple(rest),
        complete=True,
        serve=serve,
        positional=positional,
        model_type=model_type,
        names_model=any(word.text.partition("=")[0] in _MODEL_FLAGS for word in rest),
    )


def _in_shell(words: Sequence[Word], depth: int) -> ServerStart | None:
    for number, word in enumerate(words):
        if regex.fullmatch(r"-[a-z]*c[a-z]*", word.text) and number + 1 < len(words):
            script = words[number + 1]
            for command in split_shell(script.text, source=script.source, line=script.line):
                found = server_start(command.words, depth + 1)
                if found is not None:
                    return found
    return None


def read_options(words: Sequence[Word], version: str | None) -> Launch:
    """Give each word to an option, as the parser of a release does.

    Args:
        words: What follows the server's name.
        version: The release; None takes every flag that any known release has.
    """
    options: list[Option] = []
    stray: list[Word] = []
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if not _is_flag(word.text):
            stray.append(word)
            continue
        written, equals, value = word.text.partition("=")
        flags = _meanings(written, version)
        facts = _facts(flags[0], version) if len(flags) == 1 else None
        taken = [] if equals else _taken(words[position:], facts)
        position += len(taken)
        options.append(
            Option(
                written=written,
                flags=flags,
                values=(value,) if equals else tuple(item.text for item in taken),
                word=word,
                joined=bool(equals),
                resolved=word.resolved and all(item.resolved for item in taken),
                facts=facts,
            )
        )
    return Launch(options=tuple(options), stray=tuple(stray))


def _is_flag(text: str) -> bool:
    return text.startswith("-") and text != "-" and _NEGATIVE.match(text) is None


def _meanings(written: str, version: str | None) -> tuple[str, ...]:
    if version is not None:
        return expand(written, version)
    if flag_history(written) is not None:
        return (written,)
    for release in reversed(known_versions()):
        if len(meant := expand(written, str(release))) == 1:
            return meant
    return tuple(flag for flag in all_flags() if flag.startswith(written)) if written else ()


def _facts(flag: str, version: str | None) -> FlagFacts | None:
    if version is not None:
        return flag_facts(flag, version)
    releases = (str(release) for release in reversed(known_versions()))
    return next((facts for one in releases if (facts := flag_facts(flag, one))), None)


def _taken(words: Sequence[Word], facts: FlagFacts | None) -> list[Word]:
    """Return the words that belong to a flag; an unknown flag takes all up to the next one."""
    takes = Takes.MANY if facts is None else facts.takes
    if takes is Takes.NOTHING:
        return []
    taken: list[Word] = []
    for word in words:
        if _is_flag(word.text) or (taken and takes is not Takes.MANY):
            break
        taken.append(word)
    return taken


def _value(facts: FlagFacts, values: Sequence[str]) -> Value:
    if facts.takes is Takes.NOTHING or not values:
        return cast("Value", facts.sets)
    convert = _CONVERTERS.get(facts.type, typed)
    if facts.takes is Takes.MANY:
        return tuple(_converted(convert, text) for text in values)
    return _converted(convert, values[0])


def _guessed(values: Sequence[str]) -> Value:
    if not values:
        return True
    return typed(values[0]) if len(values) == 1 else tuple(typed(text) for text in values)


def _converted(convert: Callable[[str], Value], text: str) -> Value:
    try:
        return convert(text)
    except ValueError:
        return text


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


_CONVERTERS: Mapping[str, Callable[[str], Value]] = {"int": int, "float": float, "str": str}
