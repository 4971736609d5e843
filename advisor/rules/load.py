"""Load rule folders: the bundled ones and a user's own pack, with all mistakes at once."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from importlib.resources.abc import Traversable
from pathlib import Path

from advisor.errors import InputError, RuleError
from advisor.resources import bundled
from advisor.rules.cache import RuleFile, cache_key, load, store
from advisor.rules.model import Rule
from advisor.rules.parse import parse_rule

_SUFFIX = ".yaml"
_FEWEST_CACHED = 20  # fewer files are parsed faster than a person notices


def load_rules(extra: Iterable[Path] = ()) -> tuple[Rule, ...]:
    """Return the bundled rules and those of the user's folders, sorted by id.

    A rule of a user's folder replaces the bundled one of the same id.

    Raises:
        RuleError: If any file is malformed; it lists the mistakes of all files.
        InputError: If a folder does not exist or holds no rule.
    """
    rules = {rule.id: rule for rule in bundled_rules()}
    for folder in extra:
        rules.update({rule.id: rule for rule in read_folder(folder)})
    return tuple(rules[name] for name in sorted(rules))


@functools.cache
def bundled_rules() -> tuple[Rule, ...]:
    """Return the rules that ship with Advisor."""
    return _read(bundled("rules"), "rules")


def read_folder(folder: Path) -> tuple[Rule, ...]:
    """Return the rules below a folder, or of one file.

    Raises:
        RuleError: If any file is malformed.
        InputError: If there is no such folder, or no rule in it.
    """
    rules = _read(folder, str(folder))
    if not rules:
        raise InputError(f"{folder}: no rule files (*.yaml) in this folder")
    return rules


def parse_folders(folders: Iterable[Path]) -> tuple[tuple[Rule, ...], list[str]]:
    """Parse folders or files, the bundled rules if there are none, without the cache.

    Returns:
        The rules of the files that are well formed, with the places of their keys; and every
        mistake of the others.

    Raises:
        InputError: If there is no such folder.
    """
    roots: list[tuple[Traversable, str]] = [(folder, str(folder)) for folder in folders]
    read = [item for root in roots or [(bundled("rules"), "rules")] for item in _texts(*root)]
    return _parsed(
        [item for item in read if isinstance(item, RuleFile)],
        [item for item in read if isinstance(item, str)],
    )


def _read(root: Traversable, name: str) -> tuple[Rule, ...]:
    read = _texts(root, name)
    files = [item for item in read if isinstance(item, RuleFile)]
    problems = [item for item in read if isinstance(item, str)]
    key = cache_key(files) if len(files) >= _FEWEST_CACHED else None
    cached = load(key) if key is not None and not problems else None
    if cached is not None:
        return cached
    rules, problems = _parsed(files, problems)
    if problems:
        raise RuleError(problems)
    if key is not None:
        store(key, rules)
    return rules


def _texts(root: Traversable, name: str) -> list[RuleFile | str]:
    """Read a file, or the files below a folder; one that cannot be read gives the problem."""
    if root.is_file():
        folder = Path(name).resolve().parent.name
        return [_rule_file(root, name, folder)]
    if not root.is_dir():
        raise InputError(f"{name}: no such rule folder")
    return [_rule_file(*found) for found in _rule_files(root, name)]


def _parsed(
    files: Iterable[RuleFile], problems: Iterable[str]
) -> tuple[tuple[Rule, ...], list[str]]:
    """Parse rule files; returns the rules by id, and the problems after those that are known."""
    rules: dict[str, Rule] = {}
    mistakes = list(problems)
    for file in files:
        rule, found = parse_rule(file.text, file=file.place, family=file.family, stem=file.stem)
        mistakes.extend(found)
        if rule is None:
            continue
        if rule.id in rules:
            mistakes.append(f"{file.place}:1: id {rule.id!r} is also in {rules[rule.id].origin}")
        rules[rule.id] = rule
    return tuple(rules[name] for name in sorted(rules)), mistakes


def _rule_files(root: Traversable, name: str) -> Iterator[tuple[Traversable, str, str]]:
    """Yield (file, place in messages, family) of a folder and its sub-folders, sorted."""
    for entry in sorted(root.iterdir(), key=lambda item: item.name):
        place = f"{name}/{entry.name}"
        if entry.is_dir():
            yield from ((path, place, entry.name) for path, place, _ in _rule_files(entry, place))
        elif entry.name.endswith(_SUFFIX):
            yield entry, place, name.rsplit("/", 1)[-1]


def _rule_file(path: Traversable, place: str, family: str) -> RuleFile | str:
    """Return a file's text, or the problem with it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return f"{place}:1: cannot be read: {error}"
    stem = path.name.removesuffix(_SUFFIX)
    return RuleFile(place=place, family=family, stem=stem, text=text)
