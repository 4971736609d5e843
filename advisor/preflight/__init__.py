"""Judge a launch command before the server starts: no log, no GPU."""

from __future__ import annotations
