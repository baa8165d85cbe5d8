"""Disks that are full or fail, and processes that are killed, with real files, limits and signals."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from bandstand.errors import JournalError, JournalFailedError, JournalFullError, TryAgainError
from bandstand.journal import Journal, Record
from bandstand.journal.storage import Storage
from tests.journal.journals import read_pages, with_journal
from tests.journal.power_cut import WRITER


@contextlib.contextmanager
def largest_file(size: int) -> Generator[None]:
    """Let writes behind this size fail, for every file of this process."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.guarantee("G452")
@pytest.mark.slow
def test_what_was_reported_is_there_after_kill(tmp_path: Path) -> None:
    directory, random_ = tmp_path / "journal", random.Random(1)
    acknowledged: list[bytes] = []
    for _ in range(6):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(directory)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        with process, process.stdout:
            acknowledged += [process.stdout.readline() for _ in range(random_.randrange(1, 400))]
            process.send_signal(signal.SIGKILL)
            acknowledged += [line for line in process.stdout if line.endswith(b"\n")]
    pages = read_pages(directory)
    texts = [record.data for page in pages for record in page.records if record.kind == 1]
    assert {line.rstrip(b"\n") for line in acknowledged} <= set(texts)
    assert len(set(texts)) == len(texts)
    assert [page.number for page in pages] == list(range(1, len(pages) + 1))


@pytest.mark.guarantee("G454")
@pytest.mark.usefixtures("engine")
class TestFailingDisk:
    def test_a_failed_disk_ends_the_journal(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        failures: list[JournalFailedError] = []
        directory = tmp_path / "journal"

        async def write(journal: Journal) -> None:
            await journal.append(Record(1, b"before"))
            size = (directory / "journal.sqlite-wal").stat().st_size
            with largest_file(size + 5000):
                results = await asyncio.gather(
                    *[journal.append(Record(1, bytes(20_000))) for _ in range(3)], return_exceptions=True
                )
                assert [type(result) for result in results] == [JournalFailedError] * 3
            with pytest.raises(
                JournalFailedError, match=r"has failed before: cannot write page 2 .*disk I/O error"
            ):
                await journal.append(Record(1, b"after"))
            with pytest.raises(JournalFailedError):
                await journal.delete_before(1)

        with_journal(directory, write, on_failure=failures.append)
        assert len(failures) == 1
        assert caplog.text.count("nothing is written any more") == 1
        assert [page.records[0].data for page in read_pages(directory)] == [b"before"]

    def test_the_journal_can_be_opened_again_afterwards(self, tmp_path: Path) -> None:
        directory = tmp_path / "journal"

        async def fail(journal: Journal) -> None:
            await journal.append(Record(1, b"before"))
            with largest_file(100), pytest.raises(JournalFailedError):
                await journal.append(Record(1, bytes(20_000)))

        with_journal(directory, fail)
        assert with_journal(directory, lambda journal: journal.append(Record(1, b"after"))) == 2


@pytest.mark.guarantee("G454")
@pytest.mark.usefixtures("engine")
class TestFullDisk:
    def test_writes_are_refused_while_the_disk_is_full_and_not_afterwards(self, tmp_path: Path) -> None:
        storage = Storage(tmp_path / "journal")
        connection = storage._connection  # pyright: ignore[reportPrivateUsage]  # its page limit is a disk of any size
        assert connection is not None
        (used,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {used + 4}")
        body = bytes(6000)
        assert storage.commit(0, 0, body) == 1
        assert storage.commit(0, 0, body) == 2
        with pytest.raises(JournalFullError, match=r"cannot write page 3 of the journal .*full") as full:
            storage.commit(0, 0, body)
        assert isinstance(full.value, TryAgainError)
        last = storage.last
        connection.execute("PRAGMA max_page_count = 1000000")
        assert storage.commit(0, 0, body) == last + 1
        storage.close()

    def test_a_journal_recovers_from_a_full_disk_by_itself(
        self, small_disk: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        ballast = small_disk / "ballast"
        ballast.write_bytes(bytes(500_000))
        written: list[int] = []

        async def write(journal: Journal) -> None:
            with contextlib.suppress(JournalFullError):
                while True:
                    written.append(await journal.append(Record(1, os.urandom(20_000))))
            assert journal.stats().is_full
            with pytest.raises(JournalFullError):
                await journal.append(Record(1, os.urandom(20_000)))
            ballast.unlink()
            assert await journal.append(Record(1, b"room again")) == len(written) + 1
            stats = journal.stats()
            assert not stats.is_full
            assert stats.refused == 2

        with_journal(small_disk / "journal", write)
        assert len(read_pages(small_disk / "journal")) == len(written) + 1
        assert "is full: writes are refused" in caplog.text
        assert "has room again" in caplog.text

    def test_opening_on_a_full_disk_says_so(self, small_disk: Path) -> None:
        with contextlib.suppress(OSError):
            (small_disk / "ballast").write_bytes(bytes(2_000_000))
        with pytest.raises(JournalError, match=r"cannot open the journal .*(full|No space)"):
            with_journal(small_disk / "journal", lambda journal: journal.append(Record(1, b"")))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a megabyte. Mounting needs root; without it the test of the page limit has to do."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small file system: {mounted.stderr.strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
