"""What a capability, or the program around a node, can do on the bus: emit events, send commands, ask.

Lineage is set here and nowhere else: what is said while a message is at hand follows from that message. Which one is at hand
is easy for a plain handler: the one being called. A coroutine's is kept in a context variable, so that it holds over every `await`,
and for the tasks it starts.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from bandstand.bus.answers import failure_of, payload_of, reply_of
from bandstand.bus.contracts.messages import Command, Event, Request, Spoken
from bandstand.bus.faults import OVERLOADED, FaultAnswer
from bandstand.bus.frame import LONGEST_DELAY_MS, LONGEST_TIMEOUT_MS, Frame, Kind, Metadata
from bandstand.bus.hot.pending import Delivery, Pending
from bandstand.bus.lineage import AT_HAND
from bandstand.bus.origin import NOBODY, Origin
from bandstand.errors import InvalidArgument, LoopClosed, MailboxFull, OutboundFault, Refused
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from msgspec import Raw

    from bandstand.bus.router import Router
    from bandstand.bus.seat import Seat

__all__ = ("Outlet",)

Reply = TypeVar("Reply")


class Asker:
    """A request of somebody in this process, who awaits the answer."""

    __slots__ = ("future",)

    def __init__(self, future: asyncio.Future[Frame]) -> None:
        self.future = future

    def settle(self, frame: Frame, _settles: bool, /) -> bool:
        """Wake whoever waits."""
        if self.future.done():
            return False
        self.future.set_result(frame)
        return True


class NoRoom(MailboxFull, Refused):
    """More is under way than the node allows. A handler that does not catch it has refused its message, and lives on."""

    def __init__(self, words: str) -> None:
        Refused.__init__(self, words)


class Outlet:
    """How to say something on the bus. A capability has one as `self.bus`, a program has its node's."""

    __slots__ = ("_router", "_seat")

    def __init__(self, router: Router, seat: Seat | None = None) -> None:
        self._router = router
        self._seat = seat

    # -- what anybody may say ----------------------------------------------------------------------------------------------

    def emit(self, event: Event) -> None:
        """Tell everybody who subscribes to it. Each gets a copy of its own; nobody is waited for.

        Raises:
            OutboundFault: the contract does not name it, or a field has a value that its type does not allow.
            MailboxFull: more events wait to be routed than the node allows.
            LoopClosed: the node has not started, or has stopped.
        """
        kind, type_name = self._named(event, "event", Event)
        self.publish(type_name, self._write(kind, type_name, event))

    def send(self, command: Command[Any]) -> None:
        """Have something done. A reply is dropped, and counted; an error goes to the error sink.

        Raises:
            OutboundFault, MailboxFull, LoopClosed: as for `emit`.
        """
        kind, type_name = self._named(command, "command", Command)
        self.pass_on(kind, type_name, self._write(kind, type_name, command))

    async def ask(self, request: Request[Reply], *, timeout_ms: int | None = None) -> Reply:
        """Send a command or query and wait for the answer, which is this caller's own copy.

        Args:
            request: what.
            timeout_ms: how long it may take; None for what its capability or the node says.

        Raises:
            RequestFailed: it was answered with an error; says which.
            BadMessage: the answer is not what the class says.
            OutboundFault, LoopClosed: as for `emit`.
            InvalidArgument: the timeout is no number of milliseconds.
        """
        kind, type_name = self._named(request, "command", Request)
        if timeout_ms is not None and (
            type(timeout_ms) is not int or not 1 <= timeout_ms <= LONGEST_TIMEOUT_MS
        ):
            raise InvalidArgument(
                f"timeout_ms is {safe_repr(timeout_ms)}: pass an int from 1 to {LONGEST_TIMEOUT_MS}, or None"
            )
        raw = self._write(kind, type_name, request)
        answer = await self.await_answer(kind, type_name, raw, timeout_ms)
        if answer.kind == "error":
            raise failure_of(type_name, answer)
        value: Reply = reply_of(type(request)).read(answer.data)
        return value

    def send_later(self, message: Command[Any] | Event, delay_ms: int) -> str:
        """Send a command, or emit an event, in `delay_ms`: never earlier. Nobody gets the answer.

        Returns:
            What `take_back` takes it back by.

        Raises:
            OutboundFault, LoopClosed: as for `emit`.
            MailboxFull: as many messages are scheduled as the node allows.
            InvalidArgument: the delay is no number of milliseconds, or nobody handles the command.
        """
        kind, type_name = self._named(message, "command", Spoken)
        if type(delay_ms) is not int or not 0 <= delay_ms <= LONGEST_DELAY_MS:
            raise InvalidArgument(
                f"delay_ms is {safe_repr(delay_ms)}: pass an int from 0 to {LONGEST_DELAY_MS}"
            )
        frame = self._frame(kind, type_name, self._write(kind, type_name, message), None)
        schedule = self._router.schedule
        assert schedule is not None
        try:
            return schedule.add(frame, delay_ms, NOBODY, "$")
        except Refused as refusal:
            answer = refusal.answer
            assert isinstance(answer, FaultAnswer)
            error = NoRoom if answer.type == OVERLOADED else InvalidArgument
            raise error(f"{type_name} was not scheduled: {answer.message}") from None

    def take_back(self, timer_id: str) -> bool:
        """Take back a message that was to be sent later; False if it has been sent, or never was scheduled."""
        schedule = self._router.schedule
        assert schedule is not None
        return schedule.cancel(timer_id)

    @property
    def message(self) -> Metadata | None:
        """The metadata of the message at hand; None outside of handlers."""
        item = self.at_hand
        return None if item is None else item.frame.metadata

    # -- what the room says ------------------------------------------------------------------------------------------------

    @property
    def at_hand(self) -> Pending | Delivery | None:
        """The message at hand."""
        seat = self._seat
        if seat is None:
            return None
        item = seat.sync_item
        if item is None:
            item = AT_HAND.get()
            if item is not None and (item.route is None or item.route.seat is not seat):
                return None
        return item

    def pass_on(self, kind: Kind, type_name: str, data: Raw, origin: Origin = NOBODY) -> None:
        """Say something whose data is written already; `origin` gets the answer, if there is to be one."""
        if kind == "event":
            self.publish(type_name, data)
            return
        pending = self._request(kind, type_name, data, None, origin)
        if not self._router.submit(pending):
            raise NoRoom(
                f"{type_name} was not sent: {pending.purse.used} requests of capabilities are under way, and the node allows "
                f"{pending.purse.limit}. Wait for some of them, or give NodeConfig a larger max_inside."
            )

    def publish(self, type_name: str, data: Raw) -> None:
        """Emit an event whose data is written already."""
        if not self._router.post_event(self._frame("event", type_name, data, None)):
            raise NoRoom(
                f"{type_name} was not emitted: as many events wait to be routed as the node allows. Emit less at once, or give "
                f"NodeConfig a larger max_inside."
            )

    async def await_answer(self, kind: Kind, type_name: str, data: Raw, timeout_ms: int | None) -> Frame:
        """Send a request whose data is written already, and wait for the answer, whatever it is."""
        asker = Asker(asyncio.get_running_loop().create_future())
        pending = self._request(kind, type_name, data, timeout_ms, asker)
        if not self._router.submit(pending):
            return self._router.faults.make(
                OVERLOADED,
                f"{pending.purse.used} requests of capabilities are under way, and the node allows {pending.purse.limit}",
                request=pending.frame,
            )
        waiting = (
            None if pending.parent is None or pending.parent.route is None else pending.parent.route.seat
        )
        if waiting is not None:
            waiting.awaits = pending
        try:
            return await asker.future
        except asyncio.CancelledError:
            # Nobody waits any more: if it has not begun, it never does.
            self._router.withdraw(pending)
            raise
        finally:
            if waiting is not None and waiting.awaits is pending:
                waiting.awaits = None

    def _request(
        self, kind: Kind, type_name: str, data: Raw, timeout_ms: int | None, origin: Origin
    ) -> Pending:
        frame = self._frame(kind, type_name, data, timeout_ms)
        parent = None
        if type(origin) is Asker:
            item = AT_HAND.get()
            # Only what the handler's own task awaits keeps that handler waiting.
            if item is not None and item.route is not None and item.route.seat.task is asyncio.current_task():
                parent = item
        return Pending(origin, frame, self._router.inside, False, parent)  # noqa: FBT003  # by position: it is hot

    def _frame(self, kind: Kind, type_name: str, data: Raw, timeout_ms: int | None) -> Frame:
        if not self._router.is_running:
            raise LoopClosed(f"{type_name} was not said: the node has not started, or has stopped")
        item = self.at_hand
        causation = correlation = None
        if item is not None:
            causation, correlation = item.frame.metadata.id, item.frame.metadata.correlation
        ids = self._router.ids
        return Frame(
            kind=kind,
            type=type_name,
            data=data,
            metadata=Metadata(ids(), ids.last_ms, causation, correlation, timeout_ms),
        )

    def _named(self, said: Spoken, usual: Kind, kind: type) -> tuple[Kind, str]:
        if not isinstance(said, kind):
            raise InvalidArgument(
                f"{safe_repr(said)} is no {kind.__name__}: pass an instance of a class that derives from it"
            )
        type_name = said.message_type
        if not type_name:
            raise OutboundFault(
                f"class {type(said).__name__} has no type: write class {type(said).__name__}(..., type='Word.Word')"
            )
        return said.message_kind or usual, type_name

    def _write(self, kind: Kind, type_name: str, said: Spoken) -> Raw:
        if self._seat is None:
            return payload_of(type(said)).write(said)
        return self._seat.written(kind, type_name, said)
