"""The built-in capability `Reminder`: clients set, cancel and list reminders with it."""

from __future__ import annotations

from datetime import datetime
from math import ceil
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from msgspec import Meta, Raw, Struct

from bandstand.bus.contracts.capability import Capability
from bandstand.bus.contracts.messages import Command, Query
from bandstand.bus.durations import parse_duration
from bandstand.bus.frame import Frame, Metadata, TypeName
from bandstand.bus.reminders.book import Reminder
from bandstand.bus.reminders.schedule import (
    CronTimes,
    Every,
    Missed,
    make_schedule,
    to_datetime,
)
from bandstand.bus.request import PendingRequest
from bandstand.errors import InvalidArgumentError

if TYPE_CHECKING:
    from bandstand.bus.reminders.book import Key
    from bandstand.bus.reminders.reminders import Reminders

__all__ = (
    "NODE",
    "CancelReminder",
    "CancelReminderResult",
    "ListReminders",
    "ReminderCapability",
    "ReminderInfo",
    "ReminderIsSet",
    "ReminderPage",
    "SetReminder",
)

NODE: Final = "node"
"""The owner of reminders that no capability has set."""

Owner: TypeAlias = Annotated[
    str,
    Meta(
        # The lookahead excludes the trailing newline that Python's `$` allows.
        pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,79}$(?!\n)",
        description="Whose reminder it is: the id of a capability, or any other word.",
        examples=["node"],
    ),
]
ReminderName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[^\x00-\x20\x7f-\xa0]{1,100}$(?!\n)",
        description="Its name. An owner has one reminder with a name.",
        examples=["nightly"],
    ),
]
Duration: TypeAlias = (
    Annotated[int, Meta(ge=0, description="Milliseconds.", examples=[5000])]
    | Annotated[
        str,
        Meta(
            pattern=r"^[0-9]{1,15}(\.[0-9]{1,3})? ?(ms|s|min|h|d)$(?!\n)",
            description="A number with a unit: ms, s, min, h or d.",
            examples=["5min"],
        ),
    ]
)


class ReminderIsSet(Struct):
    """A reminder that was set."""

    owner: str
    name: str
    due: datetime
    """When its command is sent next. Of one that was there already with the same definition: its own next time."""


class CancelReminderResult(Struct):
    """Whether a reminder was cancelled."""

    cancelled: bool
    """False if there was none."""


class ReminderInfo(Struct, omit_defaults=True):
    """A reminder."""

    owner: str
    name: str
    command: str
    data: Raw
    due: datetime
    """When its command is sent next."""
    missed: Missed
    sent: int
    """The number of its last command, which has the id `owner/name/number`."""
    last: datetime | None = None
    """The time that its last command was due."""
    running: bool = False
    """Whether its last command has no answer yet."""
    every: int | None = None
    """Milliseconds."""
    cron: str | None = None
    timezone: str | None = None


class ReminderPage(Struct, omit_defaults=True):
    """Reminders, in the order of their owners and names."""

    reminders: list[ReminderInfo]
    count: int
    """The number of all reminders of the node."""
    next: str | None = None
    """Pass it as `after` to continue; omitted at the end."""


class SetReminder(Command[ReminderIsSet], type="Reminder.Set", retry_safe=True, omit_defaults=True):
    """Send a command at a time by the wall clock, once or again and again, over restarts of the node. Pass one of at, after, every and cron."""

    name: ReminderName
    command: Annotated[
        TypeName, Meta(description="The type of the command to send.", examples=["Shop.CloseDay"])
    ]
    data: Raw = Raw(b"{}")
    owner: Owner = NODE
    at: (
        Annotated[
            datetime,
            Meta(tz=True, description="Once, at this moment; with every: the moment from which it counts."),
        ]
        | None
    ) = None
    after: Duration | None = None
    every: Duration | None = None
    cron: (
        Annotated[
            str,
            Meta(
                max_length=200,
                description="Minute, hour, day of the month, month, day of the week.",
                examples=["0 3 * * MON-FRI"],
            ),
        ]
        | None
    ) = None
    timezone: (
        Annotated[
            str, Meta(max_length=64, description="The time zone of cron; UTC by default.", examples=["UTC"])
        ]
        | None
    ) = None
    missed: Annotated[
        Missed,
        Meta(
            description="What becomes of times at which the node was down or the last command was still open: one command for all of them, all of them one by one, or none."
        ),
    ] = "one"


