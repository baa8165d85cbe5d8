"""The replay check: it folds a journal as a start of a node does, and finds each checkpoint that says something else than the records before it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bandstand.bus.durable.check import Content, ReplayReport, check_replay, count_content
from bandstand.bus.durable.records import (
    BEGAN,
    BOOT,
    CHECKPOINT,
    DATA,
    DEAD_ENDED,
    ENDED,
    IS_BEGUN,
    IS_DOUBTFUL,
    IS_REMEMBERED,
    TIMER_ENDED,
    Checkpoint,
    json_record,
)
from bandstand.bus.durable.state import DurableState
from bandstand.errors import JournalCorruptError
from bandstand.journal import Page, Record
from tests.bus.node_journals import NOON, answer, dead, event, frame, numbers_record, request, timer

numbers = st.integers(1, 6)


def request_of(number: int, flags: int = 0) -> Record:
    return request(number, frame(f"id-{number}"), flags)


def ended(kind: int, number: int) -> Record:
    return numbers_record(kind, [number])


def answer_of(number: int, flags: int) -> Record:
    return answer(number, frame("a", "reply", cause=f"id-{number}"), flags)


def timer_of(number: int) -> Record:
    return timer(f"t-{number}", frame("late"))


def timer_ended(number: int) -> Record:
    return Record(TIMER_ENDED, f"t-{number}".encode())


def dead_of(number: int) -> Record:
    return dead(frame(f"id-{number}"))


def dead_ended(number: int) -> Record:
    return Record(DEAD_ENDED, f"id-{number}".encode())


steps = st.one_of(
    st.builds(request_of, numbers, st.sampled_from([0, IS_BEGUN])),
    st.builds(ended, st.sampled_from([BEGAN, ENDED]), numbers),
    st.builds(answer_of, numbers, st.sampled_from([0, IS_REMEMBERED, IS_DOUBTFUL])),
    st.builds(timer_of, numbers),
    st.builds(timer_ended, numbers),
    st.builds(dead_of, numbers),
    st.builds(dead_ended, numbers),
    st.just(event(frame("e", "event"))),
    st.just(Record(DATA, b'{"owner":"entities","data":1}')),
)
batches = st.lists(st.lists(steps, max_size=8), min_size=1, max_size=6)


def page(number: int, records: Sequence[Record]) -> Page:
    return Page(number, NOON + number, tuple(records), 0)


def pages_of(batches: Sequence[Sequence[Record]], *, first: int = 1) -> list[Page]:
    """Each batch in a page of its own, and a page with a checkpoint behind it."""
    state = DurableState()
    pages: list[Page] = []
    for batch in batches:
        for record in batch:
            state.apply(record, NOON)
        for records in (batch, list(state.checkpoint(0))):
            if records:
                pages.append(page(first + len(pages), records))
    return pages


@pytest.mark.guarantee("G507")
class TestReplay:
    @given(batches=batches)
    def test_right_checkpoints_agree(self, batches: list[list[Record]]) -> None:
        found = check_replay(pages_of(batches))
        assert found.disagreements == []
        assert (found.checkpoints, found.compared) == (len(batches), len(batches))

    @given(batches=batches)
    def test_the_state_is_that_of_a_start(self, batches: list[list[Record]]) -> None:
        pages = pages_of(batches)
        state = DurableState()
        for each in pages:
            for record in each.records:
                state.apply(record, each.at, each.number)
        found = check_replay(pages)
        assert found.next_number == state.next_number
        assert found.open == [f"id-{number}" for number in state.open]
        assert found.begun == [f"id-{number}" for number, each in state.open.items() if each.begun]
        assert found.doubtful == [f"id-{number}" for number in state.doubtful]
        assert (found.timers, found.dead) == (list(state.timers), list(state.dead))

    @given(batches=batches, data=st.data())
    def test_a_checkpoint_that_lacks_something_is_named(
        self, batches: list[list[Record]], data: st.DataObject
    ) -> None:
        pages = pages_of(batches)
        wrong = data.draw(st.sampled_from([each for each in pages if each.records[0].kind == CHECKPOINT]))
        # The data of parts are not compared.
        places = [place for place, each in enumerate(wrong.records) if place and each.kind != DATA]
        assume(places)
        place = data.draw(st.sampled_from(places))
        records = [record for other, record in enumerate(wrong.records) if other != place]
        changed = [page(each.number, records) if each is wrong else each for each in pages]
        assert wrong.number in [each.page for each in check_replay(changed).disagreements]

    def test_the_differences_say_what_it_is(self) -> None:
        done = [request_of(8), numbers_record(ENDED, [8])]
        kept = [request_of(1), request_of(2, IS_BEGUN), *done, timer("t-1", frame("late"))]
        wrong = [
            json_record(CHECKPOINT, Checkpoint(next_number=5, read_from=0)),
            request_of(2),
            request_of(4),
            dead(frame("id-3")),
        ]
        found = check_replay([page(1, kept), page(2, wrong)])
        (disagreement,) = found.disagreements
        assert disagreement.page == 2
        assert disagreement.differences == [
            "the next request has number 9, and the checkpoint says 5",
            "request 1 is open, and the checkpoint does not have it",
            "request 2 is not the same in the checkpoint",
            "request 4 is in the checkpoint, and is not open",
            "timer t-1 is open, and the checkpoint does not have it",
            "dead letter id-3 is in the checkpoint, and is not open",
        ]
        # A start of a node believes it.
        assert found.open == ["id-2", "id-4"]

    def test_a_checkpoint_skips_the_numbers_of_requests_that_are_not_written_yet(self) -> None:
        skips = json_record(CHECKPOINT, Checkpoint(next_number=9, read_from=0))
        found = check_replay(
            [page(1, [request_of(1)]), page(2, [skips, request_of(1)]), page(3, [request_of(7)])]
        )
        assert found.disagreements == []
        assert found.next_number == 9

    def test_a_wrong_checkpoint_does_not_make_the_next_one_wrong(self) -> None:
        wrong = json_record(CHECKPOINT, Checkpoint(next_number=2, read_from=0))
        found = check_replay([page(1, [request_of(1)]), page(2, [wrong]), page(3, [wrong])])
        assert [each.page for each in found.disagreements] == [2]

    def test_after_a_deletion_the_first_checkpoint_is_the_beginning(self) -> None:
        pages = pages_of([[request_of(1)], [request_of(2)], [numbers_record(ENDED, [1])]])
        found = check_replay(pages[2:])
        assert (found.checkpoints, found.compared, found.disagreements) == (2, 1, [])
        assert (found.open, found.newest_checkpoint) == (["id-2"], 6)

    def test_others_may_write_into_the_page_of_a_checkpoint(self) -> None:
        before, after = [request_of(1), request_of(2)], [request_of(3), numbers_record(ENDED, [1])]
        state = DurableState()
        for record in before:
            state.apply(record, NOON)
        found = check_replay([page(1, [before[0]]), page(2, [before[1], *state.checkpoint(0), *after])])
        assert (found.disagreements, found.compared, found.open) == ([], 1, ["id-2", "id-3"])

    def test_an_empty_journal_has_nothing_open(self) -> None:
        assert check_replay([]) == ReplayReport()

    def test_starts_are_counted(self) -> None:
        boot = Record(BOOT, b'{"version":"1","at":5,"pid":7}')
        assert check_replay([page(1, [boot]), page(2, [boot])]).starts == 2


@pytest.mark.guarantee("G502")
class TestContent:
    def test_records_are_counted_up_to_the_first_that_cannot_be_read(self) -> None:
        pages = [
            page(4, [request_of(1), event(frame("e", "event"))]),
            page(5, [Record(200, b"later")]),
            page(6, [request_of(2), Record(TIMER_ENDED, b"\xff")]),
        ]
        content = Content()
        with pytest.raises(JournalCorruptError, match="record 2 of page 6 cannot be read"):
            list(count_content(pages, content))
        assert (content.first, content.last, content.pages, content.records) == (4, 5, 2, 3)
        assert (content.since, content.until) == (NOON + 4, NOON + 5)
        assert (dict(content.kinds), content.unknown) == ({"request": 1, "event": 1, "200": 1}, 1)
        assert content.copies == 0
        assert content.bytes == sum(len(record.data) for each in pages[:2] for record in each.records)
        assert msgspec.json.decode(msgspec.json.encode(content))["kinds"] == content.kinds

    def test_copies_are_counted_apart(self) -> None:
        content = Content()
        list(count_content(pages_of([[request_of(1), timer_of(2)], [numbers_record(ENDED, [1])]]), content))
        assert dict(content.kinds) == {"request": 1, "timer": 1, "checkpoint": 2, "ended": 1}
        assert (content.copies, content.records) == (3, 8)
