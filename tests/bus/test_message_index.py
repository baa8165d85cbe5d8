"""The index of the messages in a journal: wherever it is, a search with it returns what a scan returns, and reads fewer pages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandstand.bus.durable.lineage import Lineage, find_lineage
from bandstand.bus.durable.message_index import (
    MessageIndex,
    PageWalk,
    keys_of_selection,
    message_index,
)
from bandstand.bus.durable.reader import START, Batch, Offset, Selection, read_batch
from bandstand.bus.durable.records import BEGAN, DEAD_ENDED, ENDED, EVENT, IS_DOUBTFUL, TIMER_ENDED
from bandstand.bus.frame import Frame, Kind
from bandstand.errors import JournalError, JournalFailedError
from bandstand.journal import JournalIndexReader, JournalReader, Page, Record, RecordPosition, storage
from tests.bus.node_journals import (
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

NAMES = ("a", "b", "c", "d", "e")
TYPES = ("Tea.Brew", "Tea.Pour", "Orders.Place", "Tea")
CORRELATIONS = ("task", "other")

SELECTIONS = [
    *(Selection(id=name) for name in (*NAMES, "nothing")),
    *(Selection(cause=name) for name in NAMES),
    *(Selection(correlation=name) for name in CORRELATIONS),
    Selection(key="ada"),
    *(Selection(types=[name]) for name in TYPES),
    Selection(types=["Tea.*"]),
    Selection(types=["Tea.*", "Orders.Place", "Nothing.*"]),
    Selection(types=["*"]),
    Selection(types=["Tea.*"], kinds=["request"], has_copies=True),
    Selection(id="a", types=["Tea.*"]),
    Selection(cause="a", correlation="task", has_copies=True),
]


@st.composite
def messages(draw: st.DrawFn, kind: Kind = "command") -> Frame:
    return frame(
        draw(st.sampled_from(NAMES)),
        kind,
        draw(st.sampled_from(TYPES)),
        cause=draw(st.sampled_from([*NAMES, None])),
        correlation=draw(st.sampled_from([*CORRELATIONS, None])),
    )


def open_at_checkpoint(number: int, waiting: Frame, later: Frame) -> list[Record]:
    return checkpoint(request(number, waiting), timer("t", later))


NUMBERS = st.integers(1, 5)
RECORDS: st.SearchStrategy[list[Record]] = st.one_of(
    *(
        each.map(lambda record: [record])
        for each in (
            st.builds(request, NUMBERS, messages()),
            st.builds(answer, NUMBERS, messages("reply"), st.sampled_from([0, IS_DOUBTFUL])),
            st.builds(
                numbers_record, st.sampled_from([BEGAN, ENDED]), st.lists(NUMBERS, min_size=1, max_size=3)
            ),
            st.builds(event, messages("event")),
            st.builds(entity_event, st.sampled_from(["ada", "bob"]), NUMBERS, messages("event")),
            st.builds(timer, st.sampled_from(NAMES), messages()),
            st.builds(dead, messages()),
            st.builds(
                Record, st.sampled_from([TIMER_ENDED, DEAD_ENDED]), st.sampled_from(NAMES).map(str.encode)
            ),
            st.just(Record(200, b"later")),
        )
    ),
    st.builds(open_at_checkpoint, NUMBERS, messages(), messages()),
)
PAGES = st.lists(
    st.lists(RECORDS, min_size=1, max_size=3).map(lambda lists: [each for some in lists for each in some]),
    min_size=1,
    max_size=8,
)


def build(directory: Path) -> None:
    """Bring the index up to date."""

    async def run() -> None:
        with JournalReader(directory) as reader:
            last = reader.last
        async with message_index(directory) as index:
            await index.reached(last)

    asyncio.run(run())


def refuse(error: JournalError) -> None:
    raise error


def batches(
    reader: JournalReader, where: Selection, index: MessageIndex | None, after: Offset, **bounds: Any
) -> list[Batch]:
    """Read from an offset to the end, with an index or without."""
    keys = keys_of_selection(where)

    def walk(since: int) -> Iterator[Page]:
        return iter(PageWalk(reader, index, since).want_all(keys or ()))

    found: list[Batch] = []
    while not found or not found[-1].is_end:
        pages = None if index is None or keys is None else walk
        found.append(read_batch(reader, after, where=where, pages=pages, **bounds))
        after = found[-1].next
    return found


def check_same(directory: Path, failures: list[JournalError] | None = None) -> None:
    """Check all selections and lineages with the index against a scan."""
    on_failure = refuse if failures is None else failures.append
    with JournalReader(directory) as reader:
        last = reader.last
        for where in SELECTIONS:
            for after in (START, Offset(1, 1), Offset(2, 0), Offset(last, 1), Offset(last + 1, 0)):
                for bounds in ({"limit": 1}, {"limit": 2, "max_bytes": 200}, {}):
                    with MessageIndex(reader, on_failure) as index:
                        seen = batches(reader, where, index, after, **bounds)
                    assert seen == batches(reader, where, None, after, **bounds), (where, after, bounds)
        for name in (*NAMES, "nothing"):
            for limit in (2, 1000):
                with MessageIndex(reader, on_failure) as index:
                    traced: Lineage | None = find_lineage(reader, name, limit, index=index)
                assert traced == find_lineage(reader, name, limit), (name, limit)


@pytest.mark.guarantee("G549")
class TestSameAsAScan:
    @settings(max_examples=12, deadline=None)
    @given(pages=PAGES, data=st.data())
    def test_wherever_the_index_is(
        self, pages: list[list[Record]], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        directory = tmp_path_factory.mktemp("same") / "journal"
        reached = data.draw(st.integers(0, len(pages)), "indexed")
        first = data.draw(st.integers(1, len(pages)), "first")
        write_journal(directory, pages[:reached])
        build(directory)
        write_journal(directory, pages[reached:])
        delete_before(directory, first)
        with JournalReader(directory) as reader, MessageIndex(reader, refuse) as index:
            assert (index.page, index.lag) == (reached, len(pages) - max(reached, first - 1))
        check_same(directory)

    @pytest.mark.parametrize("calls", range(8))
    def test_if_the_index_fails_on_the_way(
        self, calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is read one position at a time, and fails after some calls."""
        directory = tmp_path / "journal"
        write_journal(
            directory,
            [
                [request(1, frame("a", type="Tea.Brew", correlation="task"))],
                [event(frame("b", "event", "Tea.Pour", cause="a"))],
                [event(frame("e", "event", "Tea"))],
                [event(frame("c", "event", "Orders.Place", cause="b")), numbers_record(ENDED, [1])],
                [event(frame("e", "event", "Tea"))],
                [event(frame("d", "event", "Tea.Brew", cause="c", correlation="task"))],
                [event(frame("e", "event", "Tea.Pour", cause="d"))],
            ],
        )
        build(directory)
        original = JournalIndexReader.find
        left = calls

        def find(*arguments: Any, **options: Any) -> list[RecordPosition]:
            nonlocal left
            left -= 1
            if left < 0:
                raise JournalFailedError("the disk has failed")
            return original(*arguments, **{**options, "limit": 1})

        failed = 0
        monkeypatch.setattr(JournalIndexReader, "find", find)
        with JournalReader(directory) as reader:
            for where in SELECTIONS:
                left = calls
                failures: list[JournalError] = []
                with MessageIndex(reader, failures.append) as index:
                    assert batches(reader, where, index, START) == batches(reader, where, None, START)
                failed += len(failures)
                assert len(failures) <= 1
            for name in NAMES:
                left = calls
                failures = []
                with MessageIndex(reader, failures.append) as index:
                    assert find_lineage(reader, name, index=index) == find_lineage(reader, name)
                failed += len(failures)
                assert len(failures) <= 1
        assert failed

    def test_if_the_index_is_damaged(self, tmp_path: Path) -> None:
        directory = tmp_path / "journal"
        write_journal(
            directory, [[event(frame(name, "event")) for name in NAMES for _ in range(20)] for _ in range(3)]
        )
        build(directory)
        path = directory / "messages.sqlite"
        content = path.read_bytes()
        # The first pages have the schema and the progress.
        path.write_bytes(content[: 4 * 4096] + bytes(len(content) - 4 * 4096))
        failures: list[JournalError] = []
        check_same(directory, failures)
        assert failures

    def test_a_page_that_is_deleted_on_the_way_is_a_gap(self, tmp_path: Path) -> None:
        directory = tmp_path / "journal"
        write_journal(directory, [[event(frame("a", "event"))] for _ in range(9)])
        build(directory)
        where = Selection(id="a")
        with JournalReader(directory) as reader, MessageIndex(reader, refuse) as index:

            def walk(since: int, deleted: int = 0) -> Iterator[Page]:
                for page in PageWalk(reader, index, since).want_all([("id", "a")]):
                    yield page
                    if deleted and page.number == 1:
                        delete_before(directory, deleted)

            first = read_batch(reader, where=where, pages=partial(walk, deleted=6))
            assert ([each.offset for each in first.entries], first.is_end) == ([(1, 1)], False)
            second = read_batch(reader, first.next, where=where, pages=walk)
            assert [each.offset.page for each in second.entries] == [6, 7, 8, 9]
            assert (second.is_end, second.has_gap) == (True, True)


