"""Records in, facts out: what is true of a run, typed, each value with its evidence."""

from __future__ import annotations
