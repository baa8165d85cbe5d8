"""When a reminder is due: once, every so often, or by a cron expression, and what becomes of ticks that were missed.

A *tick* is a moment at which a reminder is due. A tick cannot be sent at its time if the node is down, the clock jumps over it, or the command of the previous tick still
runs. Then several ticks may be due together, and the policy of the reminder decides:

    one     one command stands for all of them
    all     each has its command, one after the other
    none    one command, if the last of them was due within the last minute; otherwise none

Moments are milliseconds since 1970, periods are milliseconds. Everything here is pure.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from bandstand.bus.reminders.cron import parse_cron
from bandstand.errors import InvalidArgumentError
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import LONGEST_MS

__all__ = (
    "GRACE_MS",
    "CronTimes",
    "Every",
    "Missed",
    "Once",
    "Plan",
    "Schedule",
    "first_due",
    "from_datetime",
    "make_schedule",
    "next_due",
    "plan",
    "to_datetime",
)

Missed: TypeAlias = Literal["one", "all", "none"]
"""What becomes of ticks that could not be sent at their time."""

GRACE_MS: Final = 60_000
"""How late a tick may be for the policy `none`."""

# A journaled command each second is a lot for one reminder; `self.every` of a capability is for shorter periods.
_SHORTEST_MS: Final = 1000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)


class Once(Struct, frozen=True, tag="once", gc=False):
    """One tick."""

    at: int


class Every(Struct, frozen=True, tag="every", gc=False):
    """Ticks with the same distance."""

    period: int
    anchor: int | None = None
    """One of the ticks. None if the first one is a period after the reminder was set."""


class CronTimes(Struct, frozen=True, tag="cron", gc=False):
    """The ticks of a cron expression."""

    expression: str
    timezone: str


Schedule: TypeAlias = Once | Every | CronTimes


def make_schedule(
    now: int,
    *,
    at: datetime | None = None,
    after: int | None = None,
    every: int | None = None,
    cron: str | None = None,
    timezone: str | None = None,
) -> Schedule:
    """Check the arguments of a reminder, and return its schedule.

    Raises:
        InvalidArgumentError: they are not valid, contradict each other, or describe no moment in the future.
    """
    given = [
        name
        for name, value in (("at", at), ("after", after), ("every", every), ("cron", cron))
        if value is not None
    ]
    if len(given) != 1 and given != ["at", "every"]:
        raise InvalidArgumentError(
            f"{' and '.join(given) or 'no time'} {'are' if given else 'is'} given: pass one of at, after, every and cron, or every with at"
        )
    if timezone is not None and cron is None:
        raise InvalidArgumentError("timezone is given without cron: the other times do not depend on it")
    if cron is not None:
        parse_cron(cron, timezone or "UTC")
        return CronTimes(" ".join(cron.split()), timezone or "UTC")
    if after is not None:
        if not 0 <= after <= LONGEST_MS:
            raise InvalidArgumentError(f"after is {after} ms: pass from 0 to {LONGEST_MS}, a hundred years")
        return Once(now + after)
    moment = None if at is None else from_datetime("at", at)
    if every is not None:
        if not _SHORTEST_MS <= every <= LONGEST_MS:
            raise InvalidArgumentError(
                f"every is {every} ms: pass from {_SHORTEST_MS}, a second, to {LONGEST_MS}, a hundred years"
            )
        return Every(every, moment)
    assert moment is not None
    assert at is not None
    if moment < now:
        raise InvalidArgumentError(
            f"at is {at.isoformat()}, which has passed: it is {to_datetime(now).isoformat()}"
        )
    if moment > now + LONGEST_MS:
        raise InvalidArgumentError(f"at is {at.isoformat()}: pass a moment in the next hundred years")
    return Once(moment)


def first_due(schedule: Schedule, now: int) -> int | None:
    """Return the first tick of a reminder that is set now; None if there is none."""
    match schedule:
        case Once(at=at):
            return at
        case Every(period=period, anchor=anchor):
            if anchor is None:
                return now + period
            return anchor if anchor > now else next_due(schedule, anchor, now)
        case CronTimes():
            return next_due(schedule, now, now)


def next_due(schedule: Schedule, due: int, after: int) -> int | None:
    """Return the first tick after a moment; None if there is none.

    Args:
        schedule: the schedule.
        due: one of the ticks, not later than the moment.
        after: the moment.
    """
    match schedule:
        case Once():
            return None
        case Every(period=period):
            return due + ((after - due) // period + 1) * period
        case CronTimes(expression=expression, timezone=timezone):
            return parse_cron(expression, timezone).next_after(after)


class Plan(NamedTuple):
    """What a reminder does now."""

    tick: int | None
    """The tick whose command is sent; None if no command is sent."""
    due: int | None
    """When it is due next; None if it has ended."""


def plan(schedule: Schedule, due: int, now: int, missed: Missed) -> Plan:
    """Decide what a reminder does that was due at `due`, which is not later than `now`. The next tick is always later than `due`."""
    if missed == "all":
        return Plan(due, next_due(schedule, due, due))
    following = next_due(schedule, due, now)
    tick: int | None = due
    if missed == "none" and due < now - GRACE_MS:
        # The first tick of the last minute, if there is one.
        tick = next_due(schedule, due, now - GRACE_MS - 1)
        if tick is not None and tick > now:
            tick = None
    return Plan(tick, following)


# -- moments -----------------------------------------------------------------------------------------------------------


def from_datetime(name: str, value: datetime) -> int:
    """Return a moment in milliseconds since 1970. `name` is how an error names it.

    Raises:
        InvalidArgumentError: it is not a `datetime` with a time zone.
    """
    given: object = value
    if not isinstance(given, datetime) or given.utcoffset() is None:
        raise InvalidArgumentError(
            f"{name} is {safe_repr(value)}: pass a datetime with a time zone, as in datetime.now(UTC)"
        )
    return (value - _EPOCH) // _MS


def to_datetime(moment: int) -> datetime:
    """Return a moment as a `datetime` in UTC."""
    return _EPOCH + moment * _MS
