"""Every measurement on disk as soon as it is known: a SQLite file that survives `kill -9`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from advisor.errors import ConfigError, InputError
from advisor.tuner.work import Outcome, Work, outcome_from_json, outcome_to_json

FORMAT = "advisor-tune-1"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS identity (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS results (
    work TEXT PRIMARY KEY, outcome TEXT NOT NULL, lane TEXT NOT NULL,
    at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);
"""


class Journal:
    """The measurements of one problem on one kind of GPU with one tool chain."""

    def __init__(self, path: Path) -> None:
        """Open or make the file.

        Raises:
            InputError: If it cannot be opened or is no journal.
        """
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, isolation_level=None, timeout=30)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.executescript(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise InputError(f"{path} cannot be used as a journal: {error}") from error

    def __enter__(self) -> Self:
        """Return the open journal."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the file."""
        self._database.close()

    def identify(self, identity: Mapping[str, str]) -> None:
        """Bind a new journal to what is measured, or check that an old one is bound to it.

        Raises:
            ConfigError: If the journal belongs to something else.
        """
        wanted = {"format": FORMAT, **identity}
        known = self.identity()
        if not known:
            self._database.executemany(
                "INSERT OR IGNORE INTO identity VALUES (?, ?)", wanted.items()
            )
            known = self.identity()
        for name, value in wanted.items():
            if known.get(name) != value:
                raise ConfigError(
                    f"{self._path} was measured with {name} {known.get(name)!r}, not {value!r}: "
                    "results do not mix; choose another --journal or remove this one"
                )

    def identity(self) -> dict[str, str]:
        """Return what the journal is bound to; empty for a new one."""
        return dict(self._database.execute("SELECT name, value FROM identity").fetchall())

    def record(self, work: Work, outcome: Outcome, lane: str) -> None:
        """Keep an outcome; the first one of a piece of work stands.

        Raises:
            InputError: If the file cannot be written, as on a full disk.
        """
        try:
            self._database.execute(
                "INSERT OR IGNORE INTO results (work, outcome, lane) VALUES (?, ?, ?)",
                (work.key, outcome_to_json(outcome), lane),
            )
        except sqlite3.Error as error:
            raise InputError(
                f"{self._path} cannot be written ({error}); mend that and run the same command "
                "again: it continues"
            ) from error

    def find(self, work: Work) -> Outcome | None:
        """Return the outcome of a piece of work; None if it was never finished."""
        row = self._database.execute(
            "SELECT outcome FROM results WHERE work = ?", (work.key,)
        ).fetchone()
        return None if row is None else outcome_from_json(row[0])

    def results(self) -> Iterator[tuple[str, Outcome]]:
        """Give every key and outcome in the order in which they came."""
        for key, text in self._database.execute("SELECT work, outcome FROM results ORDER BY rowid"):
            yield key, outcome_from_json(text)

    def __len__(self) -> int:
        """Return the number of outcomes."""
        return int(self._database.execute("SELECT count(*) FROM results").fetchone()[0])
