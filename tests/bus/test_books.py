"""The books: what they count, what a snapshot is, and the laws that they can break."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from bandstand.bus import Frame, Kind, Metadata, books
from bandstand.bus.books import Books, Stats

pytestmark = [pytest.mark.spec("C11", "C26")]

COUNTERS = books.COUNTERS


class TestASnapshot:
    def test_of_new_books_is_all_zeros_and_balanced(self) -> None:
        stats = Books().statistics(in_flight=0, timers_pending=0)
        assert stats == Stats()
        assert stats.is_balanced

    @pytest.mark.parametrize("name", COUNTERS)
    def test_has_every_counter(self, name: str) -> None:
        books = Books()
        setattr(books, name, getattr(books, name) + 3)
        assert getattr(books.statistics(in_flight=0, timers_pending=0), name) == 3

    def test_has_nothing_but_the_counters_and_what_the_router_looks_up(self) -> None:
        assert set(Stats.__struct_fields__) == {*COUNTERS, "failed", "in_flight", "timers_pending"}

    def test_does_not_change_when_the_books_do(self) -> None:
        books = Books()
        books.fail("Sys.Timeout")
        stats = books.statistics(in_flight=0, timers_pending=0)
        books.fail("Sys.Timeout")
        books.admitted += 5
        assert stats.failed == {"Sys.Timeout": 1}
        assert stats.admitted == 0

    def test_is_in_camel_case_on_the_wire(self) -> None:
        books = Books()
        books.undelivered, books.timers_scheduled = 2, 1
        books.fail("Sys.Overloaded")
        written = msgspec.json.encode(books.statistics(in_flight=4, timers_pending=1))
        plain = msgspec.json.decode(written, type=dict[str, object])
        assert plain["undelivered"] == 2
        assert plain["timersScheduled"] == 1
        assert plain["inFlight"] == 4
        assert plain["failed"] == {"Sys.Overloaded": 1}
        assert not any("_" in key for key in plain)
        assert len(plain) == len(Stats.__struct_fields__), "a counter that is zero is told as well"
        assert msgspec.json.decode(written, type=Stats) == books.statistics(in_flight=4, timers_pending=1)


def answer(kind: Kind, type_name: str) -> Frame:
    return Frame(kind=kind, type=type_name, data=Raw(b"{}"), metadata=Metadata("x", 0))


OTHERS = {"reply", "withdrawn", "abandoned", None}


class TestTheLaw:
    @given(
        ends=st.lists(
            st.sampled_from(
                ["reply", "Sys.Timeout", "Sys.ActorCrash", "Shop.SoldOut", "withdrawn", "abandoned", None]
            )
        )
    )
    def test_every_request_has_one_end_or_is_in_flight(self, ends: list[str | None]) -> None:
        books = Books()
        for index, end in enumerate(ends):
            books.admitted += 1
            if end == "reply":
                books.answered += 1
            elif end == "withdrawn":
                books.withdrawn += 1
            elif end == "abandoned":
                # Whatever it was answered with.
                if index % 2:
                    books.fail("Shop.SoldOut")
                    books.abandon(answer("error", "Shop.SoldOut"))
                else:
                    books.answered += 1
                    books.abandon(answer("reply", "Shop.Buy"))
            elif end is not None:
                books.fail(end)
        stats = books.statistics(in_flight=ends.count(None), timers_pending=0)
        assert stats.is_balanced
        assert stats.failures == sum(end not in OTHERS for end in ends)
        assert stats.abandoned == ends.count("abandoned")
        for name in set(ends) - OTHERS:
            assert stats.failed[str(name)] == ends.count(name)

    def test_a_request_that_was_lost_breaks_it(self) -> None:
        books = Books()
        books.admitted += 1
        assert not books.statistics(in_flight=0, timers_pending=0).is_balanced

    def test_a_request_that_was_answered_twice_breaks_it(self) -> None:
        books = Books()
        books.admitted += 1
        books.answered += 1
        books.fail("Sys.Timeout")
        assert not books.statistics(in_flight=0, timers_pending=0).is_balanced

    @pytest.mark.parametrize(
        ("fired", "cancelled", "pending", "is_balanced"),
        [(1, 1, 1, True), (1, 1, 0, False), (2, 1, 1, False)],
    )
    def test_timers_likewise(self, fired: int, cancelled: int, pending: int, is_balanced: bool) -> None:
        books = Books()
        books.timers_scheduled, books.timers_fired, books.timers_cancelled = 3, fired, cancelled
        assert books.statistics(in_flight=0, timers_pending=pending).is_balanced is is_balanced

    def test_what_was_misspelt_is_not_counted_in_silence(self) -> None:
        with pytest.raises(AttributeError):
            setattr(Books(), "answerd", 1)  # noqa: B010  # a checker would refuse the plain form
