"""Reports in, text out: renderers are pure and do not know each other."""

from __future__ import annotations
