"""Messages that are to be sent later. Each has a timer on the loop's own wheel, and takes the ordinary way when its time has come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bandstand.bus.faults import OVERLOADED, FaultAnswer
from bandstand.bus.frame import Frame, Metadata
from bandstand.bus.hot.pending import Pending
from bandstand.bus.hot.purse import Purse
from bandstand.bus.origin import NOBODY, Origin
from bandstand.errors import Refused

if TYPE_CHECKING:
    from bandstand.bus.hot.idmaker import IdMaker
    from bandstand.bus.router import Router
    from bandstand.core import TimerId

__all__ = ("Due", "Schedule", "inherit")


# A client may have one part in so many of what all clients may have scheduled.
SHARE = 4
# Bytes of data that may be scheduled, all together.
MOST_BYTES = 64 << 20


class Due:
    """A scheduled message, while it waits and when its time has come."""

    __slots__ = ("frame", "id", "origin", "purse", "timer")

    def __init__(self, timer_id: str, origin: Origin, frame: Frame, purse: Purse) -> None:
        self.purse = purse
        self.id = timer_id
        self.origin = origin
        self.frame = frame
        self.timer: TimerId | None = None


class Schedule:
    """All that is scheduled on a node."""

    __slots__ = ("_bytes", "_clients", "_due", "_inside", "_router", "_shares")

    def __init__(self, router: Router) -> None:
        self._router = router
        self._due: dict[str, Due] = {}
        # It is paid for from when it is scheduled until its answer has gone out. What clients schedule takes nothing from
        # capabilities, and what one client schedules leaves something for the others.
        self._clients = Purse(router.config.max_timers)
        self._inside = Purse(router.config.max_timers)
        self._shares: dict[Origin, int] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._due)

    def add(self, frame: Frame, delay_ms: int, origin: Origin, path: str) -> str:
        """Have a message sent in `delay_ms`; its answer goes to `origin`. `path` is where it stands, for errors.

        Returns:
            What to cancel it by.

        Raises:
            Refused: it is no message that could be sent: see `Router.check`; or as much is scheduled as may be.
        """
        router = self._router
        router.check(frame, path)
        purse = self._inside if origin is NOBODY else self._clients
        share = purse.limit if origin is NOBODY else max(1, purse.limit // SHARE)
        size = len(frame.data)
        if (
            purse.used >= purse.limit
            or self._shares.get(origin, 0) >= share
            or self._bytes + size > MOST_BYTES
        ):
            raise Refused(FaultAnswer(OVERLOADED, "as much is scheduled as the node allows; try again later"))
        purse.used += 1
        self._bytes += size
        self._shares[origin] = self._shares.get(origin, 0) + 1
        due = Due(router.ids(), origin, frame, purse)
        due.timer = router.loop.send_after(router.actor, delay_ms, due)
        self._due[due.id] = due
        router.books.timers_scheduled += 1
        return due.id

    def cancel(self, timer_id: str) -> bool:
        """Take a message back; False if it has been sent, or never was scheduled."""
        due = self._due.pop(timer_id, None)
        if due is None:
            return False
        if due.timer is not None:
            self._router.loop.cancel_timer(due.timer)
        self._give_back(due)
        self._router.books.timers_cancelled += 1
        return True

    def _give_back(self, due: Due) -> None:
        due.purse.used -= 1
        self._bytes -= len(due.frame.data)
        left = self._shares.pop(due.origin) - 1
        if left:
            self._shares[due.origin] = left

    def cancel_all(self) -> None:
        """The node stops: what is scheduled is not sent any more."""
        for timer_id in list(self._due):
            self.cancel(timer_id)

    def fire(self, due: Due) -> None:
        """The time of a message has come: it is taken in like any other.

        It is never a repeat, though another may have its id: who schedules a message three times wants it three times. That one schedule
        is made once, the memory of `Timer.Schedule` itself sees to.
        """
        router = self._router
        if self._due.pop(due.id, None) is None:
            # It was cancelled when it was on its way already.
            return
        router.books.timers_fired += 1
        self._give_back(due)
        frame = stamped(due.frame, router.ids)
        if frame.kind == "event":
            router.fan_out(frame)
            return
        router.submit(Pending(due.origin, frame, due.purse, False))  # noqa: FBT003  # by position, as elsewhere


def inherit(frame: Frame, parent: Metadata) -> Frame:
    """A message that is to be sent later: it follows from the one that scheduled it."""
    own = frame.metadata
    metadata = Metadata(own.id, own.timestamp, parent.id, own.correlation or parent.correlation, own.timeout)
    return Frame(kind=frame.kind, type=frame.type, data=frame.data.copy(), metadata=metadata)


def stamped(frame: Frame, ids: IdMaker) -> Frame:
    """The same with the time at which it is sent, if it came without one."""
    own = frame.metadata
    if own.timestamp:
        return frame
    metadata = Metadata(own.id, ids.now_ms(), own.causation, own.correlation, own.timeout)
    return Frame(kind=frame.kind, type=frame.type, data=frame.data, metadata=metadata)
