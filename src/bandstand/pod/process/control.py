"""The control channel: what a process and the one that has started it say to each other.

Both ends live on an event loop and never block: what cannot be written waits, and when much was not received, no more is
read, so that whoever talks too much has to wait. A word is any object that can be pickled; it may bring descriptors.

The channel is over when the other end is closed, which is also what happens to it when its process ends. What was written before
that is still received. The socket is closed a turn of the event loop after we have ceased to watch it: uvloop insists.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import final

from bandstand.core.logs import SafeLogger
from bandstand.errors import BadMessage, InvalidArgument
from bandstand.pod.forks import reserve
from bandstand.pod.process.letters import LETTER_FDS, LONGEST, NOTICE, WORD, Frame, Inbox, Letter, frame_head
from bandstand.pod.process.outgoing import Outgoing, close_all
from bandstand.pod.process.pickling import pack, unpack

__all__ = ("Control",)

logger = SafeLogger("bandstand.pod")

# Bytes for one read.
READ = 1 << 18
# So many letters may lie unreceived; reading goes on when there are half as many.
BACKLOG = 1024


@final
class Control:
    """One end of the channel. It belongs on the thread of the event loop that runs when it is made.

    Args:
        sock: one end of a pair of stream sockets; it is ours from now on.
        name: who is at the other end, for people: "process 'painter'".
        on_notice: called with what the machinery at the other end says, apart from letters. It must not raise.
        on_end: called once, when the channel is over, with the reason; not by `close`. It must not raise.
    """

    __slots__ = (
        "_backlog",
        "_event_loop",
        "_inbox",
        "_is_paused",
        "_on_end",
        "_on_notice",
        "_outgoing",
        "_reason",
        "_receiver",
        "_sock",
        "name",
    )

    def __init__(
        self,
        sock: socket.socket,
        name: str,
        *,
        on_notice: Callable[[object], object] | None = None,
        on_end: Callable[[str], object] | None = None,
    ) -> None:
        self.name = name
        self._event_loop = asyncio.get_running_loop()
        self._sock = sock
        self._on_notice = on_notice
        self._on_end = on_end
        self._inbox = Inbox()
        self._outgoing = Outgoing(self._event_loop, sock, self._end)
        self._backlog: deque[Frame] = deque()
        self._receiver: asyncio.Future[None] | None = None
        # Why it is over; None while it is not.
        self._reason: str | None = None
        self._is_paused = False
        sock.settimeout(0)
        reserve(sock)
        self._event_loop.add_reader(sock.fileno(), self._readable)

    @property
    def is_open(self) -> bool:
        """Whether the other end was there when we last heard of it."""
        return self._reason is None

    @property
    def unwritten(self) -> int:
        """How many bytes the operating system has not taken yet: the other end does not read."""
        return self._outgoing.size

    # -- sending -------------------------------------------------------------------------------------------------------

    def send(self, word: object, fds: Sequence[int] = ()) -> bool:
        """Send a word, and descriptors with it. It is written soon; what was sent before, earlier.

        Of the descriptors, copies are sent: the caller may close his own at once.

        Returns:
            False if the channel is over: nobody will have it. True promises nothing: the other end may go before it reads.

        Raises:
            TypeError: the word cannot be pickled. Nothing was sent.
            InvalidArgument: these are more descriptors than one letter can bring, or the word is longer than one may be.
            OSError: one of them is none.
        """
        return self._send(word, WORD, fds)

    def notify(self, notice: object) -> bool:
        """Send something to the machinery at the other end, apart from letters."""
        return self._send(notice, NOTICE, ())

    def _send(self, word: object, kind: int, fds: Sequence[int]) -> bool:
        body = pack(word, f"to {self.name}")
        if len(body) > LONGEST:
            raise InvalidArgument(
                f"a {type(word).__qualname__} of {len(body)} bytes to {self.name}: no word may be longer than {LONGEST}"
            )
        if len(fds) > LETTER_FDS:
            raise InvalidArgument(
                f"{len(fds)} descriptors to {self.name}: one letter brings at most {LETTER_FDS}"
            )
        if self._outgoing.is_broken:
            return False
        self._outgoing.add(frame_head(len(body), kind, len(fds)), body, fds)
        return True

    async def flush(self) -> None:
        """Wait until all that was sent has been taken by the operating system, or never will be."""
        await self._outgoing.flush()

    # -- receiving -----------------------------------------------------------------------------------------------------

    async def receive(self) -> Letter:
        """The next letter. Its descriptors belong to the caller. One at a time can wait for it.

        Raises:
            EOFError: there are no more, and the channel is over; it says why.
            BadMessage: one that cannot be read here, because something it refers to is not there. The next one may be.
            InvalidArgument: somebody is waiting already.
        """
        if self._receiver is not None:
            raise InvalidArgument(f"somebody receives from {self.name} already: one at a time")
        while not self._backlog:
            if self._reason is not None:
                raise EOFError(f"{self.name}: {self._reason}")
            self._receiver = self._event_loop.create_future()
            try:
                await self._receiver
            finally:
                self._receiver = None
        frame = self._backlog.popleft()
        if self._is_paused and len(self._backlog) <= BACKLOG // 2:
            self._resume()
        try:
            return Letter(unpack(frame.body, f"from {self.name}"), frame.fds)
        except BadMessage:
            close_all(frame.fds)
            raise

    def __aiter__(self) -> Control:
        """The letters, until the channel is over."""
        return self

    async def __anext__(self) -> Letter:
        try:
            return await self.receive()
        except EOFError as error:
            raise StopAsyncIteration from error

    def _readable(self) -> None:
        """Read once: others have their turn. If nobody will ever send more, read all there is."""
        if self._read_some() and self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            # The other end is gone, and has left something unread. Of such a socket libuv tells once, and never again.
            while self._read_some():
                pass

    def _read_some(self) -> bool:
        """Read once. Whether there may be more."""
        if self._reason is not None:
            return False
        try:
            return self._read_once()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._end(f"the other end is gone ({error.strerror})")
        except BadMessage as error:
            self._end(str(error))
        except Exception as error:
            # What has come is lost: nothing after it could be trusted.
            logger.exception("what came from %s could not be taken", self.name)
            self._end(f"what came over it could not be taken ({type(error).__name__}); the log says why")
        return False

    def _read_once(self) -> bool:
        data, fds, _flags, _address = socket.recv_fds(self._sock, READ, LETTER_FDS)
        for fd in fds:
            # recv_fds knows a flag for it, and forgets it.
            os.set_inheritable(fd, False)  # noqa: FBT003  # os's own signature
        for frame in self._inbox.feed(data, fds):
            self._take(frame)
        if not data:
            self._end("the other end is gone")
            return False
        if len(self._backlog) >= BACKLOG and not self._is_paused:
            self._is_paused = True
            self._event_loop.remove_reader(self._sock.fileno())
        return True

    def _take(self, frame: Frame) -> None:
        if frame.kind == WORD:
            self._backlog.append(frame)
            self._wake_receiver()
        elif self._on_notice is not None:
            self._on_notice(unpack(frame.body, f"from {self.name}"))

    def _resume(self) -> None:
        self._is_paused = False
        if self._reason is None:
            self._event_loop.add_reader(self._sock.fileno(), self._readable)

    def _wake_receiver(self) -> None:
        if self._receiver is not None and not self._receiver.done():
            self._receiver.set_result(None)

    # -- the end -------------------------------------------------------------------------------------------------------

    def finish(self, reason: str) -> None:
        """The other process has ended, for a reason: read what it has left here, all of it, and end."""
        while self._read_some():
            pass
        self._end(reason)
        # It may have been over by itself, and did not know why.
        self._reason = reason

    def close(self) -> None:
        """End it, from this end. What was sent and not yet written, and what was not received, is lost."""
        self._on_end = None
        self._end("closed")
        while self._backlog:
            close_all(self._backlog.popleft().fds)

    def _end(self, reason: str) -> None:
        if self._reason is not None:
            return
        self._reason = reason
        self._inbox.close()
        self._outgoing.end()
        if self._event_loop.is_closed():
            self._sock.close()
        else:
            self._event_loop.remove_reader(self._sock.fileno())
            self._event_loop.call_soon(self._sock.close)
            self._wake_receiver()
        if self._on_end is not None:
            self._on_end(reason)
