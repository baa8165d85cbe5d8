"""The counters of the bus: what they count, what a snapshot contains, and how the balance detects errors."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from bandstand.bus import Frame, Kind, Metadata
from bandstand.bus.stats import COUNTERS, BusCounters, Stats

pytestmark = [pytest.mark.spec("C11", "C26")]


class TestASnapshot:
    @pytest.mark.parametrize("name", COUNTERS)
    def test_has_every_counter(self, name: str) -> None:
        counters = BusCounters()
        setattr(counters, name, getattr(counters, name) + 3)
        assert getattr(counters.stats(in_flight=0, timers_pending=0), name) == 3

    def test_has_nothing_but_the_counters_and_what_the_router_looks_up(self) -> None:
        assert set(Stats.__struct_fields__) == {*COUNTERS, "failed", "in_flight", "timers_pending"}

    def test_is_in_camel_case_on_the_wire(self) -> None:
        counters = BusCounters()
        counters.undelivered, counters.timers_scheduled = 2, 1
        counters.fail("Sys.Overloaded")
        written = msgspec.json.encode(counters.stats(in_flight=4, timers_pending=1))
        plain = msgspec.json.decode(written, type=dict[str, object])
        assert plain["undelivered"] == 2
        assert plain["timersScheduled"] == 1
        assert plain["inFlight"] == 4
        assert plain["failed"] == {"Sys.Overloaded": 1}
        assert not any("_" in key for key in plain)
        assert len(plain) == len(Stats.__struct_fields__), "a counter that is zero is told as well"
        assert msgspec.json.decode(written, type=Stats) == counters.stats(in_flight=4, timers_pending=1)


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
        counters = BusCounters()
        for index, end in enumerate(ends):
            counters.admitted += 1
            if end == "reply":
                counters.answered += 1
            elif end == "withdrawn":
                counters.withdrawn += 1
            elif end == "abandoned":
                # Whatever it was answered with.
                if index % 2:
                    counters.fail("Shop.SoldOut")
                    counters.abandon(answer("error", "Shop.SoldOut"))
                else:
                    counters.answered += 1
                    counters.abandon(answer("reply", "Shop.Buy"))
            elif end is not None:
                counters.fail(end)
        stats = counters.stats(in_flight=ends.count(None), timers_pending=0)
        assert stats.is_balanced
        assert stats.failures == sum(end not in OTHERS for end in ends)
        assert stats.abandoned == ends.count("abandoned")
        for name in set(ends) - OTHERS:
            assert stats.failed[str(name)] == ends.count(name)

    def test_a_request_that_was_answered_twice_breaks_it(self) -> None:
        counters = BusCounters()
        counters.admitted += 1
        counters.answered += 1
        counters.fail("Sys.Timeout")
        assert not counters.stats(in_flight=0, timers_pending=0).is_balanced

    @pytest.mark.parametrize(
        ("fired", "cancelled", "pending", "is_balanced"),
        [(1, 1, 1, True), (1, 1, 0, False), (2, 1, 1, False)],
    )
    def test_timers_likewise(self, fired: int, cancelled: int, pending: int, is_balanced: bool) -> None:
        counters = BusCounters()
        counters.timers_scheduled, counters.timers_fired, counters.timers_cancelled = 3, fired, cancelled
        assert counters.stats(in_flight=0, timers_pending=pending).is_balanced is is_balanced

    def test_what_was_misspelt_is_not_counted_in_silence(self) -> None:
        with pytest.raises(AttributeError):
            setattr(BusCounters(), "answerd", 1)  # noqa: B010  # a checker would refuse the plain form
