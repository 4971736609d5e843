"""A progress bar on stderr while kernels compile; nothing unless it is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from advisor.configs.pool import OnDone


@contextmanager
def compiling(*, quiet: bool = False) -> Iterator[OnDone | None]:
    """Show how many kernels are compiled, of how many.

    The bar draws only when told of progress: a refreshing thread would be alive when the compiling
    processes fork.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("compiling", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=Console(stderr=True), auto_refresh=False, transient=True
    ) as progress:
        task = progress.add_task("compiling", total=None)

        def on_done(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total, refresh=True)

        yield on_done
