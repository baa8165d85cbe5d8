"""`bandstand log` on real journals: what it finds, what its exit codes say, and that it changes nothing except with `compact`."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import os
import re
import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.bus.durable.message_index import message_index
from bandstand.bus.durable.reader import Selection
from bandstand.bus.durable.records import (
    BEGAN,
    CHECKPOINT,
    ENDED,
    EVENT,
    IS_BEGUN,
    KIND_NAMES,
    TIMER_ENDED,
    Checkpoint,
    json_record,
)
from bandstand.bus.frame import KINDS
from bandstand.cli.commands.log import LogOptions, Verb, log
from bandstand.cli.output import ExitCode
from bandstand.cli.parser import RECORD_KINDS
from bandstand.cli.ranges import parse_pages, parse_size, parse_time
from bandstand.errors import InvalidArgumentError, JournalFullError
from bandstand.journal import Journal, Record
from bandstand.journal import index as index_module
from bandstand.persistence.store import event_index
from tests.bus.node_journals import (
    NOON,
    answer,
    checkpoint,
    dead,
    delete_before,
    entity_event,
    event,
    frame,
    numbers_record,
    request,
    timer,
    write_journal,
)
from tests.cli.conftest import Run
from tests.journal.journals import read_pages

PLACE = request(1, frame("place-1", correlation="task"), IS_BEGUN)
PAGES = [
    [PLACE],
    [
        event(frame("sold-1", "event", "Shelf.Sold", cause="place-1", correlation="task")),
        answer(1, frame("done-1", "reply", cause="place-1", correlation="task")),
    ],
    [request(2, frame("place-2")), timer("t-1", frame("late", type="Orders.Cancel"))],
    checkpoint(request(2, frame("place-2")), timer("t-1", frame("late", type="Orders.Cancel")), read_from=3),
    [numbers_record(BEGAN, [2]), Record(TIMER_ENDED, b"t-1"), dead(frame("place-2"))],
]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "journal"
    write_journal(directory, PAGES)
    return directory


@pytest.fixture
def run(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run `bandstand log` on the journal of a test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BANDSTAND_JOURNAL", "journal")
    monkeypatch.delenv("BANDSTAND_CONFIG", raising=False)
    return partial(run, "log")


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def offsets(text: str) -> list[str]:
    return [line["offset"] for line in lines(text)]


def change(directory: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(directory / "journal.sqlite")) as connection, connection:
        connection.execute(statement, values)


@contextmanager
def opened(directory: Path) -> Generator[tuple[Journal, asyncio.Runner]]:
    """Have a journal open for writing, as a node has."""
    with asyncio.Runner() as runner:
        journal = runner.run(Journal(directory).open())
        yield journal, runner
        runner.run(journal.close())


def parse_time_now(text: str) -> int:
    return parse_time(text, 0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.guarantee("G503")
class TestReading:
    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            (("tail",), ["1-1", "2-1", "2-2", "3-1", "3-2", "4-1", "5-1", "5-2", "5-3"]),
            (("tail", "--last", "2"), ["5-2", "5-3"]),
            (("tail", "--last", "2", "Orders.Place"), ["3-1", "5-3"]),
            (("tail", "--kind", "event"), ["2-1"]),
            (("find",), ["1-1", "2-1", "2-2", "3-1", "3-2", "4-1", "5-1", "5-2", "5-3"]),
            (("find", "Shelf.*"), ["2-1"]),
            (("find", "--id", "place-1"), ["1-1", "2-2"]),
            (("find", "--id", "t-1"), ["3-2", "5-2"]),
            (("find", "--correlation", "task", "--kind", "reply"), ["2-2"]),
            (("find", "--since", "2026-01-09T12:00:02Z", "--until", "2026-01-09T12:00:03Z"), ["3-1", "3-2"]),
            (("find", "--cause", "place-1"), ["2-1", "2-2"]),
            (("find", "--after", "4-1"), ["5-1", "5-2", "5-3"]),
            (("find", "--kind", "request", "--copies"), ["1-1", "3-1", "4-2"]),
        ],
        ids=" ".join,
    )
    @pytest.mark.usefixtures("directory")
    def test_records(self, arguments: tuple[str, ...], expected: list[str], run: Run) -> None:
        code, out, err = run(*arguments, "--json")
        assert (code, offsets(out), err) == (0, expected, "")
        code, out, err = run(*arguments)
        assert (code, len(out.splitlines()), err) == (0, len(expected), "")

    @pytest.mark.usefixtures("directory")
    def test_a_limit_says_where_to_continue(self, run: Run) -> None:
        code, out, err = run("find", "--limit", "3", "--json")
        assert (code, offsets(out)) == (0, ["1-1", "2-1", "2-2"])
        assert "there may be more: pass --after 3-0, or a greater --limit" in err
        code, out, err = run("find", "--limit", "3", "--after", "3-0", "--json")
        assert offsets(out) == ["3-1", "3-2", "4-1"]

    def test_deleted_pages_are_reported(self, directory: Path, run: Run) -> None:
        delete_before(directory, 4)
        code, out, err = run("find", "--after", "2-1", "--json")
        assert (code, offsets(out)) == (0, ["4-1", "5-1", "5-2", "5-3"])
        assert err == "bandstand: records are missing here: their pages were deleted\n"

    def test_a_journal_that_is_written_can_be_read(self, directory: Path, run: Run, tmp_path: Path) -> None:
        with opened(directory) as (journal, runner):
            runner.run(journal.append(event(frame("now", "event"))))
            files = [directory / name for name in ("journal.sqlite", "journal.sqlite-wal", "last", "lock")]
            before = [file.read_bytes() for file in files]
            for arguments in (
                ("tail",),
                ("find", "--id", "now"),
                ("lineage", "now"),
                ("verify",),
                ("replay", "--check"),
                ("export", "all.ndjson.gz"),
                ("compact", "--keep-for", "0", "--dry-run"),
            ):
                code, out, err = run(*arguments)
                assert (code, err, bool(out)) == (0, "", True), arguments
            assert [file.read_bytes() for file in files] == before
            assert runner.run(journal.append(event(frame("later", "event")))) == 7
        assert (tmp_path / "all.ndjson.gz").exists()

    def test_following_shows_what_is_written_later(self, directory: Path) -> None:
        out, err = io.StringIO(), io.StringIO()
        written = iter(
            [
                [[event(frame("e-1", "event"))]],
                [],
                [[event(frame("e-2", "event")), PLACE], [event(frame("e-3", "event"))]],
            ]
        )

        def sleep(_seconds: float) -> None:
            pages = next(written, None)
            if pages is None:
                # Ctrl-C
                raise KeyboardInterrupt
            write_journal(directory, pages)

        options = LogOptions(
            verb="tail",
            journal=str(directory),
            where=Selection(kinds=["event"]),
            last=1,
            is_following=True,
            is_json=True,
        )
        assert log(options, out, err, sleep=sleep) == ExitCode.SUCCESS
        assert offsets(out.getvalue()) == ["2-1", "6-1", "7-1", "8-1"]
        assert err.getvalue() == ""

    def test_following_reports_deleted_pages(self, directory: Path) -> None:
        out, err = io.StringIO(), io.StringIO()
        sleeps = 0

        def sleep(_seconds: float) -> None:
            nonlocal sleeps
            sleeps += 1
            if sleeps == 2:
                raise KeyboardInterrupt
            write_journal(directory, [[event(frame(f"e-{n}", "event"))] for n in range(3)])
            delete_before(directory, 8)

        options = LogOptions(verb="tail", journal=str(directory), last=1, is_following=True, is_json=True)
        assert log(options, out, err, sleep=sleep) == ExitCode.SUCCESS
        assert offsets(out.getvalue()) == ["5-3", "8-1"]
        assert err.getvalue() == "bandstand: records are missing here: their pages were deleted\n"

    @pytest.mark.guarantee("G504")
    @pytest.mark.usefixtures("directory")
    def test_lineage_is_a_tree(self, run: Run) -> None:
        code, out, _ = run("lineage", "sold-1", "--json")
        found = json.loads(out)
        assert (code, [each["id"] for each in found["ancestors"]]) == (0, ["place-1"])
        assert (found["message"]["id"], [each["id"] for each in found["related"]]) == ("sold-1", ["done-1"])
        code, out, err = run("lineage", "place-1", "--limit", "1")
        assert (code, err) == (0, "bandstand: there are more messages: pass a greater --limit\n")


@pytest.mark.guarantee("G502")
class TestVerify:
    @pytest.mark.usefixtures("directory")
    def test_a_sound_journal(self, run: Run) -> None:
        code, out, err = run("verify", "--json")
        report = json.loads(out)
        assert (code, err) == (0, "")
        assert (report["sound"], report["damage"], report["pages"], report["records"]) == (True, None, 5, 11)
        assert (report["first"], report["last"], report["since"]) == (1, 5, NOON)

    @pytest.mark.parametrize(
        ("statement", "words", "page", "record", "pages"),
        [
            (
                "UPDATE page SET body = CAST(substr(body, 1, 20) || x'00' || substr(body, 22) AS BLOB) WHERE number = 3",
                "record 1 of page 3 is damaged: its checksum does not match",
                3,
                1,
                2,
            ),
            ("DELETE FROM page WHERE number = 2", "page 2 is missing", 2, 0, 1),
            ("UPDATE page SET at = at + 1 WHERE number = 4", "page 4 is damaged", 4, 0, 3),
            (
                "DELETE FROM page WHERE number = 5",
                "the journal ends at page 4, but page 5 was written",
                5,
                0,
                4,
            ),
        ],
    )
    def test_the_first_damage_is_named(
        self, statement: str, words: str, page: int, record: int, pages: int, directory: Path, run: Run
    ) -> None:
        change(directory, statement)
        code, out, err = run("verify", "--json")
        report = json.loads(out)
        assert (code, report["sound"], report["pages"]) == (ExitCode.DAMAGED, False, pages)
        assert (report["damage"]["page"], report["damage"]["record"]) == (page, record)
        assert words in err
        # Everything else stops at the damage too.
        for arguments in (
            ("find", "--kind", "boot"),
            ("replay",),
            ("export", "x.gz"),
            ("compact", "--keep-for", "0"),
        ):
            code, _, err = run(*arguments)
            assert (code, err.count("\n")) == (ExitCode.DAMAGED, 1), arguments
            assert words in err
        assert not Path("x.gz").exists()

    def test_a_record_that_no_node_has_written(self, directory: Path, run: Run) -> None:
        write_journal(
            directory, [[event(frame("e", "event")), numbers_record(ENDED, [1]), Record(ENDED, b"odd")]]
        )
        code, out, err = run("verify")
        assert code == ExitCode.DAMAGED
        assert "record 3 of page 6 cannot be read" in err
        assert out.startswith("pages 1 to 5, ")

    def test_a_file_that_is_no_database(self, directory: Path, run: Run) -> None:
        (directory / "journal.sqlite").write_bytes(b"nothing of the kind" * 100)
        code, out, err = run("verify")
        assert (code, out, err.count("\n")) == (ExitCode.DAMAGED, "", 1)


@pytest.mark.spec("C28")
@pytest.mark.guarantee("G507")
class TestReplay:
    @pytest.mark.usefixtures("directory")
    def test_what_a_start_finds(self, run: Run) -> None:
        code, out, err = run("replay", "--check", "--json")
        found = json.loads(out)
        assert (code, err, found["disagreements"], found["compared"]) == (0, "", [], 1)
        assert (found["open"], found["begun"], found["timers"], found["dead"]) == (
            ["place-2"],
            ["place-2"],
            [],
            ["place-2"],
        )

    def test_a_wrong_checkpoint(self, directory: Path, run: Run) -> None:
        wrong = json_record(CHECKPOINT, Checkpoint(next_number=3, read_from=0))
        write_journal(directory, [[wrong]])
        words = "the checkpoint in page 6 is wrong: request 2 is open, and the checkpoint does not have it; and 1 more"
        code, _, err = run("replay", "--check")
        assert (code, err) == (1, f"bandstand: {words}\n")
        code, out, err = run("replay")
        assert (code, err) == (0, f"bandstand: {words}\n")
        assert "wrong: 1" in out


@pytest.mark.guarantee("G506")
class TestExport:
    def exported(self, name: str = "log.gz") -> list[str]:
        return [json.loads(line)["offset"] for line in gzip.decompress(Path(name).read_bytes()).splitlines()]

    @pytest.mark.usefixtures("directory")
    def test_ranges(self, run: Run) -> None:
        code, out, err = run("export", "log.gz")
        assert (code, err) == (0, "")
        assert out == "11 records of 5 pages are in log.gz\n"
        # With copies: an export is complete.
        assert len(self.exported()) == 11
        for arguments, expected in (
            (("--pages", "2-3"), ["2-1", "2-2", "3-1", "3-2"]),
            (("--pages", "5-"), ["5-1", "5-2", "5-3"]),
            (("--pages", "-1"), ["1-1"]),
            (("--since", "2026-01-09T12:00:01Z", "--until", "2026-01-09T12:00:02Z"), ["2-1", "2-2"]),
        ):
            code, out, _ = run("export", "log.gz", "--force", "--json", *arguments)
            assert (code, self.exported()) == (0, expected), arguments
            assert json.loads(out)["records"] == len(expected)

    def test_what_cannot_be_exported_is_refused(self, directory: Path, run: Run) -> None:
        delete_before(directory, 3)
        Path("there.gz").touch()
        for arguments, words in (
            (("there.gz",), "there.gz exists: choose another file, or pass --force"),
            (("nowhere/a.gz",), "there is no directory nowhere for a.gz"),
            (("a.gz", "--pages", "2-4"), "--pages: the journal has the pages 3 to 5"),
            (("a.gz", "--pages", "4-6"), "--pages: the journal has the pages 3 to 5"),
            (("a.gz", "--pages", "6-"), "--pages: the journal has the pages 3 to 5"),
            (("a.gz", "--pages", "4-3"), "'4-3' is not a range of pages"),
        ):
            code, out, err = run("export", *arguments)
            assert (code, out) == (2, ""), arguments
            assert words in err
        assert sorted(os.listdir()) == ["journal", "there.gz"]

    @pytest.mark.usefixtures("directory")
    def test_a_disk_that_takes_nothing(self, run: Run) -> None:
        if os.geteuid() == 0:
            Path("full").symlink_to("/proc")
        else:
            Path("full").mkdir(0o500)
        code, _, err = run("export", "full/a.gz")
        assert (code, err.count("\n")) == (ExitCode.OUTPUT, 1)


@pytest.mark.guarantee("G508")
class TestCompact:
    def test_old_pages_are_exported_and_deleted(self, directory: Path, run: Run) -> None:
        pages = read_pages(directory)
        code, out, err = run("compact", "--keep-for", "1h", "--export", "old.gz")
        assert (code, err) == (0, "")
        # The checkpoint in page 4 needs the answers from page 3 on.
        assert "3 records are in old.gz\ndeleted pages 1 to 2, " in out
        assert "kept pages 3 to 5, " in out
        assert read_pages(directory) == pages[2:]
        assert len(gzip.decompress(Path("old.gz").read_bytes()).splitlines()) == 3
        code, out, _ = run("compact", "--keep-for", "1h")
        assert (code, out.splitlines()[0]) == (0, "nothing to delete")
        assert run("replay", "--check")[0] == 0

    @pytest.mark.parametrize("record", [entity_event("ada", 1, frame("own", "event")), Record(200, b"later")])
    def test_what_only_the_node_can_give_up_is_kept(self, record: Record, tmp_path: Path, run: Run) -> None:
        """The events of an entity that has no snapshot, for example."""
        write_journal(tmp_path / "journal", [[PLACE], [record], [PLACE], checkpoint()])
        code, out, _ = run("compact", "--keep-for", "0")
        assert code == 0
        assert out.startswith(
            "page 2 has events of entities or records of a later version, which only the node deletes\n"
        )
        assert [page.number for page in read_pages(tmp_path / "journal")] == [2, 3, 4]

    def test_a_trial_deletes_nothing(self, directory: Path, run: Run) -> None:
        code, out, _ = run("compact", "--keep-bytes", "0", "--dry-run", "--json")
        assert (code, json.loads(out)["deleted"], json.loads(out)["trial"]) == (0, 2, True)
        assert len(read_pages(directory)) == 5

    def test_without_a_checkpoint_everything_is_needed(self, tmp_path: Path, run: Run) -> None:
        write_journal(tmp_path / "journal", PAGES[:3])
        code, out, _ = run("compact", "--keep-for", "0")
        assert code == 0
        assert out.startswith(
            "there is no checkpoint, so every page is needed to start the node\nnothing to delete\n"
        )
        assert len(read_pages(tmp_path / "journal")) == 3

    def test_many_pages_are_deleted_in_slices(self, tmp_path: Path, run: Run) -> None:
        old = [[event(frame(f"e-{n}", "event"))] for n in range(600)]
        write_journal(tmp_path / "journal", [*old, checkpoint(), [PLACE]])
        code, out, _ = run("compact", "--keep-for", "0", "--json")
        assert (code, json.loads(out)["deleted"], json.loads(out)["first"]) == (0, 600, 601)
        assert [page.number for page in read_pages(tmp_path / "journal")] == [601, 602]

    def test_a_node_that_runs_keeps_its_journal(self, directory: Path, run: Run) -> None:
        with opened(directory):
            code, out, err = run("compact", "--keep-for", "0", "--export", "old.gz")
            assert (code, out) == (ExitCode.NO_JOURNAL, "")
            assert f"is open in another process (pid {os.getpid()})" in err
            assert "`compact` needs the journal of a node that is stopped" in err
        assert len(read_pages(directory)) == 5
        assert not Path("old.gz").exists()

    def test_an_export_that_fails_deletes_nothing(self, directory: Path, run: Run) -> None:
        Path("old.gz").touch()
        code, _, err = run("compact", "--keep-for", "0", "--export", "old.gz")
        assert (code, "old.gz exists" in err) == (2, True)
        Path("full").symlink_to("/proc")
        assert run("compact", "--keep-for", "0", "--export", "full/old.gz")[0] == ExitCode.OUTPUT
        assert len(read_pages(directory)) == 5

    def test_no_journal_is_made(self, run: Run) -> None:
        assert run("compact", "--keep-for", "0")[0] == ExitCode.NO_JOURNAL
        assert not Path("journal").exists()


@pytest.mark.guarantee("G551")
class TestIndex:
    SEARCHES = (
        ("find", "--id", "place-1"),
        ("find", "--cause", "place-1"),
        ("find", "--correlation", "task", "--limit", "2"),
        ("find", "Orders.*", "--copies"),
        ("find", "--id", "nothing"),
        ("lineage", "sold-1"),
        ("lineage", "place-2"),
    )

    def search(self, run: Run) -> tuple[list[tuple[int, str]], set[str]]:
        """Return exit codes and outputs of all searches, and what they write about the index."""
        seen = [run(*arguments, "--json") for arguments in self.SEARCHES]
        notes = {line for _, _, err in seen for line in err.splitlines() if "index" in line}
        return [(code, out) for code, out, _ in seen], notes

    @pytest.mark.guarantee("G549")
    def test_it_changes_no_result_while_the_journal_is_written(self, directory: Path, run: Run) -> None:
        with opened(directory) as (journal, runner):
            files = [directory / name for name in ("journal.sqlite", "journal.sqlite-wal", "last", "lock")]
            before = [file.read_bytes() for file in files]
            scanned = self.search(run)
            code, out, err = run("index", "--json")
            assert (code, json.loads(out)["page"], json.loads(out)["lag"], err) == (0, 5, 0, "")
            assert [file.read_bytes() for file in files] == before
            assert self.search(run) == scanned
            assert scanned[1] == set()
            runner.run(journal.append(event(frame("now", "event", cause="place-1", correlation="task"))))
            indexed = self.search(run)
            assert indexed[1] == {
                "bandstand: 1 page is not in the index, and read in full: run `bandstand log index`"
            }
            assert offsets(indexed[0][1][1]) == ["2-1", "2-2", "6-1"]
            assert run("index")[1].startswith("indexed up to page 6; ")
            assert json.loads(run("index", "--json")[1]) == {"page": 6, "lag": 0, "added": 0}
            assert self.search(run) == (indexed[0], set())
        (directory / "messages.sqlite").unlink()
        assert self.search(run) == (indexed[0], set())

    @pytest.mark.guarantee("G549")
    @pytest.mark.parametrize("what", ["damaged", "of another version", "of another journal"])
    def test_one_that_cannot_be_used_is_reported_and_built_again(
        self, what: str, directory: Path, run: Run, tmp_path: Path
    ) -> None:
        scanned = self.search(run)
        assert run("index")[0] == 0
        path = directory / "messages.sqlite"
        if what == "damaged":
            path.write_bytes(b"no database, but long enough" * 1000)
        elif what == "of another version":
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("UPDATE progress SET version = 'messages 0'")
        else:
            write_journal(tmp_path / "other", [[PLACE]] * 5)
            assert run("index", "--journal", "other")[0] == 0
            path.write_bytes((tmp_path / "other" / "messages.sqlite").read_bytes())
        found, notes = self.search(run)
        assert found == scanned[0]
        (note,) = notes
        assert note.startswith("bandstand: the index is not used: ")
        assert note.endswith(": run `bandstand log index --rebuild`")
        code, out, _ = run("index", "--rebuild", "--json")
        assert (code, json.loads(out)["lag"]) == (0, 0)
        assert self.search(run) == scanned

    def test_the_index_of_entities_is_another_one(self, directory: Path, run: Run) -> None:
        async def entities() -> None:
            async with event_index(directory) as index:
                await index.reached(5)

        asyncio.run(entities())
        before = (directory / "index.sqlite").read_bytes()
        assert run("index")[0] == run("index", "--rebuild")[0] == 0
        assert (directory / "index.sqlite").read_bytes() == before

    @pytest.mark.guarantee("G502")
    def test_a_record_that_cannot_be_read_is_named(self, directory: Path, run: Run) -> None:
        write_journal(directory, [[Record(EVENT, b"no line")]])
        code, _, err = run("index")
        assert (code, "record 1 of page 6" in err) == (ExitCode.DAMAGED, True)

    @pytest.mark.usefixtures("directory")
    def test_one_process_writes_it(self, run: Run) -> None:
        async def both() -> None:
            async with message_index("journal"):
                for arguments in (("index",), ("index", "--rebuild")):
                    code, _, err = await asyncio.to_thread(run, *arguments)
                    assert (code, "another process writes the index" in err) == (ExitCode.NO_JOURNAL, True)

        asyncio.run(both())

    def test_an_empty_journal(self, run: Run) -> None:
        assert run("index")[0] == ExitCode.NO_JOURNAL
        assert not Path("journal").exists()
        write_journal(Path("journal"), [])
        assert json.loads(run("index", "--json")[1]) == {"page": 0, "lag": 0, "added": 0}

    @pytest.mark.usefixtures("directory")
    def test_a_full_disk(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_arguments: object) -> None:
            raise JournalFullError("there is no room")

        monkeypatch.setattr(index_module._IndexFile, "add", full)  # pyright: ignore[reportPrivateUsage]
        code, _, err = run("index")
        assert (code, err) == (ExitCode.OUTPUT, "bandstand: there is no room\n")


@pytest.mark.guarantee("G503")
class TestProgress:
    @pytest.mark.parametrize("verb", ["lineage", "index", "verify", "replay", "export", "compact"])
    def test_it_is_shown_on_a_terminal_only(self, verb: Verb, directory: Path, tmp_path: Path) -> None:
        for is_json in (False, True):
            err = Terminal()
            options = LogOptions(
                verb=verb,
                journal=str(directory),
                id="place-1",
                limit=9,
                file=str(tmp_path / f"{is_json}.gz"),
                is_json=is_json,
                is_rebuilding=True,
            )
            assert log(options, io.StringIO(), err) == ExitCode.SUCCESS
            # Where it is at the first look depends on the thread of the index.
            assert (re.search("page [0-5] of 5", err.getvalue()) is None) is is_json
            assert err.getvalue().endswith("\r\x1b[K") is not is_json


@pytest.mark.guarantee("G191")
class TestWords:
    def test_the_kinds_are_those_of_the_records_and_messages(self) -> None:
        assert set(RECORD_KINDS) == {*KIND_NAMES.values(), *KINDS}
        assert len(RECORD_KINDS) == len(set(RECORD_KINDS))
        assert set(get_args(Verb)) == {
            "tail",
            "find",
            "lineage",
            "index",
            "verify",
            "export",
            "replay",
            "compact",
        }

    @pytest.mark.parametrize(
        ("text", "expected"),
        [("3-120", (3, 120)), ("3-", (3, None)), ("-120", (1, 120)), ("7", (7, 7)), ("7-7", (7, 7))],
    )
    def test_pages(self, text: str, expected: tuple[int, int | None]) -> None:
        assert parse_pages(text) == expected

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("1000", 1000),
            ("1_000B", 1000),
            ("5kB", 5000),
            ("5 KB", 5000),
            ("1.5MB", 1_500_000),
            ("2GiB", 2 << 30),
            ("1KiB", 1024),
            ("3TB", 3 * 10**12),
        ],
    )
    def test_sizes(self, text: str, expected: int) -> None:
        assert parse_size(text) == expected

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("10min", 9_400_000),
            ("0", 10_000_000),
            ("1d", -76_400_000),
            ("1970-01-01T01:00:00Z", 3_600_000),
            ("1970-01-01T01:00:00.5+01:00", 500),
        ],
    )
    def test_times(self, text: str, expected: int) -> None:
        assert parse_time(text, 10_000.0) == expected

    @pytest.mark.parametrize(
        ("parse", "text"),
        [
            *((parse_pages, text) for text in ("", "-", "0", "0-1", "5-3", "a-b", "1-2-3", "1 - 2")),
            *((parse_size, text) for text in ("", "-1", "5XB", "MB", "1e3", "5miB")),
            *((parse_time_now, text) for text in ("", "soon", "2026-13-01", "9999999-01-01")),
        ],
    )
    def test_other_texts_are_refused(self, parse: Callable[[str], object], text: str) -> None:
        with pytest.raises(InvalidArgumentError, match="is not a"):
            parse(text)

    @given(text=st.text("0123456789-", max_size=8))
    def test_any_text_is_a_range_or_refused(self, text: str) -> None:
        try:
            first, last = parse_pages(text)
        except InvalidArgumentError:
            return
        assert first >= 1
        assert last is None or last >= first

    def test_the_journal_must_be_known(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("BANDSTAND_JOURNAL")
        code, _, err = run("verify")
        assert code == 2
        assert "pass --journal DIR, or set BANDSTAND_JOURNAL or `journal` in bandstand.toml" in err

    def test_the_journal_can_be_in_the_settings(
        self, directory: Path, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("BANDSTAND_JOURNAL", "nowhere")
        assert run("verify", "--journal", str(directory))[0] == 0
        monkeypatch.delenv("BANDSTAND_JOURNAL")
        Path("bandstand.toml").write_text("journal = 'journal'\n")
        assert run("verify")[0] == 0
