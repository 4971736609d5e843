"""What a command line flag takes and what using it does."""

from __future__ import annotations

from enum import StrEnum


class Takes(StrEnum):
    """What a flag expects behind it on the command line."""

    NOTHING = "nothing"
    ONE = "one"
    OPTIONAL = "optional"
    MANY = "many"


class Status(StrEnum):
    """What happens when a flag is used."""

    ACTIVE = "active"
    DEPRECATED = "deprecated"
    IGNORED = "ignored"
    REFUSED = "refused"
