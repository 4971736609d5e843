"""Which records sound like a warning or an error, known or not.

SGLang's own format carries no level (`[time rank] message`), so words decide there. A level word,
where a format has one, decides alone; so does Python's `file.py:12: UserWarning: text`.
"""

from __future__ import annotations

import regex

from advisor.sources.records import Record

_PHRASES = (
    *("warning", "error", "fail", "disabl", "deprecat", "slow", "unable", "exceed", "ignor"),
    *("fallback", "fall back", "falling back", "falls back", "sub-optimal", "suboptimal"),
    *("not support", "unsupported", "incompatible", "not compatible", "unavailable"),
    *("not available", "timeout", "timed out", "cannot", "can't", "could not", "couldn't"),
    *("skipping", "out of memory", "invalid", "mismatch", "missing", "not found", "corrupt"),
    *("leak", "abort", "crash"),
)
_CAPITALS = ("WARNING", "ERROR", "CRITICAL", "FAIL", "DEPRECATED")
_ALARMING_LEVELS = frozenset({"WARNING", "ERROR", "CRITICAL"})
_PYTHON_WARNING = regex.compile(r"^\S+\.py:\d+: \w*Warning: ")

ALARM_LITERALS = (*_PHRASES, *(phrase.capitalize() for phrase in _PHRASES), *_CAPITALS)
"""What the scanner looks for. The lines of a serving server and its access log hold none of them."""


def sounds_alarming(record: Record) -> bool:
    """Whether a record that holds an alarm literal is a warning or an error.

    Without a level it must carry SGLang's own prefix: unprefixed text is no message of its own,
    but the inner line of one, or the output of other software.
    """
    if record.level is not None:
        return record.level in _ALARMING_LEVELS
    return record.time is not None or _PYTHON_WARNING.match(record.message) is not None
