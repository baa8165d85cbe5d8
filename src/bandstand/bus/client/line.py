"""A client's end of a connection: bytes in and frames out, frames in and bytes out, and nothing about what they mean."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast, final

from bandstand.bus.hot.cutting import Cutter
from bandstand.bus.numbers import DEEPEST, OVERLONG
from bandstand.bus.wire import read_frame
from bandstand.errors import BadMessage
from bandstand.errors.formatting import safe_str

if TYPE_CHECKING:
    from bandstand.bus.client.address import Address
    from bandstand.bus.frame import Frame

__all__ = ("LONGEST_LINE", "ClientLine")

LONGEST_LINE = 1 << 28
"""The longest answer that is read; what sends a longer one is hung up on."""

# What a node has been told may have `DEEPEST` levels, and comes back with some more around it: a copy of what passes, a dead letter, a copy of that.
DEEPEST_HEARD = 2 * DEEPEST


@final
class ClientLine(asyncio.Protocol):
    """One connection, from when it is made until it is lost. It is never made again: that is another one.

    Args:
        address: who is at the other end, for sentences.
        on_frame: called with each frame that comes.
        on_lost: called once, with this line, when it is over.
        on_room: called when it can be written to again.
    """

    def __init__(
        self,
        address: Address,
        on_frame: Callable[[Frame], None],
        on_lost: Callable[[ClientLine], None],
        on_room: Callable[[], None],
    ) -> None:
        self._address = address
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._on_room = on_room
        self._transport: asyncio.Transport | None = None
        self._cutter = Cutter(LONGEST_LINE)
        self._out: list[bytes] = []
        self._event_loop = asyncio.get_running_loop()
        self.is_open = False
        self.is_writable = False
        self.problem: Exception | None = None
        """Why it is over, if it is known."""
        self.gone: asyncio.Future[None] = self._event_loop.create_future()
        """Done when it is over."""

    def send(self, line: bytes) -> None:
        """Write a line, soon; those of one turn go as one piece."""
        if not self._out:
            self._event_loop.call_soon(self._flush)
        self._out.append(line)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(out))

    def close(self) -> None:
        """Write what was sent, and hang up."""
        self._flush()
        self.is_open = self.is_writable = False
        if self._transport is not None:
            self._transport.close()

    def abort(self, problem: Exception | None = None) -> None:
        """Hang up now."""
        self.problem = self.problem or problem
        self.is_open = self.is_writable = False
        if self._transport is not None:
            self._transport.abort()

    # --- for the event loop -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is there."""
        # A cast: uvloop's transports derive from none of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = self.is_writable = True

    def data_received(self, data: bytes) -> None:
        """Some more bytes."""
        self._cutter.feed(data)
        while self.is_open and (lines := self._cutter.cut()):
            for line in lines:
                self._read(line)

    def _read(self, line: bytes) -> None:
        if not self.is_open:
            return
        try:
            if line is OVERLONG:
                raise BadMessage.of(f"a line of more than {LONGEST_LINE} bytes")
            frame = read_frame(line, DEEPEST_HEARD)
        except BadMessage as error:
            said = f"what listens at {self._address} is no node, or a broken one: {safe_str(error)}"
            self.abort(BadMessage.of(said, error.path, error.request_id))
        else:
            self._on_frame(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self.is_open = self.is_writable = False
        self.problem = self.problem or exc
        self._transport = None
        self._cutter.clear()
        if not self.gone.done():
            self.gone.set_result(None)
        self._on_lost(self)

    def pause_writing(self) -> None:
        """The node does not read as fast as is written."""
        self.is_writable = False

    def resume_writing(self) -> None:
        """It has read most of it."""
        self.is_writable = self.is_open
        self._on_room()
