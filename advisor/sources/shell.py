"""Split shell text into commands and words, each word with its line: enough for launch scripts.

Quotes, escapes, continuations, comments, operators, assignments, arrays and plain parameters
(`$TP`, `${TP:-8}`, `"${ARGS[@]}"`) are understood. What only running the script would tell (command
substitution, an unset variable) is kept as written and marked unresolved. Nothing is executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import regex

_OPERATORS = regex.compile(r"&&|\|\||;;|[;&|\n()]|\d*>>?&?\d*|<<<?-?|\d*<")
_ENDS = frozenset({"&&", "||", ";;", ";", "&", "|", "\n", "(", ")"})
_ASSIGNED = regex.compile(r"(?P<name>[A-Za-z_]\w*)(?P<add>\+?)=(?P<value>.*)", regex.DOTALL)
_PARAMETER = regex.compile(
    r"\$(?:(?P<name>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)(?P<array>\[[@*]\])?"
    r"(?::?[-=](?P<default>[^{}]*))?\}|\((?P<manifest>[A-Za-z_]\w*)\))"
)
_DYNAMIC = regex.compile(r"\$[({\w@*#?!]|`")
_BUILTINS = frozenset({"export", "local", "declare", "readonly", "typeset"})
_LONGEST_TEXT = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A word and where it stands; an unresolved one holds what only the shell would know."""

    text: str
    source: str
    line: int
    resolved: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellCommand:
    """One simple command with the variables that are set when it runs."""

    words: tuple[Word, ...]
    variables: tuple[tuple[str, Word], ...] = ()


@dataclass(slots=True)
class _Token:
    """A word being read; `parts` are (text, quoted, literal)."""

    line: int
    parts: list[tuple[str, bool, bool]] = field(default_factory=list)
    operator: str = ""

    @property
    def raw(self) -> str:
        return "".join(text for text, _, _ in self.parts)


def split_shell(
    text: str, *, source: str, line: int = 1, variables: Mapping[str, str] | None = None
) -> tuple[ShellCommand, ...]:
    """Return the simple commands of a script in order.

    Args:
        text: The script; at most one MiB of it is read.
        source: Name of the file that the words are from.
        line: Number of the first line of the text in that file.
        variables: Environment variables that are set around the script.
    """
    values: dict[str, tuple[Word, ...]] = {
        name: (Word(text=value, source=source, line=line),)
        for name, value in (variables or {}).items()
    }
    reader = _Commands(source=source, values=values)
    for token in _tokens(text[:_LONGEST_TEXT], line):
        reader.take(token)
    reader.end()
    return tuple(reader.commands)


@dataclass(slots=True)
class _Commands:
    source: str
    values: dict[str, tuple[Word, ...]]
    commands: list[ShellCommand] = field(default_factory=list)
    _words: list[Word] = field(default_factory=list)
    _own: dict[str, Word] = field(default_factory=dict)
    _exported: dict[str, Word] = field(default_factory=dict)
    _array: str = ""
    _skip: bool = False

    def take(self, token: _Token) -> None:
        if self._array:
            self._take_item(token)
        elif token.operator:
            self._skip = token.operator not in _ENDS
            if not self._skip:
                self.end(array_opens=token.operator == "(")
        elif self._skip:
            self._skip = False
        elif not self._take_assignment(token):
            self._words.extend(self._expanded(token))

    def end(self, *, array_opens: bool = False) -> None:
        if array_opens and not self._words and self._own:
            name = list(self._own)[-1]
            if self._own[name].text == "":
                self._own.pop(name)
                self._array = name
                return
        if self._words:
            own = {**self._exported, **self._own}
            self.commands.append(
                ShellCommand(words=tuple(self._words), variables=tuple(own.items()))
            )
        else:
            self._exported.update(self._own)
        self._words, self._own = [], {}

    def _take_item(self, token: _Token) -> None:
        if token.operator == ")":
            self._array = ""
        elif not token.operator:
            held = self.values.get(self._array, ())
            self.values[self._array] = (*held, *self._expanded(token))

    def _take_assignment(self, token: _Token) -> bool:
        """Note `NAME=value` before a command, or behind `export`."""
        if self._words and self._words[0].text not in _BUILTINS:
            return False
        match = _ASSIGNED.fullmatch(token.raw)
        if match is None or token.parts[0][1]:
            return False
        value = self._one(token, match.start("value"))
        words = _split_value(value)
        held = self.values.get(match["name"], ()) if match["add"] else ()
        self.values[match["name"]] = (*held, *words) if match["value"] else held
        if self._words:
            self._exported[match["name"]] = value
        else:
            self._own[match["name"]] = value
        return True

    def _one(self, token: _Token, start: int) -> Word:
        """Join a token from a position on into one word, parameters filled in."""
        text, resolved, position = "", True, 0
        for part, _, literal in token.parts:
            shown = part[max(0, start - position) :]
            position += len(part)
            filled, known = (shown, True) if literal else self._filled(shown)
            text, resolved = text + filled, resolved and known
        return Word(text=text, source=self.source, line=token.line, resolved=resolved)

    def _filled(self, text: str) -> tuple[str, bool]:
        known = True

        def value(match: regex.Match[str]) -> str:
            nonlocal known
            name = match["name"] or match["braced"] or match["manifest"]
            if name in self.values:
                words = self.values[name]
                known = known and all(word.resolved for word in words)
                return " ".join(word.text for word in words)
            if match["default"] is not None:
                return str(match["default"])
            known = False
            return str(match[0])

        filled = _PARAMETER.sub(value, text)
        rest = _PARAMETER.sub("", text)
        return filled, known and _DYNAMIC.search(rest) is None

    def _expanded(self, token: _Token) -> list[Word]:
        """Return the words of a token: an unquoted parameter or an array may give several."""
        if len(token.parts) == 1:
            text, quoted, literal = token.parts[0]
            match = None if literal else _PARAMETER.fullmatch(text)
            if match is not None and (match["array"] or not quoted):
                name = match["name"] or match["braced"] or match["manifest"]
                if name in self.values:
                    return list(self.values[name])
                if match["default"] is not None:
                    return _split_value(self._one(token, 0))
        return [self._one(token, 0)]


