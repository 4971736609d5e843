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
from advisor.rules.wording import groups, template_problems

_SUFFIX = ".yaml"


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
    if folder.is_file():
        read = _rule_file(folder, str(folder), folder.parent.name)
        if isinstance(read, str):
            raise RuleError([read])
        return _parsed([read], [])
    if not folder.is_dir():
        raise InputError(f"{folder}: no such rule folder")
    rules = _read(folder, str(folder))
    if not rules:
        raise InputError(f"{folder}: no rule files (*.yaml) in this folder")
    return rules


def _read(root: Traversable, name: str) -> tuple[Rule, ...]:
    rule_files: list[RuleFile] = []
    problems: list[str] = []
    for path, place, family in _rule_files(root, name):
        read = _rule_file(path, place, family)
        if isinstance(read, RuleFile):
            rule_files.append(read)
        else:
            problems.append(read)
    key = cache_key(rule_files)
    cached = None if problems else load(key)
    if cached is not None:
        return cached
    rules = _parsed(rule_files, problems)
    store(key, rules)
    return rules


def _parsed(rule_files: Iterable[RuleFile], problems: list[str]) -> tuple[Rule, ...]:
    """Parse rule files; raises what is wrong with any, after the problems that are known."""
    rules: dict[str, Rule] = {}
    for file in rule_files:
        rule, found = parse_rule(file.text, file=file.place, family=file.family, stem=file.stem)
        problems.extend(found)
        if rule is None:
            continue
        if rule.id in rules:
            problems.append(f"{file.place}:1: id {rule.id!r} is also in {rules[rule.id].origin}")
        rules[rule.id] = rule
    if problems:
        raise RuleError(problems)
    return tuple(rules[name] for name in sorted(rules))


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


def check_rules(rules: Iterable[Rule], known_ids: Iterable[str]) -> list[str]:
    """List what parsing alone cannot see: names in texts, suppressed ids, missing examples."""
    ids = frozenset(known_ids)
    return [problem for rule in rules for problem in _check(rule, ids)]


def _check(rule: Rule, ids: frozenset[str]) -> Iterator[str]:
    captures = {name for signal in rule.signals for name in _captures(signal.pattern.expression)}
    known = groups() | captures | frozenset(rule.values)
    for wording in (rule.wording, *(case.wording for case in rule.cases)):
        texts = [wording.title, wording.summary, wording.why]
        for action in wording.actions:
            texts += [action.title, action.command, action.expect, action.risk, action.verify]
        for text in texts:
            yield from (f"{rule.origin}:1: {p}" for p in template_problems(text, known))
    for other in rule.suppresses:
        if other not in ids:
            yield f"{rule.origin}:1: suppresses the unknown rule {other!r}"
    expectations = {example.expect for example in rule.examples}
    for needed in ("fires", "quiet"):
        if needed not in expectations:
            yield f"{rule.origin}:1: needs at least one example that expects {needed!r}"


def _captures(expression: str) -> tuple[str, ...]:
    from advisor.facts.patterns import compiled

    return tuple(compiled(expression).groupindex)
