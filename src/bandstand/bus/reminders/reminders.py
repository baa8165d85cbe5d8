"""The reminders of a running node: which one is due, and the commands that they send.

**Exactly once.** The record that a tick is over and the request of its command are in one page of the journal. After a crash, either both are there, and the request is recovered like
any other; or none is, and the tick is still due. While a record of a reminder is on its way to the disk, the reminder sends nothing: so it decides on durable state only.

**The wall clock.** The timer wheel runs on another clock, which does not notice when the wall clock is set. So the timer is never set for longer than `_CHECK_MS`, and what is due is decided
by the wall clock each time. If that is set back, nothing is due until it has caught up: the next tick of a reminder is always later than the last one.

**One command at a time.** While the command of a reminder is open, its further ticks wait, and are then treated as missed ones: see `schedule`. So a slow handler never has a queue of its
own reminder's commands, and `missed="all"` after a long time does not flood it.

**Many at once.** Ten thousand reminders may be due at midnight. A reminder waits while half of the mailbox of its capability is taken, or while `FIRINGS_AT_ONCE` commands of reminders are open; each
answer lets the next one through. There is one timer and a heap, and no object for each reminder besides its state.

Everything here runs in turns of the router.
"""

from __future__ import annotations

import re
from collections import deque
from functools import partial
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, NoReturn, get_args

from bandstand.bus.admission import CreditLimit
from bandstand.bus.config import FIRINGS_AT_ONCE
from bandstand.bus.durable.lane import HeldWrite
from bandstand.bus.faults import OVERLOADED, ROUTING_ERROR, FaultAnswer
from bandstand.bus.frame import Frame, Metadata
from bandstand.bus.reminders.book import (
    OWNER,
    Key,
    Reminder,
    ReminderBook,
    ReminderCancelled,
    ReminderSet,
    ReminderTick,
    firing_id,
    key_of_firing,
)
from bandstand.bus.reminders.cron import parse_cron
from bandstand.bus.reminders.schedule import CronTimes, Missed, Schedule, first_due, plan
from bandstand.bus.request import NO_REQUESTER, NoRequester, PendingRequest, Requester
from bandstand.errors import InvalidArgumentError, RefusedError
from bandstand.errors.formatting import safe_repr, safe_str

if TYPE_CHECKING:
    from bandstand.bus.capability_slot import CapabilitySlot
    from bandstand.bus.durable.lane import DurableLane
    from bandstand.bus.router import Router
    from bandstand.core import TimerId

__all__ = ("MAX_DATA_BYTES", "Reminders", "RemindersDue")

MAX_DATA_BYTES: Final = 64 << 10
"""The maximum number of bytes of data of one reminder."""
_OWNER: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,79}", re.ASCII)
# No spaces, control characters or halves of surrogate pairs.
_NAME: Final = re.compile(r"[^\x00-\x20\x7f-\xa0\ud800-\udfff]{1,100}")
# Of all reminders together.
_MAX_BYTES: Final = 256 << 20
# How long the timer is set at most. A jump of the wall clock is noticed after this time.
_CHECK_MS: Final = 5000
# How many reminders are looked at in one turn.
_AT_ONCE: Final = 1000
# The heap may have so many entries that are not valid any more, besides one for each reminder.
_STALE: Final = 1000


class RemindersDue:
    """A timer message: find out which reminders are due."""


