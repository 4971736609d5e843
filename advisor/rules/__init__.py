"""Facts in, findings out: rules are YAML data, the engine that applies them is pure."""

from __future__ import annotations