class CancelReminder(Command[CancelReminderResult], type="Reminder.Cancel", retry_safe=True):
    """Cancel a reminder. A command that it has sent already is not withdrawn."""

    name: ReminderName
    owner: Owner = NODE


class ListReminders(Query[ReminderPage], type="Reminder.List", remember=False):
    """List the reminders of the node, or those of one owner."""

    owner: Owner | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    after: (
        Annotated[
            str,
            Meta(
                max_length=200,
                description="Only those behind this one: the `next` of the page before.",
                examples=["node/nightly"],
            ),
        ]
        | None
    ) = None


class ReminderCapability(Capability):
    """Sends commands at times by the wall clock, and survives restarts of the node."""

    id = "Reminder"
    refuses = (InvalidArgumentError,)

    def __init__(self, reminders: Reminders) -> None:
        self._reminders = reminders

    def set(self, msg: SetReminder) -> ReminderIsSet:
        """Check a reminder as if its command were sent now, and set it."""
        item, now = self._item(), self._reminders.now_ms()
        schedule = make_schedule(
            now,
            at=msg.at,
            after=_parse_ms(msg.after),
            every=_parse_ms(msg.every),
            cron=msg.cron,
            timezone=msg.timezone,
        )
        asked = item.frame.metadata
        # Its id is that of the firing.
        metadata = Metadata("none", 0, asked.id, asked.correlation)
        frame = Frame(kind="command", type=msg.command, data=msg.data, metadata=metadata)
        due = self._reminders.set((msg.owner, msg.name), frame, schedule, msg.missed, _parent(item), "$.data")
        return ReminderIsSet(msg.owner, msg.name, to_datetime(due))

    def cancel(self, msg: CancelReminder) -> CancelReminderResult:
        """Cancel a reminder."""
        return CancelReminderResult(self._reminders.cancel((msg.owner, msg.name), _parent(self._item())))

    def list(self, msg: ListReminders) -> ReminderPage:
        """List reminders."""
        book = self._reminders.book
        after: Key | None = None
        if msg.after is not None:
            owner, _, name = msg.after.partition("/")
            after = (owner, name)
        found = book.page(msg.owner, after, msg.limit + 1)
        is_more = len(found) > msg.limit
        del found[msg.limit :]
        following = f"{found[-1].owner}/{found[-1].name}" if is_more else None
        return ReminderPage([self._info(each) for each in found], len(book), following)

    def _info(self, reminder: Reminder) -> ReminderInfo:
        schedule = reminder.schedule
        return ReminderInfo(
            reminder.owner,
            reminder.name,
            reminder.command,
            reminder.data,
            to_datetime(reminder.due),
            reminder.missed,
            reminder.number,
            None if reminder.last is None else to_datetime(reminder.last),
            self._reminders.is_running(reminder.key),
            schedule.period if isinstance(schedule, Every) else None,
            schedule.expression if isinstance(schedule, CronTimes) else None,
            schedule.timezone if isinstance(schedule, CronTimes) else None,
        )

    def _item(self) -> PendingRequest:
        item = self.bus.current_message
        assert isinstance(item, PendingRequest)
        return item


def _parent(item: PendingRequest) -> PendingRequest | None:
    """Return the request, if what it changes takes effect with its answer."""
    return item if item.entry is not None else None


def _parse_ms(duration: int | str | None) -> int | None:
    return ceil(parse_duration(duration) * 1000) if isinstance(duration, str) else duration
