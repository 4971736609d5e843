"""What is known about GPUs and SGLang releases: typed loaders over `advisor/data/*.yaml`.

Nothing is read when a module here is imported; each table is read at its first use and kept.
"""

from __future__ import annotations
