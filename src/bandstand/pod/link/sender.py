"""The sending half of a link: proxies for remote actors, and the messages that are not acknowledged yet.

A `RemoteProxy` is an actor on the proxy loop, a loop of this thread, that forwards its messages to an actor in another
process. So a sender can do with a remote actor whatever it can do with a local one: ask, wait for room, get `MailboxFullError`. A
forwarded message keeps its slot in the proxy's lane until the other side reports its outcome, so a sender meets a full mailbox
when as many messages are in flight as the remote mailbox holds. If the remote actor has an overflow policy, messages are
dropped there: its proxy keeps no slots, but pauses while the socket is blocked, and then its own mailbox applies the same
policy. Stopping or killing the proxy stops or kills the remote actor, unless the link was lost.

One-way messages have no numbers: an actor handles the messages of a lane in order, so the other side reports how many messages
of a method have ended, and how. Only asks have numbers. Where messages end out of order (dropped by an overflow policy, or
impossible to unpickle), the counts are right, but an `Undelivered` may show another message of the same method. Refused: one
number and one acknowledgement for each message, which cost more than the message.

Nothing is sent twice. When the link is lost, a message that was written completely and not acknowledged is *in doubt*; any
other one is dead. `sent = handled + dead + dropped + in doubt + waiting`, at every moment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec.msgpack import Ext

from bandstand.actor.declaration import methods_of
from bandstand.actor.dispatch import Method
from bandstand.actor.handle import is_draining
from bandstand.actor.reply import ReplyCallback
from bandstand.actor.wait_graph import REMOTE_ARRIVALS
from bandstand.core import ExitReason, Lane, Overflow
from bandstand.errors import ActorKilledError, InvalidMessageError, UnknownMessageError
from bandstand.errors.formatting import safe_str
from bandstand.pod.link.codec import Packet, Unpacker, encode, unpack_error
from bandstand.pod.link.protocol import (
    ANSWERED,
    CANCEL,
    DRAIN,
    DROPPED,
    END,
    FAILED,
    KILL,
    LOST,
    STOP,
    WITHDRAWN,
    frame,
)

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from bandstand.core import Context
    from bandstand.core.ids import ActorId
    from bandstand.core.loop import Loop
    from bandstand.pod.link.transport import MessageBatch, Transport, WriteQueue
    from bandstand.pod.link.wait_probes import WaitProbes

Count: TypeAlias = int
LaneNumber: TypeAlias = int
MethodCode: TypeAlias = int

ACTOR_ENDED = "its actor had ended, or could not unpack it"


class RemoteRole(Protocol):
    """What a proxy has to know about a remote actor."""

    @property
    def kind(self) -> type[Any]:
        """The class of the actor."""
        ...

    @property
    def mailbox(self) -> int | None:
        """How many messages of users may wait in each lane of its mailbox."""
        ...

    @property
    def overflow(self) -> Overflow:
        """What a full lane does with another message."""
        ...


@dataclass(frozen=True, slots=True)
class Undelivered:
    """A message to another process that was not handled, as far as this process knows."""

    pod: str
    """The pod it was sent to."""
    role: str
    """The role it was sent to."""
    method: str
    """The method, as `Class.method`."""
    lane: Lane
    is_in_doubt: bool
    """Whether it may have been handled: the other process had the message, and is gone."""
    reason: str
    """Why it was not delivered."""
    data: object = None
    """Its arguments if they were plain values; None if they were pickled."""


# -- remote methods ----------------------------------------------------------------------------------------------------


class ProxyLane:
    """One lane of a proxy.

    Attributes:
        backlog: a message whose large buffers are being sent, and those that wait behind it; None if there are none.
    """

    __slots__ = ("backlog", "proxy")

    def __init__(self, proxy: RemoteProxy) -> None:
        self.proxy = proxy
        self.backlog: deque[tuple[RemoteMethod, PendingAsk | None, object]] | None = None


class RemoteMethod:
    """One method of a remote actor.

    Attributes:
        code: the number by which the other side knows it.
        ask_code: the code of an ask of it.
        pending: the arguments of its one-way messages that are not acknowledged, in order.
    """

    __slots__ = ("ask_code", "code", "is_ask", "lane", "method", "pending", "proxy_lane")

    def __init__(self, method: Method, code: MethodCode, proxy_lane: ProxyLane) -> None:
        self.method = method
        self.code: MethodCode = code
        self.ask_code: MethodCode = -code
        self.proxy_lane = proxy_lane
        self.is_ask = method.is_ask
        self.lane: LaneNumber = method.lane
        self.pending: deque[object] = deque()


class TrackedTell:
    """A one-way message whose sender wants to know its outcome."""

    __slots__ = ("callback", "data")

    def __init__(self, callback: ReplyCallback, data: object) -> None:
        self.callback = callback
        self.data = data


@cython.freelist(64)
@cython.cclass
class PendingAsk:
    """An ask that was forwarded and has not ended. It is the `relay` of the reply: calling it cancels the ask.

    Attributes:
        number: the number of the ask on its link.
        arrivals: how many asks and probes had come over links when it was forwarded.
        is_queued: whether it is in the write queue, not behind a large message, and not large itself.
    """

    __slots__ = ("arrivals", "data", "is_queued", "number", "remote_method", "reply", "sender")

    def __init__(
        self,
        sender: Sender,
        number: object,
        remote_method: RemoteMethod,
        reply: ReplyCallback,
        data: object,
        arrivals: Count,
    ) -> None:
        self.sender = sender
        self.number: Any = number
        self.remote_method = remote_method
        self.reply = reply
        self.data = data
        self.arrivals: Count = arrivals
        self.is_queued = False

    def __call__(self) -> None:
        """Cancel the ask."""
        self.sender.cancel(self)

    def start_probe(self) -> None:
        """Find out whether the ask is part of a cycle. Thread-safe."""
        probes = self.sender.probes
        if probes is not None:
            probes.start_probe(self)


# -- what is in flight -------------------------------------------------------------------------------------------------


class InFlightTable:
    """The messages that were sent and are not acknowledged, and the counts of the others.

    Args:
        there: the pod at the other end.
        unpacker: unpickles answers.
        on_undelivered: called with each message that was not handled, as far as this process knows.
    """

    __slots__ = (
        "_last_number",
        "_methods",
        "_on_undelivered",
        "_there",
        "_unpack",
        "asks",
        "dead",
        "dropped",
        "handled",
        "in_doubt",
        "sent",
    )

    def __init__(
        self, there: str, unpacker: Unpacker, on_undelivered: Callable[[Undelivered], object]
    ) -> None:
        self._there = there
        self._unpack = unpacker.unpack
        self._on_undelivered = on_undelivered
        self._methods: dict[int, RemoteMethod] = {}
        self.asks: dict[int, PendingAsk] = {}
        self._last_number: Count = 0
        self.sent: Count = 0
        self.handled: Count = 0
        self.dead: Count = 0
        self.dropped: Count = 0
        self.in_doubt: Count = 0

    def add_method(self, method: Method, proxy_lane: ProxyLane) -> RemoteMethod:
        """Give a remote method its code. Codes count from 1, in the order of the roles and their methods."""
        remote_method = RemoteMethod(method, len(self._methods) + 1, proxy_lane)
        self._methods[remote_method.code] = remote_method
        return remote_method

    def add_tell(self, remote_method: RemoteMethod, data: object, sender: object) -> None:
        """Note that a one-way message is sent."""
        self.sent += 1
        remote_method.pending.append(TrackedTell(sender, data) if isinstance(sender, ReplyCallback) else data)

    def add_ask(
        self, sender: Sender, remote_method: RemoteMethod, data: object, reply: ReplyCallback
    ) -> PendingAsk:
        """Note that an ask is sent."""
        self.sent += 1
        self._last_number += 1
        ask = PendingAsk(sender, self._last_number, remote_method, reply, data, REMOTE_ARRIVALS[0])
        self.asks[ask.number] = ask
        return ask

    def has_pending(self, proxy: RemoteProxy) -> bool:
        """Return whether a message that a proxy has forwarded has not ended."""
        return any(
            method.pending for method in self._methods.values() if method.proxy_lane.proxy is proxy
        ) or any(ask.remote_method.proxy_lane.proxy is proxy for ask in self.asks.values())

    # -- outcomes ------------------------------------------------------------------------------------------------------

    def take_acks(self, entries: Sequence[int]) -> None:
        """Take the acknowledgements of one-way messages.

        Raises:
            InvalidMessageError: fewer messages were sent.
        """
        check_whole(entries, 4)
        at = 0
        end = len(entries)
        while at < end:
            method = self._methods.get(entries[at])
            handled = entries[at + 1]
            dead = entries[at + 2]
            dropped = entries[at + 3]
            at += 4
            count = handled + dead + dropped
            if method is None or min(handled, dead, dropped) < 0 or count > len(method.pending):
                raise InvalidMessageError(
                    "the link received an acknowledgement for messages that were not sent"
                )
            self.handled += handled
            self.dead += dead
            self.dropped += dropped
            self.end_tells(method, handled, dead, dropped)
            method.proxy_lane.proxy.free_slots(method.lane, count)

    def end_tells(self, method: RemoteMethod, handled: Count, dead: Count, dropped: Count) -> None:
        """End the oldest one-way messages of a method, with these outcomes."""
        pending = method.pending
        for _ in range(handled):
            message = pending.popleft()
            if type(message) is TrackedTell:
                message.callback.answer(None)
        for _ in range(dead):
            self._lose_tell(method, pending.popleft(), ACTOR_ENDED, is_in_doubt=False)
        for _ in range(dropped):
            message = pending.popleft()
            if type(message) is TrackedTell:
                proxy = method.proxy_lane.proxy
                message.callback.dropped(proxy.actor, proxy.role)

    def take_answers(self, entries: Sequence[Any]) -> None:
        """Take the outcomes of asks.

        Raises:
            InvalidMessageError: there is no such ask, or the outcome is not valid.
        """
        check_whole(entries, 3)
        at = 0
        end = len(entries)
        while at < end:
            number: Any = entries[at]
            ask = self.asks.pop(number, None) if type(number) is int else None
            if ask is None:
                raise InvalidMessageError(
                    f"the link received an answer to ask {number!r}, which is not pending"
                )
            outcome: Any = entries[at + 1]
            value: Any = entries[at + 2]
            at += 3
            ask.reply.relay = None
            try:
                if outcome == ANSWERED:
                    answer: object = value
                    kind = type(answer)
                    if kind is Ext:
                        self._answer_packed(ask, value)
                    else:
                        ask.reply.answer(tuple(value) if kind is list else answer)
                    self.handled += 1
                else:
                    self._end_ask(ask, outcome, value)
            except BaseException:
                # The answer is not valid, and the link will be lost. The ask then ends with all the others.
                self.asks[number] = ask
                raise
            ask.remote_method.proxy_lane.proxy.free_slots(ask.remote_method.lane, 1)

    def _answer_packed(self, ask: PendingAsk, value: Ext) -> None:
        try:
            answer, _ = self._unpack(value)
        except InvalidMessageError:
            raise
        except Exception as error:  # noqa: BLE001  # unpickling may raise anything, and the asker gets it
            method = ask.remote_method.method
            failure = TypeError(
                f"the answer of {method.owner}.{method.name}() cannot be unpickled in this process: {safe_str(error)}"
            )
            failure.__cause__ = error
            ask.reply.fail(failure)
        else:
            ask.reply.answer(answer)

    def _end_ask(self, ask: PendingAsk, outcome: Any, value: Any) -> None:
        """End an ask that has no answer."""
        proxy = ask.remote_method.proxy_lane.proxy
        reply = ask.reply
        if outcome == WITHDRAWN:
            self.handled += 1
            reply.withdrawn()
        elif outcome == FAILED:
            reply.fail(unpack_error(self._unpack(value)[0]))
            self.handled += 1
        elif outcome == DROPPED:
            self.dropped += 1
            reply.dropped(proxy.actor, proxy.role)
        elif outcome == LOST:
            reason, packed_error = self._unpack(value)[0]
            cause = None if packed_error is None else unpack_error(packed_error)
            self.dead += 1
            self._report(ask.remote_method, ask.data, ACTOR_ENDED, is_in_doubt=False)
            reply.lost(proxy.actor, proxy.role, reason, cause)
        else:
            raise InvalidMessageError(f"the link received an answer of unknown kind {outcome}")

    # -- the end -------------------------------------------------------------------------------------------------------

    def end_all(self, reason: str, unsent: Sequence[MessageBatch], *, is_certain: bool) -> None:
        """End all messages: the link is lost.

        Args:
            reason: why.
            unsent: the batches that were not written completely. Their messages are dead; the others are in doubt.
            is_certain: whether the other side has reported every message that it received, so that none is in doubt.
        """
        tells, asks = self._count_unsent(unsent)
        for method in self._methods.values():
            pending = list(method.pending)
            method.pending.clear()
            doubtful = 0 if is_certain else len(pending) - tells.get(method.code, 0)
            for index, message in enumerate(pending):
                is_in_doubt = index < doubtful
                if is_in_doubt:
                    self.in_doubt += 1
                elif type(message) is TrackedTell and message.callback.reroute():
                    self.sent -= 1
                    continue
                else:
                    self.dead += 1
                self._lose_tell(method, message, reason, is_in_doubt=is_in_doubt)
        pending_asks, self.asks = self.asks, {}
        for number, ask in pending_asks.items():
            is_in_doubt = ask.is_queued and number not in asks and not is_certain
            ask.reply.relay = None
            if is_in_doubt:
                self.in_doubt += 1
            elif ask.reply.reroute():
                self.sent -= 1
                continue
            else:
                self.dead += 1
            self._report(ask.remote_method, ask.data, reason, is_in_doubt=is_in_doubt)
            self._lose_callback(ask.remote_method, ask.reply, reason, is_in_doubt=is_in_doubt)

    def _count_unsent(self, unsent: Sequence[MessageBatch]) -> tuple[dict[int, int], set[int]]:
        """Return how many one-way messages of each method were not written, and the numbers of such asks."""
        tells = dict.fromkeys(self._methods, 0)
        asks: set[int] = set()
        for batch in unsent:
            entries, at = batch.entries, 0
            while at < len(entries):
                code = entries[at]
                if code > CANCEL:
                    tells[code] += 1
                elif code < CANCEL:
                    asks.add(entries[at + 1])
                    at += 1
                at += 2
        for proxy_lane in {method.proxy_lane for method in self._methods.values()}:
            for method, ask, _ in proxy_lane.backlog or ():
                # An ask in the backlog is not queued, and knows that itself.
                if ask is None:
                    tells[method.code] += 1
        return tells, asks

    def _lose_tell(self, method: RemoteMethod, message: object, reason: str, *, is_in_doubt: bool) -> None:
        if type(message) is TrackedTell:
            self._lose_callback(method, message.callback, reason, is_in_doubt=is_in_doubt)
            message = message.data
        self._report(method, message, reason, is_in_doubt=is_in_doubt)

    def _lose_callback(
        self, method: RemoteMethod, callback: ReplyCallback, reason: str, *, is_in_doubt: bool
    ) -> None:
        doubt = (
            "it is in doubt whether the message was handled"
            if is_in_doubt
            else "the message did not reach it"
        )
        cause = ActorKilledError(f"pod {self._there!r} is unreachable ({reason}): {doubt}")
        proxy = method.proxy_lane.proxy
        callback.lost(proxy.actor, proxy.role, ExitReason.FAIL, cause)

    def _report(self, remote_method: RemoteMethod, data: object, reason: str, *, is_in_doubt: bool) -> None:
        method = remote_method.method
        self._on_undelivered(
            Undelivered(
                self._there,
                remote_method.proxy_lane.proxy.role,
                f"{method.owner}.{method.name}",
                Lane(remote_method.lane),
                is_in_doubt,
                reason,
                None if type(data) is Packet else data,
            )
        )


def check_whole(entries: Sequence[Any], size: Count) -> None:
    """Check that a list consists of whole entries of `size` items.

    Raises:
        InvalidMessageError: it does not.
    """
    if len(entries) % size:
        raise InvalidMessageError("the link received an incomplete answer or acknowledgement")


# -- sending -----------------------------------------------------------------------------------------------------------


class Sender:
    """Queues what the proxies of a link forward, in order within each lane of each actor.

    Args:
        in_flight: where messages are noted until they end.
        queue: where they wait to be written.
        transport: writes them.

    Attributes:
        probes: finds cycles of asks that go through this link; set by the link.
    """

    __slots__ = ("_in_flight", "_queue", "_transport", "probes")

    def __init__(self, in_flight: InFlightTable, queue: WriteQueue, transport: Transport) -> None:
        self._in_flight = in_flight
        self._queue = queue
        self._transport = transport
        self.probes: WaitProbes | None = None

    def tell(self, method: RemoteMethod, sender: object, data: object) -> None:
        """Forward a one-way message."""
        if type(sender) is int and type(data) is not Packet and method.proxy_lane.backlog is None:
            # By far the most frequent case, and therefore inlined.
            self._in_flight.sent += 1
            method.pending.append(data)
            self._queue.append_message(method.lane, method.code, data)
        else:
            self._in_flight.add_tell(method, data, sender)
            self.enqueue(method, None, data)
        self._transport.schedule_flush()

    def ask(self, method: RemoteMethod, reply: ReplyCallback, data: object) -> None:
        """Forward an ask."""
        ask = self._in_flight.add_ask(self, method, data, reply)
        reply.relay = ask
        self.enqueue(method, ask, data)
        if len(self._in_flight.asks) == 1:
            # The only pending ask is written at once. A burst of asks is written together at the end of the turn.
            self._transport.flush()
        else:
            self._transport.schedule_flush()

    def end_role(self, role: str, how: int) -> None:
        """End a remote actor, ahead of all messages, as a local one would be."""
        self._queue.append_urgent(frame(END, encode((role, how))))
        self._transport.schedule_flush()

    def has_pending(self, proxy: RemoteProxy) -> bool:
        """Return whether a message that a proxy has forwarded has not ended."""
        return self._in_flight.has_pending(proxy)

    def enqueue(self, method: RemoteMethod, ask: PendingAsk | None, data: object) -> None:
        """Queue a message, behind a large one of the same lane that is still being sent."""
        proxy_lane = method.proxy_lane
        if proxy_lane.backlog is not None:
            proxy_lane.backlog.append((method, ask, data))
        elif type(data) is Packet and data.parts:
            proxy_lane.backlog = deque([(method, ask, data)])
            self.send_parts(method, data)
        else:
            self.append(method, ask, data)

    def append(self, method: RemoteMethod, ask: PendingAsk | None, data: object) -> None:
        """Append a message to the write queue."""
        if ask is None:
            self._queue.append_message(method.lane, method.code, data)
        else:
            self._queue.append_ask(method.lane, method.ask_code, ask.number, data)
            ask.is_queued = True

    def send_parts(self, method: RemoteMethod, packet: Packet) -> None:
        """Send the large buffers of the first message of a backlog, and then the rest of the backlog."""
        self._queue.send_parts(method.lane, packet, lambda: self.resume_backlog(method.proxy_lane))

    def resume_backlog(self, proxy_lane: ProxyLane) -> None:
        """Queue the first message, whose buffers are sent, and those behind it up to the next large one."""
        backlog = proxy_lane.backlog
        assert backlog is not None
        while backlog:
            method, ask, data = backlog[0]
            if type(data) is Packet and data.parts:
                self.send_parts(method, data)
                return
            backlog.popleft()
            self.append(method, ask, data)
            if ask is not None and ask.reply.is_cancelled():
                # It was cancelled while it waited here. The cancellation has to follow the ask.
                self.cancel(ask)
        proxy_lane.backlog = None

    def cancel(self, ask: PendingAsk) -> None:
        """Cancel an ask, unless it has ended."""
        if ask.is_queued and self._in_flight.asks.get(ask.number) is ask:
            self._queue.append_cancel(ask.remote_method.lane, ask.number)
            self._transport.schedule_flush()

    def is_write_blocked(self) -> bool:
        """Return whether the peer does not read as fast as this side writes."""
        return self._transport.is_write_blocked

    def wait_unblocked(self) -> Coroutine[Any, Any, None]:
        """Wait until the peer reads again."""
        return self._transport.wait_unblocked()


# -- proxies -----------------------------------------------------------------------------------------------------------


class RemoteProxy:
    """An actor on the proxy loop that forwards its messages to a remote actor.

    Args:
        loop: the proxy loop.
        role: the name of the role.
        spec: the class, mailbox size and overflow policy of the remote actor.
        there: the pod at the other end.
        in_flight: gives the methods their codes.
        sender: sends the messages.

    Attributes:
        actor: the id of the proxy.
        holds_slots: whether a forwarded message keeps its slot until it has ended.
    """

    __slots__ = ("_is_draining", "_is_lost", "_loop", "_methods", "_sender", "actor", "holds_slots", "role")

    def __init__(
        self, loop: Loop, role: str, spec: RemoteRole, there: str, in_flight: InFlightTable, sender: Sender
    ) -> None:
        self.role = role
        self._loop = loop
        self._sender = sender
        self.holds_slots = spec.overflow is Overflow.REJECT
        lanes: dict[int, ProxyLane] = {}
        self._methods: dict[object, RemoteMethod] = {}
        for method in methods_of(spec.kind):
            proxy_lane = lanes.setdefault(method.lane, ProxyLane(self))
            self._methods[method] = in_flight.add_method(method, proxy_lane)
        self.actor: ActorId = loop.spawn(
            self.forward,
            name=f"{role} in {there}",
            mailbox_cap=loop.kernel.actors.cap_for(spec.mailbox),
            overflow=spec.overflow,
        )
        # Its exit is reported elsewhere: by the code that closes the link, or by the other side.
        loop.kernel.actors.set_exit_handled(self.actor)
        self._is_lost = False
        # Whether the remote actor has to stop as soon as it has handled what was forwarded.
        self._is_draining = False
        loop.kernel.actors.on_exit(self.actor, self._forward_exit)

    def forward(self, turn: Context[Any], data: object) -> Any:
        """Handle a message: send it to the remote actor."""
        method = self._methods.get(turn.tag)
        if method is None:
            refuse_unknown(self.role, turn)
            return None
        if self.holds_slots:
            # The message counts as if it were still in the mailbox, until the other side reports its outcome.
            self._loop.kernel.hold_slot(self.actor, method.lane)
        if method.is_ask:
            reply: ReplyCallback = turn.sender  # type: ignore[assignment]  # an ask has one
            self._sender.ask(method, reply, data)
        else:
            self._sender.tell(method, turn.sender, data)
        if not self.holds_slots and self._sender.is_write_blocked():
            return self._sender.wait_unblocked()
        return None

    @property
    def is_open(self) -> bool:
        """Whether the remote actor accepts messages, as far as this process knows."""
        return not self._is_lost and self.actor.is_alive and not is_draining(self.actor)

    def send(self, method: Method, data: object, callback: ReplyCallback) -> None:
        """Send a message that was not in the mailbox of this proxy. `callback` learns its outcome."""
        remote_method = self._methods[method]
        if self.holds_slots:
            self._loop.kernel.hold_slot(self.actor, method.lane)
        if method.is_ask:
            self._sender.ask(remote_method, callback, data)
        else:
            self._sender.tell(remote_method, callback, data)

    def free_slots(self, lane: LaneNumber, count: Count) -> None:
        """Free the slots of messages that have ended."""
        if self.holds_slots:
            self._loop.kernel.free_slots(self.actor, lane, count)
        if self._is_draining:
            self._drain()

    def _forward_exit(self, reason: ExitReason, _cause: BaseException | None) -> None:
        """End the remote actor as the proxy was ended. If slots are still held, the proxy was stopped without draining."""
        if self._is_lost:
            return
        if reason is not ExitReason.NORMAL:
            self._sender.end_role(self.role, KILL)
        elif self.holds_slots and self._sender.has_pending(self):
            self._sender.end_role(self.role, STOP)
        else:
            self._is_draining = True
            self._drain()

    def _drain(self) -> None:
        if not self._is_lost and not self._sender.has_pending(self):
            self._is_draining = False
            self._sender.end_role(self.role, DRAIN)

    def mark_lost(self) -> None:
        """Note that the link is lost, before the messages that were sent over it end."""
        self._is_lost = True

    def close(self, cause: BaseException) -> None:
        """End the proxy: the link is lost, and the messages in its mailbox are dead."""
        self._is_lost = True
        self._loop.kernel.actors.stop_or_kill(self.actor, cause)


def refuse_unknown(role: str, turn: Context[Any]) -> None:
    """Refuse a message that is not a method of the class: a raw message, or a query that every local actor answers."""
    sender: object = turn.sender
    if isinstance(sender, ReplyCallback):
        sender.fail(
            UnknownMessageError(
                f"{role!r} runs in another process, where only the methods of its class can be asked, not {turn.tag!r}: "
                f"declare a method with @ask"
            )
        )