class Reminders:
    """The reminders of a node.

    Args:
        router: the router of the node.
    """

    __slots__ = (
        "_credit",
        "_heap",
        "_is_posted",
        "_is_started",
        "_pending",
        "_router",
        "_running",
        "_timer",
        "_timer_ms",
        "_waiting",
        "book",
    )

    def __init__(self, router: Router) -> None:
        self._router = router
        self.book = ReminderBook()
        """What the journal says of them."""
        # When which one is due. An entry that differs from the book is not valid any more.
        self._heap: list[tuple[int, Key]] = []
        # How many records of a reminder are on their way to the disk; and those whose command is open.
        self._pending: dict[Key, int] = {}
        self._running: set[Key] = set()
        # Those that are due and have no room, by the capability of their command; None for one that is not there.
        self._waiting: dict[CapabilitySlot | None, deque[Key]] = {}
        self._credit = CreditLimit(FIRINGS_AT_ONCE)
        self._timer: TimerId | None = None
        # When it comes, on the loop's clock.
        self._timer_ms = 0.0
        # Whether a `RemindersDue` is in the mailbox of the router.
        self._is_posted = False
        self._is_started = False

    def __len__(self) -> int:
        return len(self.book)

    def now_ms(self) -> int:
        """Return the wall clock, in milliseconds since 1970."""
        return self._router.ids.now_ms()

    def is_running(self, key: Key) -> bool:
        """Return whether a command of a reminder has no answer yet."""
        return key in self._running

    # -- changes -----------------------------------------------------------------------------------------------------------

    def set(
        self,
        key: Key,
        frame: Frame,
        schedule: Schedule,
        missed: Missed,
        parent: PendingRequest | None,
        path: str = "$",
    ) -> int:
        """Set a reminder, or replace the one with the same owner and name. One with the same definition stays as it is.

        Args:
            key: the owner and the name.
            frame: the command that is sent, with its cause.
            schedule: when.
            missed: what becomes of ticks that are missed.
            parent: the journaled command that sets it: it is set together with its answer. None if it is set now.
            path: where the command is in the request, for errors.

        Returns:
            The next tick.

        Raises:
            InvalidArgumentError: the node has no journal; a name is not valid; the command is not one that is written to the journal, or too large.
            RefusedError: the command could not be sent, or a limit is reached.
        """
        durable, router = self._durable, self._router
        self._check(key, frame, missed, path)
        due = first_due(schedule, router.ids.now_ms())
        if due is None:
            raise InvalidArgumentError(
                f"the reminder {key[1]} would never be due: its schedule has no time in the next sixty years"
            )
        own = frame.metadata
        reminder = Reminder(
            *(*key, frame.type, frame.data.copy(), schedule, due, missed),
            cause=own.causation,
            correlation=own.correlation,
        )
        before = self.book.find(key)
        if before is None:
            self._check_limits(len(reminder.data))
        record = ReminderSet(reminder)
        self._change(durable, key, record, parent)
        is_kept = before is not None and key not in self._pending and before.is_same(reminder)
        return before.due if before is not None and is_kept else due

    def _check(self, key: Key, frame: Frame, missed: Missed, path: str) -> None:
        owner: str = key[0]
        name: object = key[1]
        if not _OWNER.fullmatch(owner):
            raise InvalidArgumentError(
                f"the owner of the reminder is {safe_repr(owner)}: pass a letter, and up to 79 letters, digits, dots, dashes and underscores"
            )
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidArgumentError(
                f"the name of the reminder is {safe_repr(name)}: pass from 1 to 100 characters without spaces"
            )
        if missed not in get_args(Missed):
            raise InvalidArgumentError(f"missed is {safe_repr(missed)}: pass 'one', 'all' or 'none'")
        if len(frame.data) > MAX_DATA_BYTES:
            raise InvalidArgumentError(
                f"the data of {frame.type} has {len(frame.data)} bytes, and that of a reminder may have {MAX_DATA_BYTES}: pass a key, and let the handler find the rest"
            )
        router = self._router
        route = router.find("command", frame.type)
        if route is None:
            raise RefusedError(FaultAnswer(ROUTING_ERROR, router.describe_unrouted(frame), f"{path}.command"))
        router.check(frame, path)
        if not route.is_durable:
            raise InvalidArgumentError(
                f"{frame.type} is not written to the journal, so it cannot be sent exactly once: pass a command of another capability"
            )

    def _check_limits(self, size: int) -> None:
        limit = self._router.config.max_reminders
        if len(self.book) + len(self._pending) >= limit or self.book.held_bytes + size > _MAX_BYTES:
            raise RefusedError(
                FaultAnswer(
                    OVERLOADED,
                    f"the node has {len(self.book)} reminders with {self.book.held_bytes} bytes of data, which is its limit: cancel some, or give "
                    f"NodeConfig a larger max_reminders",
                )
            )

    def cancel(self, key: Key, parent: PendingRequest | None) -> bool:
        """Cancel a reminder. Return False if there is none. `parent` as in `set`.

        Raises:
            InvalidArgumentError: the node has no journal.
        """
        durable = self._durable
        self._change(durable, key, ReminderCancelled(*key), parent)
        return self.book.find(key) is not None

    @property
    def _durable(self) -> DurableLane:
        durable = self._router.durable
        if durable is None:
            _raise_no_journal()
        return durable

    def _change(
        self,
        durable: DurableLane,
        key: Key,
        record: ReminderSet | ReminderCancelled,
        parent: PendingRequest | None,
    ) -> None:
        if parent is None:
            self._write(durable, key, record)
        else:
            durable.hold(parent, HeldWrite(partial(self._write, durable, key, record), lambda: None))

    def _write(
        self, durable: DurableLane, key: Key, record: ReminderSet | ReminderCancelled | ReminderTick
    ) -> None:
        """Write a record. The book takes it when it is durable."""
        self._pending[key] = self._pending.get(key, 0) + 1
        durable.write_data(OWNER, record, partial(self._note_durable, key))

    def _note_durable(self, key: Key) -> None:
        left = self._pending.pop(key) - 1
        if left:
            self._pending[key] = left
        else:
            self._plan(key)

    # -- when ----------------------------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Check the reminders that the journal has.

        Raises:
            InvalidArgumentError: this machine does not know the time zone of one.
        """
        # Many have the same one.
        checked: set[Schedule] = set()
        for reminder in self.book:
            if isinstance(reminder.schedule, CronTimes) and reminder.schedule not in checked:
                try:
                    parse_cron(reminder.schedule.expression, reminder.schedule.timezone)
                except InvalidArgumentError as error:
                    raise InvalidArgumentError(
                        f"the reminder {reminder.name} of {reminder.owner} cannot be continued: {safe_str(error)}"
                    ) from None
                checked.add(reminder.schedule)

    def requester_of(self, frame: Frame) -> Requester:
        """Return the requester of a command that was open when the node ended: it may be that of a reminder."""
        found = key_of_firing(frame)
        if found is not None:
            key, number = found
            reminder = self.book.find(key)
            if reminder is not None and reminder.number == number:
                self._running.add(key)
                return NoRequester(partial(self._note_end, key))
        return NO_REQUESTER

    def start(self) -> None:
        """Begin to send commands."""
        self._is_started = True
        self._rebuild_heap()
        self._set_timer()

    def stop(self) -> None:
        """Send no more commands: the node stops."""
        self._is_started = False
        self._cancel_timer()

    def _cancel_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.pending:
            self._router.loop.cancel_timer(timer)

    def _rebuild_heap(self) -> None:
        self._heap = [(each.due, each.key) for each in self.book]
        heapify(self._heap)

    def _plan(self, key: Key) -> None:
        """Note when a reminder is due, unless something of it is under way: then its end does this."""
        reminder = self.book.find(key)
        if reminder is None or key in self._pending or key in self._running:
            return
        if len(self._heap) > 2 * len(self.book) + _STALE:
            self._rebuild_heap()
        else:
            heappush(self._heap, (reminder.due, key))
        self._set_timer()

    def _set_timer(self) -> None:
        """Have the timer come when the next reminder is due, or before."""
        router = self._router
        if not self._is_started or not (self._heap or self._waiting):
            return
        delay_ms = self._heap[0][0] - router.ids.now_ms() if self._heap else _CHECK_MS
        delay_ms = max(0, min(delay_ms, _CHECK_MS))
        when = router.now_ms() + delay_ms
        if self._timer is not None:
            if self._timer_ms <= when:
                return
            self._cancel_timer()
        self._timer_ms = when
        self._timer = router.loop.send_after(router.actor, delay_ms / 1000, RemindersDue())

    def _wake(self) -> None:
        """Look at the reminders after the messages that are in the router's mailbox now."""
        if self._is_started and not self._is_posted:
            self._is_posted = True
            self._router.post(RemindersDue())

    # -- what is due -------------------------------------------------------------------------------------------------------

    def send_due(self, _due: RemindersDue) -> None:
        """Send the commands of the reminders that are due."""
        self._is_posted = False
        self._cancel_timer()
        if not self._is_started:
            return
        for slot, keys in list(self._waiting.items()):
            while keys and self._has_room(slot):
                self._send_if_due(keys.popleft())
            if not keys:
                del self._waiting[slot]
        heap, now = self._heap, self._router.ids.now_ms()
        for _ in range(_AT_ONCE):
            if not heap or heap[0][0] > now:
                break
            due, key = heappop(heap)
            reminder = self.book.find(key)
            if reminder is not None and reminder.due == due:
                self._send_if_due(key)
        self._set_timer()

    def _send_if_due(self, key: Key) -> None:
        """Send the command of a reminder, if it is due and there is room; otherwise it waits."""
        reminder, now = self.book.find(key), self._router.ids.now_ms()
        if reminder is None or key in self._pending or key in self._running:
            return
        if reminder.due > now:
            # It was replaced while it waited, or the clock was set back.
            self._plan(key)
            return
        slot = self._slot_of(reminder)
        if self._has_room(slot):
            self._send(reminder, now)
        else:
            self._waiting.setdefault(slot, deque()).append(key)

    def _slot_of(self, reminder: Reminder) -> CapabilitySlot | None:
        route = self._router.find("command", reminder.command)
        return None if route is None else route.slot

    def _has_room(self, slot: CapabilitySlot | None) -> bool:
        durable = self._router.durable
        assert durable is not None
        return self._credit.used < self._credit.limit and (
            slot is None or durable.count_of(slot) < max(1, slot.mailbox // 2)
        )

    def _send(self, reminder: Reminder, now: int) -> None:
        router, key = self._router, reminder.key
        durable = self._durable
        tick, due = plan(reminder.schedule, reminder.due, now, reminder.missed)
        number = reminder.number if tick is None else reminder.number + 1
        # In one page with the request.
        self._write(durable, key, ReminderTick(*key, number, tick, due))
        if tick is None:
            return
        self._running.add(key)
        metadata = Metadata(firing_id(reminder, number), now, reminder.cause, reminder.correlation)
        frame = Frame(kind="command", type=reminder.command, data=reminder.data, metadata=metadata)
        requester = NoRequester(partial(self._note_end, key))
        pending = PendingRequest(requester, frame, self._credit, False)  # noqa: FBT003  # by position, as elsewhere
        pending.is_owed = True
        router.enter(pending)
        router.take(pending)

    def _note_end(self, key: Key, _answer: Frame, _settles: bool) -> None:
        """The command of a reminder has its answer."""
        self._running.discard(key)
        self._plan(key)
        if self._waiting:
            self._wake()


def _raise_no_journal() -> NoReturn:
    raise InvalidArgumentError(
        "this node has no journal, and a reminder must survive its end: start the node with `bandstand serve --journal DIR` or "
        "Node(journal=DIR); a capability's self.after and Timer.Schedule need no journal"
    )
