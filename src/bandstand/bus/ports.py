"""What the bus needs of others, and what it offers to those who carry its messages.

An adapter is whatever connects a node with the world: a socket, a pipe, a broker. It turns frames into bytes and back, and has
nothing to do with what they mean. For each client it opens a `Line`; by its `Ingress` it hands in what the client says.

`Elsewhere` is where a capability runs that does not run on the node itself: the bus does not know what a process is. What the two ends
of a `Passage` say to each other is in `errands`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from bandstand.bus.frame import Frame
    from bandstand.bus.unsent import Unsent
    from bandstand.errors import BadMessage

__all__ = ("Adapter", "Elsewhere", "Ingress", "Line", "Log", "Outpost", "Passage")


class Line(Protocol):
    """One client, as a node sees it."""

    @property
    def name(self) -> str:
        """For people: `unix:/run/x.sock#3`."""
        ...

    @property
    def is_writable(self) -> bool:
        """Whether the client keeps up: False while too much that was written to it has not been taken."""
        ...

    def deliver(self, frame: Frame, settles: bool) -> bool | None:
        """Write a frame to the client, soon. It is never refused and does not raise.

        Returns:
            False if the client is known to have left, so that nobody reads it: an answer is abandoned then. Everything else counts as
            written.

        Args:
            frame: what.
            settles: whether it is the one answer to a request that came in by this line, and so gives back its credit.
        """
        ...

    def resume(self) -> None:
        """There is room again for what `Ingress.admit` did not take."""
        ...


class Ingress(Protocol):
    """What a node offers to its adapters. All of it on the node's own thread."""

    @property
    def unsent(self) -> Unsent:
        """The budget for what waits to be sent to all clients together. An adapter reports to it what its connections hold."""
        ...

    def open(self, line: Line) -> None:
        """A client is there."""
        ...

    def admit(self, line: Line, frame: Frame) -> bool:
        """Take in what a client says.

        Returns:
            False if there is no room for it now. Nothing has happened then: keep the frame, read no further, and hand it in again
            when `Line.resume` is called.
        """
        ...

    def refuse(self, line: Line, problem: BadMessage) -> None:
        """Answer what was no message: the client gets a `Sys.SchemaError`."""
        ...

    def drained(self, line: Line) -> None:
        """A line that was not writable is so again."""
        ...

    def close(self, line: Line) -> None:
        """A client is gone. What it has asked for goes on; the answers are dropped, and counted."""
        ...


class Adapter(Protocol):
    """What connects a node with clients. `bandstand.bus` has those for Unix sockets, TCP and standard input."""

    @property
    def name(self) -> str:
        """Where it is, as the boot summary tells: `unix:/run/x.sock`, `tcp:127.0.0.1:7777`. Final once it has started."""
        ...

    @property
    def can_produce(self) -> bool:
        """Whether anything can still come in by it."""
        ...

    @property
    def is_flushed(self) -> bool:
        """Whether all that was delivered to its lines has been written out."""
        ...

    async def start(self, ingress: Ingress) -> None:
        """Begin to listen. On failure nothing is left behind.

        Raises:
            OSError: it cannot; the message says what is in the way.
        """
        ...

    async def stop(self) -> None:
        """Take in nothing more: no new clients, nothing more from those that are there. Answers can still be delivered."""
        ...

    async def close(self, within_s: float) -> None:
        """Write out what was delivered, for at most so long; then drop every client and release everything."""
        ...


class Log(Protocol):
    """Where everything that passes the router is written down.

    The one in memory is `MemoryLog`; a durable one can take its place.
    """

    def append(self, frame: Frame) -> None:
        """Write down one frame. It must not block."""
        ...

    def recent(self, limit: int) -> Sequence[Frame]:
        """The last frames, the oldest first; at most `limit` of them."""
        ...

    def lineage(self, name: str, limit: int) -> Sequence[Frame]:
        """The frame with this id, those it follows from, and all that follow from it, directly or through others.

        By their `causation`, in the order in which they were written down, each id once; none if there is no such frame. Where there are more
        than `limit`, the farthest are left out.
        """
        ...

    def close(self) -> None:
        """No more will come."""
        ...


class Passage(Protocol):
    """One end of the way between a node and a capability that runs elsewhere. What is sent arrives once and in order, or not at all."""

    @property
    def is_writable(self) -> bool:
        """Whether the other end keeps up: False while too much that was sent to it has not been taken."""
        ...

    def send(self, errand: bytes, /) -> None:
        """Send something, soon. It never waits and does not raise; nothing happens if the other end is gone."""
        ...

    async def receive(self) -> bytes | None:
        """The next thing that the other end has sent; None when that is gone, and all that it had sent has been received."""
        ...


class Outpost(Passage, Protocol):
    """The node's end: one incarnation of a capability that runs elsewhere."""

    async def wait(self) -> str:
        """Wait until nothing of it is left, and say how it has ended: `killed by SIGSEGV (segmentation fault)`. More than once, if asked."""
        ...

    def kill(self) -> None:
        """End it at once, whatever it is at. Nothing happens if it has ended."""
        ...


class Elsewhere(Protocol):
    """Where a capability runs that does not run here."""

    async def open(self, name: str, /) -> Outpost:
        """Begin an incarnation: at the other end `perform` of `bandstand.bus.annex` is run. If this is cancelled, or raises, nothing is left.

        Args:
            name: the capability's, for people.

        Raises:
            OSError: it cannot be begun; the message says why.
        """
        ...
