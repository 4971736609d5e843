"""Advisor: diagnostics and advice for people who serve language models with SGLang."""

from __future__ import annotations

__version__ = "0.1.0"
