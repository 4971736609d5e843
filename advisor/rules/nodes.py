"""Read YAML strictly and with positions: no lost keys, no surprising types, all mistakes at once.

PyYAML's own loading keeps the last of two equal keys in silence and reads `on` as true; here
nodes are composed and each scalar is taken as what the schema expects.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import regex
import yaml

from advisor.facts.literals import Value

_INTEGER = regex.compile(r"[-+]?\d+")
_FLOAT = regex.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+(?:\.\d*)?[eE][-+]?\d+)")
_WORDS: Mapping[str, Value] = {"true": True, "false": False, "null": None, "~": None, "": None}
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class Problems:
    """Collects mistakes of one file, each with its place."""

    file: str
    lines: list[str] = field(default_factory=list)

    def add(self, node: yaml.Node | None, text: str) -> None:
        """Note one mistake."""
        line = 1 if node is None else node.start_mark.line + 1
        self.lines.append(f"{self.file}:{line}: {text}")


def compose(text: str, problems: Problems) -> yaml.MappingNode | None:
    """Parse a document to its top mapping; None after noting what is wrong."""
    try:
        node = yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = 1 if mark is None else mark.line + 1
        reason = getattr(error, "problem", None) or "not YAML"
        problems.lines.append(f"{problems.file}:{line}: {reason}")
        return None
    except (ValueError, RecursionError) as error:
        problems.lines.append(f"{problems.file}:1: {error}")
        return None
    if not isinstance(node, yaml.MappingNode):
        problems.add(node, "expected a mapping of keys")
        return None
    return node


def pairs(node: yaml.Node, problems: Problems) -> dict[str, yaml.Node]:
    """Return a mapping's values by key; notes equal keys and other nodes."""
    if not isinstance(node, yaml.MappingNode):
        problems.add(node, "expected a mapping")
        return {}
    found: dict[str, yaml.Node] = {}
    for key_node, value in node.value:
        key = key_node.value if isinstance(key_node, yaml.ScalarNode) else ""
        if key in found:
            problems.add(key_node, f"key {key!r} stands here twice")
        found[str(key)] = value
    return found


def items(node: yaml.Node | None, problems: Problems) -> list[yaml.Node]:
    """Return a sequence's nodes; none for an absent one."""
    if node is None:
        return []
    if not isinstance(node, yaml.SequenceNode):
        problems.add(node, "expected a list")
        return []
    return list(node.value)


def text(node: yaml.Node | None, problems: Problems, default: str = "") -> str:
    """Return a scalar as written, whatever type YAML would give it."""
    if node is None:
        return default
    if not isinstance(node, yaml.ScalarNode):
        problems.add(node, "expected text")
        return default
    return str(node.value)


def texts(node: yaml.Node | None, problems: Problems) -> tuple[str, ...]:
    """Return a list of texts; a single text counts as a list of one."""
    if isinstance(node, yaml.ScalarNode):
        return (str(node.value),)
    return tuple(text(item, problems) for item in items(node, problems))


def boolean(node: yaml.Node | None, problems: Problems, *, default: bool = False) -> bool:
    """Return true or false."""
    if node is None:
        return default
    value = scalar(node)
    if not isinstance(value, bool):
        problems.add(node, "expected true or false")
        return default
    return value


def scalar(node: yaml.Node) -> Value:
    """Return a scalar by the rules of YAML 1.2; a quoted one is always text."""
    if isinstance(node, yaml.SequenceNode):
        return tuple(scalar(item) for item in node.value)
    if not isinstance(node, yaml.ScalarNode):
        return None
    word = str(node.value)
    if node.style:
        return word
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    if _INTEGER.fullmatch(word):
        return int(word)
    return float(word) if _FLOAT.fullmatch(word) else word


def places(node: yaml.Node, path: str = "") -> dict[str, int]:
    """Return the line of every key and list item below a node, by its path (`actions.0.title`)."""
    found: dict[str, int] = {}
    if isinstance(node, yaml.MappingNode):
        steps = [(str(key.value), key, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        steps = [(str(number), item, item) for number, item in enumerate(node.value)]
    else:
        return found
    for name, place, value in steps:
        below = f"{path}.{name}" if path else name
        found[below] = place.start_mark.line + 1
        found.update(places(value, below))
    return found


def check_keys(found: Mapping[str, yaml.Node], known: Iterable[str], problems: Problems) -> None:
    """Note keys that are not known, with the nearest that is."""
    allowed = list(known)
    for key, value in found.items():
        if key not in allowed:
            problems.add(value, f"unknown key {key!r}{near(key, allowed)}")


def near(word: str, known: Iterable[str]) -> str:
    """Return ` (did you mean …?)` for a near miss, else nothing.

    >>> near("severty", ["severity", "topic"])
    " (did you mean 'severity'?)"
    """
    match = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" (did you mean {match[0]!r}?)" if match else ""
