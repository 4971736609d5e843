"""Bytes in, records out: files, compression, container wrappers and SGLang's line grammar."""

from __future__ import annotations
