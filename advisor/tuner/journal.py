"""Every measurement on disk as soon as it is known: a SQLite file that survives `kill -9`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
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
            self._refuse_another()
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
            self._write("INSERT OR IGNORE INTO identity VALUES (?, ?)", wanted.items())
            known = self.identity()
        for name, value in wanted.items():
            if known.get(name) != value:
                raise ConfigError(
                    f"{self._path} was measured with {name} {known.get(name)!r}, not {value!r}: "
                    "results do not mix; choose another --journal or remove this one"
                )

    def identity(self) -> dict[str, str]:
        """Return what the journal is bound to; empty for a new one."""
        rows = self._read("SELECT name, value FROM identity")
        return {str(name): str(value) for name, value in rows}

    def record(self, work: Work, outcome: Outcome, lane: str) -> None:
        """Keep an outcome; the first one of a piece of work stands.

        Raises:
            InputError: If the file cannot be written, as on a full disk.
        """
        self._write(
            "INSERT OR IGNORE INTO results (work, outcome, lane) VALUES (?, ?, ?)",
            [(work.key, outcome_to_json(outcome), lane)],
        )

    def find(self, work: Work) -> Outcome | None:
        """Return the outcome of a piece of work; None if it was never finished."""
        row = next(self._read("SELECT outcome FROM results WHERE work = ?", work.key), None)
        return None if row is None else self._outcome(str(row[0]))

    def results(self) -> Iterator[tuple[str, Outcome]]:
        """Give every key and outcome in the order in which they came."""
        for key, text in self._read("SELECT work, outcome FROM results ORDER BY rowid"):
            yield str(key), self._outcome(str(text))

    def __len__(self) -> int:
        """Return the number of outcomes."""
        return int(self._database.execute("SELECT count(*) FROM results").fetchone()[0])

    def _refuse_another(self) -> None:
        """Leave a database of something else as it is.

        Raises:
            InputError: If the file is one.
        """
        tables = {str(row[0]) for row in self._read("SELECT name FROM sqlite_master")}
        if tables and not {"identity", "results"} <= tables:
            self._database.close()
            raise InputError(f"{self._path} is a database, but no journal of `advisor tune`")

    def _read(self, question: str, *values: str) -> Iterator[tuple[object, ...]]:
        try:
            yield from self._database.execute(question, values)
        except sqlite3.Error as error:
            raise InputError(f"{self._path} cannot be used as a journal: {error}") from error

    def _write(self, command: str, rows: Iterable[tuple[str, ...]]) -> None:
        try:
            self._database.executemany(command, rows)
        except sqlite3.Error as error:
            raise InputError(
                f"{self._path} cannot be written ({error}); mend that and run the same command "
                "again: it continues"
            ) from error

    def _outcome(self, text: str) -> Outcome:
        try:
            return outcome_from_json(text)
        except InputError as error:
            raise InputError(f"{self._path}: {error}; remove this journal") from error
