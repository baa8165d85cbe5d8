"""Room at capabilities: how many requests of clients are under way at each, and which clients wait for room there.

Clients may have three quarters of a capability's mailbox (`Seat.share`); the rest is for events and for what capabilities ask. A client whose next
request finds no room is not read from: it waits, in the order of arrival, and the waiting clients share the room evenly. So clients
that send faster than a capability works are slowed and not refused.

What stands behind such a request on the same connection waits with it. That is bounded: a client that has waited for `NodeConfig.hold_ms` shows that
the capability is jammed. From then on requests are handed in without waiting, and answered with `Sys.Overloaded` if the mailbox is full, until there is
room again.

This is the slow path: while no client waits, a request costs one comparison (`Switch.admit`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from bandstand.bus.seat import UNBOUNDED
from bandstand.core import Lane

if TYPE_CHECKING:
    from bandstand.bus.frame import Frame
    from bandstand.bus.hot.party import Party
    from bandstand.bus.ports import Line
    from bandstand.bus.router import Router
    from bandstand.bus.seat import Seat
    from bandstand.core import TimerId

__all__ = ("Admission", "Room", "Waited")

# How long, in milliseconds, a client has to use the room that it was given.
GRANT_MS = 5


@final
class Room:
    """The room of one capability, while there is not enough of it. It is its own message: look whether there is some."""

    __slots__ = ("grants", "is_due", "is_jammed", "seat", "timer", "waiting")

    def __init__(self, seat: Seat) -> None:
        self.seat = seat
        # The waiting clients in order, each with the time since when it waits; and the clients that were given room, for how many requests.
        self.waiting: dict[Line, float] = {}
        self.grants: dict[Line, int] = {}
        self.is_jammed = False
        self.is_due = False
        self.timer: TimerId | None = None

    @property
    def free(self) -> int:
        """For how many requests there is room that was not given to anybody."""
        return self.seat.share - self.seat.load - sum(self.grants.values())


@final
class Waited:
    """A timer message: look at the clients that wait for room."""

    __slots__ = ("room",)

    def __init__(self, room: Room) -> None:
        self.room = room


@final
class Admission:
    """Lets requests of clients in where a capability has little room.

    Args:
        router: whose capabilities.
    """

    __slots__ = ("_hold_ms", "_rooms", "_router")

    def __init__(self, router: Router) -> None:
        self._router = router
        self._hold_ms = router.config.hold_ms
        self._rooms: dict[Seat, Room] = {}

    def admit(self, line: Line, client: Party, frame: Frame) -> bool:
        """Take in a request for which there is credit, and was no room. False if the client has to wait."""
        router = self._router
        route = router.find(frame.kind, frame.type)
        if route is None:
            return router.admit(client, frame, router.clients)
        room = self._rooms.get(route.seat)
        if room is None:
            room = self._rooms[route.seat] = Room(route.seat)
            router.on_room = self._freed
        granted = room.grants.get(line, 0)
        if granted and room.seat.load < room.seat.share:
            if granted == 1:
                del room.grants[line]
                self._settle(room)
            else:
                room.grants[line] = granted - 1
            return router.admit_anyway(client, frame, router.clients, route)
        if room.is_jammed:
            return router.admit_anyway(client, frame, router.clients, route)
        room.grants.pop(line, None)
        room.waiting.setdefault(line, router.now_ms())
        # A new client waits behind those that wait already.
        room.seat.room = 0
        self._arm(room)
        if room.free > 0:
            self._look_soon(room)
        return False

    def forget(self, line: Line) -> None:
        """A client is gone."""
        for room in list(self._rooms.values()):
            if line in room.waiting or line in room.grants:
                room.waiting.pop(line, None)
                room.grants.pop(line, None)
                self._settle(room)

    def look(self, room: Room) -> None:
        """Share the free room among the waiting clients."""
        room.is_due = False
        free = room.free
        if free > 0 and room.waiting:
            lines = list(room.waiting)[:free]
            each = max(1, free // len(room.waiting))
            for line in lines:
                del room.waiting[line]
                room.grants[line] = each
            self._arm(room)
            for line in lines:
                line.resume()
        self._settle(room)

    def take_time(self, waited: Waited) -> None:
        """Take back unused room, and check whether a client has waited too long."""
        room = waited.room
        room.timer = None
        room.grants.clear()
        oldest = next(iter(room.waiting.values()), None)
        # A clock may be a little early for its own timer.
        if oldest is not None and self._router.now_ms() - oldest >= self._hold_ms - 1:
            room.is_jammed = True
            lines, room.waiting = list(room.waiting), {}
            room.seat.room = UNBOUNDED
            for line in lines:
                line.resume()
        elif room.waiting:
            self._arm(room)
            if room.free > 0:
                self._look_soon(room)
        self._settle(room)

    def _freed(self, seat: Seat) -> None:
        """A request of a client is over."""
        room = self._rooms.get(seat)
        if room is None:
            return
        if room.is_jammed and seat.load < seat.share:
            room.is_jammed = False
            seat.room = 0
        if room.waiting:
            self._look_soon(room)
        else:
            self._settle(room)

    def _look_soon(self, room: Room) -> None:
        # Not here: a line that goes on would find itself inside the end of a request.
        if not room.is_due:
            router = self._router
            room.is_due = router.loop.try_send(router.actor, room, lane=Lane.CONTROL)

    def _arm(self, room: Room) -> None:
        """Have the next moment told at which something is to be done without anybody's doing anything."""
        loop, timer = self._router.loop, room.timer
        if timer is not None and timer.pending:
            loop.cancel_timer(timer)
        oldest = next(iter(room.waiting.values()), 0.0)
        wait_ms = GRANT_MS if room.grants else max(1, int(oldest + self._hold_ms - self._router.now_ms()) + 1)
        room.timer = loop.send_after(self._router.actor, wait_ms, Waited(room), lane=Lane.CONTROL)

    def _settle(self, room: Room) -> None:
        """Return to the fast path at capabilities where no client waits."""
        if room.waiting or room.grants or room.is_jammed or self._rooms.get(room.seat) is not room:
            return
        room.seat.room = room.seat.share
        if room.timer is not None and room.timer.pending:
            self._router.loop.cancel_timer(room.timer)
        room.timer = None
        del self._rooms[room.seat]
        if not self._rooms:
            self._router.on_room = None
