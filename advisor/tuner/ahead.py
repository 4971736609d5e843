"""Imported where benches are forked from: torch takes seconds, and touches no GPU until asked."""

from __future__ import annotations

import contextlib
import importlib
import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)
with contextlib.suppress(Exception):  # the bench that needs it says what is broken
    importlib.import_module("torch")
