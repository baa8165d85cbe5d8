"""The calls of a client: requests that have no reply yet.

A call survives the loss of its connection: it is sent again on the next one, under the same id, so that a node that remembers its replies
does nothing twice. Its deadline does not change.

Every call ends: with its reply, at its deadline, when its caller is cancelled, or when the client closes.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Protocol, final

import msgspec
from msgspec import Raw

from bandstand.bus.faults import OVERLOADED, UNAVAILABLE
from bandstand.bus.frame import Frame, IdGenerator, Kind, Metadata
from bandstand.bus.wire import DECODE_ERRORS, MAX_DEPTH, is_deeper, split_problem, write_frame
from bandstand.errors import AskTimeoutError, InvalidArgumentError, NodeGoneError
from bandstand.errors.formatting import safe_repr, safe_str
from bandstand.supervision import Backoff

__all__ = ("CallTable", "FrameMaker", "PendingCall", "encode_data", "encode_frame")

# Extra seconds for the node's own timeout error, which says why there was no reply.
GRACE_S = 2.0
# If less than this share of its time is left when a call is sent, the timeout in its frame is reduced.
FRESH_SHARE = 0.99
# The delays before a call is sent again that got `Sys.Overloaded` or `Sys.Unavailable`.
OVERLOADED_BACKOFF = Backoff(initial=0.01, maximum=1.0, jitter=0.01)


# --- frames -----------------------------------------------------------------------------------------------------------


@final
class FrameMaker:
    """Makes the frames of one client."""

    __slots__ = ("_ids",)

    def __init__(self) -> None:
        self._ids = IdGenerator()

    def make(self, kind: Kind, type_name: str, data: Raw, timeout_ms: int | None = None) -> Frame:
        """Make a frame with a new id.

        Raises:
            InvalidArgumentError: the type is invalid.
        """
        if not 1 <= len(type_name) <= 200:
            raise InvalidArgumentError(f"{safe_repr(type_name)} is not a type: pass a name, as 'Memory.Get'")
        frame_id = self._ids()
        metadata = Metadata(frame_id, self._ids.last_ms, timeout=timeout_ms)
        return Frame(kind=kind, type=type_name, data=data, metadata=metadata)


def encode_frame(frame: Frame) -> bytes:
    """Encode a frame as a line.

    Raises:
        InvalidArgumentError: the data is nested so deeply that a node would refuse the line without being able to tell its id.
    """
    line = write_frame(frame) + b"\n"
    if is_deeper(line, MAX_DEPTH):
        raise InvalidArgumentError(f"the data has more than {MAX_DEPTH} nested levels, which no node accepts")
    return line


def encode_data(data: object) -> Raw:
    """Encode data as JSON without line ends: bytes of JSON, or anything that msgspec can encode.

    Raises:
        InvalidArgumentError: the bytes are not JSON, or the value cannot be encoded.
    """
    try:
        if not isinstance(data, bytes):
            return Raw(msgspec.json.encode(data))
        data.decode()
        return Raw(msgspec.json.format(data, indent=-1))
    except DECODE_ERRORS as error:
        problem, _ = split_problem(error)
        raise InvalidArgumentError(
            f"the data is not JSON: {problem}; pass NAME=TEXT, as key=greeting, or all of the data as one JSON"
        ) from None
    except (TypeError, ValueError, NotImplementedError) as error:  # msgspec's hooks raise the last one
        raise InvalidArgumentError(f"the data cannot be encoded as JSON: {safe_str(error)}") from None


# --- calls ------------------------------------------------------------------------------------------------------------


class LineSender(Protocol):
    """The connection of the moment, as far as calls need it."""

    @property
    def is_writable(self) -> bool:
        """False while the node does not read as fast as the client writes."""
        ...

    def send(self, line: bytes) -> None:
        """Write a line soon."""
        ...


@final
class PendingCall:
    """A request without a reply.

    Args:
        frame: the request.
        deadline: when it times out, by the event loop's clock.
        future: gets the reply.
        ping: for an event, which gets no reply: a `Syscall.Ping` that is sent behind it. The node handles both in order, so the reply to the
            ping confirms the event.
    """

    __slots__ = (
        "attempts",
        "backoff_s",
        "deadline",
        "frame",
        "future",
        "is_abandoned",
        "is_sent",
        "line",
        "ping",
        "retry",
        "timer",
    )

    def __init__(
        self, frame: Frame, deadline: float, future: asyncio.Future[Frame], ping: Frame | None = None
    ) -> None:
        self.frame = frame
        self.ping = ping
        self.deadline = deadline
        self.future = future
        # Encoded now, so that the caller gets the error if that is impossible.
        self.line = encode_frame(frame) + (b"" if ping is None else encode_frame(ping))
        self.is_sent = False
        # The caller does not wait any more.
        self.is_abandoned = False
        self.attempts = 0
        self.timer: asyncio.TimerHandle | None = None
        # Set while the call waits to be sent again after `Sys.Overloaded`; and the state of its backoff.
        self.retry: asyncio.TimerHandle | None = None
        self.backoff_s = 0.0

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids that a reply to this call may name."""
        frame_id = self.frame.metadata.id
        return (frame_id,) if self.ping is None else (frame_id, self.ping.metadata.id)

    @property
    def name(self) -> str:
        """The kind and the type, for error messages."""
        return f"{self.frame.kind} {self.frame.type}"

    @property
    def outcome(self) -> str:
        """Whether the request may have been carried out, for error messages."""
        return "it may have been carried out" if self.attempts else "it was never sent"

    def fail(self, error: Exception) -> None:
        """End the call with an error."""
        if not self.future.done():
            self.future.set_exception(error)
            # Mark it as retrieved: there may be no caller any more.
            self.future.exception()

    def cancel_retry(self) -> None:
        """Do not wait any longer before the call is sent again."""
        if self.retry is not None:
            self.retry.cancel()
            self.retry = None

    def reduce_timeout(self, now: float) -> None:
        """Put the time that is left into the frame, if the call has waited for a noticeable time."""
        timeout = self.frame.metadata.timeout
        left = max(1, int((self.deadline - now) * 1000))
        if timeout is None or left > timeout * FRESH_SHARE:
            return
        metadata = msgspec.structs.replace(self.frame.metadata, timeout=left)
        self.frame = Frame(
            kind=self.frame.kind, type=self.frame.type, data=self.frame.data, metadata=metadata
        )
        self.line = encode_frame(self.frame)


