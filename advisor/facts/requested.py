"""What a launch command asked for, under the argument names of the release that ran."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from advisor.facts.launch import Option, read_options, typed
from advisor.facts.literals import Value
from advisor.knowledge.flags import expand, flag_history, flag_name
from advisor.knowledge.ranges import Membership, VersionRange
from advisor.knowledge.releases import known_versions
from advisor.sources.redaction import HIDDEN, Redactor
from advisor.sources.shell import Word

SECRET_FIELDS = frozenset({"api_key", "admin_api_key", "ssl_keyfile_password"})
_PARSED_FURTHER = frozenset({"lora_paths", "forward_hooks"})
"""Arguments that SGLang turns into objects, so that the dump never equals the words."""


def requested_arguments(words: Sequence[Word], release: VersionRange | None) -> Mapping[str, Value]:
    """Return the arguments of a command by field name, as the release of a log names them.

    Args:
        words: What follows the server's name.
        release: The release that ran; of a range the newest known one speaks, None takes every
            flag that any known release has.
    """
    version = _speaker(release)
    launch = read_options(tuple(_renamed(words, version)), version)
    guessed = (option for option in launch.options if option.facts is None)
    return {**launch.fields(), **{_field(option): _guess(option) for option in guessed}}


def redacted_arguments(arguments: Mapping[str, Value], redactor: Redactor) -> Mapping[str, Value]:
    """Return arguments without secrets: those of known fields, and what looks like one."""
    return {name: _clean(redactor, name, value) for name, value in arguments.items()}


def differences(
    requested: Mapping[str, Value], effective: Mapping[str, Value]
) -> Iterator[tuple[str, Value, Value]]:
    """Yield (name, asked, effective) where both are known and of one kind, but not equal."""
    for name, asked in requested.items():
        if name not in effective or name in SECRET_FIELDS or name in _PARSED_FURTHER:
            continue
        runs = effective[name]
        if runs != asked and _comparable(asked, runs):
            yield name, asked, runs


def _comparable(asked: Value, runs: Value) -> bool:
    """Say whether two values are of one kind: `32k` and 32768, or JSON and a dict, are not."""
    if asked is None or runs is None:
        return True
    if isinstance(asked, bool) or isinstance(runs, bool):
        return isinstance(asked, bool) and isinstance(runs, bool)
    numbers = (int, float)
    if isinstance(asked, numbers) and isinstance(runs, numbers):
        return True
    return type(asked) is type(runs)


def _speaker(release: VersionRange | None) -> str | None:
    if release is None:
        return None
    if release.first is not None and release.first == release.last:
        return str(release.first)
    inside = [item for item in known_versions() if release.contains(item) is Membership.IN]
    return str(inside[-1]) if inside else None


def _renamed(words: Sequence[Word], version: str | None) -> Iterator[Word]:
    """Yield the words with flags of other releases under the name that this one has."""
    for word in words:
        written, equals, value = word.text.partition("=")
        is_old = (
            version is not None
            and written.startswith("--")
            and len(expand(written, version)) != 1
            and flag_history(written) is not None
        )
        name = flag_name(written, version) if is_old else None
        if name is None or "(" in name:
            yield word
        elif equals or " " not in name:
            yield replace(word, text=f"{name}{equals}{value}")
        else:
            yield from (replace(word, text=part) for part in name.split())


def _field(option: Option) -> str:
    return option.written.lstrip("-").replace("-", "_")


def _guess(option: Option) -> Value:
    values = tuple(typed(text) for text in option.values)
    return True if not values else values[0] if len(values) == 1 else values


def _clean(redactor: Redactor, name: str, value: Value) -> Value:
    if not redactor.enabled:
        return value
    if name in SECRET_FIELDS and value is not None:
        return HIDDEN
    if isinstance(value, str):
        return redactor.clean(value)
    if isinstance(value, tuple):
        return tuple(_clean(redactor, name, item) for item in value)
    return value
