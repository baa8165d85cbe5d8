"""The bus as capabilities and programs in the node's process use it: emit events, send commands, ask.

Causation is set here and nowhere else: a message that is sent while another one is handled has that one as its cause. While a plain handler
runs, the current message is the one it was called with. For a coroutine it is in a context variable, so that it is kept across every `await`
and in the tasks that the coroutine creates.
"""

from __future__ import annotations

import asyncio
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
from msgspec import Raw

from bandstand.bus.contracts.codec import PayloadCodec
from bandstand.bus.contracts.messages import Command, Event, TypedMessage, TypedRequest
from bandstand.bus.contracts.types import UNDECLARED, declared_messages
from bandstand.bus.durations import checked_timeout_ms, to_whole_ms
from bandstand.bus.faults import OVERLOADED, FaultAnswer
from bandstand.bus.frame import LONGEST_DELAY_MS, Frame, Kind, Metadata
from bandstand.bus.reminders.schedule import make_schedule
from bandstand.bus.request import NO_REQUESTER, Delivery, PendingRequest, Requester
from bandstand.bus.tracing import CURRENT_MESSAGE
from bandstand.errors import (
    ContractViolationError,
    InvalidArgumentError,
    LoopClosedError,
    MailboxFullError,
    RefusedError,
    RequestFailedError,
)
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import LONGEST_MS, Seconds

if TYPE_CHECKING:
    from datetime import datetime

    from bandstand.bus.capability_slot import CapabilitySlot
    from bandstand.bus.reminders.schedule import Missed
    from bandstand.bus.router import Router

__all__ = ("Bus", "message_codec", "overload_text", "reply_codec", "request_error")

Reply = TypeVar("Reply")

_ANY_DATA: PayloadCodec = PayloadCodec(Any, "any data")


class FutureRequester:
    """The requester of an `ask`: the answer is the result of a future."""

    __slots__ = ("future",)

    def __init__(self, future: asyncio.Future[Frame]) -> None:
        self.future = future

    def settle(self, frame: Frame, _settles: bool, /) -> bool:
        """Set the result."""
        if self.future.done():
            return False
        self.future.set_result(frame)
        return True


class NodeOverloadedError(MailboxFullError, RefusedError):
    """A limit of the node is reached. If a handler does not catch it, its message is refused, and the capability does not fail."""

    def __init__(self, text: str) -> None:
        RefusedError.__init__(self, text)


