"""A rule's templates for readers: what depends on the facts is marked, not filled.

`{name}` is a value; square brackets hold what is said only sometimes, its forms parted by ` / `.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import regex

_TOKENS = regex.compile(r"(\{%-?.*?-?%\}|\{\{-?.*?-?\}\})", regex.DOTALL)
_WORD = regex.compile(r"\{%-?\s*(\w+)")
_CALL = regex.compile(r"flag\('([^']+)'\)|flag\(\"([^\"]+)\"\)")
_CHOICE = regex.compile(r"^'(?P<one>[^']*)' if .*?(?: else '(?P<other>[^']*)')?$")
_QUOTED = regex.compile(r"'([^']*)'|\"([^\"]*)\"")
_FILTER = regex.compile(r"\s*\|\s*\w+(?:\([^)]*\))?")
_NAME = regex.compile(r"[A-Za-z_][\w.]*")
_KEYWORDS = frozenset({"if", "else", "not", "and", "in", "is", "none", "true", "false"})
_OPENING = frozenset({"if", "for"})
_BETWEEN = frozenset({"elif", "else"})
_CLOSING = frozenset({"endif", "endfor"})


@dataclass(slots=True)
class _Choice:
    """A conditional part while it is read: the texts of its branches so far."""

    branches: list[str] = field(default_factory=lambda: [""])

    def shown(self) -> str:
        texts = [" ".join(text.split()) for text in self.branches]
        kept = list(dict.fromkeys(text for text in texts if text))
        if not kept:
            return ""
        before = " " if self.branches[0][:1].isspace() else ""
        return f"{before}[{' / '.join(kept)}]"


def readable(template: str) -> str:
    """Show a template to a reader, white space folded.

    >>> readable("E={{ experts }} on {{ gpu.name or 'a GPU' }}")
    'E={experts} on {gpu.name}'
    >>> readable("It {% if count %}came {{ count }} times{% else %}never came{% endif %}.")
    'It [came {count} times / never came].'
    """
    open_choices = [_Choice()]
    for token in _TOKENS.split(template):
        if token.startswith("{{"):
            open_choices[-1].branches[-1] += _placeholder(token.strip("{}-").strip())
        elif token.startswith("{%"):
            _apply(token, open_choices)
        else:
            open_choices[-1].branches[-1] += token
    return " ".join(open_choices[0].branches[0].split())


def _apply(tag: str, open_choices: list[_Choice]) -> None:
    """Open, part or close a conditional part; other tags say nothing to a reader."""
    match = _WORD.match(tag)
    word = match[1] if match else ""
    if word in _OPENING:
        open_choices.append(_Choice())
    elif word in _BETWEEN and len(open_choices) > 1:
        open_choices[-1].branches.append("")
    elif word in _CLOSING and len(open_choices) > 1:
        closed = open_choices.pop()
        open_choices[-1].branches[-1] += closed.shown()


def _placeholder(expression: str) -> str:
    if call := _CALL.search(expression):
        return str(call[1] or call[2])
    if choice := _CHOICE.match(expression):
        forms = [text for text in choice.groups() if text]
        return f"[{' / '.join(forms)}]" if forms else ""
    first = expression.split(" or ", maxsplit=1)[0].strip()
    if quoted := _QUOTED.fullmatch(first):
        return str(quoted[1] or quoted[2] or "")
    return f"{{{_name_in(first)}}}"


def _name_in(expression: str) -> str:
    """Return the first name of an expression: what its value rests on."""
    names = _NAME.findall(_QUOTED.sub("", _FILTER.sub("", expression)))
    return next((name for name in names if name not in _KEYWORDS), "a value")
