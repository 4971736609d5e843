"""Run one command with a file as its stdin; bound its time and its output."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from advisor.errors import InputError

MAX_OUTPUT_BYTES = 4 << 20
MAX_ERROR_BYTES = 64 << 10
_CHUNK_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command printed; `code` is its exit status, negative for a signal."""

    code: int
    output: str
    errors: str

    @property
    def complaint(self) -> str:
        """Return the last line of stderr that says something, without control characters."""
        lines = [line.strip() for line in self.errors.splitlines() if line.strip()]
        text = lines[-1] if lines else f"exit status {self.code}, nothing on stderr"
        return "".join(c if c.isprintable() else " " for c in text)[:300]


def exchange(command: list[str], script: Path, limit_s: float) -> Answer:
    """Run a command with a script as its stdin.

    Raises:
        InputError: If the program is missing, takes too long or prints too much.
    """
    deadline = time.monotonic() + limit_s
    try:
        with script.open("rb") as source:
            process = subprocess.Popen(  # noqa: S603  (an argument list; names were checked)
                command,
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
    except FileNotFoundError:
        raise InputError(f"{command[0]} is not on PATH: install it or use another way") from None
    except OSError as error:
        raise InputError(f"{command[0]} does not start: {error.strerror}") from None
    with process:
        try:
            output, errors = _collect(process, deadline, command[0])
            return Answer(
                code=process.wait(timeout=max(0.1, deadline - time.monotonic())),
                output=output.decode("utf-8", "replace"),
                errors=errors.decode("utf-8", "replace"),
            )
        except subprocess.TimeoutExpired:
            raise InputError(f"{command[0]}: no answer within {limit_s:.0f} s") from None
        finally:
            _stop(process)


def _collect(process: subprocess.Popen[bytes], deadline: float, name: str) -> tuple[bytes, bytes]:
    """Read both streams until they end; what stderr holds beyond its bound is dropped."""
    assert process.stdout is not None  # noqa: S101  (they are pipes)
    assert process.stderr is not None  # noqa: S101
    kept = {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as selector:
        for stream in kept:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            left_s = deadline - time.monotonic()
            ready = selector.select(left_s) if left_s > 0 else []
            if not ready:
                raise subprocess.TimeoutExpired(name, 0)
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK_BYTES)
                stream = process.stdout if key.fileobj is process.stdout else process.stderr
                if not chunk:
                    selector.unregister(stream)
                elif stream is process.stdout or len(kept[stream]) < MAX_ERROR_BYTES:
                    kept[stream] += chunk
            if len(kept[process.stdout]) > MAX_OUTPUT_BYTES:
                raise InputError(f"{name} printed more than {MAX_OUTPUT_BYTES >> 20} MiB")
    return bytes(kept[process.stdout]), bytes(kept[process.stderr])


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the command and its children."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
