"""Launch commands out of the files that hold them."""

from __future__ import annotations
