"""The journal: what it promises to those who write it and to those who read it, on real files."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandstand.errors import (
    InvalidArgumentError,
    JournalClosedError,
    JournalCorruptError,
    JournalError,
    JournalLockedError,
    JournalOverloadedError,
)
from bandstand.journal import Journal, JournalReader, Record, RecordBatch
from bandstand.journal.page import encode_records
from tests.journal.journals import read_pages, with_journal, write_pages

pytestmark = pytest.mark.usefixtures("engine")

records = st.lists(st.builds(Record, st.integers(0, 255), st.binary(max_size=300)), min_size=1, max_size=5)


def line(text: str) -> Record:
    return Record(1, text.encode())


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.mark.guarantee("G450")
class TestWriting:
    def test_records_are_read_back_in_the_order_of_their_writes(self, directory: Path) -> None:
        async def write(journal: Journal) -> None:
            pages = await asyncio.gather(*[journal.append(line(f"{n}a"), line(f"{n}b")) for n in range(100)])
            assert pages == sorted(pages)

        with_journal(directory, write)
        read = [record.data.decode() for page in read_pages(directory) for record in page.records]
        assert read == [f"{n}{half}" for n in range(100) for half in "ab"]

    @given(batches=st.lists(records, max_size=8))
    def test_any_records_are_read_back(
        self, batches: list[list[Record]], tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        directory = tmp_path_factory.mktemp("any") / "journal"
        write_pages(directory, batches)
        pages = read_pages(directory)
        assert [list(page.records) for page in pages] == batches
        assert [page.number for page in pages] == list(range(1, len(batches) + 1))

    def test_the_records_of_one_append_are_in_one_page(self, directory: Path) -> None:
        async def write(journal: Journal) -> None:
            large = Record(2, bytes(1 << 20))
            await asyncio.gather(*[journal.append(line(str(n)), large, line(str(n))) for n in range(5)])

        with_journal(directory, write)
        for page in read_pages(directory):
            texts = [record.data for record in page.records if record.kind == 1]
            assert texts[::2] == texts[1::2]

    def test_what_arrives_during_a_commit_shares_the_next_page(self, directory: Path) -> None:
        async def write(journal: Journal) -> int:
            await asyncio.gather(*[journal.append(line(str(n))) for n in range(1000)])
            return journal.stats().pages

        assert with_journal(directory, write) < 100

    def test_a_journal_continues_where_it_ended(self, directory: Path) -> None:
        write_pages(directory, [[line("a")], [line("b")]])
        write_pages(directory, [[line("c")]])
        assert [(page.number, page.records[0].data) for page in read_pages(directory)] == [
            (1, b"a"),
            (2, b"b"),
            (3, b"c"),
        ]

    def test_a_page_has_the_time_of_its_commit(self, directory: Path) -> None:
        with_journal(directory, lambda journal: journal.append(line("a")), now=lambda: 12.345)
        assert read_pages(directory)[0].at == 12345

    def test_close_writes_what_waits(self, directory: Path) -> None:
        done: list[object] = []

        async def write(journal: Journal) -> None:
            for n in range(50):
                journal.write([line(str(n))], lambda page, error: done.append((page > 0, error)))

        with_journal(directory, write)
        assert done == [(True, None)] * 50
        assert sum(len(page.records) for page in read_pages(directory)) == 50

    def test_a_batch_is_written_in_one_page_and_can_be_filled_again(self, directory: Path) -> None:
        async def write(journal: Journal) -> None:
            batch, pages = RecordBatch(), list[int]()
            batch.add(1, b"a")
            batch.add(2, b"b")
            journal.write_batch(batch, lambda page, _error: pages.append(page))
            assert batch.count == 0
            batch.add(1, b"c")
            journal.write_batch(batch, lambda page, _error: pages.append(page))
            await journal.append(line("d"))
            assert pages in ([1, 1], [1, 2])

        with_journal(directory, write)
        read = [record for page in read_pages(directory) for record in page.records]
        assert read == [line("a"), Record(2, b"b"), line("c"), line("d")]

    def test_a_cancelled_append_is_written_all_the_same(self, directory: Path) -> None:
        async def write(journal: Journal) -> None:
            task = asyncio.ensure_future(journal.append(line("a")))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await journal.append(line("b"))

        with_journal(directory, write)
        assert [page.records[0].data for page in read_pages(directory)] in ([b"a", b"b"], [b"a"])
        assert sum(len(page.records) for page in read_pages(directory)) == 2

    def test_a_callback_that_fails_does_not_keep_the_result_from_others(
        self, directory: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def write(journal: Journal) -> int:
            def fail(_page: int, _error: JournalError | None) -> None:
                raise ValueError("mine")

            journal.write([line("a")], fail)
            return await journal.append(line("b"))

        assert with_journal(directory, write) >= 1
        assert "ValueError" in caplog.text

    def test_stats_count_what_was_written(self, directory: Path) -> None:
        async def write(journal: Journal) -> None:
            await journal.append(line("a"), line("b"))
            stats = journal.stats()
            assert (stats.first, stats.last, stats.pages, stats.records) == (1, 1, 1, 2)
            assert (stats.refused, stats.waiting_bytes, stats.is_full) == (0, 0, False)

        with_journal(directory, write)


@pytest.mark.guarantee("G451")
class TestOneWriter:
    def test_a_second_writer_is_refused_and_told_who_the_first_is(self, directory: Path) -> None:
        async def write(journal: Journal) -> None:
            with pytest.raises(JournalLockedError, match=rf"open in another process \(pid {os.getpid()}\)"):
                await Journal(directory).open()
            await journal.append(line("still open"))

        with_journal(directory, write)

    def test_a_journal_can_be_opened_again_after_it_was_closed(self, directory: Path) -> None:
        async def run() -> None:
            journal = Journal(directory)
            for _ in range(3):
                await journal.open()
                with pytest.raises(JournalError, match="open already"):
                    await journal.open()
                await journal.close()
                await journal.close()
            with pytest.raises(JournalClosedError, match="use `async with`"):
                await journal.append(line("a"))

        asyncio.run(run())

    def test_no_thread_and_no_descriptor_is_left(self, directory: Path) -> None:
        write_pages(directory, [[line("a")]])
        threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
        write_pages(directory, [[line("b")]])
        (directory / "journal.sqlite").write_bytes(b"no database" * 1000)
        for _ in range(3):
            with pytest.raises(JournalCorruptError):
                write_pages(directory, [])
        assert threading.active_count() == threads
        assert len(os.listdir("/proc/self/fd")) == descriptors


class TestWrongUse:
    @pytest.mark.parametrize(
        ("record", "text"),
        [
            (Record(256, b""), "the kind of a record is 256: pass an int from 0 to 255"),
            (Record(-1, b""), "the kind of a record is -1"),
            (Record(1, "text"), "the data of a record is of type str: pass an object of type bytes"),  # type: ignore[arg-type]
            (Record(1, bytearray(3)), "the data of a record is of type bytearray"),  # type: ignore[arg-type]
            (Record(1, bytes((64 << 20) + 1)), "the data of a record is 67108865 bytes"),
        ],
    )
    def test_an_invalid_record_is_refused(self, record: Record, text: str, directory: Path) -> None:
        async def write(journal: Journal) -> None:
            with pytest.raises(InvalidArgumentError, match=text):
                await journal.append(line("valid"), record)
            with pytest.raises(InvalidArgumentError, match="there are no records"):
                await journal.append()

        with_journal(directory, write)
        assert read_pages(directory) == []

    def test_a_batch_that_was_refused_is_as_before(self, directory: Path) -> None:
        batch = RecordBatch()
        batch.add(1, b"a")
        with pytest.raises(InvalidArgumentError, match="the kind of a record is 256"):
            batch.add(256, b"")
        with pytest.raises(JournalClosedError):
            Journal(directory).write_batch(batch, lambda _page, _error: None)
        assert batch.count == 1
        assert batch.encode() == encode_records([line("a")])
        batch.clear()
        assert (batch.count, batch.encode()) == (0, b"")

    @pytest.mark.parametrize("limit", [0, -1, True, 1.5])
    def test_an_invalid_limit_is_refused(self, limit: int, directory: Path) -> None:
        with pytest.raises(InvalidArgumentError, match="max_waiting_bytes"):
            Journal(directory, max_waiting_bytes=limit)

    def test_a_directory_without_parent_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(JournalError, match=r"cannot open the journal .*nowhere.*FileNotFoundError"):
            write_pages(tmp_path / "nowhere" / "journal", [])

    def test_there_is_no_journal_to_read(self, tmp_path: Path) -> None:
        with pytest.raises(JournalError, match=r"there is no journal in .*: journal\.sqlite does not exist"):
            JournalReader(tmp_path)

    def test_another_database_is_refused(self, tmp_path: Path) -> None:
        connection = sqlite3.connect(tmp_path / "journal.sqlite")
        connection.executescript("CREATE TABLE mine (x); PRAGMA user_version = 1")
        connection.close()
        for use in (lambda: write_pages(tmp_path, []), lambda: read_pages(tmp_path)):
            with pytest.raises(JournalError, match="is not a journal of bandstand: choose another directory"):
                use()

    @pytest.mark.guarantee("G459")
    def test_a_newer_format_is_refused(self, directory: Path) -> None:
        write_pages(directory, [[line("a")]])
        connection = sqlite3.connect(directory / "journal.sqlite")
        connection.execute("PRAGMA user_version = 2")
        connection.close()
        for use in (lambda: write_pages(directory, []), lambda: read_pages(directory)):
            with pytest.raises(
                JournalError, match="has format 2, and this version of bandstand reads formats up to 1"
            ):
                use()


@pytest.mark.guarantee("G455")
class TestOverload:
    def test_too_many_waiting_bytes_are_refused_and_later_ones_are_not(self, directory: Path) -> None:
        async def write(journal: Journal) -> None:
            first = asyncio.ensure_future(journal.append(Record(1, bytes(2000))))
            await asyncio.sleep(0)
            with pytest.raises(
                JournalOverloadedError, match=r"2009 bytes wait for the disk, and .* allows 1000"
            ):
                await journal.append(line("a"))
            assert journal.stats().waiting_bytes == 2009
            await first
            assert await journal.append(line("b")) == 2
            assert (journal.stats().waiting_bytes, journal.stats().refused) == (0, 1)

        with_journal(directory, write, max_waiting_bytes=1000)
        assert [len(page.records[0].data) for page in read_pages(directory)] == [2000, 1]


@pytest.mark.guarantee("G456")
class TestDeleting:
    def test_deleted_pages_are_gone_and_the_rest_is_still_checked(self, directory: Path) -> None:
        write_pages(directory, [[line(str(n))] for n in range(1, 11)])

        async def delete(journal: Journal) -> None:
            assert await journal.delete_before(4) == 3
            assert await journal.delete_before(4) == 0
            assert journal.stats().first == 4
            await journal.append(line("11"))

        with_journal(directory, delete)
        assert [page.number for page in read_pages(directory)] == list(range(4, 12))
        assert [page.number for page in read_pages(directory, since=9)] == [9, 10, 11]
        with JournalReader(directory) as reader:
            assert reader.first == 4

    def test_the_last_page_is_kept(self, directory: Path) -> None:
        write_pages(directory, [[line("a")], [line("b")], [line("c")]])
        assert with_journal(directory, lambda journal: journal.delete_before(1 << 40)) == 2
        write_pages(directory, [[line("d")]])
        assert [page.number for page in read_pages(directory)] == [3, 4]

    def test_slices_leave_room_for_writes(self, directory: Path) -> None:
        write_pages(directory, [[line(str(n))] for n in range(600)])

        async def run(journal: Journal) -> list[str]:
            order: list[str] = []
            deletion = asyncio.ensure_future(journal.delete_before(600))
            deletion.add_done_callback(lambda _: order.append("deleted"))
            await asyncio.sleep(0)
            journal.write([line("x")], lambda _page, _error: order.append("written"))
            assert await deletion == 599
            return order

        assert with_journal(directory, run) == ["written", "deleted"]

    @settings(max_examples=20)
    @given(actions=st.lists(st.one_of(st.integers(1, 12), st.none()), max_size=12))
    def test_any_order_of_writes_and_deletions_leaves_a_sound_journal(
        self, actions: list[int | None], tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        directory = tmp_path_factory.mktemp("order") / "journal"

        async def run(journal: Journal) -> tuple[int, int]:
            first, last = 1, 0
            for action in actions:
                if action is None:
                    last += 1
                    assert await journal.append(line(str(last))) == last
                else:
                    deleted = await journal.delete_before(action)
                    assert deleted == max(0, min(action, last) - first)
                    first += deleted
            return first, last

        first, last = with_journal(directory, run)
        assert [page.number for page in read_pages(directory)] == list(range(first, last + 1))
        assert [page.records[0].data for page in read_pages(directory)] == [
            str(n).encode() for n in range(first, last + 1)
        ]

    def test_a_reader_that_was_overtaken_is_told(self, directory: Path) -> None:
        write_pages(directory, [[Record(1, bytes(1 << 20))] for _ in range(10)])
        with JournalReader(directory) as reader:
            pages = reader.pages()
            assert next(pages).number == 1
            with_journal(directory, lambda journal: journal.delete_before(9))
            with pytest.raises(
                JournalError, match=r"page 5 of the journal .* was deleted before it was read"
            ):
                list(pages)


@pytest.mark.guarantee("G548")
def test_the_write_ahead_log_does_not_grow_with_the_number_of_pages(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As for 4 and 32 MiB, with fewer commits.
    monkeypatch.setattr("bandstand.journal.writer._CHECKPOINT_BYTES", 64 << 10)
    monkeypatch.setattr("bandstand.journal.writer._LATE_CHECKPOINT_BYTES", 96 << 10)
    sizes: list[int] = []

    async def run(journal: Journal) -> None:
        for _ in range(100):
            await journal.append(line("a"))
            sizes.append((directory / "journal.sqlite-wal").stat().st_size)

    with_journal(directory, run)
    assert max(sizes) < 128 << 10  # without a bound: 400 KiB


@pytest.mark.guarantee("G457")
class TestReading:
    def test_a_reader_follows_a_writer(self, directory: Path) -> None:
        async def run(journal: Journal) -> None:
            await journal.append(line("a"))
            with JournalReader(directory) as reader:
                assert [page.number for page in reader.pages()] == [1]
                await journal.append(line("b"))
                await journal.append(line("c"))
                assert [page.number for page in reader.pages(since=2)] == [2, 3]
                assert list(reader.pages(since=4)) == []

        with_journal(directory, run)

    def test_a_reader_that_waits_does_not_stop_checkpoints(self, directory: Path) -> None:
        async def run(journal: Journal) -> None:
            for _ in range(8):
                await journal.append(Record(1, bytes(1 << 20)))
            with JournalReader(directory) as reader:
                pages = reader.pages()
                next(pages)
                for _ in range(40):
                    await journal.append(Record(1, bytes(1 << 20)))
                assert sum(1 for _ in pages) == 47
            assert (directory / "journal.sqlite-wal").stat().st_size < 24 << 20

        with_journal(directory, run)
