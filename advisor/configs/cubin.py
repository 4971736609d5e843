"""Registers and local memory of a compiled kernel, read from its cubin (an ELF file)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_MAGIC = b"\x7fELF\x02\x01"
_SECTION_FORMAT = "<IIQQQQIIQQ"
_FRAME_SIZE = 0x11
_REGISTER_COUNT = 0x2F
_SIZED_VALUE = 0x04
_SYMBOL_AND_VALUE = struct.Struct("<II")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelUsage:
    """What one thread of a kernel holds.

    Attributes:
        local_bytes: Stack of a thread, which is where spilled registers go.
    """

    registers: int
    local_bytes: int


def kernel_usage(cubin: bytes) -> KernelUsage | None:
    """Return the usage of the one kernel in a cubin; None if it is not a cubin that says."""
    if not cubin.startswith(_MAGIC):
        return None
    try:
        info = _section(cubin, ".nv.info")
        values = dict(_attributes(info)) if info else {}
    except (struct.error, IndexError, ValueError):
        return None
    if _REGISTER_COUNT not in values:
        return None
    return KernelUsage(registers=values[_REGISTER_COUNT], local_bytes=values.get(_FRAME_SIZE, 0))


def _section(elf: bytes, wanted: str) -> bytes | None:
    table_offset = struct.unpack_from("<Q", elf, 0x28)[0]
    size, count, names_index = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [
        struct.unpack_from(_SECTION_FORMAT, elf, table_offset + size * index)
        for index in range(count)
    ]
    names = headers[names_index][4]
    for header in headers:
        start = names + header[0]
        if elf[start : elf.index(b"\0", start)].decode("ascii", "replace") == wanted:
            return elf[header[4] : header[4] + header[5]]
    return None


def _attributes(info: bytes) -> Iterator[tuple[int, int]]:
    """Yield the attributes `(symbol, value)` of `.nv.info`, largest value per kind last."""
    found: dict[int, int] = {}
    position = 0
    while position + 4 <= len(info):
        layout, kind, size = struct.unpack_from("<BBH", info, position)
        position += 4
        if layout != _SIZED_VALUE:
            continue
        if size == _SYMBOL_AND_VALUE.size:
            value = _SYMBOL_AND_VALUE.unpack_from(info, position)[1]
            found[kind] = max(found.get(kind, 0), value)
        position += size
    yield from found.items()
