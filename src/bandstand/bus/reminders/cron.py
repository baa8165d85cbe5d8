"""Cron expressions: five fields, a time zone, and the next moment that matches.

    minute  hour  day of the month  month  day of the week
    0       3     *                 *      MON-FRI           at 03:00 from Monday to Friday

A field is `*`, or a list of numbers and ranges, with steps: `1,15`, `9-17`, `*/10`, `8-18/2`. Months and weekdays have names: `JAN`, `MON`. Sunday is 0 and 7.

**Days.** If both the day of the month and the day of the week are restricted, one of them has to match; otherwise both. A field is restricted if it does not
start with `*`. That is the rule of the cron of Debian.

**Time zones.** When clocks are set forward, some local times do not exist; when they are set back, some come twice. What should happen depends on what the expression
means. One whose minute or hour starts with `*`, such as `*/15 * * * *`, means a period: it matches every local time that a clock shows, twice if it is shown twice. Any other
expression means a time of the day: if that does not exist, the tick is at the end of the gap; if it comes twice, the tick is at the first one. So a job at 02:30 runs once on each
day of the year.

`zoneinfo` does not tell when the offset changes. So a day is looked at as a whole: if the offset is the same at its beginning and at its end, the time of a tick is found by arithmetic;
on the one or two other days of a year, all ticks of the day are computed.

Everything here is pure.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from calendar import monthrange
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Final, final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from bandstand.errors import InvalidArgumentError
from bandstand.errors.formatting import safe_repr

__all__ = ("Cron", "parse_cron", "parse_zone")

_MAX_LENGTH: Final = 200
# 29 February on a given weekday may be 40 years away, around 2100.
_HORIZON_MONTHS: Final = 12 * 60
_DAY_S: Final = 86_400
_EPOCH: Final = date(1970, 1, 1).toordinal()
_ONE_DAY: Final = timedelta(days=1)

_TERM: Final = re.compile(
    r"(?:(?P<star>\*)|(?P<first>\d{1,2}|[A-Z]{3})(?:-(?P<last>\d{1,2}|[A-Z]{3}))?)(?:/(?P<step>\d{1,2}))?",
    re.ASCII,
)
_ZONE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+/-]{0,63}", re.ASCII)
_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
# The name, the least and the greatest number, and the names of numbers.
_FIELDS: Final[tuple[tuple[str, int, int, dict[str, int]], ...]] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of the month", 1, 31, {}),
    ("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    ("day of the week", 0, 7, {name: number for number, name in enumerate(_WEEKDAYS)}),
)


@final
class Cron:
    """A cron expression in a time zone. `parse_cron` makes it."""

    __slots__ = ("_days", "_hours", "_is_period", "_minutes", "_months", "_needs_both", "_weekdays", "_zone")

    def __init__(self, words: list[str], fields: list[frozenset[int]], zone: ZoneInfo) -> None:
        minutes, hours, self._days, self._months, weekdays = fields
        self._minutes = tuple(sorted(minutes))
        self._hours = tuple(sorted(hours))
        self._weekdays = frozenset([number % 7 for number in weekdays])
        self._needs_both = words[2].startswith("*") or words[4].startswith("*")
        self._is_period = words[0].startswith("*") or words[1].startswith("*")
        self._zone = zone

    def next_after(self, at: int) -> int | None:
        """Return the first tick after a moment; None if there is none within sixty years. Both are in milliseconds since 1970."""
        seconds = at // 1000
        found: int | None = None
        try:
            # The day before may not have ended when the clock is set back over midnight.
            start = datetime.fromtimestamp(seconds, self._zone).date() - _ONE_DAY
            for day in self._days_from(start):
                offset = self._offset(day)
                tick = self._first_tick(day, offset, seconds)
                if found is not None:
                    found = found if tick is None else min(found, tick)
                    break
                found = tick
                if found is not None and offset is not None:
                    break
        except (OverflowError, ValueError):
            # The end of the calendar.
            pass
        return None if found is None else found * 1000

    def _days_from(self, start: date) -> Iterator[date]:
        """Yield the days that match, from a day on."""
        year, month, least = start.year, start.month, start.day
        for _ in range(_HORIZON_MONTHS):
            if month in self._months:
                first_weekday, length = monthrange(year, month)
                for day in range(least, length + 1):
                    is_day = day in self._days
                    # Monday is 0 for `monthrange`, and 1 here.
                    is_weekday = (first_weekday + day) % 7 in self._weekdays
                    if (is_day and is_weekday) if self._needs_both else (is_day or is_weekday):
                        yield date(year, month, day)
            year, month, least = (year, month + 1, 1) if month < 12 else (year + 1, 1, 1)

    def _offset(self, day: date) -> int | None:
        """Return the offset from UTC on a day, in seconds; None if it changes on that day."""
        first, last = _midnight(day), _midnight(day + _ONE_DAY)
        offsets = {self._offset_at(moment, fold) for moment in (first, last) for fold in (0, 1)}
        return offsets.pop() if len(offsets) == 1 else None

    def _offset_at(self, local: datetime, fold: int) -> int:
        """Return the offset from UTC at a local time, in seconds. Of two, `fold` says which one."""
        offset = local.replace(tzinfo=self._zone, fold=fold).utcoffset()
        assert offset is not None
        return offset // timedelta(seconds=1)

    def _first_tick(self, day: date, offset: int | None, after: int) -> int | None:
        """Return the first tick of a day after a moment, in seconds since 1970; None if there is none. `offset` is that of the day."""
        midnight = (day.toordinal() - _EPOCH) * _DAY_S
        if offset is None:
            return min((tick for tick in self._all_ticks(day, midnight) if tick > after), default=None)
        # The time of the day, and of that the minutes that are over.
        passed = (after - (midnight - offset)) // 60
        hours, minutes = self._hours, self._minutes
        if passed < 0:
            hour, minute = hours[0], minutes[0]
        else:
            hour, minute = divmod(passed, 60)
            place = bisect_right(minutes, minute) if hour in hours else len(minutes)
            if place < len(minutes):
                minute = minutes[place]
            else:
                place = bisect_right(hours, hour)
                if place == len(hours):
                    return None
                hour, minute = hours[place], minutes[0]
        return midnight - offset + hour * 3600 + minute * 60

    def _all_ticks(self, day: date, midnight: int) -> Iterator[int]:
        """Yield the ticks of a day on which the offset changes, in any order."""
        first = _midnight(day)
        for hour in self._hours:
            for minute in self._minutes:
                local = first.replace(hour=hour, minute=minute)
                seconds = midnight + hour * 3600 + minute * 60
                before, after = self._offset_at(local, 0), self._offset_at(local, 1)
                if before >= after:
                    yield seconds - before
                    if before > after and self._is_period:
                        # It comes twice.
                        yield seconds - after
                elif not self._is_period:
                    yield self._end_of_gap(seconds - after, seconds - before, before)

    def _end_of_gap(self, low: int, high: int, before: int) -> int:
        """Return the first second of another offset than `before`. It is after `low`, and at `high` at the latest."""
        while high - low > 1:
            middle = (low + high) // 2
            offset = datetime.fromtimestamp(middle, self._zone).utcoffset()
            assert offset is not None
            if offset // timedelta(seconds=1) == before:
                low = middle
            else:
                high = middle
        return high


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day)  # noqa: DTZ001  # a local time: its zone is asked for both offsets


# -- parsing -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def parse_cron(expression: str, zone: str) -> Cron:
    """Parse a cron expression.

    Args:
        expression: the expression.
        zone: the name of a time zone.

    Raises:
        InvalidArgumentError: one of them is not valid, or no day of any year matches. The text says which field is wrong.
    """
    words = expression.upper().split() if len(expression) <= _MAX_LENGTH else []
    if len(words) != len(_FIELDS):
        raise InvalidArgumentError(
            f"cron is {safe_repr(expression)}: pass five fields, minute, hour, day of the month, month and day of the week, as in '0 3 * * MON-FRI'"
        )
    fields = [_parse_field(expression, place, word) for place, word in enumerate(words)]
    cron = Cron(words, fields, parse_zone(zone))
    if cron.next_after(0) is None:
        raise InvalidArgumentError(
            f"cron is {safe_repr(expression)}: it never matches, because no such month has that day"
        )
    return cron


def parse_zone(name: str) -> ZoneInfo:
    """Return a time zone.

    Raises:
        InvalidArgumentError: there is none with this name on this machine.
    """
    if _ZONE.fullmatch(name):
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass
    raise InvalidArgumentError(
        f"timezone is {safe_repr(name)}: this machine knows no such time zone; pass a name of the IANA database, such as Europe/Berlin or UTC"
    )


def _parse_field(expression: str, place: int, word: str) -> frozenset[int]:
    name, least, greatest, names = _FIELDS[place]
    found: set[int] = set()
    for term in word.split(","):
        match = _TERM.fullmatch(term)
        numbers: range | None = None
        if match is not None:
            first, last = (
                (least, greatest)
                if match["star"]
                else (_number(match["first"], names), _number(match["last"] or match["first"], names))
            )
            step = int(match["step"] or 1)
            is_range = match["star"] or match["last"] or not match["step"]
            if least <= first <= last <= greatest and step and is_range:
                numbers = range(first, last + 1, step)
        if numbers is None:
            more = f" or {min(names, key=names.__getitem__)}" if names else ""
            raise InvalidArgumentError(
                f"cron is {safe_repr(expression)}: {safe_repr(term)} is not valid as {name}: pass *, a number from {least} to {greatest}{more}, or a range such as "
                f"{least}-{greatest - 1}; steps follow * or a range, as in */2"
            )
        found.update(numbers)
    return frozenset(found)


def _number(text: str, names: dict[str, int]) -> int:
    """Return a number or the number of a name; -1, which is in no range, for another name."""
    return int(text) if text.isdigit() else names.get(text, -1)
