"""The index of a journal: it finds what a scan of the journal finds, after crashes and deletions as well."""

# The schema of the index is changed to make its disk small.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.errors import (
    InvalidArgumentError,
    JournalClosedError,
    JournalError,
    JournalFailedError,
    JournalFullError,
    JournalLockedError,
)
from bandstand.journal import Journal, JournalIndex, JournalIndexReader, Record, RecordPosition
from bandstand.journal import index as index_module
from tests.journal.journals import read_pages, write_pages

T = TypeVar("T")


def extract(record: Record) -> Iterable[tuple[str, str]]:
    """A record of kind 1 is a list of words: `colour=red shape=round`."""
    if record.kind == 1:
        for word in record.data.decode().split():
            space, _, key = word.partition("=")
            yield space, key


def words(text: str) -> Record:
    return Record(1, text.encode())


def scan(directory: Path, space: str, key: str) -> list[RecordPosition]:
    """Return what an index has to find, by reading the whole journal."""
    return [
        RecordPosition(page.number, place)
        for page in read_pages(directory)
        for place, record in enumerate(page.records, 1)
        if (space, key) in set(extract(record))
    ]


async def caught_up(directory: Path, index: JournalIndex) -> None:
    pages = read_pages(directory)
    await index.reached(pages[-1].number if pages else 0)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "journal"


spaces = st.sampled_from(["colour", "shape"])
keys = st.sampled_from(["red", "blue", "round", ""])


def record_of(kind: int, pairs: Sequence[tuple[str, str]]) -> Record:
    return Record(kind, " ".join(f"{space}={key}" for space, key in pairs).encode())


records = st.builds(record_of, st.sampled_from([1, 1, 1, 2]), st.lists(st.tuples(spaces, keys), max_size=3))
batches = st.lists(st.lists(records, min_size=1, max_size=4), max_size=12)


@pytest.mark.guarantee("G480")
class TestFind:
    def test_it_finds_the_records_of_a_key_in_both_orders(self, directory: Path) -> None:
        async def run() -> None:
            async with Journal(directory) as journal, JournalIndex(directory, extract) as index:
                await journal.append(words("colour=red"), words("colour=blue"))
                page = await journal.append(words("shape=round colour=red"))
                await index.reached(page)
                assert index.find("colour", "red") == [(1, 1), (2, 1)]
                assert index.find("colour", "red", newest_first=True) == [(2, 1), (1, 1)]
                assert index.find("colour", "blue") == [RecordPosition(page=1, place=2)]
                assert index.find("colour", "green") == index.find("taste", "red") == []
                assert index.keys("colour") == ["blue", "red"]
                assert index.keys("colour", after="blue") == ["red"]

        asyncio.run(run())

    def test_a_limit_and_a_position_page_through_the_results(self, directory: Path) -> None:
        write_pages(directory, [[words("colour=red")] * 3 for _ in range(5)])

        async def run() -> None:
            async with JournalIndex(directory, extract) as index:
                await caught_up(directory, index)
                for newest_first in (False, True):
                    found: list[RecordPosition] = []
                    while part := index.find(
                        "colour",
                        "red",
                        limit=4,
                        newest_first=newest_first,
                        after=found[-1] if found else None,
                    ):
                        assert len(part) <= 4
                        found += part
                    expected = scan(directory, "colour", "red")
                    assert found == (expected[::-1] if newest_first else expected)

        asyncio.run(run())

    @pytest.mark.slow
    @given(before=batches, after=batches, deleted=st.integers(0, 12))
    def test_it_finds_what_a_scan_finds(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        before: Sequence[Sequence[Record]],
        after: Sequence[Sequence[Record]],
        deleted: int,
    ) -> None:
        directory = tmp_path_factory.mktemp("any") / "journal"

        async def run() -> None:
            async with Journal(directory) as journal:
                for batch in before:
                    await journal.append(*batch)
                async with JournalIndex(directory, extract) as index:
                    await caught_up(directory, index)
                await journal.delete_before(deleted)
                async with JournalIndex(directory, extract) as index:
                    for batch in after:
                        await journal.append(*batch)
                    await caught_up(directory, index)
                    for space in ("colour", "shape"):
                        for key in ("red", "blue", "round", ""):
                            assert index.find(space, key) == scan(directory, space, key)
                        known = {key for key in ("red", "blue", "round", "") if scan(directory, space, key)}
                        # Keys are greater than the empty string.
                        assert index.keys(space) == sorted(known - {""})

        asyncio.run(run())

    @pytest.mark.slow
    def test_another_process_reads_it(self, directory: Path) -> None:
        program = (
            "import sys; from bandstand.journal import JournalIndexReader\n"
            "with JournalIndexReader(sys.argv[1]) as reader:\n"
            "    print(reader.find('colour', 'red'), reader.page, reader.lag)"
        )

        async def run() -> str:
            async with Journal(directory) as journal, JournalIndex(directory, extract) as index:
                await index.reached(await journal.append(words("colour=red")))
                done = await asyncio.to_thread(
                    subprocess.run,
                    [sys.executable, "-c", program, str(directory)],
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                )
                return done.stdout + done.stderr

        assert asyncio.run(run()) == "[RecordPosition(page=1, place=1)] 1 0\n"


