"""A damaged journal: every flipped bit and every missing page is found and named, and never read over."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandstand.errors import JournalCorruptError
from bandstand.journal import JournalReader, Page, Record
from bandstand.journal.page import chain_of, decode_body, encode_records
from tests.journal.journals import Flips, flip_bit, read_pages, sound_pages, write_and_kill, write_pages

pytestmark = pytest.mark.usefixtures("engine")

DATABASE = "journal.sqlite"
PAGES = [[Record(1, f"page {n} record {k}".encode() * 20) for k in range(3)] for n in range(1, 9)]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A journal of eight pages, closed, so that all of them are in the database."""
    directory = tmp_path / "journal"
    write_pages(directory, PAGES)
    return directory


def change(directory: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(directory / DATABASE)) as connection, connection:
        connection.execute(statement, values)


@pytest.mark.guarantee("G453")
class TestFlippedBits:
    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("state", ["closed", "killed"])
    def test_a_flipped_bit_is_found_or_changes_nothing(self, seed: int, state: str, memory: Path) -> None:
        """Bits of free space and of SQLite's own counters do not matter. Every other bit must be found."""
        directory, random_ = memory / "journal", random.Random(seed)
        (write_pages if state == "closed" else write_and_kill)(directory, PAGES)
        flips = Flips(directory, memory / "copy")
        path = DATABASE if state == "closed" else f"{DATABASE}-wal"
        results = [flips.check(path, random_.randrange(flips.bits(path))) for _ in range(60)]
        assert [result for result in results if result not in {None, "found"}] == []
        assert results.count("found") > 5

    @given(data=st.data())
    def test_every_bit_of_a_page_is_covered_by_a_checksum(self, data: st.DataObject) -> None:
        body = encode_records(PAGES[0])
        chain = chain_of(7, 1, 1000, 3, body)
        bit = data.draw(st.integers(0, len(body) * 8 - 1))
        damaged = bytearray(body)
        damaged[bit // 8] ^= 1 << bit % 8
        assert chain_of(7, 1, 1000, 3, bytes(damaged)) != chain
        with pytest.raises(JournalCorruptError, match=r"page 1 is damaged"):
            list(decode_body(1, 3, bytes(damaged)))

    def test_the_error_names_the_record(self, directory: Path) -> None:
        with closing(sqlite3.connect(directory / DATABASE)) as connection:
            (body,) = connection.execute("SELECT body FROM page WHERE number = 5").fetchone()
        damaged = body.replace(b"page 5 record 1", b"Page 5 record 1")
        change(directory, "UPDATE page SET body = ? WHERE number = 5", damaged)
        pages, damage = sound_pages(directory)
        assert [page.number for page in pages] == [1, 2, 3, 4]
        assert isinstance(damage, JournalCorruptError)
        assert (damage.page, damage.record) == (5, 2)
        assert str(damage) == "record 2 of page 5 is damaged: its checksum does not match"

    @pytest.mark.parametrize("column", ["at", "count", "chain"])
    def test_the_fields_of_a_page_are_covered(self, directory: Path, column: str) -> None:
        change(directory, f"UPDATE page SET {column} = {column} + 1 WHERE number = 3")
        pages, damage = sound_pages(directory)
        assert len(pages) == 2
        assert isinstance(damage, JournalCorruptError)
        assert damage.page == 3

    @pytest.mark.parametrize("column", ["at", "count", "chain", "body"])
    @pytest.mark.parametrize("value", ["text", "CAST(x'ff' AS TEXT)", -1, 1 << 40, b"bytes"])
    def test_a_field_of_another_type_or_size_is_noticed(
        self, directory: Path, column: str, value: object
    ) -> None:
        if str(value).startswith("CAST"):
            change(directory, f"UPDATE page SET {column} = {value} WHERE number = 3")
        else:
            change(directory, f"UPDATE page SET {column} = ? WHERE number = 3", value)
        pages, damage = sound_pages(directory)
        assert len(pages) == 2
        assert isinstance(damage, JournalCorruptError)
        assert damage.page == 3

    @pytest.mark.parametrize("column", ["number", "chain"])
    @pytest.mark.parametrize("value", ["text", -1, b"bytes"])
    def test_a_damaged_beginning_is_noticed(self, directory: Path, column: str, value: object) -> None:
        change(directory, f"UPDATE deleted SET {column} = ?", value)
        _, damage = sound_pages(directory)
        assert isinstance(damage, JournalCorruptError)
        assert "is damaged: a number or a checksum is not one" in str(damage)
        with pytest.raises(JournalCorruptError, match="a number or a checksum is not one"):
            write_pages(directory, [])

    def test_a_beginning_that_is_missing_is_noticed(self, directory: Path) -> None:
        change(directory, "DELETE FROM deleted")
        assert "does not say where it begins" in str(sound_pages(directory)[1])

    @pytest.mark.parametrize("value", ["text", -1, b"bytes"])
    def test_a_damaged_page_before_the_last_one_is_noticed_when_opening(
        self, directory: Path, value: object
    ) -> None:
        change(directory, "UPDATE page SET chain = ? WHERE number = 7", value)
        with pytest.raises(JournalCorruptError, match="a number or a checksum is not one"):
            write_pages(directory, [])
        with JournalReader(directory) as reader, pytest.raises(JournalCorruptError):
            list(reader.pages(since=8))

    def test_a_page_from_another_place_is_noticed(self, directory: Path) -> None:
        change(
            directory,
            "UPDATE page SET (at, count, chain, body) = (SELECT at, count, chain, body FROM page WHERE number = 2) WHERE number = 6",
        )
        pages, damage = sound_pages(directory)
        assert len(pages) == 5
        assert damage is not None
        assert (
            "page 6 is damaged: its checksum does not match, or it does not follow the page before it"
            in str(damage)
        )


@pytest.mark.guarantee("G453")
class TestMissingPages:
    @pytest.mark.parametrize(
        ("gone", "text"),
        [
            ("number = 4", "page 4 is missing"),
            ("number BETWEEN 2 AND 5", "pages 2 to 5 are missing"),
            ("number = 1", "page 1 is missing"),
        ],
    )
    def test_a_gap_is_named(self, directory: Path, gone: str, text: str) -> None:
        change(directory, f"DELETE FROM page WHERE {gone}")
        _, damage = sound_pages(directory)
        assert str(damage) == text

    @pytest.mark.parametrize("gone", ["number = 8", "number > 3", "number > 0"])
    def test_a_missing_end_is_noticed_by_readers_and_by_the_next_writer(
        self, directory: Path, gone: str
    ) -> None:
        change(directory, f"DELETE FROM page WHERE {gone}")
        _, damage = sound_pages(directory)
        assert re.fullmatch(
            r"the journal ends at page \d, but page 8 was written: its end is damaged or was cut off",
            str(damage),
        )
        with pytest.raises(JournalCorruptError, match="but page 8 was written"):
            write_pages(directory, [])

    def test_a_damaged_write_ahead_log_does_not_hide_its_end(self, tmp_path: Path) -> None:
        """SQLite stops at a damaged frame as if the log ended there."""
        directory = tmp_path / "journal"
        write_and_kill(directory, PAGES)
        log = directory / f"{DATABASE}-wal"
        flip_bit(log, log.stat().st_size * 4)
        damaged = log.read_bytes()
        for use in (lambda: read_pages(directory), lambda: write_pages(directory, [])) * 2:
            with pytest.raises(JournalCorruptError, match="but page 8 was written"):
                use()
            # What follows the damage could still be rescued.
            assert log.read_bytes() == damaged

    @settings(max_examples=20)
    @given(data=st.data(), has_mark=st.booleans())
    def test_recovering_a_prefix_twice_is_recovering_it_once(
        self, data: st.DataObject, has_mark: bool, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        directory = tmp_path_factory.mktemp("prefix") / "journal"
        write_and_kill(directory, PAGES)
        log = directory / f"{DATABASE}-wal"
        os.truncate(log, data.draw(st.integers(0, log.stat().st_size)))
        if not has_mark:
            (directory / "last").unlink()
        before = sound_pages(directory)
        outcomes: list[tuple[list[Page], str]] = []
        for _ in range(2):
            with contextlib.suppress(JournalCorruptError):
                write_pages(directory, [])
            pages, damage = sound_pages(directory)
            outcomes.append((pages, str(damage)))
        assert outcomes[0] == outcomes[1] == (before[0], str(before[1]))
        assert [list(page.records) for page in before[0]] == PAGES[: len(before[0])]
        assert has_mark or before[1] is None
        assert before[1] is not None or not has_mark or len(before[0]) == len(PAGES)

    def test_another_last_page_is_noticed(self, directory: Path) -> None:
        other = directory.with_name("other")
        write_pages(other, [*PAGES[:7], [Record(1, b"another end")]])
        shutil.copy(other / DATABASE, directory / DATABASE)
        with pytest.raises(JournalCorruptError, match="page 8 is not the page that was written"):
            write_pages(directory, [])

    @pytest.mark.parametrize("content", [b"", b"short", bytes(16)])
    def test_an_unfinished_mark_is_ignored(self, directory: Path, content: bytes) -> None:
        """After a power cut the mark may be empty: the pages are durable, it is not."""
        (directory / "last").write_bytes(content)
        assert len(read_pages(directory)) == 8
        write_pages(directory, [[Record(1, b"9")]])
        assert len(read_pages(directory)) == 9

    def test_an_old_mark_is_no_damage(self, directory: Path) -> None:
        mark = (directory / "last").read_bytes()
        write_pages(directory, [[Record(1, b"9")]])
        (directory / "last").write_bytes(mark)
        assert len(read_pages(directory)) == 9
        write_pages(directory, [])

    def test_a_file_that_is_no_database_is_refused(self, directory: Path) -> None:
        (directory / DATABASE).write_bytes(b"nonsense" * 4096)
        with pytest.raises(JournalCorruptError, match=r"cannot read the journal .*file is not a database"):
            read_pages(directory)
