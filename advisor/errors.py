"""What can go wrong, with the exit code of each.

AdvisorError          2   a user's mistake or an input that cannot be used
├── InputError        2   a file, folder, stream or server answer that cannot be read
├── RuleError         2   rule files with mistakes; lists all of them
├── ConfigError       2   a bad `.advisor.yaml`, baseline or option value
└── MissingExtraError 2   a command needs an optional package

Anything else that escapes is a bug in Advisor (exit code 3).
"""

from __future__ import annotations

from collections.abc import Sequence

EXIT_CLEAN = 0
EXIT_FINDINGS = 1
EXIT_USAGE = 2
EXIT_BUG = 3
EXIT_INTERRUPTED = 130


class AdvisorError(Exception):
    """A mistake that the user can mend; the text says what, where and what to do."""

    exit_code = EXIT_USAGE


class InputError(AdvisorError):
    """An input cannot be read or holds nothing that Advisor understands."""


class ConfigError(AdvisorError):
    """A configuration file or option value is wrong."""


class RuleError(AdvisorError):
    """One or more rule files are malformed.

    Attributes:
        problems: One line a mistake, each `file:line: text`.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class MissingExtraError(AdvisorError):
    """An optional package is not installed; the text is the pip line that brings it."""

    def __init__(self, command: str, extra: str) -> None:
        super().__init__(
            f"`{command}` needs the extra [{extra}]: pip install 'sglang-advisor[{extra}]'"
        )
