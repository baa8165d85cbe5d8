"""Cron expressions, compared with another implementation, with the definition, and at the changes of clocks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bandstand.bus.reminders.cron import parse_cron, parse_zone
from bandstand.errors import InvalidArgumentError

pytestmark = pytest.mark.guarantee("G527")

MINUTE = 60_000
BERLIN, NEW_YORK, LORD_HOWE, BEIRUT, APIA = (
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Beirut",
    "Pacific/Apia",
)
ZONES = ("UTC", BERLIN, NEW_YORK, LORD_HOWE, BEIRUT, APIA, "Asia/Kathmandu", "Africa/Cairo")


def terms(least: int, greatest: int) -> st.SearchStrategy[str]:
    numbers = st.integers(least, greatest)
    ranges = (
        st.lists(numbers, min_size=2, max_size=2, unique=True)
        .map(sorted)
        .map(lambda pair: f"{pair[0]}-{pair[1]}")
    )
    return st.one_of(
        numbers.map(str),
        ranges,
        st.tuples(ranges, st.integers(1, 20)).map(lambda pair: f"{pair[0]}/{pair[1]}"),
    )


def fields(least: int, greatest: int) -> st.SearchStrategy[str]:
    return st.one_of(
        st.just("*"),
        st.integers(1, 30).map("*/{}".format),
        st.lists(terms(least, greatest), min_size=1, max_size=3).map(",".join),
    )


TIMES_OF_DAY = st.tuples(
    st.lists(terms(0, 59), min_size=1, max_size=2).map(",".join),
    st.lists(terms(0, 23), min_size=1, max_size=2).map(",".join),
)
DAYS = st.tuples(fields(1, 31), fields(1, 12), fields(0, 7))
MOMENTS = st.integers(946_684_800, 2_200_000_000)


def ticks(expression: str, zone: str, after: int, count: int) -> list[int]:
    """The next ticks, in seconds since 1970."""
    cron, found = parse_cron(expression, zone), after * 1000
    result: list[int] = []
    for _ in range(count):
        following = cron.next_after(found)
        if following is None:
            break
        found = following
        result.append(found // 1000)
    return result


def others(expression: str, zone: str, after: int) -> Iterator[int]:
    """The same by another implementation, without repetitions."""
    last = after
    for moment in CronSim(expression, datetime.fromtimestamp(after, ZoneInfo(zone))):
        if (seconds := int(moment.timestamp())) != last:
            yield (last := seconds)


def is_valid(expression: str) -> bool:
    try:
        parse_cron(expression, "UTC")
    except InvalidArgumentError:
        return False
    return True


@pytest.mark.slow
@given(time=st.tuples(fields(0, 59), fields(0, 23)), days=DAYS, after=MOMENTS)
@settings(max_examples=60)
def test_in_utc_every_expression_is_as_another_implementation_says(
    time: tuple[str, str], days: tuple[str, str, str], after: int
) -> None:
    expression = " ".join(time + days)
    assume(is_valid(expression))
    assert ticks(expression, "UTC", after, 5) == list(islice(others(expression, "UTC", after), 5))


@pytest.mark.slow
@given(time=TIMES_OF_DAY, days=DAYS, zone=st.sampled_from(ZONES), after=MOMENTS)
@settings(max_examples=60)
def test_times_of_the_day_are_as_another_implementation_says_in_every_zone(
    time: tuple[str, str], days: tuple[str, str, str], zone: str, after: int
) -> None:
    expression = " ".join(time + days)
    assume(is_valid(expression))
    assert ticks(expression, zone, after, 5) == list(islice(others(expression, zone, after), 5))


# The change of a clock and three hours before it, in UTC.
CHANGES = (
    (BERLIN, datetime(2026, 3, 28, 22, tzinfo=UTC)),
    (BERLIN, datetime(2026, 10, 24, 22, tzinfo=UTC)),
    (NEW_YORK, datetime(2026, 11, 1, 3, tzinfo=UTC)),
    (LORD_HOWE, datetime(2026, 4, 4, 12, tzinfo=UTC)),
    (LORD_HOWE, datetime(2026, 10, 3, 12, tzinfo=UTC)),
    # At midnight, forward and back; and a day that does not exist.
    (BEIRUT, datetime(2026, 3, 28, 19, tzinfo=UTC)),
    (BEIRUT, datetime(2026, 10, 24, 18, tzinfo=UTC)),
    (APIA, datetime(2011, 12, 30, 7, tzinfo=UTC)),
    # At 00:01, back to 23:01.
    ("America/St_Johns", datetime(2006, 10, 28, 23, tzinfo=UTC)),
)


@pytest.mark.parametrize(("zone", "start"), CHANGES)
@pytest.mark.parametrize("minutes", ["*/7"])
@pytest.mark.parametrize("hours", ["*", "*/5", "1,2,23"])
def test_a_period_matches_every_local_time_that_a_clock_shows(
    zone: str, start: datetime, minutes: str, hours: str
) -> None:
    allowed = CronSim(f"{minutes} {hours} * * *", start)
    local = ZoneInfo(zone)
    expected: list[int] = []
    for minute in range(1, 9 * 60):
        moment = start + timedelta(minutes=minute)
        shown = moment.astimezone(local)
        if shown.minute in allowed.minutes and shown.hour in allowed.hours:
            expected.append(int(moment.timestamp()))
    found = ticks(f"{minutes} {hours} * * *", zone, int(start.timestamp()), len(expected) + 1)
    assert found[: len(expected)] == expected
    assert len(found) == len(expected) + 1
    assert found[-1] >= start.timestamp() + 9 * 3600


@pytest.mark.parametrize(
    ("expression", "zone", "after", "expected"),
    [
        # 02:30 does not exist on 29 March in Berlin: the tick is at the end of the gap.
        ("30 2 * * *", BERLIN, "2026-03-28T12:00+01:00", ["2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"]),
        ("0 2,3 * * *", BERLIN, "2026-03-29T00:00+01:00", ["2026-03-29T03:00+02:00", "2026-03-30T02:00+02:00"]),
        # It comes twice on 25 October: the tick is at the first one.
        ("30 2 * * *", BERLIN, "2026-10-24T12:00+02:00", ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"]),
        ("30 2 * * *", BERLIN, "2026-10-25T02:30+02:00", ["2026-10-26T02:30+01:00"]),
        # A period goes on.
        ("30 * * * *", BERLIN, "2026-10-25T01:45+02:00", ["2026-10-25T02:30+02:00", "2026-10-25T02:30+01:00"]),
        ("30 * * * *", BERLIN, "2026-03-29T01:00+01:00", ["2026-03-29T01:30+01:00", "2026-03-29T03:30+02:00"]),
        # Half an hour, at midnight, and a whole day.
        ("15 2 * * *", LORD_HOWE, "2026-10-03T12:00+10:30", ["2026-10-04T02:30+11:00", "2026-10-05T02:15+11:00"]),
        ("5 0 * * *", BEIRUT, "2026-03-28T12:00+02:00", ["2026-03-29T01:00+03:00", "2026-03-30T00:05+03:00"]),
        ("0 9 30 12 *", APIA, "2011-12-29T12:00-10:00", ["2011-12-31T00:00+14:00", "2012-12-30T09:00+14:00"]),
        # Days: one of both if both are restricted, otherwise both.
        ("0 0 13 * FRI", "UTC", "2026-02-01T00:00+00:00", ["2026-02-06T00:00+00:00", "2026-02-13T00:00+00:00"]),
        ("0 0 13 * */5", "UTC", "2026-01-01T00:00+00:00", ["2026-02-13T00:00+00:00", "2026-03-13T00:00+00:00"]),
        ("0 0 29 2 *", "UTC", "2097-01-01T00:00+00:00", ["2104-02-29T00:00+00:00", "2108-02-29T00:00+00:00"]),
        ("0 0 29 feb */7", "UTC", "2080-01-01T00:00+00:00", ["2088-02-29T00:00+00:00", "2128-02-29T00:00+00:00"]),
        ("0 0 * * 7", "UTC", "2026-01-01T00:00+00:00", ["2026-01-04T00:00+00:00", "2026-01-11T00:00+00:00"]),
        ("0 0 1 JAN-MAR,dec *", "UTC", "2026-02-01T00:00+00:00", ["2026-03-01T00:00+00:00", "2026-12-01T00:00+00:00"]),
    ],
)  # fmt: skip
def test_edges(expression: str, zone: str, after: str, expected: list[str]) -> None:
    start = int(datetime.fromisoformat(after).timestamp())
    found = ticks(expression, zone, start, len(expected))
    local = [datetime.fromtimestamp(each, ZoneInfo(zone)).isoformat(timespec="minutes") for each in found]
    assert local == expected


def test_a_tick_is_later_than_the_moment_also_between_seconds() -> None:
    cron = parse_cron("* * * * *", "UTC")
    assert [cron.next_after(at) for at in (0, 1, 59_999, 60_000)] == [MINUTE, MINUTE, MINUTE, 2 * MINUTE]
    # Before 1970, and at the end of the calendar.
    assert cron.next_after(-1) == 0
    assert cron.next_after(253_402_300_740_000) is None
    assert cron.next_after(10**18) is None


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("", "pass five fields"),
        ("* * * *", "pass five fields"),
        ("* * * * * *", "pass five fields"),
        ("* " * 200, "pass five fields"),
        ("60 * * * *", "'60' is not valid as minute: pass *, a number from 0 to 59"),
        ("* 24 * * *", "'24' is not valid as hour"),
        ("* * 0 * *", "'0' is not valid as day of the month"),
        ("* * 32 * *", "'32' is not valid as day of the month"),
        ("* * * 13 *", "a number from 1 to 12 or JAN"),
        ("* * * * 8", "a number from 0 to 7 or SUN"),
        ("* * * MON *", "'MON' is not valid as month"),
        ("*/0 * * * *", "'*/0' is not valid as minute"),
        ("5/15 * * * *", "steps follow * or a range"),
        ("10-5 * * * *", "'10-5' is not valid as minute"),
        ("1,,2 * * * *", "'' is not valid as minute"),
        ("-1 * * * *", "'-1' is not valid"),
        ("1-2-3 * * * *", "'1-2-3' is not valid"),
        ("٣ * * * *", "is not valid"),
        ("* * L * *", "'L' is not valid"),
        ("0 0 31 2 *", "it never matches"),
        ("0 0 30,31 2 *", "it never matches"),
        ("0 0 31 4,6,9,11 *", "it never matches"),
        ("@daily", "pass five fields"),
    ],
)
def test_what_is_not_an_expression_is_refused_with_the_field(expression: str, text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        parse_cron(expression, "UTC")
    assert text in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["", "Berlin", "Europe", "../../etc/passwd", "/etc/passwd", "Europe/../Europe/Berlin", "a" * 65, "UTC\n", "\0", "\ud800"],
)  # fmt: skip
def test_what_is_not_a_time_zone_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="this machine knows no such time zone"):
        parse_zone(name)


@given(text=st.text(alphabet="*/-,0123456789 JANMOFRISU\n\t", max_size=40))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    try:
        cron = parse_cron(text, random.Random(len(text)).choice(ZONES))
    except InvalidArgumentError:
        return
    found = cron.next_after(0)
    assert found is not None
    assert found > 0
