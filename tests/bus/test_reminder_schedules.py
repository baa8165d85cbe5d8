"""The arithmetic of reminders: which tick comes next, and what is sent for ticks that were missed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.bus.reminders.schedule import (
    GRACE_MS,
    CronTimes,
    Every,
    Missed,
    Once,
    Schedule,
    first_due,
    make_schedule,
    next_due,
    plan,
    to_datetime,
)
from bandstand.errors import InvalidArgumentError

pytestmark = pytest.mark.guarantee("G528")

NOON = 1_767_960_000_000
S = 1000

SCHEDULES: st.SearchStrategy[Schedule] = st.one_of(
    st.integers(NOON, NOON + 600 * S).map(Once),
    st.builds(Every, st.integers(S, 200 * S), st.none() | st.integers(NOON - 600 * S, NOON + 600 * S)),
    st.sampled_from(["* * * * *", "*/3 * * * *", "0 12 * * *", "30 12 9 1 *"]).map(
        lambda expression: CronTimes(expression, "UTC")
    ),
)


def all_ticks(schedule: Schedule, first: int, until: int) -> list[int]:
    """Every tick up to a moment, one after the other."""
    found: list[int] = []
    due: int | None = first
    while due is not None and due <= until:
        found.append(due)
        due = next_due(schedule, due, due)
    return found


@given(schedule=SCHEDULES, late=st.integers(0, 900 * S), missed=st.sampled_from(["one", "all", "none"]))
def test_a_plan_is_what_the_single_ticks_say(schedule: Schedule, late: int, missed: Missed) -> None:
    due = first_due(schedule, NOON)
    assert due is not None
    assert due >= NOON
    now = due + late
    ticks = all_ticks(schedule, due, now)
    tick, following = plan(schedule, due, now, missed)
    if missed == "all":
        assert tick == ticks[0]
        assert following == next_due(schedule, due, due)
    else:
        # None of them is due again.
        assert following is None or following > now
        recent = [each for each in ticks if each >= now - GRACE_MS]
        if missed == "one":
            assert tick == ticks[0]
        else:
            assert tick == (recent[0] if recent else None)
    if following is not None:
        assert following > due
        assert next_due(schedule, due, following - 1) == following


@given(
    period=st.integers(S, 10**9), anchor=st.integers(0, NOON), now=st.integers(NOON - 10**6, NOON + 10**12)
)
def test_periods_count_from_their_anchor(period: int, anchor: int, now: int) -> None:
    due = first_due(Every(period, anchor), now)
    assert due is not None
    assert due == anchor or now < due <= now + period
    assert (due - anchor) % period == 0


def test_what_is_given_becomes_a_schedule() -> None:
    at = datetime(2027, 1, 1, tzinfo=UTC)
    ms = int(at.timestamp()) * S
    assert make_schedule(NOON, at=at) == Once(ms)
    assert make_schedule(NOON, after=5) == Once(NOON + 5)
    assert make_schedule(NOON, every=5 * S) == Every(5 * S)
    assert make_schedule(NOON, every=5 * S, at=at) == Every(5 * S, ms)
    assert make_schedule(NOON, cron="  0  3 * * *  ") == CronTimes("0 3 * * *", "UTC")
    assert make_schedule(NOON, cron="0 3 * * *", timezone="Europe/Berlin") == CronTimes(
        "0 3 * * *", "Europe/Berlin"
    )
    assert first_due(CronTimes("0 0 1 1 *", "UTC"), 10**16) is None
    assert to_datetime(ms) == at
    with pytest.raises(InvalidArgumentError, match="pass one of at, after, every and cron"):
        make_schedule(NOON)
