"""Name rules by what they have in common: `topic:moe_config`, `family:memory`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from advisor.errors import ConfigError
from advisor.rules.model import Rule
from advisor.rules.nodes import near

_TOPIC, _FAMILY = "topic:", "family:"


def expanded(words: Iterable[str], rules: Sequence[Rule]) -> tuple[str, ...]:
    """Put the ids of its rules in the place of each topic and family; other words stay.

    Raises:
        ConfigError: If no rule has such a topic or family; the nearest is told.
    """
    found: dict[str, None] = {}
    for word in words:
        found.update(dict.fromkeys(_ids(word, rules)))
    return tuple(found)


def _ids(word: str, rules: Sequence[Rule]) -> list[str]:
    prefix = next((prefix for prefix in (_TOPIC, _FAMILY) if word.startswith(prefix)), None)
    if prefix is None:
        return [word]
    name = word.removeprefix(prefix)
    groups = {rule.id: rule.topic if prefix == _TOPIC else rule.family for rule in rules}
    ids = [rule for rule, group in groups.items() if group == name]
    if not ids:
        known = sorted(set(groups.values()))
        raise ConfigError(f"{word}: no rule has this {prefix[:-1]}{near(name, known)}")
    return ids
