"""The protocols of the bus: what adapters and logs implement, and what the node offers to them.

An adapter connects clients to a node: through a socket, a pipe, a broker. It converts frames to bytes and back, and does not interpret them. For
each client it opens a `Line`, and passes the messages of the client to the `Ingress` of the node.

A `HostFactory` makes a capability run somewhere else: the bus does not know what a process is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from bandstand.bus.admission import SendBudget
    from bandstand.bus.capability_host import CapabilityHost
    from bandstand.bus.capability_slot import CapabilitySlot
    from bandstand.bus.frame import Frame
    from bandstand.errors import InvalidMessageError

__all__ = ("Adapter", "HostFactory", "Ingress", "Line", "Log")


class Line(Protocol):
    """The connection to one client, as the node sees it."""

    @property
    def name(self) -> str:
        """The name for logs and taps, such as `unix:/run/x.sock#3`."""
        ...

    @property
    def is_writable(self) -> bool:
        """Whether the client keeps up: False while too many bytes wait to be sent to it."""
        ...

    def deliver(self, frame: Frame, settles: bool) -> bool | None:
        """Queue a frame for the client. It accepts every frame and does not raise.

        Args:
            frame: the frame.
            settles: whether it is the answer to a request of this line, so that the credit of the request is released.

        Returns:
            False if the client is known to have disconnected: an answer is abandoned then. Every other result counts as written.
        """
        ...

    def resume(self) -> None:
        """Continue reading: the message that `Ingress.admit` did not admit can be tried again."""
        ...


class Ingress(Protocol):
    """What a node offers to its adapters. Call it on the node's thread only."""

    @property
    def unsent(self) -> SendBudget:
        """The limit on bytes that wait to be sent to all clients together. Adapters report the unsent bytes of their connections to it."""
        ...

    def open(self, line: Line) -> None:
        """Add a client."""
        ...

    def admit(self, line: Line, frame: Frame) -> bool:
        """Admit a message of a client.

        Returns:
            False if there is no room for it now. The call had no effect then: keep the frame, stop reading, and try again when
            `Line.resume` is called.
        """
        ...

    def refuse(self, line: Line, problem: InvalidMessageError) -> None:
        """Answer input that is not a message with a `Sys.SchemaError`."""
        ...

    def drained(self, line: Line) -> None:
        """Report that a line is writable again."""
        ...

    def close(self, line: Line) -> None:
        """Remove a client that has disconnected.

        Its requests to capabilities that declare `on_timeout = "cancel"` are withdrawn, and their handlers are cancelled. The others
        continue; their answers are dropped and counted.
        """
        ...


class Adapter(Protocol):
    """Connects clients to a node. `bandstand.bus` has adapters for Unix sockets, TCP and standard input."""

    @property
    def name(self) -> str:
        """The address, for the boot summary: `unix:/run/x.sock`, `tcp:127.0.0.1:7777`. It does not change after `start`."""
        ...

    @property
    def can_produce(self) -> bool:
        """Whether more input can arrive."""
        ...

    @property
    def is_flushed(self) -> bool:
        """Whether everything that was delivered to its lines has been written."""
        ...

    async def start(self, ingress: Ingress) -> None:
        """Start listening. If that fails, nothing is left behind.

        Raises:
            OSError: it cannot listen; the message says why.
        """
        ...

    async def stop(self) -> None:
        """Stop accepting input, from new clients and from connected ones. Answers can still be delivered."""
        ...

    async def close(self, timeout: float) -> None:
        """Write what was delivered, for at most `timeout` seconds; then disconnect every client and release all resources."""
        ...


class Log(Protocol):
    """Records every message that passes the router.

    `MemoryLog` keeps them in memory; a durable log can replace it.
    """

    def append(self, frame: Frame) -> None:
        """Record a frame. This must not block."""
        ...

    def recent(self, limit: int) -> Sequence[Frame]:
        """Return the last frames, at most `limit`, the oldest first."""
        ...

    def lineage(self, name: str, limit: int) -> Sequence[Frame]:
        """Return the frame with this id, all frames that caused it, and all that it caused, directly or indirectly.

        Causes are found by `causation`. The frames are in the order in which they were recorded, each id once; there are none if the log does not
        have the frame. If there are more than `limit`, the most distant are omitted.
        """
        ...

    def close(self) -> None:
        """Release the log: nothing is appended after this."""
        ...


class HostFactory(Protocol):
    """Creates the hosts of a capability that does not run in the process of its node: see `bandstand.isolation`."""

    def create_host(self, slot: CapabilitySlot, /) -> CapabilityHost:
        """Create the host of one incarnation."""
        ...
