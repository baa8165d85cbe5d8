"""The strand of a wire: its bytes, out and in. What the event loop has to do with it is the wire's.

What is made ready in one turn of the event loop is written together, at its end. A turn reads and writes a bounded number of
bytes, so a flood of them delays nobody for long.
"""

from __future__ import annotations

import socket
from errno import ECONNRESET, EPIPE
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from bandstand.pod.link.hot.frames import Frames
    from bandstand.pod.link.hot.inbound import Inbound
    from bandstand.pod.link.hot.tray import Piece, Tray, Writing

Count: TypeAlias = int

# How many bytes one turn of the event loop may write.
MOST_A_TURN = 1_048_576
SOL_SOCKET = socket.SOL_SOCKET
SO_ERROR = socket.SO_ERROR
# What a socket says whose other side is gone.
GONE = (EPIPE, ECONNRESET)
# Whose fault it is.
OURS = True
THEIRS = False
UNTAKEN = "what came over it could not be taken"


class Strand:
    """The bytes of one end of a socket.

    Args:
        sock: where they go to and come from.
        frames: where the bytes go that come.
        tray: gives what is to be written next.
        inbound: told when what has come was taken: what it makes ready is written in the same turn.
    """

    __slots__ = (
        "_frames",
        "_has_written",
        "_inbound",
        "_is_flushing",
        "_left",
        "_receive",
        "_send",
        "_send_several",
        "_sock",
        "_soon",
        "_tray",
        "_writing",
        "_written",
        "is_mute",
        "is_over",
        "is_stirred",
        "is_waiting",
    )

    def __init__(
        self,
        sock: socket.socket,
        frames: Frames,
        tray: Tray,
        inbound: Inbound,
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._sock = sock
        self._send: Callable[[Any], int] = sock.send
        self._send_several: Callable[[Any], int] = sock.sendmsg
        self._receive: Callable[[Any], int] = sock.recv_into
        self._frames = frames
        self._tray = tray
        self._inbound = inbound
        # Calls a function at the end of the turn.
        self._soon = soon
        # Whether what is ready will be written at the end of this turn anyway.
        self.is_stirred = False
        # While something is being written: who makes something ready meanwhile need not see to it.
        self._is_flushing = False
        # Whether something was written since that was last asked.
        self._has_written = False
        # While the other side does not read.
        self.is_waiting = False
        # The socket is of no use any more.
        self.is_over = False
        # Nobody reads any more what is written.
        self.is_mute = False
        # What is being written, how much of it is, and how much there is.
        self._writing: Writing | None = None
        self._written: Count = 0
        self._left: list[bytes | memoryview] = []

    # -- writing -------------------------------------------------------------------------------------------------------

    def stir(self) -> None:
        """Have what is ready written at the end of this turn."""
        if not self.is_stirred:
            self.is_stirred = True
            self._soon(self.flush_soon)

    def flush_soon(self) -> None:
        """It is the end of the turn."""
        self.is_stirred = False
        if not self.is_waiting:
            self.flush()

    def flush(self) -> None:
        """Write what is ready now, as far as the other side reads."""
        if self.is_over or self.is_waiting or self._is_flushing or self.is_mute:
            return
        self._is_flushing = True
        is_done = True
        try:
            is_done = self.write(MOST_A_TURN)
        except Exception as error:  # noqa: BLE001  # what was taken from the tray is lost, and so the link is
            self.fail(error, "what was to be written to it could not be")
        finally:
            self._is_flushing = False
        if not is_done:
            self.wait()

    def write(self, budget: Count) -> bool:
        """Write so much, more or less; whether there is nothing left."""
        while budget > 0:
            if not self._left:
                # What is written is let go: nobody knows when there will be more.
                self._writing = None
                writing = self._tray.take()
                if writing is None:
                    return True
                self._writing = writing
                self._left = writing.buffers
                self._written = 0
            sent = self.write_once()
            if sent == 0:
                return False
            budget -= sent
        return False

    def write_once(self) -> Count:
        """Write once; how many bytes, 0 if the other side does not read."""
        left = self._left
        try:
            sent = self._send(left[0]) if len(left) == 1 else self._send_several(left)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            self.is_mute = True
            if error.errno not in GONE:
                # The other side may be there: the descriptor is not ours any more, or the system has no room.
                self.lose(f"writing to it failed: {error.strerror}", OURS)
            # Else the other side is gone. What it has said before lies there to be read, its last answers and why it went; the
            # end of that is the end.
            return 0
        self._has_written = True
        self._written += sent
        rest = sent
        while left and rest >= len(left[0]):
            rest -= len(left[0])
            del left[0]
        if rest:
            left[0] = memoryview(left[0])[rest:]
        return sent

    @property
    def is_writable(self) -> bool:
        """Whether anybody can read what is written."""
        return not (self.is_over or self.is_mute)

    @property
    def is_writing(self) -> bool:
        """Whether something that was begun is not entirely written."""
        return bool(self._left)

    def unsent(self) -> list[Piece]:
        """The pieces that were begun, but are not entirely written: nobody can have read them."""
        if self._writing is None or not self._left:
            return []
        return [piece for end, piece in self._writing.pieces if end > self._written]

    # -- reading -------------------------------------------------------------------------------------------------------

    def read_out(self) -> None:
        """Take what has come already: the other side is gone, and nothing more will."""
        while not self.is_over and self.read():
            pass

    def readable(self) -> None:
        """Take what has come, once: others have their turn. If nobody will ever send more, all of it."""
        self._has_written = False
        if not self.read() or self.is_over or self._has_written:
            # What could be written shows that the other side was still there when it was told of.
            return
        if self._sock.getsockopt(SOL_SOCKET, SO_ERROR):
            # The other side is gone, and has left something unread. Of such a socket libuv tells once, and never again.
            self.read_out()

    def read(self) -> bool:
        """Take what has come; whether something had."""
        try:
            count = self._receive(self._frames.room())
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            self.lose(f"reading from it failed: {error.strerror}", error.errno not in GONE)
            return False
        except Exception as error:  # noqa: BLE001  # no memory for the buffer, say
            self.fail(error, UNTAKEN)
            return False
        if count == 0:
            self.lose("the other side has closed it", THEIRS)
            return False
        # What is made ready meanwhile is written below, and needs no turn of its own.
        was_stirred = self.is_stirred
        self.is_stirred = True
        try:
            self._frames.took(count)
            self._inbound.settle()
        except Exception as error:  # noqa: BLE001  # whoever derives from this tells a bad frame from an error of ours
            self.fail(error, UNTAKEN)
        finally:
            self.is_stirred = was_stirred
        self.flush()
        return True

    # -- hooks: who derives from this fills them in --------------------------------------------------------------------

    def wait(self) -> None:
        """The other side does not read: go on when it does."""
        raise NotImplementedError

    def fail(self, error: Exception, what: str) -> None:
        """Something was raised while reading or writing; `what` says what could not be done."""
        raise NotImplementedError

    def lose(self, reason: str, is_ours: bool) -> None:
        """The socket is of no use any more; `is_ours` says whether that is the fault of this side."""
        raise NotImplementedError