@pytest.mark.guarantee("G550")
class TestReadsLess:
    @pytest.fixture
    def read(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        """The numbers of the pages that are read."""
        numbers: list[int] = []
        original: Callable[..., Page] = storage._checked_page  # pyright: ignore[reportPrivateUsage]

        def checked(*arguments: Any) -> Page:
            page = original(*arguments)
            numbers.append(page.number)
            return page

        monkeypatch.setattr(storage, "_checked_page", checked)
        return numbers

    @pytest.fixture
    def directory(self, tmp_path: Path) -> Path:
        directory = tmp_path / "journal"
        pages = [[event(frame(f"m{number}", "event"))] for number in range(1, 101)]
        pages[29] = [request(1, frame("root", type="Tea.Brew"))]
        pages[49] = [event(frame("effect", "event", cause="root")), numbers_record(BEGAN, [1])]
        pages[69] = [numbers_record(ENDED, [1])]
        write_journal(directory, pages[:90])
        build(directory)
        write_journal(directory, pages[90:])
        return directory

    @pytest.mark.parametrize(
        ("where", "expected"),
        [
            (Selection(id="root"), [30]),
            (Selection(cause="root"), [50]),
            (Selection(types=["Tea.*"]), [30]),
            (Selection(id="nothing"), []),
        ],
        ids=repr,
    )
    def test_find(self, where: Selection, expected: list[int], directory: Path, read: list[int]) -> None:
        with JournalReader(directory) as reader, MessageIndex(reader, refuse) as index:
            read.clear()
            (batch,) = batches(reader, where, index, START)
        assert [each.offset.page for each in batch.entries] == expected
        # The first one, what was found, the last one that is indexed, and what is behind it.
        assert read == [1, *expected, *range(90, 101)]

    def test_lineage(self, directory: Path, read: list[int]) -> None:
        with JournalReader(directory) as reader, MessageIndex(reader, refuse) as index:
            read.clear()
            found = find_lineage(reader, "effect", index=index)
            assert found is not None
            assert [each.id for each in found.ancestors] == ["root"]
            assert sorted(set(read)) == [30, 50, *range(90, 101)]
            read.clear()
            found = find_lineage(reader, "root", index=index)
            assert found is not None
            assert [each.offset for each in found.message.records] == ["30-1", "50-2", "70-1"]
            assert sorted(set(read)) == [30, 50, 70, *range(90, 101)]

    def test_a_record_that_cannot_be_read_stops_the_index_before_it(self, directory: Path) -> None:
        write_journal(directory, [[Record(EVENT, b"no line")]])
        with pytest.raises(JournalError, match="cannot index record 1 of page 101"):
            build(directory)
        with JournalReader(directory) as reader, MessageIndex(reader, refuse) as index:
            assert index.page < 101
