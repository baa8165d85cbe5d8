"""The reader of a node's journal: offsets, batches, copies in checkpoints and selections, on real journals."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandstand.bus.durable.reader import (
    START,
    Entry,
    Offset,
    Selection,
    entries_of,
    pages_backward,
    read_batch,
)
from bandstand.bus.durable.records import (
    ANSWER,
    BEGAN,
    BOOT,
    CHECKPOINT,
    DATA,
    DEAD,
    DEAD_ENDED,
    ENDED,
    EVENT,
    IS_BEGUN,
    IS_DOUBTFUL,
    REQUEST,
    TIMER,
    TIMER_ENDED,
    Boot,
)
from bandstand.errors import InvalidArgumentError, JournalCorruptError, JournalError
from bandstand.journal import Journal, JournalReader, Page, Record
from bandstand.persistence.records import EventHead, event_record
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
from tests.journal.journals import with_journal

PLACE = frame("place-1", correlation="task")
DONE = frame("done-1", "reply", cause="place-1", correlation="task")
SOLD = frame("sold-1", "event", "Shelf.Sold", cause="place-1", correlation="task")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def read_all(directory: Path, where: Selection | None = None, **bounds: Any) -> list[Entry]:
    """Read in batches from the start to the end."""
    entries: list[Entry] = []
    after = START
    with JournalReader(directory) as reader:
        while True:
            batch = read_batch(reader, after, where=where, **bounds)
            entries += batch.entries
            assert batch.next >= after
            if batch.is_end:
                return entries
            assert batch.next > after
            after = batch.next


def kinds_of(records: Sequence[Record]) -> list[tuple[int, bool]]:
    return [(entry.kind, entry.is_copy) for entry in entries_of(Page(1, NOON, tuple(records), 0))]


class TestOffsets:
    @given(page=st.integers(0, 10**17), place=st.integers(0, 10**8))
    def test_the_text_of_an_offset_is_parsed_again(self, page: int, place: int) -> None:
        offset = Offset(page, place)
        assert Offset.parse(str(offset)) == offset

    @pytest.mark.parametrize(
        "text", ["", "1", "1-", "-1", "1-2-3", "a-1", "1.5-1", " 1-1", "١-١", f"{10**20}-1"]
    )
    def test_another_text_is_refused(self, text: str) -> None:
        with pytest.raises(
            InvalidArgumentError, match="is not an offset: pass the number of a page and a place in it"
        ):
            Offset.parse(text)

    def test_offsets_are_ordered_as_numbers(self) -> None:
        assert Offset(2, 10) > Offset(2, 9) > Offset(1, 100) > START


@pytest.mark.guarantee("G500")
class TestEntries:
    def test_every_kind_is_decoded(self, directory: Path) -> None:
        records = [
            Record(BOOT, b'{"version":"1","at":5,"pid":7}'),
            request(3, PLACE, IS_BEGUN),
            numbers_record(BEGAN, [3]),
            answer(3, DONE, IS_DOUBTFUL),
            numbers_record(ENDED, [3, 4]),
            event(SOLD),
            timer("t", PLACE),
            Record(TIMER_ENDED, b"t"),
            dead(PLACE),
            Record(DEAD_ENDED, b"place-1"),
            Record(DATA, b'{"owner":"reminders","data":{"a":1}}'),
            entity_event("ada", 2, SOLD),
            Record(200, b"from a later version"),
        ]
        write_journal(directory, [records[:5], records[5:]])
        found = read_all(directory)
        assert [(entry.kind, entry.data) for entry in found] == [(each.kind, each.data) for each in records]
        assert [str(entry.offset) for entry in found[3:7]] == ["1-4", "1-5", "2-1", "2-2"]
        assert [entry.at for entry in (found[0], found[-1])] == [NOON, NOON + 1000]
        by_kind = {entry.kind_name: entry for entry in found}
        assert by_kind["boot"].content == Boot("1", 5, 7)
        accepted = by_kind["request"]
        assert (accepted.message, accepted.numbers, accepted.accepted_at) == (PLACE, (3,), NOON)
        assert accepted.flags == IS_BEGUN
        assert (by_kind["answer"].message, by_kind["answer"].flags) == (DONE, IS_DOUBTFUL)
        assert by_kind["ended"].numbers == (3, 4)
        assert by_kind["event"].message == by_kind["entityEvent"].message == SOLD
        assert by_kind["timer"].message == by_kind["dead"].message == PLACE
        assert (by_kind["timerEnded"].ended, by_kind["deadEnded"].ended) == ("t", "place-1")
        assert (by_kind["200"].message, by_kind["200"].content) == (None, None)

    def test_an_event_of_an_actor_has_no_envelope(self, directory: Path) -> None:
        write_journal(
            directory,
            [[event_record(EventHead("Account", "ada", 3), b'{"type":"Credited","data":{"by":5}}')]],
        )
        (entry,) = read_all(directory, Selection(types=["Credited"], key="ada"))
        assert entry.content == EventHead("Account", "ada", 3)
        assert entry.message is not None
        assert (entry.message.kind, entry.message.metadata.id) == ("event", "Account/ada/3")
        assert bytes(entry.message.data) == b'{"by":5}'

    @pytest.mark.parametrize(
        "record",
        [
            Record(REQUEST, b"short"),
            event_record(EventHead("Account", "ada", 3), b'{"type":"Credited"}'),
            Record(ANSWER, b"short"),
            Record(BEGAN, b"123"),
            Record(EVENT, b"no line"),
            Record(TIMER, b"{}"),
            Record(TIMER_ENDED, b"\xff"),
            Record(CHECKPOINT, b"{}"),
        ],
    )
    def test_a_record_that_is_not_what_its_kind_says_is_named(self, record: Record, directory: Path) -> None:
        write_journal(directory, [[event(SOLD)], [event(SOLD), record]])
        with pytest.raises(JournalCorruptError, match=r"record 2 of page 2 cannot be read: ") as raised:
            read_all(directory)
        assert (raised.value.page, raised.value.record) == (2, 2)


@pytest.mark.guarantee("G501")
class TestCopies:
    def test_what_a_checkpoint_repeats_is_a_copy(self) -> None:
        doubted = [request(1, PLACE, IS_BEGUN), answer(1, DONE, IS_DOUBTFUL)]
        waiting = [request(2, frame("b")), numbers_record(BEGAN, [2]), numbers_record(BEGAN, [2])]
        records = checkpoint(*doubted, *waiting, timer("t", PLACE), dead(SOLD))
        found = kinds_of(records)
        assert found == [
            (CHECKPOINT, False),
            *((kind, True) for kind in (REQUEST, ANSWER, REQUEST, BEGAN, TIMER, DEAD)),
        ]

    @pytest.mark.parametrize(
        "record",
        [
            request(3, frame("new")),
            answer(2, DONE),
            numbers_record(ENDED, [2]),
            event(SOLD),
            Record(TIMER_ENDED, b"t"),
            Record(BOOT, b'{"version":"1","at":5,"pid":7}'),
        ],
    )
    def test_what_others_write_into_the_same_page_is_not(self, record: Record) -> None:
        records = [
            event(SOLD),
            *checkpoint(request(1, PLACE), request(2, frame("b"))),
            record,
            timer("t", PLACE),
        ]
        assert [is_copy for _, is_copy in kinds_of(records)] == [False, False, True, True, False, False]

    def test_copies_are_read_only_if_they_are_asked_for(self, directory: Path) -> None:
        write_journal(directory, [[request(1, PLACE)], checkpoint(request(1, PLACE))])
        assert [entry.kind for entry in read_all(directory)] == [REQUEST, CHECKPOINT]
        found = read_all(directory, Selection(has_copies=True))
        assert [(entry.kind, entry.is_copy) for entry in found] == [
            (REQUEST, False),
            (CHECKPOINT, False),
            (REQUEST, True),
        ]


class TestSelections:
    ENTRIES = (
        request(1, PLACE),
        numbers_record(BEGAN, [1]),
        answer(1, frame("oops", "error", "Sys.ActorFault", cause="place-1", correlation="task")),
        event(SOLD),
        entity_event("ada", 1, frame("credited", "event", "Account.Credited")),
        timer("t-1", frame("later", type="Tea.Brew")),
        Record(TIMER_ENDED, b"t-1"),
        dead(frame("lost", type="Tea.Pour")),
    )

    @pytest.mark.guarantee("G501")
    @pytest.mark.parametrize(
        ("where", "expected"),
        [
            (Selection(), [1, 2, 3, 4, 5, 6, 7, 8]),
            (Selection(types=["Tea.*"]), [6, 8]),
            (Selection(types=["Shelf.Sold", "Orders.Place"]), [1, 4]),
            (Selection(types=["*"]), [1, 3, 4, 5, 6, 8]),
            (Selection(kinds=["began", "timerEnded"]), [2, 7]),
            (Selection(kinds=["error", "timer"]), [3, 6]),
            (Selection(kinds=["event"]), [4, 5]),
            (Selection(kinds=["entityEvent"]), [5]),
            (Selection(kinds=["command"]), [1, 6, 8]),
            (Selection(id="place-1"), [1, 3]),
            (Selection(id="sold-1"), [4]),
            (Selection(id="t-1"), [6, 7]),
            (Selection(id="later"), [6]),
            (Selection(key="ada"), [5]),
            (Selection(is_passed=True), [1, 3, 4]),
            (Selection(is_passed=True, kinds=["command", "error"]), [1, 3]),
            (Selection(correlation="task"), [1, 3, 4]),
            (Selection(correlation="task", kinds=["event"]), [4]),
            (Selection(cause="place-1"), [3, 4]),
            (Selection(cause="place-1", kinds=["event"]), [4]),
            (Selection(since=NOON), [1, 2, 3, 4, 5, 6, 7, 8]),
            (Selection(since=NOON + 1), []),
            (Selection(until=NOON), []),
            (Selection(until=NOON + 1, key="ada"), [5]),
        ],
        ids=repr,
    )
    def test_selections(self, where: Selection, expected: list[int]) -> None:
        page = Page(1, NOON, self.ENTRIES, 0)
        assert [entry.offset.place for entry in entries_of(page, where)] == expected

    @pytest.mark.guarantee("G501")
    @pytest.mark.parametrize("text", ["é", 'a"b', "a\\b", "a/b"])
    def test_texts_are_found_however_json_writes_them(self, text: str) -> None:
        message = frame(text, cause=text, correlation=text)
        escaped = json.dumps(msgspec.to_builtins(message, builtin_types=(msgspec.Raw,)), default=lambda _: {})
        found = [
            event(message),
            Record(EVENT, escaped.replace("/", "\\/").encode()),
            entity_event(text, 1, SOLD),
        ]
        page = Page(1, NOON, tuple(found), 0)
        for where, places in (
            (Selection(id=text), [1, 2]),
            (Selection(correlation=text), [1, 2]),
            (Selection(cause=text), [1, 2]),
            (Selection(key=text), [3]),
        ):
            assert [entry.offset.place for entry in entries_of(page, where)] == places

    @pytest.mark.parametrize(
        ("given", "text"),
        [
            ({"kinds": ["nonsense"]}, "'nonsense' is not a kind: pass some of boot, request, began"),
            ({"types": ["Te*a"]}, r"use \* alone or after the last dot"),
        ],
    )
    def test_an_invalid_selection_is_refused(self, given: dict[str, Any], text: str) -> None:
        with pytest.raises(InvalidArgumentError, match=text):
            Selection(**given)


@pytest.mark.guarantee("G500")
class TestBatches:
    @settings(max_examples=15)
    @given(
        sizes=st.lists(st.integers(1, 6), min_size=1, max_size=6),
        limit=st.integers(1, 8),
        max_bytes=st.integers(1, 600),
        max_searched=st.integers(1, 8),
    )
    def test_batches_of_any_size_have_every_record_once(
        self,
        sizes: list[int],
        limit: int,
        max_bytes: int,
        max_searched: int,
        tmp_path_factory: pytest.TempPathFactory,
    ) -> None:
        directory = tmp_path_factory.mktemp("batches") / "journal"
        write_journal(directory, [[event(SOLD) for _ in range(size)] for size in sizes])
        bounds: dict[str, Any] = {"limit": limit, "max_bytes": max_bytes, "max_searched": max_searched}
        offsets = [entry.offset for entry in read_all(directory, **bounds)]
        assert offsets == [
            (page, place) for page, size in enumerate(sizes, 1) for place in range(1, size + 1)
        ]

    def test_a_batch_is_bounded(self, directory: Path) -> None:
        write_journal(directory, [[event(SOLD) for _ in range(10)]])
        size = len(event(SOLD).data)
        with JournalReader(directory) as reader:
            assert len(read_batch(reader, limit=4).entries) == 4
            assert len(read_batch(reader, max_bytes=3 * size).entries) == 3
            assert len(read_batch(reader, max_bytes=1).entries) == 1
            batch = read_batch(reader, where=Selection(types=["Tea.*"]), max_searched=7)
            assert (batch.entries, batch.next, batch.is_end) == ((), Offset(1, 7), False)

    def test_a_reader_continues_when_more_is_written(self, directory: Path) -> None:
        async def run(journal: Journal) -> None:
            with JournalReader(directory) as reader:
                batch = read_batch(reader)
                assert (batch.entries, batch.is_end, batch.next) == ((), True, START)
                for number in range(1, 4):
                    await journal.append(event(SOLD), event(SOLD))
                    batch = read_batch(reader, batch.next)
                    assert [entry.offset for entry in batch.entries] == [(number, 1), (number, 2)]
                    assert (batch.is_end, batch.has_gap, batch.next) == (True, False, (number + 1, 0))
                assert read_batch(reader, batch.next).entries == ()

        with_journal(directory, run)

    def test_deleted_pages_are_a_gap(self, directory: Path) -> None:
        write_journal(directory, [[event(SOLD), event(SOLD)] for _ in range(6)])
        delete_before(directory, 4)
        with JournalReader(directory) as reader:
            for after, has_gap in (
                (START, False),
                (Offset(2, 1), True),
                (Offset(3, 0), True),
                (Offset(4, 0), False),
                (Offset(4, 1), False),
                (Offset(7, 0), False),
            ):
                batch = read_batch(reader, after)
                assert batch.has_gap is has_gap, after
                assert [entry.offset for entry in batch.entries] == [
                    offset for page in range(4, 7) for offset in ((page, 1), (page, 2)) if offset > after
                ]
            assert read_batch(reader, Offset(2, 1), limit=1).has_gap

    def test_pages_that_are_deleted_while_they_are_read_are_a_gap(self, directory: Path) -> None:
        large = Record(200, bytes(1 << 20))
        write_journal(directory, [[event(SOLD), large] for _ in range(12)])

        class Overtaken:
            """A reader that is overtaken behind its first page. It has fetched some more pages already."""

            directory = ""

            def __init__(self, reader: JournalReader) -> None:
                self._reader = reader

            @property
            def first(self) -> int:
                return self._reader.first

            def pages(self, since: int) -> Iterator[Page]:
                for page in self._reader.pages(since):
                    if page.number == 1:
                        delete_before(directory, 11)
                    yield page

        where = Selection(kinds=["event"])
        with JournalReader(directory) as reader:
            first = read_batch(cast("JournalReader", Overtaken(reader)), where=where)
            assert [entry.offset for entry in first.entries] == [
                (page, 1) for page in range(1, first.next.page)
            ]
            assert (first.is_end, first.has_gap) == (False, False)
            assert 1 < first.next.page < 11
            second = read_batch(reader, first.next, where=where)
            assert [entry.offset for entry in second.entries] == [(11, 1), (12, 1)]
            assert (second.is_end, second.has_gap) == (True, True)

    def test_damage_behind_a_gap_is_an_error(self, directory: Path) -> None:
        write_journal(directory, [[event(SOLD)], [event(SOLD)], [Record(EVENT, b"odd")]])
        delete_before(directory, 3)
        with (
            JournalReader(directory) as reader,
            pytest.raises(JournalCorruptError, match="record 1 of page 3"),
        ):
            read_batch(reader, Offset(1, 1))

    @pytest.mark.parametrize("after", [Offset(3, 1), Offset(4, 0), Offset(9, 9)])
    def test_an_offset_of_another_journal_is_refused(self, after: Offset, directory: Path) -> None:
        write_journal(directory, [[event(SOLD)], [event(SOLD)]])
        with JournalReader(directory) as reader:
            assert read_batch(reader, Offset(3, 0)).is_end
            with pytest.raises(
                JournalError, match=rf"ends before the offset {after}: the offset belongs to another"
            ):
                read_batch(reader, after)


class TestFromTheEnd:
    @settings(max_examples=12)
    @given(count=st.integers(0, 24), deleted=st.integers(0, 24), large=st.booleans())
    def test_pages_are_found_from_the_last_to_the_first(
        self, count: int, deleted: int, large: bool, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        directory = tmp_path_factory.mktemp("end") / "journal"
        body = Record(EVENT, bytes(400_000 if large else 10))
        write_journal(directory, [[body] for _ in range(count)])
        delete_before(directory, deleted)
        first = max(1, min(deleted, count))
        with JournalReader(directory) as reader:
            assert reader.last == count
            numbers = [page.number for page in pages_backward(reader, count)]
            assert numbers == list(range(count, first - 1, -1))
            middle = (first + count) // 2
            numbers = [page.number for page in pages_backward(reader, middle)]
            assert numbers == list(range(min(middle, count), first - 1, -1))
