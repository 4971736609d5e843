"""How far `advisor tune` is: a bar on a terminal, a line every half minute elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

import click

_LINE_EVERY_S = 30.0


@contextlib.contextmanager
def progress() -> Iterator[Callable[[int, int, str], None]]:
    """Show progress on stderr."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("starting", total=None)

        def show(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=what)

        yield show


def _lines() -> Callable[[int, int, str], None]:
    start_s = time.monotonic()
    last_s = [start_s]

    def show(done: int, total: int, what: str) -> None:
        now_s = time.monotonic()
        if now_s - last_s[0] >= _LINE_EVERY_S:
            last_s[0] = now_s
            click.echo(f"advisor: {now_s - start_s:.0f} s: {done} of {total} {what}", err=True)

    return show
