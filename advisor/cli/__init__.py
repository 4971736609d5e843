"""The command line: parses options, prints results, exits; knows everything, decides nothing."""

from __future__ import annotations
