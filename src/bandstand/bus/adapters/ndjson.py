"""One client connection that speaks NDJSON: one JSON message per line, in both directions.

Problem: a client can send requests faster than the node answers them, stop reading its replies, or start a line and never
finish it. None of these may cost the node unbounded memory or delay other clients.

Choice: `RequestReader` decodes a line only when the node can take it. There is no task, future or queue per message. It stops
for three reasons:

- *credit*: `Limits.window` requests of this client have no reply yet.
- *room*: the node did not admit the last message.
- *writing*: the client does not read its replies, so it may not cause more of them.

While the reader is stopped, `NdjsonConnection` does not read from the transport. The client's data stays in the buffers of the
operating system, and then the client has to wait. A reply, free room in the node, and a client that reads again each wake the
connection. After some hundred lines the reader yields to other connections.

The connection always continues in a callback of its own (`_on_wakeup`), never inside `deliver`: code that delivers a reply does not
re-enter the reading of the next request. The same callback writes everything that was delivered since the last one in one
`transport.write`.

A client may close its sending side and still wait for replies; the connection closes once it has them all.
"""

from __future__ import annotations

import asyncio
import re
import select
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, cast

from bandstand.bus.adapters.authentication import MAX_AUTH_LINE, read_auth_request
from bandstand.bus.frame import is_request
from bandstand.bus.ingress import ClientIngress
from bandstand.bus.wire import OVERLONG, LineSplitter, read_frame, read_plain, write_frame
from bandstand.core.logs import SafeLogger
from bandstand.errors import InvalidMessageError

if TYPE_CHECKING:
    import socket

    from bandstand.bus.adapters.limits import Limits
    from bandstand.bus.admission import SendBudget
    from bandstand.bus.frame import Frame
    from bandstand.bus.protocols import Ingress

__all__ = ("NdjsonConnection",)

Count: TypeAlias = int
Flag: TypeAlias = bool

# The first line of an HTTP/1 request, or the header that every such request has.
HTTP = re.compile(rb"(?i)(?:[a-z]+ \S+ http/1\.[01]|host: ?\S+)\r?$")

# The window of a new client. It grows by one with each reply, up to `Limits.window`.
INITIAL_WINDOW = 32
# Limit for the bytes of outstanding replies to one client, estimated from its largest recent reply.
MAX_REPLY_BYTES = 4 << 20

logger = SafeLogger("bandstand.bus")


