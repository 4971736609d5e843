"""Text of unknown origin put into GitHub-flavoured Markdown so that it stays text.

Nothing of it may become HTML, an image, a heading, a link with other words than its address, a
mention of a user or a reference to an issue, and nothing may end the fence that holds it.
"""

from __future__ import annotations

import regex

from advisor.report.prose import one_line, paragraphs

_SPECIAL = regex.compile(r"[\\`*\[\]~$|]|(?<![^\W_])_|_(?![^\W_])")
_BLOCK_START = regex.compile(r"(?:[-+]|#{1,6}|=+|-+)(?:\s|$)")
_NUMBERED = regex.compile(r"\A(\d{1,9})([.)](?:\s|$))")
_REFERENCE = regex.compile(r"(?P<mark>[@#!%])(?=\w)|(?<=\b[Gg][Hh])(?P<mark>-)(?=\d)")
_SAFE_URL = regex.compile(r"https?://[^\s<>\"'`\\|]+")
_LIMIT_S = 2.0


def inline(text: str) -> str:
    r"""Escape a text for a paragraph, a heading, a list item or a table cell: one line of it.

    >>> inline("a_b *c* <i> [x](y) @me")
    'a_b \\*c\\* &lt;i&gt; \\[x\\](y) @<!-- -->me'
    """
    text = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = _SPECIAL.sub(lambda match: f"\\{match[0]}", text, timeout=_LIMIT_S)
    if _BLOCK_START.match(text, timeout=_LIMIT_S):
        text = f"\\{text}"
    text = _NUMBERED.sub(r"\1\\\2", text, timeout=_LIMIT_S)
    return _REFERENCE.sub(r"\g<mark><!-- -->", text, timeout=_LIMIT_S)


def prose(text: str) -> str:
    r"""Escape a text of several paragraphs; its list items stay list items.

    >>> prose("Two:\n- <a>\n- b")
    'Two:\n\n- &lt;a&gt;\n- b'
    """
    result, before = "", ""
    for item in paragraphs(text):
        gap = "" if not result else "\n" if item.bullet and before else "\n\n"
        result += gap + ("- " if item.bullet else "") + inline(item.text)
        before = item.bullet
    return result


def fence(text: str, language: str = "text") -> str:
    """Put a text into a fence that is longer than any run of backticks in it."""
    longest = max((len(run) for run in regex.findall(r"`+", text, timeout=_LIMIT_S)), default=0)
    marks = "`" * max(3, longest + 1)
    return f"{marks}{language}\n{text.rstrip()}\n{marks}"


def link(url: str) -> str:
    """Return a web address as a link, and anything else as text."""
    return f"<{url}>" if is_web_address(url) else inline(url)


def is_web_address(url: str) -> bool:
    """Whether a reference may become a link."""
    return _SAFE_URL.fullmatch(url, timeout=_LIMIT_S) is not None