def _split_value(word: Word) -> list[Word]:
    return [replace(word, text=text) for text in word.text.split()]


def _tokens(text: str, line: int) -> list[_Token]:
    tokens: list[_Token] = []
    current: _Token | None = None
    position = 0
    while position < len(text):
        char = text[position]
        if char == "\\" and text[position + 1 : position + 2] == "\n":
            position, line = position + 2, line + 1
            current = None
        elif char == "#" and current is None:
            end = text.find("\n", position)
            position = len(text) if end < 0 else end
        elif char in " \t\r":
            current, position = None, position + 1
        elif (operator := _OPERATORS.match(text, position)) and not (
            current is not None and operator[0][0].isdigit()
        ):
            tokens.append(_Token(line=line, operator=operator[0]))
            line += operator[0].count("\n")
            current, position = None, operator.end()
        else:
            if current is None:
                current = _Token(line=line)
                tokens.append(current)
            part, end = _part(text, position)
            current.parts.append(part)
            line += text.count("\n", position, end)
            position = end
    return tokens


def _part(text: str, position: int) -> tuple[tuple[str, bool, bool], int]:
    """Read one quoted or plain piece of a word; returns (text, quoted, literal) and its end."""
    char = text[position]
    if char == "'":
        end = text.find("'", position + 1)
        end = len(text) if end < 0 else end
        return (text[position + 1 : end], True, True), end + 1
    if char == '"':
        return _double_quoted(text, position + 1)
    if char == "\\":
        return (text[position + 1 : position + 2], False, True), position + 2
    if char == "$" and text[position + 1 : position + 2] in {"(", "{"}:
        end = _closed(text, position + 1)
        return (text[position:end], False, False), end
    end = position + 1
    while end < len(text) and text[end] not in " \t\r\n'\"\\;&|()<>$":
        end += 1
    return (text[position:end], False, False), end


def _double_quoted(text: str, position: int) -> tuple[tuple[str, bool, bool], int]:
    pieces: list[str] = []
    while position < len(text) and text[position] != '"':
        if text[position] == "\\" and text[position + 1 : position + 2] in {'"', "\\", "$", "\n"}:
            escaped = text[position + 1]
            pieces.append("" if escaped == "\n" else escaped)
            position += 2
        else:
            pieces.append(text[position])
            position += 1
    return ("".join(pieces), True, False), position + 1


def _closed(text: str, position: int) -> int:
    """Return the end of a bracket that opens at a position."""
    opening = text[position]
    closing = {"(": ")", "{": "}"}[opening]
    depth = 0
    for place in range(position, len(text)):
        depth += (text[place] == opening) - (text[place] == closing)
        if depth == 0:
            return place + 1
    return len(text)
