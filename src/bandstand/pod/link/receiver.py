"""The receiving half of a link: dispatches frames, posts messages to local actors, and reports what became of them.

A message is acknowledged when it is *handled*, or answered; not when it is received. The one-way messages of a method share one
`AckCounter`: an actor handles the messages of a lane in order, so a count is enough. Only if messages end out of order (dropped
by an overflow policy, or impossible to unpickle) does the count not say which. Each ask has its own `IncomingAsk`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import MsgspecError
from msgspec.msgpack import Decoder, Ext

from bandstand.actor.context_vars import wrap_in
from bandstand.actor.declaration import methods_of
from bandstand.actor.handle import is_draining, post_or_wait
from bandstand.actor.reply import ReplyCallback, cancel_handler
from bandstand.actor.wait_graph import CROSS_LOOP_WAITS, REMOTE_ARRIVALS
from bandstand.core import ExitReason, Lane
from bandstand.core.enums import NO_ACTOR
from bandstand.core.ids import ActorId
from bandstand.core.logs import SafeLogger
from bandstand.errors import InvalidMessageError, NoSuchActorError, PodDownError
from bandstand.errors.formatting import safe_str
from bandstand.pod.handle_pickling import pickling_handles
from bandstand.pod.link.codec import (
    Carried,
    Packet,
    Unpacker,
    is_plain,
    name_unpicklable,
    pack_error,
    pack_value,
)
from bandstand.pod.link.protocol import (
    ACKS,
    ANSWERED,
    ANSWERS,
    CANCEL,
    DROPPED,
    FAILED,
    LOST,
    MESSAGES,
    WITHDRAWN,
)

if TYPE_CHECKING:
    from bandstand.actor.dispatch import Method
    from bandstand.actor.handle import Handle
    from bandstand.pod.handle_pickling import HandleCheck
    from bandstand.pod.link.sender import InFlightTable
    from bandstand.pod.link.transport import Transport, WriteQueue

Count: TypeAlias = int
Kind: TypeAlias = int
LaneNumber: TypeAlias = int
ReasonNumber: TypeAlias = int

logger = SafeLogger("bandstand.pod")

NO_DATA = object()
DATA_LANE = Lane.DATA
UNKNOWN_ACTOR = ActorId(0, None, None)

decode = Decoder(list[Any]).decode
decode_acks = Decoder(list[int]).decode


# -- roles and methods -------------------------------------------------------------------------------------------------


class IncomingRole:
    """A local role that the other side sends to.

    Args:
        role: its name.
        names: the names of its methods, in the order of their codes.
        find: returns the handle of a role.
    """

    __slots__ = ("_find", "_names", "actor", "methods", "role")

    def __init__(self, role: str, names: Sequence[str], find: Callable[[str], Handle | None]) -> None:
        self.role = role
        self._names = list(names)
        self._find = find
        self.actor = UNKNOWN_ACTOR
        self.methods: list[Method] = []
        self.renew()

    def renew(self) -> bool:
        """Look up the current actor. Return whether it is alive and not the known one.

        Raises:
            InvalidMessageError: it has other methods than the other side expects.
        """
        handle = self._find(self.role)
        if handle is None:
            return False
        if not self.methods:
            methods = methods_of(handle)
            if [method.name for method in methods] != self._names:
                raise InvalidMessageError(
                    f"the other side expects other methods of role {self.role!r}: it does not run the same program"
                )
            self.methods = methods
        before, self.actor = self.actor, handle.__actor_id__()
        return self.actor is not before and self.actor.is_alive


class IncomingMethod:
    """A method of a local role, as the other side knows it.

    Attributes:
        method: the method; None until an actor has the role.
        acks: counts its one-way messages.
    """

    __slots__ = ("_index", "acks", "method", "role")

    def __init__(self, role: IncomingRole, index: Count, acks: AckCounter) -> None:
        self.role = role
        self._index: Count = index
        self.acks = acks
        self.method: Method | None = None
        self.resolve()

    def resolve(self) -> Method | None:
        """Return the method if an actor has, or had, the role."""
        if self.role.methods:
            self.method = self.role.methods[self._index]
        return self.method


# -- outcomes ----------------------------------------------------------------------------------------------------------


class AckCounter(ReplyCallback):
    """Counts the outcomes of the one-way messages of one method since the last acknowledgement."""

    __slots__ = ("_receiver", "code", "dead", "dropped_count", "handled", "is_due")

    def __init__(self, code: Count, receiver: Receiver) -> None:
        super().__init__(UNKNOWN_ACTOR)
        self.code: Count = code
        self._receiver = receiver
        self.handled: Count = 0
        self.dead: Count = 0
        self.dropped_count: Count = 0
        self.is_due = False

    def answer(self, value: object) -> None:  # noqa: ARG002  # a one-way message has no answer
        """Count a message that was handled."""
        self.handled += 1
        if not self.is_due:
            self._receiver.ack_later(self)

    def lost(
        self,
        actor: ActorId | None,  # noqa: ARG002  # only the count matters
        name: str | None,  # noqa: ARG002  # same
        reason: ReasonNumber,  # noqa: ARG002  # same
        cause: BaseException | None,  # noqa: ARG002  # same
    ) -> None:
        """Count a message whose actor has exited."""
        self.dead += 1
        if not self.is_due:
            self._receiver.ack_later(self)

    def dropped(self, actor: ActorId | None, name: str | None) -> None:  # noqa: ARG002  # only the count matters
        """Count a message that the overflow policy has dropped."""
        self.dropped_count += 1
        if not self.is_due:
            self._receiver.ack_later(self)


class IncomingAsk(ReplyCallback):
    """An ask from the other side. Its outcome is sent back.

    Attributes:
        method: the method that was asked; None if no actor has the role.
    """

    __slots__ = ("_is_over", "_lane", "_number", "_receiver", "method")

    def __init__(
        self, actor: ActorId, number: object, lane: LaneNumber, receiver: Receiver, method: Method | None
    ) -> None:
        # Without super(), which costs more than all of this.
        self.actor = actor
        self.relay = None
        self.method = method
        self._number: Any = number
        self._lane: LaneNumber = lane
        self._receiver = receiver
        # It has ended, or was cancelled.
        self._is_over = False

    def answer(self, value: object) -> None:
        """Send the handler's answer back."""
        if not self._is_over:
            self._is_over = True
            self._receiver.answer(self._number, self._lane, value)

    def fail(self, error: BaseException) -> None:
        """Send an error back that the handler declares."""
        self._end(FAILED, pack_error(error))

    def lost(
        self,
        actor: ActorId | None,  # noqa: ARG002  # the other side has its own name for it
        name: str | None,  # noqa: ARG002  # same
        reason: ReasonNumber,
        cause: BaseException | None,
    ) -> None:
        """Report that the actor has exited."""
        self._end(LOST, (reason, None if cause is None else pack_error(cause)))

    def dropped(self, actor: ActorId | None, name: str | None) -> None:  # noqa: ARG002  # the other side has both
        """Report that the overflow policy has dropped the ask."""
        self._end(DROPPED, None)

    def _end(self, outcome: int, value: object) -> None:
        if not self._is_over:
            self._is_over = True
            self._receiver.end_ask(self._number, self._lane, outcome, value)

    def is_cancelled(self) -> bool:
        """Return whether the asker has cancelled, or is gone."""
        return self._is_over

    def may_go_to_next(self) -> bool:
        """Return whether the ask has not ended."""
        return not self._is_over

    def withdraw(self) -> None:
        """Cancel the ask: its handler never starts, or is cancelled."""
        self._is_over = True
        cancel_handler(self.actor, self)


