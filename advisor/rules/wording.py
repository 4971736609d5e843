"""Fill a rule's texts with facts: sandboxed Jinja over plain values, never over log text.

Log text only ever enters as a value; it is not evaluated. A fact that is not known reads
`unknown`, so that no text ever shows an invented number.
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from advisor.errors import RuleError
from advisor.facts.sheet import catalogue
from advisor.knowledge.ranges import VersionRange
from advisor.rules.nodes import near

if TYPE_CHECKING:
    import jinja2

UNKNOWN = "unknown"
RESERVED = frozenset({"signals", "flag", "count", "ranks", "args", "requested_args"})


def groups() -> frozenset[str]:
    """Return the first words of all fact paths, as templates name them."""
    return frozenset(path.split(".")[0] for path in catalogue()) | RESERVED


def render(template: str, context: Mapping[str, object]) -> str:
    """Fill one text.

    Raises:
        RuleError: If the text is no template, names what does not exist, or calculates with what
            is not there.
    """
    import jinja2

    if "{" not in template:
        return template
    try:
        return _environment().from_string(template).render(context).strip()
    except (jinja2.TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise RuleError([f"a text cannot be filled: {error}"]) from error


def template_problems(template: str, known: frozenset[str]) -> list[str]:
    """List what is wrong with a text before it is ever filled: syntax and unknown names."""
    import jinja2
    from jinja2 import meta

    if "{" not in template:
        return []
    environment = _environment()
    try:
        tree = environment.parse(template)
    except jinja2.TemplateSyntaxError as error:
        return [f"bad template: {error.message}"]
    own = {name.name for name in tree.find_all(jinja2.nodes.Name) if name.ctx == "store"}
    undeclared = meta.find_undeclared_variables(tree) - own
    problems = [
        f"unknown name {name!r} in a text{near(name, known)}" for name in sorted(undeclared - known)
    ]
    return problems + _path_problems(tree)


def _path_problems(tree: jinja2.nodes.Template) -> list[str]:
    """List dotted names that begin like a fact's path but are none."""
    from jinja2 import nodes

    problems: list[str] = []
    prefixes = {path.split(".")[0] for path in catalogue() if "." in path}
    for node in tree.find_all(nodes.Getattr):
        if isinstance(node.node, nodes.Name) and node.node.name in prefixes:
            path = f"{node.node.name}.{node.attr}"
            if path not in catalogue():
                problems.append(f"unknown fact {path!r} in a text{near(path, catalogue())}")
    return problems


@functools.cache
def _environment() -> jinja2.Environment:
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined, finalize=_finalize, autoescape=False
    )
    filters: Mapping[str, Callable[..., str]] = {
        "gib": _gib,
        "percent": _percent,
        "thousands": _thousands,
        "duration": duration,
        "joined": _joined,
        "shell": _shell,
    }
    environment.filters.update(filters)
    return environment


def _finalize(value: object) -> object:
    if value is None:
        return UNKNOWN
    if isinstance(value, VersionRange):
        return value.describe()
    if isinstance(value, float):
        return f"{value:.4g}"
    return value


def _gib(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1f} GiB"


def _percent(ratio: float | None) -> str:
    return UNKNOWN if ratio is None else f"{ratio * 100:.0f} %"


def _thousands(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}".replace(",", " ")


def duration(seconds: float | None) -> str:
    """Write a time as people say it.

    >>> duration(5411)
    '90 min'
    """
    minute, hours = 60, 3 * 3600
    if seconds is None:
        return UNKNOWN
    if seconds < 2 * minute:
        return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds:.1f} s"
    return f"{seconds / minute:.0f} min" if seconds < hours else f"{seconds / 3600:.1f} h"


def _joined(values: object) -> str:
    if isinstance(values, (tuple, list)):
        return ", ".join(str(value) for value in values)
    return UNKNOWN if values is None else str(values)


def _shell(value: object) -> str:
    """Quote a word of a command so that a shell takes it as it is."""
    return shlex.quote(UNKNOWN if value is None else str(value))


def plain(value: object) -> object:
    """Give a fact as JSON would hold it."""
    if isinstance(value, VersionRange):
        return value.describe()
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    return value
