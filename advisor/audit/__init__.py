"""Hold what Advisor looks for in logs against the source of an SGLang release."""

from __future__ import annotations