# Indexes a journal, and is killed when it reads a certain record.
KILLED = """
import asyncio, os, signal, sys
from bandstand.journal import JournalIndex
from tests.journal.test_index import extract

left = int(sys.argv[2])

def deadly(record):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    return extract(record)

async def main():
    async with JournalIndex(sys.argv[1], deadly) as index:
        await index.reached(1000)

asyncio.run(main())
"""


@pytest.mark.guarantee("G481")
class TestCrashes:
    def test_it_continues_where_it_was(self, directory: Path) -> None:
        write_pages(directory, [[words("colour=red")]] * 3)
        seen: list[bytes] = []

        def counting(record: Record) -> Iterable[tuple[str, str]]:
            seen.append(record.data)
            return extract(record)

        async def run() -> None:
            async with JournalIndex(directory, counting) as index:
                await index.reached(3)
            async with Journal(directory) as journal, JournalIndex(directory, counting) as index:
                await index.reached(await journal.append(words("colour=blue")))
                assert len(index.find("colour", "red")) == 3

        asyncio.run(run())
        assert seen == [b"colour=red"] * 3 + [b"colour=blue"]

    @pytest.mark.slow
    def test_a_killed_process_leaves_an_index_that_is_right_so_far(self, directory: Path) -> None:
        write_pages(directory, [[words(f"colour=red shape={number % 7}")] for number in range(1000)])
        random_ = random.Random(3)
        reached = 0
        for _ in range(4):
            program = [sys.executable, "-c", KILLED, str(directory), str(random_.randrange(1, 300))]
            done = subprocess.run(program, cwd=Path(__file__).parents[2], timeout=60, check=False)
            assert done.returncode == -signal.SIGKILL
            with JournalIndexReader(directory) as reader:
                reached = reader.page
                expected = [
                    position for position in scan(directory, "shape", "3") if position.page <= reached
                ]
                assert reader.find("shape", "3", limit=5000) == expected
                assert reader.lag == 1000 - reached
        assert 0 < reached < 1000

        async def run() -> None:
            async with JournalIndex(directory, extract) as index:
                await index.reached(1000)
                assert index.stats().added == 2 * (1000 - reached)
                assert index.find("colour", "red", limit=5000) == scan(directory, "colour", "red")

        asyncio.run(run())

    def test_the_writer_does_not_wait_for_it(self, directory: Path) -> None:
        may_go_on = threading.Event()

        def slow(record: Record) -> Iterable[tuple[str, str]]:
            assert may_go_on.wait(60)
            return extract(record)

        async def run() -> None:
            async with Journal(directory) as journal, JournalIndex(directory, slow) as index:
                for _ in range(10):
                    await journal.append(words("colour=red"))
                    index.wake()
                assert index.find("colour", "red") == []
                assert index.lag == 10
                assert await journal.delete_before(4) == 3
                may_go_on.set()
                await index.reached(10)
                assert index.find("colour", "red") == [(page, 1) for page in range(4, 11)]

        asyncio.run(run())

    def test_it_follows_the_journal_by_itself_and_at_once_when_it_is_woken(self, directory: Path) -> None:
        async def run(poll: float | None) -> None:
            async with Journal(directory) as journal, JournalIndex(directory, extract, poll=poll) as index:
                page = await journal.append(words("colour=red"))
                if poll is None:
                    index.wake()
                while not index.find("colour", "red", after=RecordPosition(page, 0)):  # noqa: ASYNC110  # the thread reports to nobody
                    await asyncio.sleep(0)

        asyncio.run(run(0.001))
        asyncio.run(run(None))


