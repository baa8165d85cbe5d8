"""The reminders of a node as its journal says: the fold over their records.

    set         a reminder was set. One with the same definition stays as it is; another one is replaced
    tick        it was due: its command was sent, or its ticks were skipped
    cancelled   it was cancelled
    kept        part of a checkpoint: reminders as they are

**Numbers.** The command of each tick has an id, `owner/name/number`, that no other command of a reminder ever has. The number grows by one with each command, also when the reminder is
replaced. When a reminder ends, the book remembers the highest number of all that have ended, and a new one continues from there.

**Checkpoints.** A record of a checkpoint has many reminders: a hundred thousand records would take longer to read and to write than their content.

Everything here is pure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, final

import msgspec
from msgspec import Raw, Struct

from bandstand.bus.reminders.schedule import CronTimes, Every, Missed, Once, Schedule
from bandstand.bus.request_table import is_same_data
from bandstand.bus.wire import DECODE_ERRORS
from bandstand.errors import JournalCorruptError

if TYPE_CHECKING:
    from bandstand.bus.frame import Frame

__all__ = (
    "OWNER",
    "Key",
    "Reminder",
    "ReminderBook",
    "ReminderCancelled",
    "ReminderSet",
    "ReminderTick",
    "describe_record",
    "firing_id",
    "key_of_firing",
)

OWNER: Final = "reminders"
"""The name under which the journal has these records."""

Key: TypeAlias = tuple[str, str]
"""The owner and the name of a reminder."""

# How many bytes of reminders one record of a checkpoint has, about, and what a reminder takes besides its data.
_KEPT_BYTES: Final = 64 << 10
_REMINDER_BYTES: Final = 200


class Reminder(Struct, frozen=True, omit_defaults=True, gc=False):
    """A reminder."""

    owner: str
    name: str
    command: str
    """The type of the command that it sends."""
    data: Raw
    """The data of the command."""
    schedule: Schedule
    due: int
    """Its next tick, in milliseconds since 1970."""
    missed: Missed = "one"
    number: int = 0
    """The number of its last command."""
    last: int | None = None
    """The tick of its last command."""
    cause: str | None = None
    """The id of the message that has set it."""
    correlation: str | None = None

    @property
    def key(self) -> Key:
        """Its owner and its name."""
        return self.owner, self.name

    def is_same(self, other: Reminder) -> bool:
        """Return whether another reminder has the same definition."""
        return (
            (self.command, self.schedule, self.missed) == (other.command, other.schedule, other.missed)
            and self.key == other.key
            and is_same_data(bytes(self.data), bytes(other.data))
        )


class ReminderSet(Struct, frozen=True, tag_field="kind", tag="set"):
    """A reminder was set."""

    reminder: Reminder


class ReminderTick(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="tick"):
    """A reminder was due."""

    owner: str
    name: str
    number: int
    """The number of its last command."""
    tick: int | None = None
    """The tick whose command was sent; None if ticks were skipped."""
    due: int | None = None
    """Its next tick; None if it has ended."""


class ReminderCancelled(Struct, frozen=True, tag_field="kind", tag="cancelled"):
    """A reminder was cancelled."""

    owner: str
    name: str


class _Kept(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="kept"):
    """A part of a checkpoint."""

    highest: int
    """The highest number of the reminders that have ended."""
    reminders: Sequence[Reminder] = ()


_Record: TypeAlias = ReminderSet | ReminderTick | ReminderCancelled | _Kept
_decode = msgspec.json.Decoder(_Record).decode


def _read(data: Raw) -> _Record:
    try:
        found: _Record = _decode(data)
    except DECODE_ERRORS as error:
        raise JournalCorruptError(
            "a record of a reminder cannot be read: it was not written by a node of bandstand, or by a later version"
        ) from error
    return found


@final
class ReminderBook:
    """The reminders of a node. The `DataOwner` of their records."""

    __slots__ = ("_highest", "_reminders", "_sorted", "held_bytes")

    def __init__(self) -> None:
        self._reminders: dict[Key, Reminder] = {}
        self._highest = 0
        # The keys in their order, once they were asked for.
        self._sorted: list[Key] | None = None
        self.held_bytes = 0
        """The bytes of data in the reminders."""

    def __len__(self) -> int:
        return len(self._reminders)

    def __iter__(self) -> Iterator[Reminder]:
        return iter(self._reminders.values())

    def find(self, key: Key) -> Reminder | None:
        """Return a reminder; None if there is none with this owner and name."""
        return self._reminders.get(key)

    def page(self, owner: str | None, after: Key | None, limit: int) -> list[Reminder]:
        """Return reminders in the order of their owners and names.

        Args:
            owner: only those of this owner; None for all.
            after: only those behind this one; None for all.
            limit: how many at most.
        """
        if self._sorted is None:
            self._sorted = sorted(self._reminders)
        keys = self._sorted
        start = 0 if owner is None else bisect_left(keys, (owner, ""))
        if after is not None:
            start = max(start, bisect_right(keys, after))
        found = [self._reminders[key] for key in keys[start : start + limit]]
        return found if owner is None else [each for each in found if each.owner == owner]

    # -- the fold ------------------------------------------------------------------------------------------------------

    def apply(self, data: Raw, at: int, page: int, /) -> None:  # noqa: ARG002  # part of `DataOwner`
        """Take the next record.

        Raises:
            JournalCorruptError: it is not the record of a reminder.
        """
        match _read(data):
            case ReminderSet(reminder=reminder):
                before = self._reminders.get(reminder.key)
                if before is None or not before.is_same(reminder):
                    number = self._highest if before is None else before.number
                    self._put(msgspec.structs.replace(reminder, number=number, data=reminder.data.copy()))
            case ReminderTick() as tick:
                self._apply_tick(tick)
            case ReminderCancelled(owner=owner, name=name):
                self._remove((owner, name))
            case _Kept(highest=highest, reminders=reminders):
                self._highest = highest
                for reminder in reminders:
                    self._put(reminder)

    def _apply_tick(self, tick: ReminderTick) -> None:
        reminder = self._reminders.get((tick.owner, tick.name))
        if reminder is None:
            return
        last = reminder.last if tick.tick is None else tick.tick
        # Of one that has ended, the number is still needed.
        due = reminder.due if tick.due is None else tick.due
        changed = msgspec.structs.replace(reminder, number=tick.number, last=last, due=due)
        self._reminders[reminder.key] = changed
        if tick.due is None:
            self._remove(reminder.key)

    def _put(self, reminder: Reminder) -> None:
        before = self._reminders.get(reminder.key)
        self._reminders[reminder.key] = reminder
        self.held_bytes += len(reminder.data)
        if before is not None:
            self.held_bytes -= len(before.data)
        elif self._sorted is not None:
            insort(self._sorted, reminder.key)

    def _remove(self, key: Key) -> None:
        reminder = self._reminders.pop(key, None)
        if reminder is None:
            return
        self.held_bytes -= len(reminder.data)
        self._highest = max(self._highest, reminder.number)
        if self._sorted is not None:
            del self._sorted[bisect_left(self._sorted, key)]

    def clear(self) -> None:
        """Forget everything."""
        self._reminders.clear()
        self._sorted = None
        self._highest = self.held_bytes = 0

    def entries(self) -> Iterable[Raw]:
        """Yield the records of a checkpoint."""
        part: list[Reminder] = []
        size = 0
        for reminder in self._reminders.values():
            part.append(reminder)
            size += _REMINDER_BYTES + len(reminder.data)
            if size >= _KEPT_BYTES:
                yield self._kept(part)
                part, size = [], 0
        if part or self._highest:
            yield self._kept(part)

    def _kept(self, part: Sequence[Reminder]) -> Raw:
        return Raw(msgspec.json.encode(_Kept(self._highest, part)))


# -- the ids of commands -----------------------------------------------------------------------------------------------


def firing_id(reminder: Reminder, number: int) -> str:
    """Return the id of a command of a reminder."""
    return f"{reminder.owner}/{reminder.name}/{number}"


def key_of_firing(frame: Frame) -> tuple[Key, int] | None:
    """Return the key of the reminder whose command this may be, and the number of the command; None if its id has another form."""
    owner, _, rest = frame.metadata.id.partition("/")
    name, _, number = rest.rpartition("/")
    return ((owner, name), int(number)) if name and number.isdecimal() else None


# -- for people --------------------------------------------------------------------------------------------------------


def describe_record(data: Raw, show: Callable[[int], str]) -> str:
    """Return what a record says, on one line. `show` returns the text of a moment.

    Raises:
        JournalCorruptError: it is not the record of a reminder.
    """
    match _read(data):
        case ReminderSet(reminder=reminder):
            how = _describe_schedule(reminder.schedule)
            due = show(reminder.due)
            return f"set {reminder.owner}/{reminder.name}{how}, next {due}  {reminder.command} {bytes(reminder.data).decode(errors='replace')}"
        case ReminderTick(owner=owner, name=name, tick=tick, number=number, due=due):
            what = f"skipped {owner}/{name}" if tick is None else f"due {owner}/{name}/{number} {show(tick)}"
            return f"{what}, {'ended' if due is None else f'next {show(due)}'}"
        case ReminderCancelled(owner=owner, name=name):
            return f"cancelled {owner}/{name}"
        case _Kept(reminders=reminders):
            return f"{len(reminders)} reminder{'' if len(reminders) == 1 else 's'}"


def _describe_schedule(schedule: Schedule) -> str:
    match schedule:
        case Once():
            return ""
        case Every(period=period):
            return f" every {period / 1000:g} s"
        case CronTimes(expression=expression, timezone=timezone):
            return f" cron '{expression}' {timezone}"
