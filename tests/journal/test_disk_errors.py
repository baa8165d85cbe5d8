"""Errors of the disk below SQLite: what the journal answers, what it does not try again, and what is there afterwards."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("apsw")

from bandstand.errors import JournalFailedError, JournalFullError
from bandstand.journal import Journal, Record
from bandstand.journal.page import encode_records
from bandstand.journal.storage import Storage
from tests.journal.faulty_disk import (
    EIO_ON_SYNC,
    EIO_ON_WRITE,
    NO_SPACE,
    FaultyDisk,
    Operation,
    faulty_disk,
)
from tests.journal.journals import read_pages, with_journal

LARGE = Record(1, bytes(30_000))


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    with faulty_disk() as disk:
        yield disk


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def line(text: str) -> Record:
    return Record(1, text.encode())


def texts(directory: Path) -> list[bytes]:
    return [record.data for page in read_pages(directory) for record in page.records]


@pytest.mark.guarantee("G454")
class TestFailedDisk:
    @pytest.mark.parametrize("number", [1, 2, 5, 16])
    @pytest.mark.parametrize("kept", [0, 10, 4000])
    def test_an_error_of_a_write_ends_the_journal(
        self, disk: FaultyDisk, directory: Path, number: int, kept: int
    ) -> None:
        async def write(journal: Journal) -> None:
            await journal.append(line("before"))

            def fault(operation: Operation) -> int | None:
                found = (operation.name, operation.file, operation.number)
                return EIO_ON_WRITE if found == ("write", "log", number) else None

            disk.set(fault, kept)
            with pytest.raises(JournalFailedError, match=r"cannot write page 2 .*disk I/O error"):
                await journal.append(LARGE)
            assert disk.done == ["write log"] * number
            with pytest.raises(JournalFailedError, match="has failed before"):
                await journal.append(line("after"))
            assert disk.done == ["write log"] * number, "nothing is tried again"

        with_journal(directory, write)
        assert texts(directory) == [b"before"]
        assert with_journal(directory, lambda journal: journal.append(line("next"))) == 2
        assert texts(directory) == [b"before", b"next"]

    def test_an_error_of_a_sync_ends_the_journal(self, disk: FaultyDisk, directory: Path) -> None:
        failures: list[JournalFailedError] = []

        async def write(journal: Journal) -> None:
            await journal.append(line("before"))
            disk.set(lambda operation: EIO_ON_SYNC if operation.name == "sync" else None)
            with pytest.raises(JournalFailedError, match=r"cannot write page 2 .*disk I/O error"):
                await journal.append(line("uncertain"))
            assert disk.done.count("sync log") == 1
            with pytest.raises(JournalFailedError, match="has failed before"):
                await journal.append(line("after"))
            assert disk.done.count("sync log") == 1, "a second sync would report success"
            disk.mend()

        with_journal(directory, write, on_failure=failures.append)
        assert len(failures) == 1
        assert texts(directory) in ([b"before"], [b"before", b"uncertain"])
        with_journal(directory, lambda journal: journal.append(line("next")))
        assert texts(directory)[-1] == b"next"
        assert b"after" not in texts(directory)

    @pytest.mark.parametrize("name", ["write", "sync"])
    def test_an_error_of_a_checkpoint_loses_no_page(
        self, disk: FaultyDisk, directory: Path, name: str
    ) -> None:
        storage = Storage(directory)
        for number in range(1, 6):
            assert storage.commit(0, 1, encode_records([LARGE])) == number

        def fault(operation: Operation) -> int | None:
            is_due = (operation.name, operation.file) == (name, "database")
            return (EIO_ON_WRITE if name == "write" else EIO_ON_SYNC) if is_due else None

        disk.set(fault)
        with pytest.raises(JournalFailedError, match=r"cannot checkpoint .*disk I/O error"):
            storage.checkpoint()
        assert disk.refused == 1
        disk.mend()
        storage.close()
        storage = Storage(directory)
        assert storage.last == 5
        storage.close()

    @pytest.mark.parametrize("name", ["write", "sync"])
    @pytest.mark.parametrize("file", ["database", "log"])
    def test_a_journal_that_cannot_be_opened_says_why(
        self, disk: FaultyDisk, directory: Path, name: str, file: str
    ) -> None:
        def fault(operation: Operation) -> int | None:
            is_due = (operation.name, operation.file) == (name, file)
            return (EIO_ON_WRITE if name == "write" else EIO_ON_SYNC) if is_due else None

        disk.set(fault)
        with pytest.raises(JournalFailedError, match=r"cannot open the journal .*disk I/O error"):
            Storage(directory)
        disk.mend()
        storage = Storage(directory)
        assert storage.commit(0, 0, b"") == 1
        storage.close()


@pytest.mark.guarantee("G454")
class TestFullDisk:
    @pytest.mark.parametrize("number", [1, 2, 5, 16])
    @pytest.mark.parametrize("kept", [0, 10, 4000])
    def test_a_write_without_room_is_refused_and_a_later_one_is_not(
        self, disk: FaultyDisk, directory: Path, number: int, kept: int
    ) -> None:
        """Also when a part of the write was made."""

        async def write(journal: Journal) -> None:
            await journal.append(line("before"))

            def fault(operation: Operation) -> int | None:
                is_due = operation.name == "write" and operation.file == "log" and operation.number >= number
                return NO_SPACE if is_due else None

            disk.set(fault, kept)
            for _ in range(3):
                with pytest.raises(JournalFullError, match=r"cannot write page 2 .*full"):
                    await journal.append(LARGE)
                disk.set(fault, kept)
            assert journal.stats().is_full
            disk.mend()
            assert await journal.append(line("room")) == 2
            assert await journal.append(LARGE) == 3
            assert not journal.stats().is_full

        with_journal(directory, write)
        assert texts(directory) == [b"before", b"room", LARGE.data]

    @pytest.mark.parametrize("number", [1, 3])
    def test_a_checkpoint_without_room_leaves_the_pages_in_the_log(
        self, disk: FaultyDisk, directory: Path, number: int
    ) -> None:
        storage = Storage(directory)
        for page in range(1, 6):
            assert storage.commit(0, 1, encode_records([LARGE])) == page

        def fault(operation: Operation) -> int | None:
            is_due = operation.name == "write" and operation.file == "database" and operation.number >= number
            return NO_SPACE if is_due else None

        disk.set(fault)
        with pytest.raises(JournalFullError, match="cannot checkpoint"):
            storage.checkpoint()
        assert storage.commit(0, 0, b"") == 6
        disk.mend()
        storage.checkpoint()
        storage.close()
        storage = Storage(directory)
        assert storage.last == 6
        storage.close()

    def test_a_journal_is_opened_without_room_for_its_checkpoint(
        self, disk: FaultyDisk, directory: Path, tmp_path: Path
    ) -> None:
        storage, copy = Storage(directory), tmp_path / "killed"
        for page in range(1, 6):
            assert storage.commit(0, 1, encode_records([LARGE])) == page
        shutil.copytree(directory, copy)
        storage.close()

        def fault(operation: Operation) -> int | None:
            return NO_SPACE if (operation.name, operation.file) == ("write", "database") else None

        disk.set(fault)
        storage = Storage(copy)
        assert (storage.last, disk.refused) == (5, 1)
        assert "sync log" in disk.done
        disk.mend()
        storage.close()

    def test_pages_are_deleted_or_not(self, disk: FaultyDisk, directory: Path) -> None:
        storage = Storage(directory)
        for page in range(1, 6):
            assert storage.commit(0, 1, encode_records([LARGE])) == page
        disk.set(lambda operation: NO_SPACE if operation.name == "write" else None)
        with pytest.raises(JournalFullError, match="cannot delete pages"):
            storage.delete_before(4, 100)
        assert storage.first == 1
        disk.mend()
        assert storage.delete_before(4, 100) == 3
        storage.close()

    def test_a_mark_without_room_is_no_reason_to_refuse_a_page(self, directory: Path) -> None:
        """The page is durable: reported as refused, it would be written again."""
        storage = Storage(directory)
        full = os.open("/dev/full", os.O_RDWR)
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            os.write(full, b"x")
        os.dup2(full, storage._mark)  # pyright: ignore[reportPrivateUsage]
        os.close(full)
        assert storage.commit(0, 0, b"") == 1
        assert storage.commit(0, 0, b"") == 2
        storage.close()
        assert len(read_pages(directory)) == 2
