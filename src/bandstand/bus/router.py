"""The router: every message of a node passes here. An actor, whose turns are select, validate, route, dispatch, bookkeep, yield.

Its mailbox does the selecting. DATA is the lane of what users say: requests, events, answers, scheduled messages whose time has
come. CONTROL is the lane of the bus itself: deadlines, health ticks; it is drained before each message of the other. The runtime's own
lane above both tells of capabilities that have ended. The loop sees to it that one message is handled, then the lanes are looked at again.

Answers take the same way through the mailbox as everything else, so that a client that asks and listens sees what happened in its
order. There is always room for them: see `purse`. The router never waits for anybody, and nothing that a client sends makes it raise.

What every request passes is in `hot.switch`, how requests end that do not end well in `endings`; here is what else is rare: what cannot be
routed, or not now, and what becomes of capabilities.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bandstand.bus.circle import circle_of
from bandstand.bus.endings import Endings
from bandstand.bus.faults import (
    CYCLE,
    OVERLOADED,
    ROUTING_ERROR,
    SCHEMA_ERROR,
    SHUTTING_DOWN,
    TIMEOUT,
    UNHEALTHY,
    FaultAnswer,
)
from bandstand.bus.frame import Frame, Kind, Metadata
from bandstand.bus.hot.purse import Purse
from bandstand.bus.seat import Seat, SeatState
from bandstand.core import ExitReason
from bandstand.core.logs import SafeLogger
from bandstand.errors import BadMessage, InternalError, Refused
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from msgspec import Raw

    from bandstand.bus.books import Books
    from bandstand.bus.config import NodeConfig
    from bandstand.bus.contracts.index import Index
    from bandstand.bus.hot.idmaker import IdMaker
    from bandstand.bus.hot.pending import Pending
    from bandstand.bus.ports import Log
    from bandstand.bus.schedule import Schedule
    from bandstand.bus.tap import Taps
    from bandstand.core import Loop

__all__ = ("Router",)

logger = SafeLogger("bandstand.bus")


class Router(Endings):
    """The one choke point of a node. All of it belongs on the loop's own thread."""

    def __init__(
        self, loop: Loop, config: NodeConfig, *, ids: IdMaker, log: Log, taps: Taps, books: Books
    ) -> None:
        super().__init__(loop, config, ids=ids, log=log, taps=taps, books=books)
        self.log = log
        self.clients = Purse(config.max_in_flight, True)  # noqa: FBT003  # by position: it is compiled
        # What capabilities ask has ids of the node's own making, which nobody repeats.
        self.inside = Purse(config.max_inside)
        self.seats: dict[str, Seat] = {}
        self.index: Index | None = None
        self.is_draining = False
        self.is_running = False
        self.schedule: Schedule | None = None
        self.check_event: Callable[[Frame, str], None] | None = None
        self.departing: set[asyncio.Task[None]] = set()
        """What sees to their end incarnations that ran elsewhere and were killed."""
        self.handlers: dict[type, Callable[[Any], None]] = {}
        """What else may come by its lanes, and what to do about it."""
        self.actor = loop.spawn(self.turn, name="router", mailbox_cap=config.router_cap)
        loop.kernel.actors.set_exit_hook(self.actor, self._over)

    def _over(self, reason: ExitReason, cause: BaseException | None) -> None:
        # A node without its router would take everything in and answer nothing: it ends, loudly.
        if reason is not ExitReason.NORMAL:
            error = InternalError(f"the router of the node has failed: {safe_repr(cause)}. Please report it.")
            error.__cause__ = cause
            self.loop.kernel.fail(error)

    def seat_all(self, index: Index, seats: Iterable[Seat]) -> None:
        """Take over the indexes of the boot."""
        self.index = index
        self.seats = {seat.id: seat for seat in seats}
        for seat in self.seats.values():
            for route in seat.routes:
                self.install(route.entry.kind, route)

    # -- what comes in ---------------------------------------------------------------------------------------------------------

    def discard(self, kind: Kind, type_name: str, data: Raw) -> None:
        """Take note of an answer to no request that is known: it came too late, or twice."""
        self.books.late += 1
        if kind == "error":
            self.sink(
                Frame(kind=kind, type=type_name, data=data, metadata=Metadata(self.ids(), self.ids.last_ms))
            )

    def fan_out(self, frame: Frame) -> None:
        """Route an event of the node's own at once: nobody has paid for it to wait."""
        assert self.on_event is not None
        self.on_event(frame, None)

    def check(self, frame: Frame, path: str) -> None:
        """Refuse what could not be routed, or not be read, if it were sent now. `path` is where it stands.

        Raises:
            Refused: so it is, with the fault that it would be answered with.
        """
        if frame.kind == "event":
            assert self.check_event is not None
            self.check_event(frame, path)
            return
        route = self.find(frame.kind, frame.type)
        if route is None:
            raise Refused(FaultAnswer(ROUTING_ERROR, self._lost(frame), f"{path}.type"))
        try:
            route.read(frame.data)
        except BadMessage as problem:
            where = f"{path}{problem.path.removeprefix('$')}"
            raise Refused(FaultAnswer(SCHEMA_ERROR, str(problem), where)) from None

    # -- what goes wrong -----------------------------------------------------------------------------------------------------

    def take_otherwise(self, item: object) -> None:
        """The end of a capability, or what another part of the node has asked for."""
        handler = self.handlers.get(type(item))
        if handler is None:
            logger.error("the router has no use for %r; it goes on", item)
        else:
            handler(item)

    def fail_unrouted(self, pending: Pending) -> None:
        """Nobody handles it."""
        self.fail(pending, ROUTING_ERROR, self._lost(pending.frame))

    def fail_unread(self, pending: Pending, problem: BadMessage) -> None:
        """Its data is not what its type asks for."""
        self.fail(pending, SCHEMA_ERROR, str(problem), path=problem.path)

    def dispatch_otherwise(self, seat: Seat, pending: Pending) -> None:
        """Where a request cannot go straight to its capability: it waits for the next incarnation, or fails at once."""
        if seat.state is SeatState.UNHEALTHY:
            self.fail(
                pending,
                UNHEALTHY,
                f"{seat.id} has failed too often and is out of service; it is tried again in {seat.trial_in_ms or 0} ms, or at once with "
                f"Syscall.Reset; the last fault was: {seat.last_fault}",
                capability=seat.id,
                sinks=True,
            )
        elif self.is_draining and seat.state is SeatState.STOPPED:
            self.fail(pending, SHUTTING_DOWN, "the node is stopping")
        elif self.must_hold(seat) and seat.has_room():
            seat.held.append(pending)
        else:
            self.fail(
                pending,
                OVERLOADED,
                f"as many messages wait for {seat.id} as may; try again later",
                capability=seat.id,
            )

    @staticmethod
    def must_hold(seat: Seat) -> bool:
        """Whether there is no incarnation that could take a message, or others wait for it already."""
        return seat.actor is None or bool(seat.held) or not seat.actor.is_alive

    def expire(self, pending: Pending) -> None:
        """Its deadline has come."""
        frame, route = pending.frame, pending.route
        waited = frame.metadata.timeout or (route.timeout_ms if route is not None else self.config.timeout_ms)
        who = "nobody" if route is None else route.seat.id
        if route is not None:
            route.seat.note_timeout(pending, waited)
        doing = "is at it" if pending.is_begun else "has not begun with it"
        self.fail(
            pending,
            TIMEOUT,
            f"{frame.type} was not answered within {waited} ms; {who} {doing}",
            capability=who,
        )

    def closes_circle(self, pending: Pending) -> bool:
        """Whether a request would wait for a capability that waits for it; then it fails, with the way in words."""
        way, route = circle_of(pending, len(self.seats)), pending.route
        if way is None or route is None:
            return False
        said = f"a capability would wait for one that waits for it: {way}"
        self.fail(pending, CYCLE, said, capability=route.seat.id)
        return True

    def _lost(self, frame: Frame) -> str:
        near = self.index.nearest(frame.kind, frame.type) if self.index is not None else ()
        hint = f"did you mean {' or '.join(near)}?" if near else "Syscall.Describe says what there is"
        return f"nobody handles {frame.kind} {frame.type}; {hint}"

    # -- the end ---------------------------------------------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """How many requests have not been answered."""
        return self.count_open()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is under way: no request, no event, no handler."""
        return (
            not self.in_flight
            and not self.outputs.used
            and not any(seat.is_busy for seat in self.seats.values())
        )