# -- receiving ---------------------------------------------------------------------------------------------------------


class Receiver:
    """Posts received messages to local actors, and queues their outcomes.

    Args:
        find: returns the handle of a local role; None if there is none.
        queue: where outcomes wait to be written.
        unpacker: unpickles arguments.
        carries: the context variables that are sent along.
        check: returns why the other side could not resolve a handle in an answer. Without it, no handle can be sent.
        there: the pod at the other end; None for the calling program.
        here: the pod at this end, for error texts.

    Attributes:
        received: how many messages have arrived.
        has_acks: whether acknowledgements are due.
    """

    __slots__ = (
        "_acked_count",
        "_ask_count",
        "_asks",
        "_carries",
        "_check",
        "_due",
        "_find",
        "_here",
        "_is_closed",
        "_last_actor",
        "_methods",
        "_on_busy",
        "_queue",
        "_sending_count",
        "_there",
        "_transport",
        "_unpack",
        "has_acks",
        "received",
    )

    def __init__(
        self,
        find: Callable[[str], Handle | None],
        queue: WriteQueue,
        unpacker: Unpacker,
        carries: tuple[ContextVar[Any], ...],
        check: HandleCheck | None = None,
        there: str | None = None,
        here: str = "",
    ) -> None:
        self._find = find
        self._here = here
        self._check = check
        self._there = there
        self._queue = queue
        self._transport: Transport | None = None
        self._on_busy: Callable[[int, ActorId], object] | None = None
        self._unpack = unpacker.unpack
        self._carries = carries
        self._methods: list[IncomingMethod] = []
        self._asks: dict[int, IncomingAsk] = {}
        self._due: list[AckCounter] = []
        self.has_acks = False
        self._is_closed = False
        # The actor that got the last message.
        self._last_actor: ActorId | None = None
        self.received: Count = 0
        # How many of them were asks, and how many of the others are acknowledged.
        self._ask_count: Count = 0
        self._acked_count: Count = 0
        # Answers whose large buffers are being sent. The other side does not know of them yet.
        self._sending_count: Count = 0

    def attach(self, transport: Transport, on_busy: Callable[[int, ActorId], object] | None = None) -> None:
        """Connect the receiver.

        Args:
            transport: writes the outcomes.
            on_busy: called with number and target of an ask that arrives while an actor of this process waits for another loop.
        """
        self._transport = transport
        self._on_busy = on_busy

    def pending_ask(self, number: int) -> IncomingAsk | None:
        """Return the ask with this number if it has arrived and has not ended."""
        return self._asks.get(number)

    @property
    def has_pending(self) -> bool:
        """Whether a message has not ended yet, or has a large answer that is not sent yet."""
        due = sum([counter.handled + counter.dead + counter.dropped_count for counter in self._due])
        return (
            bool(self._asks or self._sending_count)
            or self.received - self._ask_count > self._acked_count + due
        )

    def expect(self, roles: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Note which methods the other side sends to. Their codes count from 1, in this order.

        Raises:
            InvalidMessageError: a role here has other methods.
        """
        for name, method_names in roles:
            role = IncomingRole(name, method_names, self._find)
            for index in range(len(method_names)):
                self._methods.append(IncomingMethod(role, index, AckCounter(len(self._methods) + 1, self)))

    def take_messages(self, entries: list[Any]) -> None:
        """Post the messages of a frame.

        Raises:
            InvalidMessageError: the frame is not valid. The messages before the error are posted.
        """
        methods = self._methods
        most = len(methods)
        at = 0
        end = len(entries)
        while at < end:
            code: Any = entries[at]
            if type(code) is not int or not -most <= code <= most or end - at < (3 if code < CANCEL else 2):
                raise InvalidMessageError(
                    "the link received a message for an unknown method, or an incomplete message"
                )
            value: Any = entries[at + 1]
            if code < CANCEL:
                self.take_ask(methods[-code - 1], value, entries[at + 2])
                at += 3
                continue
            at += 2
            if code == CANCEL:
                self._cancel(value)
                continue
            self.received += 1
            incoming = methods[code - 1]
            data: object = value
            kind = type(data)
            if kind is list:
                data = tuple(value)
            elif kind is Ext:
                data = self._unpack_arguments(value, incoming, incoming.acks)
                if data is NO_DATA:
                    continue
            method = incoming.method
            if method is None or post_or_wait(incoming.role.actor, method, data, incoming.acks) == NO_ACTOR:
                self._retry_or_refuse(incoming, data, incoming.acks)
            self._last_actor = incoming.role.actor

    def run_actors(self) -> None:
        """Let the actors handle what has arrived now if possible, not only in the next turn of the event loop."""
        actor = self._last_actor
        if actor is None:
            return
        self._last_actor = None
        kernel: Any = actor.home
        if kernel is not None:
            kernel.tick_inline()

    def take_ask(self, incoming: IncomingMethod, number: Any, value: Any) -> None:
        """Post an ask.

        Raises:
            InvalidMessageError: its number is not valid.
        """
        if type(number) is not int:
            raise InvalidMessageError(f"the link received an ask with the invalid number {number!r}")
        self.received += 1
        self._ask_count += 1
        method = incoming.method
        actor = incoming.role.actor
        ask = IncomingAsk(actor, number, DATA_LANE if method is None else method.lane, self, method)
        self._asks[number] = ask
        REMOTE_ARRIVALS[0] += 1
        data: object = value
        kind = type(data)
        if kind is list:
            data = tuple(value)
        elif kind is Ext:
            data = self._unpack_arguments(value, incoming, ask)
            if data is NO_DATA:
                return
        if method is None or post_or_wait(actor, method, data, ask) == NO_ACTOR:
            self._retry_or_refuse(incoming, data, ask)
        self._last_actor = incoming.role.actor
        if CROSS_LOOP_WAITS and self._on_busy is not None:
            self._on_busy(number, incoming.role.actor)

    def _cancel(self, number: object) -> None:
        """Cancel an ask for its asker.

        Raises:
            InvalidMessageError: the number is not valid.
        """
        if type(number) is not int:
            raise InvalidMessageError(f"the link received a cancellation with the invalid number {number!r}")
        ask = self._asks.pop(number, None)
        if ask is not None:
            # Now: a handler that never starts, or is cancelled, reports nothing.
            self.put(number, WITHDRAWN, None)
            ask.withdraw()

    def _unpack_arguments(self, value: Ext, incoming: IncomingMethod, callback: ReplyCallback) -> object:
        """Return the arguments; NO_DATA if they cannot be unpickled, and then the callback is informed."""
        try:
            data, carried = self._unpack(value)
        except InvalidMessageError:
            raise
        except Exception as error:  # unpickling may raise anything
            failure = TypeError(
                f"the arguments of a message to {incoming.role.role!r} cannot be unpickled in its process: {safe_str(error)}"
            )
            failure.__cause__ = error
            if isinstance(callback, IncomingAsk):
                callback.fail(failure)
            else:
                # No one waits for a one-way message, and its sender only counts it.
                logger.error("a message is lost: %s", failure, exc_info=failure)  # noqa: TRY400  # with the cause
                callback.lost(None, None, ExitReason.FAIL, failure)
            return NO_DATA
        return self._with_context(data, carried, incoming.role.actor) if carried else data

    def _with_context(self, data: object, carried: Carried, actor: ActorId) -> object:
        """Return data whose handler sees the context variables of the sender."""
        context: Context = actor.home.coroutines.home_context.copy() if actor.home is not None else Context()
        for index, value in carried:
            context.run(self._carries[index].set, value)
        return wrap_in(context, data)

    def _retry_or_refuse(self, incoming: IncomingMethod, data: object, callback: ReplyCallback) -> None:
        """Post a message to the next incarnation of its actor, or report that there is none."""
        role = incoming.role
        if role.renew() or incoming.method is None:
            # There is another actor, or a first one, which another method may have found already.
            method = incoming.resolve()
            if method is not None and post_or_wait(role.actor, method, data, callback) != NO_ACTOR:
                if isinstance(callback, IncomingAsk):
                    callback.redirect(role.actor)
                return
        name = f"role {role.role!r} of pod {self._here!r}"
        if not role.methods:
            error = NoSuchActorError(f"there is no {name}")
        elif is_draining(role.actor):
            error = PodDownError(f"{name} is draining: it accepts no new messages")
        else:
            error = PodDownError(f"{name} has ended")
        callback.lost(None, None, ExitReason.NORMAL, error)

    # -- outcomes ------------------------------------------------------------------------------------------------------

    def ack_later(self, counter: AckCounter) -> None:
        """Note that a counter has something to acknowledge."""
        counter.is_due = True
        self._due.append(counter)
        self.has_acks = True
        self._queue.is_ready = True
        if self._transport is not None:
            self._transport.schedule_flush()

    def take_acks(self) -> list[Any]:
        """Return the acknowledgements that are due, as they are written, and reset the counters."""
        entries: list[Any] = []
        due, self._due = self._due, []
        self.has_acks = False
        for counter in due:
            entries += (counter.code, counter.handled, counter.dead, counter.dropped_count)
            self._acked_count += counter.handled + counter.dead + counter.dropped_count
            counter.handled = counter.dead = counter.dropped_count = 0
            counter.is_due = False
        return entries

    def answer(self, number: Any, lane: LaneNumber, value: object) -> None:
        """Send the answer to an ask."""
        del self._asks[number]
        if is_plain(value):
            self.put(number, ANSWERED, value)
        else:
            self._send_packed_answer(number, lane, value)

    def _send_packed_answer(self, number: int, lane: int, value: object) -> None:
        failure: TypeError | None = None
        with pickling_handles(self._check, self._there):
            try:
                packet = pack_value(value)
            except Exception as error:  # noqa: BLE001  # a user's __reduce__ may raise anything, and the asker gets it
                failure = TypeError(
                    f"the answer cannot be sent to another process: {name_unpicklable(value, what='a value')} cannot be pickled "
                    f"({safe_str(error)})"
                )
                packet = pack_value(pack_error(failure))
        self._send_packet(number, lane, ANSWERED if failure is None else FAILED, packet)

    def end_ask(self, number: int, lane: int, outcome: int, value: object) -> None:
        """Send the outcome of an ask that has no answer."""
        self._asks.pop(number, None)
        self._send_packet(number, lane, outcome, pack_value(value))

    def put(self, number: Any, outcome: object, value: object) -> None:
        """Queue the outcome of an ask."""
        if not self._is_closed:
            self._queue.append_answer(number, outcome, value)
            if self._transport is not None:
                self._transport.schedule_flush()

    def _send_packet(self, number: int, lane: int, outcome: int, packet: Packet) -> None:
        if self._is_closed:
            return
        if packet.parts:
            self._sending_count += 1
            self._queue.send_parts(lane, packet, lambda: self._send_after_parts(number, outcome, packet))
            if self._transport is not None:
                self._transport.schedule_flush()
        else:
            self.put(number, outcome, packet)

    def _send_after_parts(self, number: int, outcome: int, packet: Packet) -> None:
        """Queue an answer whose large buffers are sent."""
        self._sending_count -= 1
        self.put(number, outcome, packet)

    def close(self) -> None:
        """Cancel the handlers of pending asks: the link is lost, and no one waits for their answers."""
        self._is_closed = True
        asks, self._asks = self._asks, {}
        for ask in asks.values():
            ask.withdraw()


class FrameDispatcher:
    """Decodes each frame and passes it on, until it is closed.

    Args:
        receiver: takes messages.
        in_flight: takes answers and acknowledgements.
        on_other: takes all other frames, with kind and body.
    """

    __slots__ = ("_in_flight", "_on_other", "_receiver", "is_closed")

    def __init__(
        self,
        receiver: Receiver,
        in_flight: InFlightTable,
        on_other: Callable[[int, bytes | bytearray | memoryview], None],
    ) -> None:
        self._receiver = receiver
        self._in_flight = in_flight
        self._on_other = on_other
        self.is_closed = False

    def dispatch(self, kind: Kind, body: bytes | bytearray | memoryview) -> None:
        """Take one frame.

        Raises:
            InvalidMessageError: it is not valid.
        """
        if self.is_closed:
            return
        try:
            if kind == MESSAGES:
                self._receiver.take_messages(decode(body))
            elif kind == ANSWERS:
                self._in_flight.take_answers(decode(body))
            elif kind == ACKS:
                self._in_flight.take_acks(decode_acks(body))
            else:
                self._on_other(kind, body)
        except MsgspecError as error:
            raise InvalidMessageError(
                f"the link received a frame that cannot be decoded: {safe_str(error)}"
            ) from error
