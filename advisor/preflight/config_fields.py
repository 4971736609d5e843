"""Fields of a Hugging Face configuration, wherever they stand in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Json = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Finder:
    """Looks fields up, the language model's level first."""

    config: Json

    def value(self, *fields: str) -> object:
        """Return the first of the fields that a level has, the language model's level first."""
        levels = (self.config.get("text_config"), self.config.get("language_config"), self.config)
        for field in fields:
            for level in levels:
                if isinstance(level, Mapping) and level.get(field) is not None:
                    return level[field]
        return None

    def size(self, *fields: str) -> int | None:
        """Return the first field that holds a positive whole number."""
        for field in fields:
            value = self.value(field)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
        return None

    def section(self, field: str) -> Json:
        """Return a nested object; empty if there is none."""
        value = self.value(field)
        return value if isinstance(value, Mapping) else {}