class Bus:
    """Sends messages on the bus. A capability has one as `self.bus`, a program uses `node.bus`."""

    __slots__ = ("_router", "_slot")

    def __init__(self, router: Router, slot: CapabilitySlot | None = None) -> None:
        self._router = router
        self._slot = slot

    # -- for users ---------------------------------------------------------------------------------------------------------

    def emit(self, event: Event) -> None:
        """Publish an event to all its subscribers, without waiting for them. Each gets its own copy.

        On a node with a journal, what the handler of a command emits, sends and schedules takes effect together with its answer; if the handler
        fails, nothing of it does.

        Raises:
            ContractViolationError: the contract does not declare it, or a field has a value that its type does not allow.
            MailboxFullError: more events wait to be routed than the node allows.
            LoopClosedError: the node has not started, or has stopped.
        """
        kind, type_name = self._check_message(event, "event", Event)
        self.emit_encoded(type_name, self._encode(kind, type_name, event))

    def send(self, command: Command[Any]) -> None:
        """Send a command without waiting for the answer. A reply is dropped and counted; an error goes to the error sink.

        Raises:
            ContractViolationError, MailboxFullError, LoopClosedError: as for `emit`.
        """
        kind, type_name = self._check_message(command, "command", Command)
        self.send_encoded(kind, type_name, self._encode(kind, type_name, command))

    async def ask(self, request: TypedRequest[Reply], *, timeout: Seconds | None = None) -> Reply:
        """Send a command or query and wait for the answer, which is the caller's own copy.

        Args:
            request: the command or query.
            timeout: how long it may take, in seconds; None for the timeout of its capability or the node.

        Raises:
            RequestFailedError: it was answered with an error.
            InvalidMessageError: the answer does not match the class.
            ContractViolationError, LoopClosedError: as for `emit`.
            InvalidArgumentError: the timeout is invalid.
        """
        kind, type_name = self._check_message(request, "command", TypedRequest)
        answer = await self.ask_encoded(kind, type_name, self._encode(kind, type_name, request), timeout)
        if answer.kind == "error":
            raise request_error(type_name, answer)
        value: Reply = reply_codec(type(request)).read(answer.data)
        return value

    def send_later(self, message: Command[Any] | Event, delay: Seconds) -> str:
        """Send a command, or emit an event, in `delay` seconds, never earlier. The answer is not delivered.

        Returns:
            The id for `take_back`.

        Raises:
            ContractViolationError, LoopClosedError: as for `emit`.
            MailboxFullError: as many messages are scheduled as the node allows.
            InvalidArgumentError: the delay is invalid, or no capability handles the command.
        """
        kind, type_name = self._check_message(message, "command", TypedMessage)
        delay_ms = to_whole_ms("delay", delay, most=LONGEST_DELAY_MS)
        frame = self._frame(kind, type_name, self._encode(kind, type_name, message), None)
        scheduler = self._router.scheduler
        assert scheduler is not None
        try:
            return scheduler.add(frame, delay_ms, NO_REQUESTER, "$", self._durable_parent)
        except RefusedError as refusal:
            raise _not_taken(f"{type_name} was not scheduled", refusal) from None

    def take_back(self, timer_id: str) -> bool:
        """Cancel a scheduled message. Return False if it has been sent, or was never scheduled."""
        scheduler = self._router.scheduler
        assert scheduler is not None
        return scheduler.cancel(timer_id)

    def remind(
        self,
        name: str,
        command: Command[Any],
        *,
        at: datetime | None = None,
        after: Seconds | None = None,
        every: Seconds | None = None,
        cron: str | None = None,
        timezone: str | None = None,
        missed: Missed = "one",
    ) -> None:
        """Set a reminder: send a command at a time by the wall clock, once or again and again, over restarts of the node. The answer is not delivered.

        The reminder belongs to this capability; those of a program belong to `node`. One with the same name is replaced, unless it has the same definition: that one
        stays as it is. So a capability may set its reminders whenever it starts.

        Args:
            name: its name, without spaces.
            command: the command.
            at: once, at this moment; together with `every`, the moment from which it counts.
            after: once, in so many seconds.
            every: again and again, with so many seconds between; at least one.
            cron: again and again, at the times of a cron expression with five fields.
            timezone: the time zone of `cron`, such as `"Europe/Berlin"`; None for UTC.
            missed: what becomes of times at which the node was down or the last command was still open: `"one"` command for all of them, `"all"` of them one by one, or
                `"none"`.

        Raises:
            InvalidArgumentError: the node has no journal, an argument is not valid, or no capability handles the command.
            ContractViolationError, MailboxFullError, LoopClosedError: as for `emit`; the node has a limit of reminders too.
        """
        kind, type_name = self._check_message(command, "command", Command)
        after_ms = None if after is None else to_whole_ms("after", after, most=LONGEST_MS)
        every_ms = None if every is None else to_whole_ms("every", every, most=LONGEST_MS)
        schedule = make_schedule(
            self._router.ids.now_ms(), at=at, after=after_ms, every=every_ms, cron=cron, timezone=timezone
        )
        frame = self._frame(kind, type_name, self._encode(kind, type_name, command), None)
        key = (self._owner, name)
        reminders = self._router.reminders
        if reminders is None:
            # In a process of its own: the node sets it, and logs what is wrong with it.
            data: dict[str, object] = {
                "owner": key[0],
                "name": name,
                "command": type_name,
                "data": frame.data,
            }
            data |= {"at": at, "after": after_ms, "every": every_ms, "cron": cron, "timezone": timezone}
            data["missed"] = missed
            self.send_encoded("command", "Reminder.Set", Raw(msgspec.json.encode(data)))
            return
        try:
            reminders.set(key, frame, schedule, missed, self._durable_parent)
        except RefusedError as refusal:
            raise _not_taken(f"the reminder {name} was not set", refusal) from None

    def forget(self, name: str) -> None:
        """Cancel a reminder of this capability. Do nothing if there is none. A command that it has sent already is not withdrawn.

        Raises:
            InvalidArgumentError: the node has no journal, or the name is not valid.
            MailboxFullError, LoopClosedError: as for `emit`.
        """
        key = (self._owner, name)
        reminders = self._router.reminders
        if reminders is None:
            data = {"owner": key[0], "name": name}
            self.send_encoded("command", "Reminder.Cancel", Raw(msgspec.json.encode(data)))
        else:
            reminders.cancel(key, self._durable_parent)

    @property
    def message(self) -> Metadata | None:
        """The metadata of the message that is being handled; None outside of handlers."""
        item = self.current_message
        return None if item is None else item.frame.metadata

    # -- for the package ---------------------------------------------------------------------------------------------------

    @property
    def current_message(self) -> PendingRequest | Delivery | None:
        """The message that is being handled; None outside of handlers."""
        slot = self._slot
        if slot is None:
            return None
        item = slot.sync_message
        if item is None:
            item = CURRENT_MESSAGE.get()
            if item is not None and (item.route is None or item.route.slot is not slot):
                return None
        elif item.route is None:
            # A call of a timer that no message has started.
            return None
        return item

    @property
    def _owner(self) -> str:
        """The owner of reminders: the capability, or the node."""
        return "node" if self._slot is None else self._slot.id

    @property
    def _durable_parent(self) -> PendingRequest | None:
        """The command that is being handled, if what its handler sends takes effect together with its answer."""
        durable = self._router.durable
        if durable is None:
            return None
        item = self.current_message
        return item if isinstance(item, PendingRequest) and durable.is_open(item) else None

    def send_encoded(
        self, kind: Kind, type_name: str, data: Raw, requester: Requester = NO_REQUESTER
    ) -> None:
        """Send a message with encoded data. `requester` gets the answer, if the message has one."""
        if kind == "event":
            self.emit_encoded(type_name, data)
            return
        router = self._router
        pending = self._request(kind, type_name, data, None, requester)
        parent = None
        if requester is NO_REQUESTER:
            # No one would learn that it was refused.
            pending.is_owed = True
            parent = self._durable_parent
        if not (router.submit(pending) if parent is None else router.hold(pending, parent)):
            raise NodeOverloadedError(
                f"{type_name} was not sent: {overload_text(pending)}. Wait for some of them, or give NodeConfig a larger max_inside."
            )

    def emit_encoded(self, type_name: str, data: Raw) -> None:
        """Emit an event with encoded data."""
        router = self._router
        frame = self._frame("event", type_name, data, None)
        parent = self._durable_parent
        if not (router.post_event(frame) if parent is None else router.hold_event(frame, parent)):
            raise NodeOverloadedError(
                f"{type_name} was not emitted: as many events wait to be routed as the node allows. Emit less at once, or give "
                f"NodeConfig a larger max_inside."
            )

    async def ask_encoded(self, kind: Kind, type_name: str, data: Raw, timeout: Seconds | None) -> Frame:
        """Send a request with encoded data, and return the answer, a reply or an error. The timeout is that of `ask`."""
        timeout_ms = None if timeout is None else checked_timeout_ms(timeout)
        requester = FutureRequester(asyncio.get_running_loop().create_future())
        pending = self._request(kind, type_name, data, timeout_ms, requester)
        if not self._router.submit(pending):
            return self._router.faults.make(OVERLOADED, overload_text(pending), request=pending.frame)
        asker = None if pending.parent is None or pending.parent.route is None else pending.parent.route.slot
        if asker is not None and pending.parent is not None:
            asker.awaited[pending.parent] = pending
        try:
            return await requester.future
        except asyncio.CancelledError:
            # If the handler has not begun, it need not.
            self._router.withdraw(pending)
            raise
        finally:
            if asker is not None:
                asker.end_wait(pending)

    def _request(
        self, kind: Kind, type_name: str, data: Raw, timeout_ms: int | None, requester: Requester
    ) -> PendingRequest:
        frame = self._frame(kind, type_name, data, timeout_ms)
        parent = None
        if type(requester) is FutureRequester:
            item = CURRENT_MESSAGE.get()
            # Only a request that the handler's own task awaits keeps that handler waiting.
            if (
                item is not None
                and item.route is not None
                and item.route.slot.is_handled_by(item, asyncio.current_task())
            ):
                parent = item
        return PendingRequest(requester, frame, self._router.internal_credit, False, parent)  # noqa: FBT003  # by position: it is hot

    def _frame(self, kind: Kind, type_name: str, data: Raw, timeout_ms: int | None) -> Frame:
        if not self._router.is_running:
            raise LoopClosedError(f"{type_name} was not sent: the node has not started, or has stopped")
        item = self.current_message
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

    def _check_message(self, message: TypedMessage, default: Kind, base: type) -> tuple[Kind, str]:
        """Return the kind and the type of a message."""
        if not isinstance(message, base):
            raise InvalidArgumentError(
                f"{safe_repr(message)} is no {base.__name__}: pass an instance of a class that derives from it"
            )
        type_name = message.message_type
        if not type_name:
            raise ContractViolationError(
                f"class {type(message).__name__} has no type: write class {type(message).__name__}(..., type='Word.Word')"
            )
        return message.message_kind or default, type_name

    def _encode(self, kind: Kind, type_name: str, message: TypedMessage) -> Raw:
        if self._slot is None:
            return message_codec(type(message)).write(message)
        return self._slot.encode(kind, type_name, message)


