from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from advisor.configs.problem import Gemm
from advisor.errors import ConfigError, InputError
from advisor.tuner.journal import Journal
from advisor.tuner.space import Tile
from advisor.tuner.work import Timed, Trial

TRIAL = Trial(tokens=64, gemm=Gemm.UP, tile=Tile(16, 64, 64, 1, 4, 3))
FIRST, SECOND = Timed(samples_us=(1.0,)), Timed(samples_us=(2.0,))


def test_what_was_recorded_is_there_after_reopening(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.record(TRIAL, FIRST, "gpu0")
    with Journal(tmp_path / "j") as journal:
        assert journal.find(TRIAL) == FIRST
        assert list(journal.results()) == [(TRIAL.key, FIRST)]


def test_the_first_outcome_stands(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.record(TRIAL, FIRST, "gpu0")
        journal.record(TRIAL, SECOND, "gpu1")
        assert journal.find(TRIAL) == FIRST
        assert len(journal) == 1


def test_a_record_is_on_disk_before_the_journal_is_closed(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal, Journal(tmp_path / "j") as other:
        journal.record(TRIAL, FIRST, "gpu0")
        assert other.find(TRIAL) == FIRST


def test_a_journal_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        journal._database.execute("PRAGMA query_only=ON")
        with pytest.raises(InputError, match="run the same command again"):
            journal.record(TRIAL, FIRST, "gpu0")


def test_a_journal_of_something_else_is_refused(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.identify({"triton": "3.6.0"})
        journal.identify({"triton": "3.6.0"})
        with pytest.raises(ConfigError, match=r"3\.6\.0.*3\.7\.1.*--journal"):
            journal.identify({"triton": "3.7.1"})


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to be taken for one" * 40, encoding="utf-8")
    with pytest.raises(InputError, match=r"notes\.txt"):
        Journal(path)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        Journal(tmp_path)


def test_a_database_of_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "users.sqlite"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE users (name TEXT)")
    database.close()
    before = path.read_bytes()
    with pytest.raises(InputError, match="no journal of `advisor tune`"):
        Journal(path)
    assert path.read_bytes() == before


def test_an_outcome_that_is_none_names_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with Journal(path):
        pass
    database = sqlite3.connect(path)
    database.execute("INSERT INTO results (work, outcome, lane) VALUES ('x', 'y', 'z')")
    database.commit()
    database.close()
    with Journal(path) as journal, pytest.raises(InputError, match=f"{path}: not a measurement"):
        list(journal.results())
