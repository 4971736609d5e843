"""YAML nodes with their lines, as words of a command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import yaml

from advisor.errors import InputError
from advisor.rules.nodes import Problems, compose, pairs
from advisor.sources.shell import Word

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MOST_DOCUMENTS = 1000


def mappings(text: str, source: str) -> tuple[yaml.MappingNode, ...]:
    """Return the documents of a YAML or JSON file that are mappings.

    Raises:
        InputError: If it is no YAML; a Helm template is named as such.
    """
    try:
        nodes = [node for node, _ in zip(_documents(text), range(_MOST_DOCUMENTS), strict=False)]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{source}:{mark.line + 1}" if mark is not None else source
        hint = "; render it first (helm template, kustomize build)" if "{{" in text else ""
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise InputError(f"{place}: not YAML: {reason}{hint}") from None
    return tuple(node for node in nodes if isinstance(node, yaml.MappingNode))


def one_mapping(text: str, source: str) -> yaml.MappingNode:
    """Return the only document of a file.

    Raises:
        InputError: If it is no YAML or no mapping.
    """
    problems = Problems(file=source)
    node = compose(text, problems)
    if node is None:
        raise InputError("; ".join(problems.lines))
    return node


def _documents(text: str) -> Iterator[yaml.Node]:
    yield from yaml.compose_all(text, Loader=_LOADER)


def fields(node: yaml.Node | None) -> Mapping[str, yaml.Node]:
    """Return the values of a mapping by key; nothing for another node."""
    if not isinstance(node, yaml.MappingNode):
        return {}
    return pairs(node, Problems(file=""))


def at(node: yaml.Node | None, *path: str) -> yaml.Node | None:
    """Return the node at a path of keys; None where it ends before."""
    for key in path:
        node = fields(node).get(key)
    return node


def sequence(node: yaml.Node | None) -> tuple[yaml.Node, ...]:
    """Return the items of a list; nothing for another node."""
    return tuple(node.value) if isinstance(node, yaml.SequenceNode) else ()


def line_of(node: yaml.Node) -> int:
    """Return the line on which a scalar's text begins; block scalars begin below their mark."""
    block = isinstance(node, yaml.ScalarNode) and node.style in {"|", ">"}
    return int(node.start_mark.line) + 1 + int(block)


def word(node: yaml.Node, source: str) -> Word:
    """Return a scalar as one word; anything else gives an unresolved one."""
    if not isinstance(node, yaml.ScalarNode):
        return Word(text="", source=source, line=line_of(node), resolved=False)
    return Word(text=str(node.value), source=source, line=line_of(node))


def script(node: yaml.ScalarNode, text: str) -> str:
    """Return the shell text of a scalar with its lines where the file has them.

    A folded block joins its lines with spaces, so here they are continued.
    """
    if node.style not in {"|", ">"}:
        return str(node.value)
    lines = text.split("\n")[node.start_mark.line + 1 : node.end_mark.line]
    joiner = "\n" if node.style == "|" else " \\\n"
    return joiner.join(line.strip() if node.style == ">" else line for line in lines)
