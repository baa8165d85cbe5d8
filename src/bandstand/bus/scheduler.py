"""Scheduled messages, and the built-in capability `Timer` with which clients schedule them.

Each scheduled message has a timer on the timer wheel of the loop. When it is due, the router handles it like any other message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Raw, Struct

from bandstand.bus.admission import CreditLimit
from bandstand.bus.contracts.capability import Capability
from bandstand.bus.contracts.messages import Command
from bandstand.bus.faults import OVERLOADED, FaultAnswer
from bandstand.bus.frame import LONGEST_DELAY_MS, Frame, Metadata
from bandstand.bus.ingress import Peer
from bandstand.bus.request import NO_REQUESTER, PendingRequest, Requester
from bandstand.errors import RefusedError

if TYPE_CHECKING:
    from bandstand.bus.frame import IdGenerator
    from bandstand.bus.router import Router
    from bandstand.core import TimerId

__all__ = (
    "Cancel",
    "CancelResult",
    "InnerMessage",
    "Schedule",
    "Scheduled",
    "ScheduledMessage",
    "Scheduler",
    "TimerCapability",
    "inherit",
)

# One client may use one part in this many of the limit for all clients.
CLIENT_SHARE = 4
# The maximum number of bytes of data in all scheduled messages.
MAX_BYTES = 64 << 20


class ScheduledMessage:
    """A message that is sent later. It is also the timer message that the router gets when it is due."""

    __slots__ = ("credit", "due", "due_ms", "frame", "id", "is_journaled", "requester", "timer")

    def __init__(
        self, timer_id: str, requester: Requester, frame: Frame, credit: CreditLimit, due: int, due_ms: float
    ) -> None:
        self.credit = credit
        self.id = timer_id
        self.requester = requester
        self.frame = frame
        # When it is sent, in milliseconds since 1970, and on the loop's clock.
        self.due = due
        self.due_ms = due_ms
        self.timer: TimerId | None = None
        # Whether the journal has it, or will.
        self.is_journaled = False


class Scheduler:
    """The scheduled messages of a node."""

    __slots__ = ("_bytes", "_client_credit", "_counts", "_internal_credit", "_messages", "_router")

    def __init__(self, router: Router) -> None:
        self._router = router
        self._messages: dict[str, ScheduledMessage] = {}
        # A message takes credit from the moment it is scheduled until its answer is sent. Clients and capabilities have separate limits, and one
        # client can use only its share, so that neither can block the others.
        self._client_credit = CreditLimit(router.config.max_timers)
        self._internal_credit = CreditLimit(router.config.max_timers)
        # The number of messages that each requester has scheduled.
        self._counts: dict[Requester, int] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    def __contains__(self, timer_id: str) -> bool:
        return timer_id in self._messages

    def add(
        self,
        frame: Frame,
        delay_ms: int,
        requester: Requester,
        path: str,
        parent: PendingRequest | None = None,
    ) -> str:
        """Schedule a message to be sent in `delay_ms` milliseconds; the answer goes to `requester`.

        Args:
            frame: the message.
            delay_ms: the delay.
            requester: gets the answer.
            path: where the message is in the request, for errors.
            parent: the journaled command that schedules it: the message is scheduled together with the answer. None if it is scheduled now.

        Returns:
            The id of the timer, for `cancel`.

        Raises:
            Refused: the message could not be sent (see `Router.check`), or a limit is reached.
        """
        router = self._router
        router.check(frame, path)
        credit = self._internal_credit if requester is NO_REQUESTER else self._client_credit
        share = credit.limit if requester is NO_REQUESTER else max(1, credit.limit // CLIENT_SHARE)
        size = len(frame.data)
        if (
            credit.used >= credit.limit
            or self._counts.get(requester, 0) >= share
            or self._bytes + size > MAX_BYTES
        ):
            raise RefusedError(
                FaultAnswer(
                    OVERLOADED, "the node has reached its limit of scheduled messages; try again later"
                )
            )
        timer_id = router.ids()
        due, due_ms = router.ids.last_ms + delay_ms, router.now_ms() + delay_ms
        message = ScheduledMessage(timer_id, requester, frame, credit, due, due_ms)
        self._enter(message)
        router.counters.timers_scheduled += 1
        durable = router.durable
        if durable is None:
            self._start(message, delay_ms)
        elif parent is None:
            durable.schedule(message)
        else:
            durable.hold(parent, message)
        if router.upstream is not None:
            router.upstream.schedule(frame, delay_ms)
        return message.id

    def _enter(self, message: ScheduledMessage) -> None:
        message.credit.used += 1
        self._bytes += len(message.frame.data)
        self._counts[message.requester] = self._counts.get(message.requester, 0) + 1
        self._messages[message.id] = message

    def start(self, message: ScheduledMessage) -> None:
        """Start the timer of a message that is durable now, unless it was cancelled meanwhile."""
        if message.id in self._messages:
            self._start(message, max(0.0, message.due_ms - self._router.now_ms()))

    def _start(self, message: ScheduledMessage, delay_ms: float) -> None:
        router = self._router
        message.timer = router.loop.send_after(router.actor, delay_ms / 1000, message)

    def restore(self, timer_id: str, frame: Frame, due: int, *, is_of_client: bool) -> None:
        """Schedule a message from the journal. Its client is gone."""
        credit = self._client_credit if is_of_client else self._internal_credit
        router = self._router
        # The clock of the system: how long the node was down is not known otherwise.
        delay_ms = max(0, due - router.ids.now_ms())
        message = ScheduledMessage(timer_id, NO_REQUESTER, frame, credit, due, router.now_ms() + delay_ms)
        message.is_journaled = True
        self._enter(message)
        router.counters.timers_scheduled += 1
        self._start(message, delay_ms)

    def is_of_client(self, message: ScheduledMessage) -> bool:
        """Return whether a client has scheduled a message."""
        return message.credit is self._client_credit

    def cancel(self, timer_id: str) -> bool:
        """Cancel a message; return False if it was sent already, or never scheduled."""
        message = self._messages.pop(timer_id, None)
        if message is None:
            return False
        if message.timer is not None:
            self._router.loop.cancel_timer(message.timer)
        self._release(message)
        self._router.counters.timers_cancelled += 1
        if message.is_journaled and self._router.durable is not None:
            self._router.durable.end_timer(timer_id)
        if self._router.upstream is not None:
            self._router.upstream.unschedule(message.frame)
        return True

    def _release(self, message: ScheduledMessage) -> None:
        message.credit.used -= 1
        self._bytes -= len(message.frame.data)
        left = self._counts.pop(message.requester) - 1
        if left:
            self._counts[message.requester] = left

    def cancel_all(self) -> None:
        """Cancel all messages: the node stops. Those in the journal stay there for its next start."""
        for message in list(self._messages.values()):
            message.is_journaled = False
            self.cancel(message.id)

    def fire(self, message: ScheduledMessage) -> None:
        """Send a message that is due.

        It is never treated as a repeated request, even if another request has the same id: a message that is scheduled three times is sent three
        times. The remembered answer to `Timer.Schedule` itself prevents that one command schedules twice.
        """
        router = self._router
        if self._messages.pop(message.id, None) is None:
            # It was cancelled after its timer had fired.
            return
        router.counters.timers_fired += 1
        self._release(message)
        frame = with_timestamp(message.frame, router.ids)
        if message.is_journaled and router.durable is not None:
            # In the page that has the message itself.
            router.durable.end_timer(message.id)
        if frame.kind == "event":
            router.fan_out(frame)
            return
        pending = PendingRequest(message.requester, frame, message.credit, False)  # noqa: FBT003  # by position, as elsewhere
        if router.durable is None:
            router.submit(pending)
        else:
            pending.is_owed = True
            router.enter(pending)
            router.take(pending)


def inherit(frame: Frame, parent: Metadata) -> Frame:
    """Return a copy of a message with the message that schedules it as its cause."""
    own = frame.metadata
    metadata = Metadata(own.id, own.timestamp, parent.id, own.correlation or parent.correlation, own.timeout)
    return Frame(kind=frame.kind, type=frame.type, data=frame.data.copy(), metadata=metadata)


def with_timestamp(frame: Frame, ids: IdGenerator) -> Frame:
    """Return a message with the current time as its timestamp, unless it has one."""
    own = frame.metadata
    if own.timestamp:
        return frame
    metadata = Metadata(own.id, ids.now_ms(), own.causation, own.correlation, own.timeout)
    return Frame(kind=frame.kind, type=frame.type, data=frame.data, metadata=metadata)


# -- the capability --------------------------------------------------------------------------------------------------------


class InnerMessage(Struct):
    """The message to send: a command, a query or an event."""

    kind: Annotated[Literal["command", "query", "event"], Meta(examples=["query"])]
    type: Annotated[str, Meta(min_length=1, max_length=200, examples=["Syscall.Ping"])]
    metadata: Annotated[Metadata, Meta(examples=[{"id": "ping-1", "timestamp": 0}])]
    data: Raw = Raw(b"{}")


class Scheduled(Struct, rename="camel"):
    """The id of a scheduled message, for `Timer.Cancel`."""

    timer_id: str


class Schedule(Command[Scheduled], type="Timer.Schedule", retry_safe=True):
    """Send a message after `delay` milliseconds, never earlier. The answer goes to the connection that scheduled it."""

    delay: Annotated[int, Meta(ge=0, le=LONGEST_DELAY_MS, description="The delay in milliseconds.")]
    message: Annotated[
        InnerMessage,
        Meta(description="The complete message. If its timestamp is 0, it is set when the message is sent."),
    ]


class CancelResult(Struct):
    """Whether a scheduled message was cancelled."""

    cancelled: bool
    """False if it was sent already, or never scheduled."""


class Cancel(Command[CancelResult], type="Timer.Cancel", retry_safe=True, rename="camel"):
    """Cancel a scheduled message that was not sent yet."""

    timer_id: Annotated[str, Meta(description="The timerId from the reply to Timer.Schedule.")]


class TimerCapability(Capability):
    """Sends messages later."""

    id = "Timer"

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def schedule(self, msg: Schedule) -> Scheduled:
        """Check the message as if it were sent now, and schedule it."""
        item = self.bus.current_message
        assert isinstance(item, PendingRequest)
        # A connection gets the answer of the scheduled message too. A requester inside the process gets only the id of the timer.
        requester = item.requester if isinstance(item.requester, Peer) else NO_REQUESTER
        inner = msg.message
        frame = Frame(kind=inner.kind, type=inner.type, data=inner.data, metadata=inner.metadata)
        asked = item.frame.metadata
        parent = item if item.entry is not None else None
        timer_id = self._scheduler.add(inherit(frame, asked), msg.delay, requester, "$.data.message", parent)
        return Scheduled(timer_id)

    def cancel(self, msg: Cancel) -> CancelResult:
        """Cancel a scheduled message."""
        return CancelResult(self._scheduler.cancel(msg.timer_id))
