"""The switch: what every request passes, from when it is let in until its one answer has gone out.

It is the hot half of the router, which derives from it and does what is rare: everything that goes wrong. Messages come by the lanes
of the router's actor, and are told apart by their class, the frequent ones first:

    Pending   a request to be routed; or, if it has been routed already, its deadline
    tuple     a request and its answer
    Frame     an event of a capability
"""

# The hot modules are one mechanism in several files, across the rooms: they share kernels' insides by .pxd.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from bandstand.bus.frame import Frame, Kind
from bandstand.bus.hot.fields import data_of, kind_of, metadata_of, timeout_of, type_of
from bandstand.bus.hot.pending import Pending
from bandstand.bus.numbers import DONE, NEW, REPEAT, ROUTED
from bandstand.core.enums import ACCEPTED, CONTROL, DATA
from bandstand.errors import BadMessage

Count: TypeAlias = int
Flag: TypeAlias = bool
Moment: TypeAlias = float

if TYPE_CHECKING:
    from bandstand.bus.books import Books
    from bandstand.bus.hot.idmaker import IdMaker
    from bandstand.bus.hot.purse import Purse
    from bandstand.bus.hot.roll import Roll
    from bandstand.bus.hot.route import Route
    from bandstand.bus.origin import Origin
    from bandstand.bus.seat import Seat
    from bandstand.bus.tap import Taps
    from bandstand.core.ids import ActorId
    from bandstand.core.loop import Loop