class EventCache:
    """The last encoded event and its line. An event for many clients is encoded once."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        # One tuple, replaced as a whole: nodes in different threads share the cache.
        self.last: tuple[Frame, bytes] | None = None


EVENT_CACHE = EventCache()


def write_event(frame: Frame) -> bytes:
    """Encode a frame that other clients may get, too."""
    cache = EVENT_CACHE
    last = cache.last
    if last is not None and last[0] is frame:
        return last[1]
    line = write_frame(frame)
    cache.last = (frame, line)
    return line


class RequestReader:
    """Turns the bytes of one client into messages, and admits them to the node within the client's credit.

    Attributes:
        in_flight: the number of requests without a reply.
        is_stopped: True if the reader discards everything.
        is_foreign: True if the client speaks HTTP.
    """

    __slots__ = (
        "_admit",
        "_allowed",
        "_at",
        "_batch",
        "_client_ingress",
        "_connection",
        "_has_message",
        "_held",
        "_ingress",
        "_largest",
        "_max_line",
        "_splitter",
        "_window",
        "in_flight",
        "is_foreign",
        "is_stopped",
    )

    def __init__(
        self, connection: NdjsonConnection, ingress: Ingress, window: Count, max_line: Count
    ) -> None:
        self._connection = connection
        self._ingress = ingress
        # Looked up once: it is called for every message. The node's own is called as a C function.
        self._admit = ingress.admit
        self._client_ingress = ingress if type(ingress) is ClientIngress else None
        self._window: Count = window
        self._max_line: Count = max_line
        self.in_flight: Count = 0
        # The current window, and the size of the largest recent reply.
        self._allowed: Count = min(window, INITIAL_WINDOW)
        self._largest: Count = 0
        self.is_stopped: Flag = False
        self.is_foreign: Flag = False
        # True once the client has sent a valid message.
        self._has_message: Flag = False
        # Input in the order in which it is admitted: the message that the node had no room for, the lines of the current
        # batch from `_at` on, and the bytes that are not split yet.
        self._held: Frame | None = None
        self._batch: list[bytes] = []
        self._at: Count = 0
        self._splitter = LineSplitter(max_line)

    def feed(self, chunk: bytes) -> None:
        """Add received bytes."""
        if not self.is_stopped:
            self._splitter.feed(chunk)

    def end(self) -> None:
        """Mark the end of the input: the last line is complete even without a line end."""
        self._splitter.end()

    def stop(self) -> None:
        """Discard all input, including what was received and not admitted."""
        self.is_stopped = True
        self._held = None
        self._batch = []
        self._at = 0
        self._splitter.clear()

    def admit_all(self) -> Flag:
        """Admit as many messages as possible; return False if some may be left."""
        return self._admit_held() and self._admit_lines()

    def _admit_lines(self) -> Flag:
        connection = self._connection
        is_first = True
        while self._has_credit():
            while self._at < len(self._batch):
                text = self._batch[self._at]
                self._at += 1
                frame = read_plain(text)
                if frame is None and (frame := self._read_slowly(text)) is None:
                    if self.is_stopped:
                        return False
                    continue
                self._has_message = True
                # Count it first: the reply may come before `admit` returns.
                takes_credit = is_request(frame)
                self.in_flight += takes_credit
                if not self._admit_frame(frame):
                    self.in_flight -= takes_credit
                    self._held = frame
                    return False
                if not self._has_credit():
                    return False
            self._batch = self._splitter.cut()
            self._at = 0
            if not self._batch:
                return True
            if not is_first:
                # Yield to other connections after two batches.
                connection.resume()
                break
            is_first = False
        return False

    def _admit_frame(self, frame: Frame) -> Flag:
        if self._client_ingress is not None:
            return self._client_ingress.admit(self._connection, frame)
        return self._admit(self._connection, frame)

    def _read_slowly(self, text: bytes) -> Frame | None:
        """Decode a line that `read_plain` did not; return None if it is not a message. The client gets an error then."""
        if not text or text.isspace():
            return None
        if not self._has_message and HTTP.match(text):
            # A web page made its browser post something to a local port. Do not treat the body as messages.
            self.is_foreign = True
            self._ingress.refuse(
                self._connection,
                InvalidMessageError.of("not a message: this is not a web server; the connection is closed"),
            )
            self.stop()
            return None
        try:
            if text is OVERLONG:
                raise InvalidMessageError.of(
                    f"not a message: the line is longer than the limit of {self._max_line} bytes; it was skipped"
                )
            return read_frame(text)
        except InvalidMessageError as problem:
            self._ingress.refuse(self._connection, problem)
        return None

    def _admit_held(self) -> Flag:
        """Retry the message that the node had no room for; return False if there still is none."""
        frame = self._held
        if frame is None:
            return True
        if not self._has_credit():
            return False
        takes_credit = is_request(frame)
        self.in_flight += takes_credit
        if self._admit_frame(frame):
            self._held = None
            return True
        self.in_flight -= takes_credit
        return False

    def settle(self, size: Count) -> None:
        """Give back the credit of one request; its reply has `size` bytes."""
        self.in_flight -= 1
        if self._allowed < self._window:
            self._allowed += 1
        # The maximum decays, so that one large reply does not throttle the client forever.
        self._largest = size if size >= self._largest else self._largest - self._largest // 16

    def _has_credit(self) -> Flag:
        return (
            self.in_flight < self._allowed
            and (self.in_flight == 0 or self.in_flight * self._largest < MAX_REPLY_BYTES)
            and self._connection.is_writable
            and not self.is_stopped
        )


class LineTimeout:
    """Detects a client that starts a line and does not finish it: it holds a connection and memory.

    Most lines arrive whole, so there is no timer per line: one timer starts with the first incomplete line, and checks the
    age of the current one when it fires.

    Args:
        connection: the client.
        timeout_s: the time for one line, from its first byte to its last; 0 for no limit.
    """

    __slots__ = ("_connection", "_event_loop", "_since", "_timer", "timeout_s")

    def __init__(
        self, connection: NdjsonConnection, event_loop: asyncio.AbstractEventLoop, timeout_s: float
    ) -> None:
        self.timeout_s = timeout_s
        self._connection = connection
        self._event_loop = event_loop
        # When the incomplete line started; None if there is none.
        self._since: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def feed(self, data: bytes) -> None:
        """Update the state with received bytes."""
        if data.endswith(b"\n"):
            self._since = None
        elif self._since is None or b"\n" in data:
            self._since = self._event_loop.time()
            if self._timer is None:
                self._timer = self._event_loop.call_later(self.timeout_s, self._check)

    def cancel(self) -> None:
        """Stop watching."""
        self._since = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = None
        if self._since is None:
            return
        now = self._event_loop.time()
        if not self._connection.is_reading():
            # The client cannot finish its line while we do not read.
            self._since = now
        left = self._since + self.timeout_s - now
        # A timer may fire slightly early by the loop's own clock.
        if left > 0.001:
            self._timer = self._event_loop.call_later(left, self._check)
        else:
            self._since = None
            self._connection.on_line_timeout()


class NdjsonConnection:
    """One client on an asyncio transport: a protocol for the event loop, a `Line` for the node, a `BudgetedWriter` for the send budget.

    It has the methods of `asyncio.Protocol` without deriving from it, because a compiled class cannot. Event loops do not check.

    Args:
        ingress: the node's entry point for messages.
        limits: the limits of this client.
        name: the name for logs, such as `unix:/run/x.sock#3`.
        may_open: called once connected; the connection is aborted if it returns False.
        on_close: called when the connection is gone.
        closes_at_eof: close the connection when the client has sent EOF and has all its replies.
        line_timeout_ms: the time for one line, from its first byte to its last; 0 for no limit.
        received: bytes that were read from the socket before.
    """

    __slots__ = (
        "_closes_at_eof",
        "_event_loop",
        "_first",
        "_has_left",
        "_ingress",
        "_is_at_eof",
        "_is_blocked",
        "_is_closed",
        "_is_open",
        "_is_paused",
        "_is_slowed",
        "_is_unread",
        "_is_woken",
        "_line_timeout",
        "_max_first",
        "_may_open",
        "_on_close",
        "_out_bytes",
        "reader",
        "_received",
        "_unsent",
        "_write_high",
        "_write_most",
        "is_writable",
        "name",
        "transport",
        "unwritten",
    )

    def __init__(
        self,
        ingress: Ingress,
        limits: Limits,
        name: str,
        *,
        may_open: Callable[[], bool],
        on_close: Callable[[NdjsonConnection], None],
        closes_at_eof: Flag = True,
        line_timeout_ms: Count = 0,
        received: bytes = b"",
    ) -> None:
        self.name = name
        self.is_writable: Flag = True
        self.transport: asyncio.Transport | None = None
        self._ingress = ingress
        self._unsent: SendBudget = ingress.unsent
        self._may_open = may_open
        self._on_close = on_close
        self._closes_at_eof: Flag = closes_at_eof
        self._write_high: Count = limits.write_high
        self._write_most: Count = limits.write_most
        self._event_loop = asyncio.get_running_loop()
        self.reader = RequestReader(self, ingress, limits.window, limits.line_bytes)
        self._line_timeout = LineTimeout(self, self._event_loop, line_timeout_ms / 1000)
        self.unwritten: list[bytes] = []
        """Delivered lines that the transport does not have yet."""
        self._out_bytes: Count = 0
        # The node knows of this connection.
        self._is_open: Flag = False
        # Nothing more can be written.
        self._is_closed: Flag = False
        # The event loop will call `_on_wakeup`.
        self._is_woken: Flag = False
        # The reader may have messages that it could not admit.
        self._is_blocked: Flag = False
        self._is_paused: Flag = False
        self._is_at_eof: Flag = False
        # We do not read, now or any more, so the event loop does not report that the client left; and whether it has.
        self._is_unread: Flag = False
        self._has_left: Flag = False
        # The budget for unsent bytes is short: read again only when nothing is unsent.
        self._is_slowed: Flag = False
        # The start of the first line, which may be an authentication request; None once it was checked.
        self._first: bytearray | None = bytearray()
        self._max_first: Count = min(MAX_AUTH_LINE, limits.line_bytes)
        self._received = received

    # -- for the node -----------------------------------------------------------------------------------------------

    def deliver(self, frame: Frame, settles: Flag) -> bool:
        """Write a frame to the client soon; return False if the client has left."""
        # A silent client is polled once for all that is delivered in one turn of the event loop.
        if (
            self._is_closed
            or self._has_left
            or (self._is_unread and not self._is_woken and self._poll_left())
        ):
            if settles:
                self.reader.settle(0)
            if not self._is_closed and not self._is_woken:
                # The node still gets what the client sent before it left.
                self.resume()
            return False
        if settles:
            line = write_frame(frame)
            self.reader.settle(len(line))
        else:
            line = write_event(frame)
        self.unwritten.append(line)
        self._out_bytes += len(line)
        if self._out_bytes > self._write_high:
            # Do not wait for the wakeup: only the transport can tell that it is too much.
            self._flush()
        if not self._is_woken:
            self.resume()
        return True

    def resume(self) -> None:
        """Continue soon with the messages that were not admitted."""
        if not self._is_woken:
            self._is_woken = True
            self._event_loop.call_soon(self._on_wakeup)

    # -- for the unsent budget of all clients -----------------------------------------------------------------------

    @property
    def unsent_bytes(self) -> int:
        """The delivered bytes that the operating system has not taken."""
        if self._is_closed or self.transport is None:
            return 0
        return self._out_bytes + self.transport.get_write_buffer_size()

    def slow_down(self) -> None:
        """Do not read from the client until it has taken everything."""
        if not self._is_slowed and self.transport is not None:
            self._is_slowed = True
            # The transport calls `pause_writing` if anything is unsent, and `resume_writing` when nothing is.
            self.transport.set_write_buffer_limits(high=0)

    def drop(self) -> None:
        """Disconnect the client: it does not read its replies."""
        self.abort()

    # -- for the adapter --------------------------------------------------------------------------------------------

    @property
    def can_produce(self) -> bool:
        """True if messages can still come from this client."""
        return not (self.reader.is_stopped or (self._is_at_eof and not self._is_blocked))

    @property
    def is_flushed(self) -> bool:
        """True if the operating system has taken everything that was delivered."""
        return not self.unwritten and (self.transport is None or not self.transport.get_write_buffer_size())

    def stop(self) -> None:
        """Admit nothing more, not even messages that were received already. Replies can still be delivered."""
        self.reader.stop()
        self._line_timeout.cancel()
        self._is_blocked = False
        self._pause_reading()
        self._close_if_done()

    def close(self) -> None:
        """Write what was delivered, then close the connection."""
        self._flush()
        self._is_closed = True
        self.reader.stop()
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        """Close the connection now; what is not written is lost."""
        self._is_closed = True
        self._unsent.forget(self)
        self.reader.stop()
        if self.transport is not None:
            self.transport.abort()

    # -- asyncio.Protocol -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open the connection, unless the adapter is closing."""
        # uvloop's transports do not derive from asyncio.Transport.
        self.transport = cast("asyncio.Transport", transport)
        self._is_open = self._may_open()
        if not self._is_open:
            self.abort()
            return
        self.transport.set_write_buffer_limits(high=self._write_high)
        self._ingress.open(self)
        if self._received:
            # Handle it in the next callback: the transport cannot pause before the event loop has started to read.
            self._is_blocked = True
            self.data_received(self._received)
            self._received = b""
            self.resume()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # the cause makes no difference
        """Release everything, and report the close to the node."""
        self._is_closed = True
        self._is_blocked = False
        self.transport = None
        self.reader.stop()
        self.unwritten.clear()
        self._unsent.forget(self)
        self._line_timeout.cancel()
        self._on_close(self)
        if self._is_open:
            self._ingress.close(self)

    def data_received(self, data: bytes) -> None:
        """Admit the messages in the received bytes."""
        if self._line_timeout.timeout_s:
            self._line_timeout.feed(data)
        if self._first is not None:
            data = self._check_first(self._first, data)
        self.reader.feed(data)
        # While blocked, this is data that was under way when we paused.
        if not self._is_blocked:
            self._continue_reading()

    def eof_received(self) -> bool:
        """Handle the end of the input. The transport stays open: the client still gets its replies."""
        self._is_at_eof = self._is_unread = True
        self._line_timeout.cancel()
        if self._first:
            self.reader.feed(self._check_first(self._first, b"\n"))
        self.reader.end()
        if not self._is_blocked:
            self._continue_reading()
        return True

    def pause_writing(self) -> None:
        """The client does not read what we write: admit nothing more."""
        self.is_writable = False

    def resume_writing(self) -> None:
        """The client has read most of it: continue."""
        self.is_writable = True
        if self._is_slowed and self.transport is not None:
            self._is_slowed = False
            self.transport.set_write_buffer_limits(high=self._write_high)
        self._ingress.drained(self)
        self.resume()

    # -- reading ----------------------------------------------------------------------------------------------------

    def is_reading(self) -> Flag:
        """Return True if the transport reads from the client."""
        return not (self._is_blocked or self._is_paused)

    def on_line_timeout(self) -> None:
        """Refuse a line that does not end. The client still gets its replies, as after EOF."""
        self._ingress.refuse(
            self,
            InvalidMessageError.of(
                f"not a message: a line was not complete within {self._line_timeout.timeout_s:g} s; the connection is closed"
            ),
        )
        self._pause_reading()
        self.reader.stop()
        self._is_at_eof = self._is_unread = True
        self._close_if_done()

    def _continue_reading(self) -> None:
        """Admit as many messages as possible, and read on if that were all."""
        reader = self.reader
        try:
            is_all = reader.admit_all()
        except BaseException:  # the node failed, and the client's message with it
            self.abort()
            raise
        if reader.is_foreign:
            self.close()
            return
        self._is_blocked = not is_all and not reader.is_stopped
        if self._is_blocked:
            self._pause_reading()
            return
        if self._is_paused and not (self._is_at_eof or reader.is_stopped) and self.transport is not None:
            self._is_paused = self._is_unread = False
            self.transport.resume_reading()
        if self._is_at_eof and self._poll_left():
            # It has closed the connection, and the node has all that it has sent.
            self.abort()
            return
        self._close_if_done()

    def _pause_reading(self) -> None:
        # Not after EOF: a transport that resumes would report EOF again.
        if not self._is_paused and not self._is_at_eof and self.transport is not None:
            self._is_paused = self._is_unread = True
            self.transport.pause_reading()

    def _check_first(self, first: bytearray, data: bytes) -> bytes:
        """Accept a token that this adapter does not need. Returns the bytes for the reader: none until the first line is known."""
        first += data
        if b"\n" not in data and len(first) <= self._max_first:
            return b""
        self._first = None
        line, _, rest = bytes(first).partition(b"\n")
        request = read_auth_request(line) if len(line) <= self._max_first else None
        if request is None:
            return bytes(first)
        self.deliver(request.reply(), False)  # noqa: FBT003  # compiled, a C argument
        return rest

    def _poll_left(self) -> Flag:
        """Return True if the client has closed the connection, and not only its sending side.

        A Unix socket tells the two apart. With TCP both look the same until the client refuses what we write.
        """
        if self.transport is not None:
            connection: socket.socket | None = self.transport.get_extra_info("socket")
            if connection is not None and connection.fileno() >= 0:
                poll = select.poll()
                # Without events: a hang-up is always reported.
                poll.register(connection.fileno(), 0)
                self._has_left = bool(poll.poll(0))
        return self._has_left

    # -- writing ----------------------------------------------------------------------------------------------------

    def _on_wakeup(self) -> None:
        self._is_woken = False
        if self.unwritten:
            self._flush()
        if self._is_blocked:
            self._continue_reading()
        else:
            self._close_if_done()

    def _flush(self) -> None:
        """Write everything that was delivered, in one piece."""
        lines, transport = self.unwritten, self.transport
        if lines and transport is not None:
            # For the line end of the last line.
            lines.append(b"")
            data = b"\n".join(lines)
            lines.clear()
            self._out_bytes = 0
            # The connection may be lost, and `connection_lost` not called yet.
            if not transport.is_closing():
                transport.write(data)
                size: Count = transport.get_write_buffer_size()
                if size > self._write_most:
                    logger.warning("%s: disconnected, the client does not read its replies", self.name)
                    self.abort()
                elif size:
                    self._unsent.note(self, size)

    def _close_if_done(self) -> None:
        if not self._is_at_eof or not self._closes_at_eof:
            return
        if self.reader.in_flight <= 0 and not (self._is_blocked or self._is_closed):
            self.close()