def _not_taken(what: str, refusal: RefusedError) -> InvalidArgumentError | NodeOverloadedError:
    """Return the exception for a message that the node does not keep for later."""
    answer = refusal.answer
    assert isinstance(answer, FaultAnswer)
    error = NodeOverloadedError if answer.type == OVERLOADED else InvalidArgumentError
    return error(f"{what}: {answer.message}")


def overload_text(pending: PendingRequest) -> str:
    """Return the error text for a request that a limit of the node does not admit."""
    credit = pending.credit
    return f"{credit.used} requests of capabilities are in flight, and the node allows {credit.limit}"


# -- codecs for programs and clients, which have no contract ---------------------------------------------------------------


@cache
def message_codec(kind: type) -> PayloadCodec:
    """Return the codec of a message class."""
    return PayloadCodec(kind, kind.__name__)


@cache
def reply_codec(kind: type) -> PayloadCodec:
    """Return the codec of the replies to a class of requests. If the class does not declare its reply, any data is valid."""
    (branch,) = declared_messages(kind, kind.__name__)
    return (
        _ANY_DATA if branch.reply is UNDECLARED else PayloadCodec(branch.reply, f"the reply to {branch.type}")
    )


def request_error(type_name: str, answer: Frame) -> RequestFailedError:
    """Return the exception for a request that was answered with an error."""
    # Any: JSON.
    data: Any = msgspec.json.decode(answer.data)
    fields = cast("dict[str, object]", data) if isinstance(data, dict) else {}
    message, path = fields.get("message"), fields.get("path")
    text = message if isinstance(message, str) else bytes(answer.data).decode()
    if isinstance(message, str) and isinstance(path, str):
        # The message says what is wrong, but not where.
        text = f"{text}, at {path}"
    return RequestFailedError.of(type_name, answer.type, cast("object", data), text)
