"""Cut a stream into blocks of whole lines, in bounded memory whatever the lines' length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from advisor.sources.wrappers import Envelope, decoder, detect_envelope

BLOCK_BYTES = 1 << 18
LONGEST_LINE_BYTES = 1 << 20
_SAMPLED_LINES = 50


def read_blocks(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield blocks of whole lines, each ended by a newline; overlong lines lose their tail."""
    held = b""
    dropping = False
    while chunk := stream.read(BLOCK_BYTES):
        if dropping:
            cut = chunk.find(b"\n")
            if cut < 0:
                continue
            chunk, dropping = chunk[cut + 1 :], False
        cut = chunk.rfind(b"\n") + 1
        if cut:
            yield b"".join((held, memoryview(chunk)[:cut]))
            held = chunk[cut:]
        else:
            held += chunk
        if len(held) > LONGEST_LINE_BYTES:
            yield held[:LONGEST_LINE_BYTES] + b"\n"
            held, dropping = b"", True
    if held:
        yield held + b"\n"


def decode_blocks(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Take a whole-file envelope (docker JSON, CRI) off; line numbers stay as they are."""
    first = next(blocks, b"")
    sample = first[: 1 << 18].decode("utf-8", "replace").splitlines()[:_SAMPLED_LINES]
    envelope = detect_envelope(sample)
    if envelope is Envelope.NONE:
        yield first
        yield from blocks
        return
    lines = (line for block in _chain(first, blocks) for line in _lines(block))
    held: list[str] = []
    size = 0
    for text in decoder(envelope)(lines):
        held.append(text)
        size += len(text) + 1
        if size >= BLOCK_BYTES:
            yield _block(held)
            held, size = [], 0
    if held:
        yield _block(held)


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _lines(block: bytes) -> list[str]:
    return block.decode("utf-8", "replace").removesuffix("\n").split("\n")


def _block(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")
