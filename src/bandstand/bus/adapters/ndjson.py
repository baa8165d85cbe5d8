"""One client that speaks NDJSON: lines of JSON in, lines of JSON out.

What it says goes to its `Intake`. As long as there is something that the intake cannot hand in, the client is not read from: so a
client that asks faster than it is answered fills the buffers of the operating system, and then has to wait. An answer, room in
the node, and a client that takes what was written to it: each of them makes the intake go on.

However we are told to go on, we do so in a call of our own from the event loop: nobody who delivers an answer finds himself inside
the reading of the next request. The same call writes what was delivered since the last one, as one piece.

A client may have said all it has to say and still want its answers: it is let go when it has them. One that has begun a line and does not
end it is let go, too, after a while.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from typing import TYPE_CHECKING, cast, final

from bandstand.bus.adapters.greeting import LONGEST_GREETING, read_greeting
from bandstand.bus.adapters.overdue import Overdue
from bandstand.bus.hot.intake import Intake
from bandstand.bus.hot.outbox import Outbox
from bandstand.bus.wire import read_frame
from bandstand.core.logs import SafeLogger
from bandstand.errors import BadMessage

if TYPE_CHECKING:
    import socket

    from bandstand.bus.adapters.limits import Limits
    from bandstand.bus.ports import Ingress

__all__ = ("NdjsonLine",)

logger = SafeLogger("bandstand.bus")


@final
class NdjsonLine(Outbox, asyncio.Protocol):
    """One client, over any transport of asyncio's. It is a `Line` for the node, and a protocol for the event loop.

    Args:
        ingress: where what it says is handed in.
        limits: how much it may ask.
        name: for people.
        is_welcome: asked when the client is there; False if it is too late for clients.
        end: called when it is gone.
        closes_at_eof: whether a client that will say nothing more is let go as soon as it has all its answers.
        half_line_ms: how long a line may take from its beginning to its end; 0 for as long as it likes.
        said: what the client has said already.
    """

    def __init__(
        self,
        ingress: Ingress,
        limits: Limits,
        name: str,
        *,
        is_welcome: Callable[[], bool],
        end: Callable[[NdjsonLine], None],
        closes_at_eof: bool = True,
        half_line_ms: int = 0,
        said: bytes = b"",
    ) -> None:
        super().__init__(
            Intake(self, ingress, limits.window, limits.line_bytes, read_frame), limits.write_high
        )
        self.name = name
        self.is_writable = True
        self._write_most = limits.write_most
        self._unsent = ingress.unsent
        # While much waits to be sent to all clients together: it may have nothing unsent if it is to be read from.
        self._is_slowed = False
        self._ingress = ingress
        self._is_welcome = is_welcome
        self._end = end
        self._closes_at_eof = closes_at_eof
        self._event_loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._has_begun = False
        # The intake may have more than it could hand in.
        self._is_blocked = False
        self._is_paused = False
        self._is_at_eof = False
        # What has come of the first line, which may be a greeting; None when it has been looked at.
        self._first: bytearray | None = bytearray()
        self._longest_first = min(LONGEST_GREETING, limits.line_bytes)
        self._said = said
        self._overdue = Overdue(
            self._event_loop, half_line_ms / 1000, is_read=self._is_read, give_up=self._give_up
        )

    # --- for the node -------------------------------------------------------------------------------------------------

    def resume(self) -> None:
        """Go on with what was not handed in, soon."""
        if not self.is_woken:
            self.is_woken = True
            self._event_loop.call_soon(self._wake)

    # --- for the budget of all clients --------------------------------------------------------------------------------

    @property
    def unsent_bytes(self) -> int:
        """Bytes that were delivered and not given to the operating system."""
        if self.is_gone or self._transport is None:
            return 0
        return self.out_bytes + self._transport.get_write_buffer_size()

    def slow_down(self) -> None:
        """Do not read from it until it has taken everything."""
        if not self._is_slowed and self._transport is not None:
            self._is_slowed = True
            # The transport says so at once if there is anything, and tells when there is nothing any more.
            self._transport.set_write_buffer_limits(high=0)

    def drop(self) -> None:
        """Disconnect it: it does not take its answers."""
        self.abort()

    # --- for its adapter ----------------------------------------------------------------------------------------------

    @property
    def can_produce(self) -> bool:
        """Whether anything can still come from it."""
        return not (self.intake.is_stopped or (self._is_at_eof and not self._is_blocked))

    @property
    def is_flushed(self) -> bool:
        """Whether all that was delivered has been given to the operating system."""
        return not self.out and (self._transport is None or not self._transport.get_write_buffer_size())

    def stop(self) -> None:
        """Take in nothing more, not even what was read already."""
        self.intake.stop()
        self._overdue.end()
        self._is_blocked = False
        self._pause()
        self._close_if_done()

    def close(self) -> None:
        """Write what was delivered, then end the connection."""
        self.flush()
        self.is_gone = True
        self.intake.stop()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End the connection now."""
        self.is_gone = True
        self._unsent.forget(self)
        self.intake.stop()
        if self._transport is not None:
            self._transport.abort()

    # --- for the event loop -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The client is there."""
        # A cast: uvloop's transports derive from none of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._has_begun = self._is_welcome()
        if not self._has_begun:
            self.abort()
            return
        self._transport.set_write_buffer_limits(high=self.write_high)
        self._ingress.open(self)
        if self._said:
            # Taken up when the event loop has begun to read, as if it had come then: only now could it be told not to.
            self._is_blocked = True
            self.data_received(self._said)
            self._said = b""
            self.resume()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # why it is gone makes no difference
        """The client is gone."""
        self.is_gone = True
        self._is_blocked = False
        self._transport = None
        self.intake.stop()
        self.out.clear()
        self._unsent.forget(self)
        self._overdue.end()
        self._end(self)
        if self._has_begun:
            self._ingress.close(self)

    def data_received(self, data: bytes) -> None:
        """Some more bytes."""
        if self._overdue.within_s:
            self._overdue.see(data)
        if self._first is not None:
            data = self._hear_first(self._first, data)
        self.intake.feed(data)
        # While it is blocked, they were under way when reading was paused.
        if not self._is_blocked:
            self._go_on()

    def eof_received(self) -> bool:
        """The client will say nothing more; it still gets its answers."""
        self._is_at_eof = self.is_unread = True
        self._overdue.end()
        if self._first:
            self.intake.feed(self._hear_first(self._first, b"\n"))
        self.intake.end()
        if not self._is_blocked:
            self._go_on()
        return True

    def pause_writing(self) -> None:
        """The client does not take what was written."""
        self.is_writable = self.intake.is_writable = False

    def resume_writing(self) -> None:
        """It has taken most of it."""
        self.is_writable = self.intake.is_writable = True
        if self._is_slowed and self._transport is not None:
            self._is_slowed = False
            self._transport.set_write_buffer_limits(high=self.write_high)
        self._ingress.drained(self)
        self.resume()

    # --- the way in ---------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Hand in as much as can be, and read on if that was all."""
        try:
            is_all = self.intake.hand_in()
        except BaseException:  # the node has failed, not the client; but what it had said cannot be made good
            self.abort()
            raise
        if self.intake.is_foreign:
            self.close()
            return
        self._is_blocked = not is_all and not self.intake.is_stopped
        if self._is_blocked:
            self._pause()
            return
        if (
            self._is_paused
            and not (self._is_at_eof or self.intake.is_stopped)
            and self._transport is not None
        ):
            self._is_paused = self.is_unread = False
            self._transport.resume_reading()
        self._close_if_done()

    def _hear_first(self, first: bytearray, data: bytes) -> bytes:
        """Answer a client that shows a token though nobody asks for one; what it has said besides, as soon as that is known."""
        first += data
        if b"\n" not in data and len(first) <= self._longest_first:
            return b""
        self._first = None
        line, _, rest = bytes(first).partition(b"\n")
        greeting = read_greeting(line) if len(line) <= self._longest_first else None
        if greeting is None:
            return bytes(first)
        self.deliver(greeting.answer(), False)  # noqa: FBT003  # as the hot half declares it
        return rest

    def look(self) -> bool:
        """Look whether the client has left, and has not only nothing more to say; True if it has.

        A Unix socket tells the two apart at once. Over TCP a client that has closed looks like one that only has nothing more to say, until
        it refuses what is written to it.
        """
        if self._transport is not None:
            connection: socket.socket | None = self._transport.get_extra_info("socket")
            if connection is not None and connection.fileno() >= 0:
                poll = select.poll()
                # No events: it is told in any case that the other side is gone.
                poll.register(connection.fileno(), 0)
                self.has_left = bool(poll.poll(0))
        return self.has_left

    def _is_read(self) -> bool:
        return not (self._is_blocked or self._is_paused)

    def _give_up(self) -> None:
        """A line was begun, and does not end. The client still gets the answers that it is owed, as one that has said all it has to say."""
        within = f"{self._overdue.within_s:g} s"
        said = f"not a message: a line was begun, and has not ended in {within}; the connection is closed"
        self._ingress.refuse(self, BadMessage.of(said))
        self._pause()
        self.intake.stop()
        self._is_at_eof = self.is_unread = True
        self._close_if_done()

    def _pause(self) -> None:
        # Not after its end: a transport that is asked to read again would find the end once more.
        if not self._is_paused and not self._is_at_eof and self._transport is not None:
            self._is_paused = self.is_unread = True
            self._transport.pause_reading()

    # --- the way out --------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        self.is_woken = False
        if self.out:
            self.flush()
        if self._is_blocked:
            self._go_on()
        else:
            self._close_if_done()

    def flush(self) -> None:
        """Write what was delivered, as one piece."""
        out, transport = self.out, self._transport
        if out and transport is not None:
            # The end of the last line.
            out.append(b"")
            data = b"\n".join(out)
            out.clear()
            self.out_bytes = 0
            # The client may be gone, and we be about to hear of it.
            if not transport.is_closing():
                transport.write(data)
                size = transport.get_write_buffer_size()
                if size > self._write_most:
                    # It has asked for much and takes nothing of it: what it has is all of our memory that it gets.
                    logger.warning("%s is dropped: it does not take its answers", self.name)
                    self.abort()
                elif size:
                    self._unsent.note(self, size)

    def _close_if_done(self) -> None:
        if not self._is_at_eof or not self._closes_at_eof:
            return
        if self.intake.in_flight <= 0 and not (self._is_blocked or self.is_gone):
            self.close()