@pytest.mark.guarantee("G482")
class TestProgress:
    def test_lag_and_statistics_say_how_far_it_is(self, directory: Path) -> None:
        write_pages(directory, [[words("colour=red shape=round")]] * 5)

        async def run() -> None:
            async with JournalIndex(directory, extract) as index:
                await index.reached(5)
                stats = index.stats()
                assert (stats.page, stats.lag, stats.added, stats.failure) == (5, 0, 10, None)

        asyncio.run(run())

    @pytest.mark.slow
    def test_a_rebuild_reads_everything_again_and_reports_progress(self, directory: Path) -> None:
        write_pages(directory, [[words("colour=red")]] * 600)
        progress: list[tuple[int, int]] = []

        async def run() -> None:
            async with JournalIndex(directory, extract) as index:
                await index.reached(600)
                await index.rebuild(lambda page, last: progress.append((page, last)))
                assert len(index.find("colour", "red")) == 600
                assert index.stats().added == 1200

        asyncio.run(run())
        assert progress == [(256, 600), (512, 600), (600, 600)]

    def test_another_version_of_extract_builds_it_again(self, directory: Path) -> None:
        write_pages(directory, [[words("colour=red")]])

        async def run(version: str) -> int:
            async with JournalIndex(directory, extract, version=version) as index:
                await index.reached(1)
                return index.stats().added

        assert [asyncio.run(run(version)) for version in ("1", "1", "2", "2")] == [1, 0, 1, 0]

    def test_waiting_ends_when_the_index_is_closed(self, directory: Path) -> None:
        async def run() -> None:
            async with Journal(directory):
                index = await JournalIndex(directory, extract).open()
                waiting = asyncio.create_task(index.reached(1))
                await asyncio.sleep(0)
                await index.close()
                with pytest.raises(JournalClosedError):
                    await waiting
                with pytest.raises(JournalClosedError):
                    index.find("colour", "red")
                with pytest.raises(JournalClosedError):
                    await index.rebuild()
                await index.close()

        asyncio.run(run())
        assert not [thread for thread in threading.enumerate() if thread.name == "index journal"]