class Switch:
    """The router, as far as it is hot. All of it belongs on the loop's own thread."""

    __slots__ = (
        "_commands",
        "_queries",
        "_write_down",
        "actor",
        "books",
        "ids",
        "loop",
        "on_credit",
        "on_event",
        "on_room",
        "outputs",
        "roll",
        "taps",
    )

    actor: ActorId

    def __init__(
        self,
        loop: Loop,
        ids: IdMaker,
        books: Books,
        taps: Taps,
        outputs: Purse,
        roll: Roll,
        write_down: Callable[[Frame], None],
    ) -> None:
        self.loop = loop
        self.ids = ids
        self.books = books
        self.taps = taps
        # What pays for events of capabilities that wait to be routed.
        self.outputs = outputs
        # All requests that are open, and those whose answers are remembered.
        self.roll = roll
        # Called when there may be credit again; None while nobody waits for it.
        self.on_credit: Callable[[], None] | None = None
        # Called with a capability at which a client's request is over; None while nobody waits for room anywhere.
        self.on_room: Callable[[Seat], None] | None = None
        # What routes an event. Any: from whom it came, if from a client.
        self.on_event: Callable[[Frame, Any], None] | None = None
        self._write_down = write_down
        self._commands: dict[str, Route] = {}
        self._queries: dict[str, Route] = {}

    def install(self, kind: Kind, route: Route) -> None:
        """Have requests of a kind and type go to a capability."""
        if kind == "command":
            self._commands[route.type] = route
        elif kind == "query":
            self._queries[route.type] = route

    def find(self, kind: Kind, type_name: str) -> Route | None:
        """Where requests of a kind and type go; None for nowhere."""
        return (self._commands if kind == "command" else self._queries).get(type_name)

    def open_requests(self) -> list[Pending]:
        """All that have not been answered."""
        return self.roll.open_requests()

    def count_open(self) -> Count:
        """How many that are."""
        return self.roll.count_open()

    def note(self, frame: Frame, destination: str) -> None:
        """The choke point: everything that passes is written down, and shown to whoever watches."""
        self._write_down(frame)
        if self.taps.entries:
            self.taps.pass_on(frame, destination)

    # -- what comes in -----------------------------------------------------------------------------------------------------

    def post(self, item: object) -> None:
        """Put something into the router's mailbox. There is always room: whoever calls this has paid for it."""
        if self.loop.kernel.post(self.actor, DATA, item, 0, 0) != ACCEPTED:
            self.loop.send(self.actor, item)

    def submit(self, pending: Pending) -> bool:
        """Take in a request. False if whoever pays for it has no credit; nothing has happened then."""
        purse = pending.purse
        if purse.used >= purse.limit:
            return False
        # First of all: if it cannot be posted, nothing has happened.
        self.post(pending)
        pending.is_queued = True
        purse.used += 1
        self.books.admitted += 1
        if not self.roll.enter(pending):
            pending.stage = REPEAT
        return True

    def admit(self, origin: Origin, frame: Frame, purse: Purse) -> Flag:
        """Take in a client's request. False if there is no credit, or no room at its capability; nothing has happened then."""
        route = self.find(kind_of(frame), type_of(frame))
        if route is not None:
            seat = route.seat
            if seat.load >= seat.room:
                return False
        return self.admit_anyway(origin, frame, purse, route)

    def admit_anyway(self, origin: Origin, frame: Frame, purse: Purse, route: Route | None) -> Flag:
        """The same, whether or not there is room at its capability."""
        if purse.used >= purse.limit:
            return False
        pending = Pending(origin, frame, purse, True)  # noqa: FBT003  # by position: it is hot
        self.submit(pending)
        if route is not None:
            pending.counted = route
            seat = route.seat
            seat.load += 1
        return True

    def post_event(self, frame: Frame) -> bool:
        """Take in an event of a capability. False if too many wait to be routed."""
        if self.outputs.used >= self.outputs.limit:
            return False
        # As above: if it cannot be posted, nothing has happened.
        self.post(frame)
        self.outputs.used += 1
        return True

    def answer(self, pending: Pending, frame: Frame) -> None:
        """Take in the answer to a request. A second one, or one that comes too late, is discarded and counted."""
        if pending.is_answered or pending.stage == DONE:
            self.books.late += 1
            return
        pending.is_answered = pending.is_queued = True
        self.post((pending, frame))

    # -- a turn ------------------------------------------------------------------------------------------------------------

    def turn(self, ctx: Any, item: Any) -> None:
        """Deal with one message: the behavior of the router's actor."""
        kind = type(item)  # pyright: ignore[reportUnknownVariableType]  # of whatever was sent
        if kind is Pending:
            pending = item
            if pending.stage == NEW:
                pending.is_queued = False
                self.take(pending)
            elif pending.stage == ROUTED:
                pending.timer = None
                # The deadline comes by a faster lane than answers do. An answer that lies in the mailbox was made in time.
                if not pending.is_answered:
                    self.expire(pending)
            elif pending.stage == REPEAT:
                pending.is_queued = False
                self.take_repeat(pending)
            elif pending.is_queued and not pending.is_answered:
                # It was withdrawn before it had its turn.
                self.release(pending)
        elif kind is tuple:
            pending = item[0]
            if pending.stage == DONE:
                self.books.late += 1
                self.release(pending)
            else:
                pending.is_queued = False
                self.conclude(pending, item[1])
        elif kind is Frame:
            self.outputs.used -= 1
            assert self.on_event is not None
            self.on_event(item, None)
        else:
            self.take_otherwise(item)

    def take(self, pending: Pending) -> None:
        """Validate, route and dispatch a request."""
        frame = pending.frame
        route = pending.counted
        if route is None:
            route = self.find(kind_of(frame), type_of(frame))
        self._write_down(frame)
        if self.taps.entries:
            self.taps.pass_on(frame, "nobody" if route is None else route.seat.id)
        pending.stage = ROUTED
        if route is None:
            self.fail_unrouted(pending)
            return
        pending.route = route
        try:
            pending.payload = route.read(data_of(frame))
        except BadMessage as problem:
            self.fail_unread(pending, problem)
            return
        timeout = timeout_of(metadata_of(frame))
        if timeout is None:
            timeout = route.timeout_ms
        pending.timer = self.loop.kernel.start_timer(self.actor, timeout, CONTROL, pending, 0)
        if pending.parent is not None and self.closes_circle(pending):
            return
        seat = route.seat
        if (
            seat.actor is None
            or seat.held
            or self.loop.kernel.post(seat.actor, DATA, pending, 0, 0) != ACCEPTED
        ):
            self.dispatch_otherwise(seat, pending)

    # -- the end of a request ----------------------------------------------------------------------------------------------

    def conclude(self, pending: Pending, frame: Frame) -> None:
        """The one end of a request: its answer goes out. An error after which it is tried again is none."""
        route = pending.route
        is_final = kind_of(frame) == "reply"
        if not is_final and route is not None and route.retry is not None and self.goes_again(pending, frame):
            return
        self.close(pending)
        self._write_down(frame)
        if is_final:
            self.books.answered += 1
        else:
            is_final = self.note_failure(pending, frame)
        if self.taps.entries:
            self.taps.pass_on(frame, "requester")
        if not self.settle(pending, frame):
            self.leave_unsettled(pending, frame)
        if is_final and route is not None and route.remembers and pending.purse.remembers:
            self.roll.keep(pending, frame, self.loop.kernel.timers.elapsed_ms())
        else:
            self.roll.leave(pending)
        if pending.joined is not None:
            self.settle_joined(pending, frame)
        if self.on_credit is not None:
            self.on_credit()

    def settle(self, pending: Pending, frame: Frame) -> Flag:
        """Hand an answer to whoever has asked; False if there is nobody who would take it."""
        is_settled: Flag = False
        try:
            is_settled = pending.origin.settle(frame, pending.settles)
        except Exception as error:  # noqa: BLE001  # whoever asked is at fault, and must not take the router along
            self.complain(pending, error)
        return is_settled

    def due_ms(self, pending: Pending) -> Moment:
        """When the deadline of a request is, by the loop's clock; 0 if it has come."""
        timer = pending.timer
        return 0.0 if timer is None else float(timer.deadline)

    def close(self, pending: Pending) -> None:
        """A request is over: no deadline any more, and its credit goes back, once nothing of it is in the mailbox.

        It is still on the roll.
        """
        pending.stage = DONE
        if not pending.is_queued:
            pending.purse.used -= 1
        route = pending.counted
        if route is not None:
            pending.counted = None
            seat = route.seat
            seat.load -= 1
            if self.on_room is not None:
                self.on_room(seat)
        timer = pending.timer
        if timer is not None:
            pending.timer = None
            # It may have fired, and be on its way by the other lane: there it is ignored.
            self.loop.kernel.timers.cancel(timer)

    def release(self, pending: Pending) -> None:
        """What a request that is over had left in the mailbox has come out: now its credit goes back."""
        pending.is_queued = False
        pending.purse.used -= 1
        if self.on_credit is not None:
            self.on_credit()

    # -- what is rare ------------------------------------------------------------------------------------------------------

    def take_otherwise(self, item: object) -> None:
        """Something else has come by a lane."""
        raise NotImplementedError  # a hook: who derives from this fills it in

    def take_repeat(self, pending: Pending) -> None:
        """A request whose id another has, or had."""
        raise NotImplementedError  # a hook: who derives from this fills it in

    def settle_joined(self, pending: Pending, frame: Frame) -> None:
        """Others were to get the same answer."""
        raise NotImplementedError  # a hook: who derives from this fills it in

    def goes_again(self, pending: Pending, frame: Frame) -> Flag:
        """Whether a request that may be tried again will be, after this error."""
        raise NotImplementedError  # a hook: who derives from this fills it in

    def fail_unrouted(self, pending: Pending) -> None:
        """Nobody handles it."""
        raise NotImplementedError  # a hook: who derives from this fills it in

    def fail_unread(self, pending: Pending, problem: BadMessage) -> None:
        """Its data is not what its type asks for."""
        raise NotImplementedError  # a hook: who derives from this fills it in

    def dispatch_otherwise(self, seat: Seat, pending: Pending) -> None:
        """It could not go straight to its capability."""
        raise NotImplementedError  # a hook: who derives from this fills it in

    def closes_circle(self, pending: Pending) -> bool:
        """Whether it would wait for a capability that waits for it; then it has failed."""
        raise NotImplementedError  # a hook: who derives from this fills it in

    def expire(self, pending: Pending) -> None:
        """Its deadline has come."""
        raise NotImplementedError  # a hook: who derives from this fills it in

    def leave_unsettled(self, pending: Pending, frame: Frame) -> None:
        """Nobody has taken its answer."""
        raise NotImplementedError  # a hook: who derives from this fills it in

    def complain(self, pending: Pending, error: Exception) -> None:
        """Whoever asked for it has failed to take the answer."""
        raise NotImplementedError  # a hook: who derives from this fills it in

    def note_failure(self, pending: Pending, frame: Frame) -> Flag:
        """It has ended with an error. True if that is the answer to the same request for ever, and so to be remembered."""
        raise NotImplementedError  # a hook: who derives from this fills it in
