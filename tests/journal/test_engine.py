"""Which SQLite a journal uses, and what is known to be wrong with it."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bandstand.journal import Record
from bandstand.journal.engine import apsw_engine, has_wal_reset_bug, journal_engine, python_engine
from tests.journal.journals import read_pages, write_pages


@pytest.fixture(autouse=True)
def fresh_choice() -> Iterator[None]:
    journal_engine.cache_clear()
    yield
    journal_engine.cache_clear()


@pytest.mark.parametrize(
    ("version", "is_affected"),
    [
        ((3, 6, 23), False),
        ((3, 7, 0), True),
        ((3, 40, 1), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 45, 0), True),
        ((3, 50, 6), True),
        ((3, 50, 7), False),
        ((3, 51, 0), True),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 54, 1), False),
    ],
)
def test_which_versions_can_lose_a_transaction(version: tuple[int, ...], is_affected: bool) -> None:
    assert has_wal_reset_bug(version) == is_affected


def test_the_newer_sqlite_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("apsw")
    newer = max((python_engine(), apsw_engine()), key=lambda engine: engine.version if engine else ())
    assert newer is not None
    assert journal_engine().package == newer.package
    journal_engine.cache_clear()
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (99, 0, 0))
    assert journal_engine().describe == "SQLite 99.0.0 of Python"


def test_without_apsw_it_is_that_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apsw", None)
    assert apsw_engine() is None
    assert journal_engine().describe == f"SQLite {sqlite3.sqlite_version} of Python"


def test_each_sqlite_continues_the_journals_of_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("apsw")
    written: list[list[Record]] = []
    for number, engine in enumerate([python_engine(), apsw_engine()] * 2):
        monkeypatch.setattr("bandstand.journal.storage.journal_engine", lambda engine=engine: engine)
        written.append([Record(1, f"{number}".encode() * 5000)])
        write_pages(tmp_path / "journal", written[-1:])
        assert [list(page.records) for page in read_pages(tmp_path / "journal")] == written