@pytest.mark.guarantee("G483")
class TestDeletedPages:
    @pytest.mark.slow
    def test_entries_of_deleted_pages_are_dropped(self, directory: Path) -> None:
        write_pages(directory, [[words("colour=red")]] * 600)

        async def run() -> None:
            async with Journal(directory) as journal, JournalIndex(directory, extract) as index:
                await index.reached(600)
                await journal.delete_before(590)
                # Before the index has noticed.
                assert index.find("colour", "red") == [(page, 1) for page in range(590, 601)]
                assert index.find("colour", "red", newest_first=True)[-1] == (590, 1)
                await index.reached(await journal.append(words("colour=blue")))

        asyncio.run(run())
        with sqlite3.connect(directory / "index.sqlite") as connection:
            (count,) = connection.execute("SELECT count(*) FROM entry").fetchone()
        connection.close()
        assert count == 12

    @pytest.mark.slow
    def test_pages_that_are_deleted_while_they_are_read_are_left_out(self, directory: Path) -> None:
        may_go_on, has_begun = threading.Event(), threading.Event()

        def slow(_record: Record) -> Iterable[tuple[str, str]]:
            has_begun.set()
            assert may_go_on.wait(60)
            return [("colour", "red")]

        # A reader fetches a few of them at a time.
        write_pages(directory, [[Record(1, bytes(3 << 20))]] * 6)

        async def run() -> None:
            async with Journal(directory) as journal, JournalIndex(directory, slow) as index:
                await asyncio.to_thread(has_begun.wait, 60)
                await journal.delete_before(5)
                may_go_on.set()
                await index.reached(6)
                assert index.find("colour", "red") == [(5, 1), (6, 1)]

        asyncio.run(run())

    def test_pages_that_were_deleted_before_they_were_indexed_are_left_out(self, directory: Path) -> None:
        async def run() -> None:
            async with Journal(directory) as journal:
                await journal.append(words("colour=red"))
                async with JournalIndex(directory, extract) as index:
                    await index.reached(1)
                for _ in range(8):
                    await journal.append(words("colour=red"))
                await journal.delete_before(6)
                async with JournalIndex(directory, extract) as index:
                    await index.reached(9)
                    assert index.lag == 0
                    assert index.find("colour", "red") == [(page, 1) for page in range(6, 10)]

        asyncio.run(run())


def bad_type(_record: Record) -> Any:
    return [("colour", 1)]


def bad_text(_record: Record) -> Iterable[tuple[str, str]]:
    return [("colour", "\udcff")]


def raising(_record: Record) -> Iterable[tuple[str, str]]:
    raise ValueError("no colour")