@final
class CallTable:
    """All pending calls of one client.

    Args:
        window: the maximum number of calls that are sent and have no reply.
        disconnected_reason: returns why there is no connection, for error messages.
        retry_overloaded: send a call again that got `Sys.Overloaded` or `Sys.Unavailable`, before its deadline.
    """

    def __init__(
        self, window: int, disconnected_reason: Callable[[], str], *, retry_overloaded: bool = True
    ) -> None:
        self._window = window
        self._retry_overloaded = retry_overloaded
        self._disconnected_reason = disconnected_reason
        self._event_loop = asyncio.get_running_loop()
        # By each id that a reply may name, in the order in which the calls were made.
        self._by_id: dict[str, PendingCall] = {}
        self._waiting: deque[PendingCall] = deque()
        self._sent = 0
        self._sender: LineSender | None = None

    @property
    def sent(self) -> int:
        """The number of calls that were sent on the current connection and have no reply."""
        return self._sent

    def __len__(self) -> int:
        return sum(call.frame.metadata.id == key for key, call in self._by_id.items())

    def add(self, frame: Frame, timeout_ms: int, ping: Frame | None = None) -> PendingCall:
        """Send a request, now or when the window has room; `PendingCall.future` gets the reply.

        Raises:
            InvalidArgumentError: the request can never be sent.
        """
        deadline = self._event_loop.time() + timeout_ms / 1000
        call = PendingCall(frame, deadline, self._event_loop.create_future(), ping)
        call.timer = self._event_loop.call_at(deadline, self._on_deadline, call)
        self._by_id.update(dict.fromkeys(call.ids, call))
        self._waiting.append(call)
        self.send_waiting()
        return call

    async def wait(self, call: PendingCall) -> Frame:
        """Wait for the reply. On cancellation the call is abandoned; if it was not sent, it never is."""
        try:
            return await call.future
        except asyncio.CancelledError:
            self._abandon(call)
            raise

    def on_reply(self, frame: Frame) -> bool:
        """Complete the call that a reply belongs to; return False if there is none."""
        causation = frame.metadata.causation
        call = self._longest_sent() if causation is None else self._by_id.get(causation)
        if call is None:
            return False
        if frame.type in {OVERLOADED, UNAVAILABLE} and frame.kind == "error" and self._retry_later(call):
            self.send_waiting()
            return True
        self._remove(call)
        if not call.future.done():
            call.future.set_result(frame)
        self.send_waiting()
        return True

    def _retry_later(self, call: PendingCall) -> bool:
        """Schedule another attempt after `Sys.Overloaded` or `Sys.Unavailable`; return False if that is not allowed, or the deadline is too near."""
        if not self._retry_overloaded or call.ping is not None or call.is_abandoned or call.future.done():
            return False
        wait = OVERLOADED_BACKOFF.after(call.backoff_s, chance=random.random())  # noqa: S311  # not a secret
        if self._event_loop.time() + wait.delay >= call.deadline:
            return False
        call.backoff_s = wait.stored
        call.is_sent = False
        self._sent -= 1
        call.retry = self._event_loop.call_later(wait.delay, self._retry, call)
        return True

    def _retry(self, call: PendingCall) -> None:
        call.retry = None
        self._waiting.append(call)
        self.send_waiting()

    def _longest_sent(self) -> PendingCall | None:
        """Find the call of an error without causation: a node cannot tell the id of a line only if the line is too long."""
        sent = [call for call in self._by_id.values() if call.is_sent]
        return max(sent, key=lambda call: len(call.line), default=None)

    def _abandon(self, call: PendingCall) -> None:
        if call.is_sent:
            # It counts until its reply comes, as it does in the node.
            call.is_abandoned = True
        else:
            self._remove(call)

    def _remove(self, call: PendingCall) -> None:
        if call.timer is not None:
            call.timer.cancel()
        call.cancel_retry()
        if self._by_id.pop(call.frame.metadata.id, None) is None:
            return
        if call.ping is not None:
            self._by_id.pop(call.ping.metadata.id, None)
        if call.is_sent:
            self._sent -= 1
        else:
            # It may still be in the queue of waiting calls.
            call.is_abandoned = True

    def _on_deadline(self, call: PendingCall) -> None:
        if call.is_sent and self._sender is not None and self._event_loop.time() < call.deadline + GRACE_S:
            call.timer = self._event_loop.call_at(call.deadline + GRACE_S, self._on_deadline, call)
            return
        is_sent = call.is_sent
        self._remove(call)
        if self._sender is None:
            call.fail(
                NodeGoneError(
                    f"{call.name} got no reply in time: {self._disconnected_reason()}; {call.outcome}"
                )
            )
        elif is_sent:
            call.fail(
                AskTimeoutError(
                    f"{call.name} got no reply in time, and no timeout error from the node: it may be stuck, or not a node"
                )
            )
        else:
            call.fail(
                AskTimeoutError(
                    f"{call.name} was not sent in time: {self._window} other calls had no reply, which is the window; raise "
                    f"ClientConfig.window, or make fewer calls at once"
                )
            )
        self.send_waiting()

    # -- connections ------------------------------------------------------------------------------------------------

    def on_connected(self, sender: LineSender) -> None:
        """Use a new connection: send the waiting calls."""
        self._sender = sender
        self.send_waiting()

    def on_disconnected(self) -> None:
        """Queue the calls that were sent and have no reply, before all others, for the next connection.

        Calls that may not be sent twice, or whose time is over, fail.
        """
        self._sender = None
        now = self._event_loop.time()
        for call in dict.fromkeys(self._by_id.values()):
            call.cancel_retry()
            if not call.is_sent:
                continue
            if call.is_abandoned or call.ping is not None:
                self._remove(call)
                call.fail(
                    NodeGoneError(
                        f"the node closed the connection before it confirmed {call.name}: it may have been delivered"
                    )
                )
            elif call.deadline <= now:
                self._remove(call)
                call.fail(
                    NodeGoneError(
                        f"{call.name} got no reply in time: the node closed the connection; {call.outcome}"
                    )
                )
            else:
                call.is_sent = False
        self._sent = 0
        self._waiting = deque(dict.fromkeys(self._by_id.values()))

    def fail_all(self, make_error: Callable[[PendingCall], Exception]) -> None:
        """Fail every call: there will be no other connection."""
        self._sender = None
        self._waiting.clear()
        for call in dict.fromkeys(self._by_id.values()):
            self._remove(call)
            call.fail(make_error(call))

    def send_waiting(self) -> None:
        """Send as many waiting calls as the window and the connection allow."""
        sender = self._sender
        if sender is None:
            return
        while self._waiting and self._sent < self._window and sender.is_writable:
            call = self._waiting.popleft()
            if call.is_abandoned:
                continue
            call.reduce_timeout(self._event_loop.time())
            call.is_sent = True
            call.attempts += 1
            self._sent += 1
            sender.send(call.line)