@pytest.mark.guarantee("G484")
class TestErrors:
    @pytest.mark.parametrize(
        ("wrong", "text"),
        [
            (bad_type, "return a space and a key, both strings"),
            (bad_text, "surrogates not allowed"),
            (raising, "ValueError.*no colour"),
        ],
    )
    def test_an_extract_that_fails_stops_the_index_and_names_the_record(
        self, directory: Path, wrong: Any, text: str
    ) -> None:
        async def run() -> None:
            async with Journal(directory) as journal, JournalIndex(directory, wrong) as index:
                page = await journal.append(words("colour=red"))
                expected = f"cannot index record 1 of page 1 .*{text}"
                with pytest.raises(JournalError, match=expected):
                    await index.reached(page)
                with pytest.raises(JournalError, match=expected):
                    await index.reached(page)
                with pytest.raises(JournalError, match=expected):
                    await index.rebuild()
                assert index.stats().failure is not None
                # The journal goes on.
                await journal.append(words("colour=red"))
            async with JournalIndex(directory, extract) as index:
                await index.reached(2)
                assert len(index.find("colour", "red")) == 2

        asyncio.run(run())

    def test_an_index_that_is_no_database_is_built_again(self, directory: Path) -> None:
        write_pages(directory, [[words("colour=red")]] * 3)
        (directory / "index.sqlite").write_bytes(b"this is not a database, and it is long enough" * 100)

        async def run() -> None:
            async with JournalIndex(directory, extract) as index:
                await index.reached(3)
                assert len(index.find("colour", "red")) == 3

        asyncio.run(run())

    def test_an_index_of_a_newer_version_is_built_again(self, directory: Path) -> None:
        write_pages(directory, [[words("colour=red")]])
        with closing(sqlite3.connect(directory / "index.sqlite")) as database:
            database.execute("PRAGMA application_id = 1651730798")
            database.execute("PRAGMA user_version = 99")

        async def run() -> None:
            async with JournalIndex(directory, extract) as index:
                await index.reached(1)
                assert len(index.find("colour", "red")) == 1

        asyncio.run(run())

    def test_an_index_that_cannot_be_opened_leaves_nothing_open(self, directory: Path) -> None:
        write_pages(directory, [[words("colour=red")]])
        (directory / "index.sqlite").mkdir()

        async def run() -> None:
            with pytest.raises(JournalFailedError, match="cannot open the index"):
                await JournalIndex(directory, extract).open()

        asyncio.run(run())
        (directory / "index.sqlite").rmdir()
        (directory / "index.lock").unlink()
        (directory / "index.lock").mkdir()
        with pytest.raises(JournalFailedError, match="cannot open the index"):
            asyncio.run(JournalIndex(directory, extract).open())
        assert not [thread for thread in threading.enumerate() if thread.name == "index journal"]

    def test_an_index_that_was_damaged_while_it_is_open_says_so(self, directory: Path) -> None:
        async def run() -> None:
            async with Journal(directory) as journal, JournalIndex(directory, extract) as index:
                await index.reached(await journal.append(words("colour=red")))
                with closing(sqlite3.connect(directory / "index.sqlite")) as database:
                    database.execute("DROP TABLE entry")
                    database.commit()
                with pytest.raises(JournalFailedError, match=r"no such table: entry"):
                    index.find("colour", "red")
                page = await journal.append(words("colour=red"))
                with pytest.raises(JournalFailedError, match=r"no such table: entry"):
                    await index.reached(page)

        asyncio.run(run())

    def test_an_index_of_another_journal_is_built_again(self, directory: Path, tmp_path: Path) -> None:
        async def run(directory: Path, key: str) -> int:
            async with JournalIndex(directory, extract) as index:
                await caught_up(directory, index)
                return len(index.find("colour", key))

        write_pages(directory, [[words("colour=red")]] * 3)
        assert asyncio.run(run(directory, "red")) == 3
        for pages in (2, 3, 9):
            other = tmp_path / f"other{pages}"
            write_pages(other, [[words("colour=blue")]] * pages)
            (other / "index.sqlite").write_bytes((directory / "index.sqlite").read_bytes())
            assert asyncio.run(run(other, "blue")) == pages

    def test_damage_of_the_journal_is_reported(self, directory: Path) -> None:
        write_pages(directory, [[Record(1, b"colour=red " * 500)]] * 3)
        database = directory / "journal.sqlite"
        # Everywhere: the database also has copies that are not in use.
        database.write_bytes(database.read_bytes().replace(b"colour=red ", b"colour=rad "))

        async def run() -> None:
            async with JournalIndex(directory, extract) as index:
                with pytest.raises(JournalError, match="damaged"):
                    await index.reached(3)

        asyncio.run(run())

    def test_an_index_without_room_waits_and_does_not_touch_the_journal(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def fill() -> None:
            async with Journal(directory) as journal, JournalIndex(directory, extract) as index:
                page = await journal.append(*[words(f"colour={number:0100}") for number in range(2000)])
                for _ in range(2):
                    with pytest.raises(JournalFullError, match="cannot write the index"):
                        await index.reached(page)
                await journal.append(words("colour=red"))
                assert index.lag == 2
                assert index.stats().failure is None
            assert caplog.text.count("waits until there is room") == 1

        async def catch_up() -> None:
            async with JournalIndex(directory, extract) as index:
                await index.reached(2)
                assert index.find("colour", "red") == [(2, 1)]
                assert len(index.keys("colour", limit=5000)) == 2001

        # A real error of SQLite: its file may have 20 pages, as long as this connection is open.
        monkeypatch.setattr(index_module, "_SCHEMA", f"{index_module._SCHEMA} PRAGMA max_page_count = 20;")
        asyncio.run(fill())
        asyncio.run(catch_up())

    def test_one_index_at_a_time_is_open(self, directory: Path) -> None:
        async def run() -> None:
            async with Journal(directory), JournalIndex(directory, extract) as index:
                with pytest.raises(JournalLockedError, match="JournalIndexReader"):
                    await JournalIndex(directory, extract).open()
                with pytest.raises(JournalError, match="open already"):
                    await index.open()

        asyncio.run(run())

    def test_there_must_be_a_journal(self, directory: Path) -> None:
        directory.mkdir()

        async def run() -> None:
            with pytest.raises(JournalError, match="there is no journal"):
                await JournalIndex(directory, extract).open()

        asyncio.run(run())
        with pytest.raises(JournalError, match="there is no journal"):
            JournalIndexReader(directory)

    def test_a_reader_says_that_there_is_no_index(self, directory: Path) -> None:
        write_pages(directory, [[words("colour=red")]])
        with pytest.raises(JournalError, match="has no index: open a JournalIndex"):
            JournalIndexReader(directory)

    def test_a_wrong_limit_is_refused(self, directory: Path) -> None:
        async def run() -> None:
            async with Journal(directory), JournalIndex(directory, extract) as index:
                with pytest.raises(InvalidArgumentError, match="limit"):
                    index.find("colour", "red", limit=0)

        asyncio.run(run())


@pytest.mark.guarantee("G480")
class TestNames:
    def test_two_indexes_of_one_journal_do_not_know_each_other(self, directory: Path) -> None:
        def other(record: Record) -> Iterable[tuple[str, str]]:
            yield "all", record.data.decode()

        async def run() -> None:
            async with (
                Journal(directory) as journal,
                JournalIndex(directory, extract) as first,
                JournalIndex(directory, other, name="second", version="2") as second,
            ):
                page = await journal.append(words("colour=red"))
                await first.reached(page)
                await second.reached(page)
                for index, space in ((first, "colour"), (second, "all")):
                    assert [len(index.find(*key)) for key in (("colour", "red"), ("all", "colour=red"))] == [
                        space == "colour",
                        space == "all",
                    ]
            second.remove()
            assert not (directory / "second.sqlite").exists()
            with JournalIndexReader(directory) as reader:
                assert reader.find("colour", "red") == [RecordPosition(1, 1)]
            with pytest.raises(JournalError, match="has no index"):
                JournalIndexReader(directory, name="second")

        asyncio.run(run())

    @pytest.mark.parametrize("name", ["", "journal", "a/b", "../a", "A", "a.b", "1"])
    def test_a_name_that_cannot_be_one_of_files_is_refused(self, name: str, directory: Path) -> None:
        with pytest.raises(InvalidArgumentError, match="is no name for an index"):
            JournalIndex(directory, extract, name=name)
        with pytest.raises(InvalidArgumentError, match="is no name for an index"):
            JournalIndexReader(directory, name=name)

    def test_a_fixed_reader_sees_the_index_as_it_was(self, directory: Path) -> None:
        async def run() -> None:
            async with Journal(directory) as journal, JournalIndex(directory, extract) as index:
                await index.reached(await journal.append(words("colour=red")))
                with JournalIndexReader(directory, is_fixed=True) as fixed:
                    await index.reached(await journal.append(words("colour=red")))
                    assert (fixed.page, len(fixed.find("colour", "red")), fixed.lag) == (1, 1, 1)
                    await index.rebuild()
                    assert (fixed.page, len(fixed.find("colour", "red"))) == (1, 1)
                assert len(index.find("colour", "red")) == 2

        asyncio.run(run())


class TestCost:
    @pytest.mark.parametrize("newest_first", [False, True])
    def test_to_continue_costs_the_same_at_any_position(self, newest_first: bool, directory: Path) -> None:
        async def run() -> None:
            async with Journal(directory) as journal, JournalIndex(directory, extract) as index:
                for _ in range(100):
                    await journal.append(*[words("colour=red")] * 10)
                await index.reached(100)

        asyncio.run(run())
        with JournalIndexReader(directory) as reader:

            def steps(page: int) -> int:
                """Count the instructions of SQLite's virtual machine."""
                count = 0

                def step() -> None:
                    nonlocal count
                    count += 1

                reader._index.set_progress_handler(step, 1)
                found = reader.find(
                    "colour", "red", after=RecordPosition(page, 5), newest_first=newest_first, limit=10
                )
                assert len(found) == 10
                return count

            assert 0.5 < steps(5) / steps(95) < 2
