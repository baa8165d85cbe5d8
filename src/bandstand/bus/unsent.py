"""What waits to be sent to the clients of a node, all of them together: one budget, and what happens when it is used up.

Each connection has limits of its own (`Limits.write_high`, `Limits.write_most`), but many connections together can still ask for more
answers than there is memory. Past half of the budget, a connection that has anything unsent is not read from until it has taken all of it.
Past the budget, the connection with the most unsent bytes is disconnected, then the next, until the rest fits.

A connection reports its size when it writes. What the operating system takes later makes the figure smaller than what was reported, so the
connections are counted anew before anything is done about them.
"""

from __future__ import annotations

import time
from typing import Protocol, final

from bandstand.core.logs import SafeLogger

__all__ = ("Unsent", "Writer")

# Seconds between two lines of the log.
SILENCE_S = 10.0

logger = SafeLogger("bandstand.bus")


class Writer(Protocol):
    """A connection that is written to."""

    @property
    def name(self) -> str:
        """For people."""
        ...

    @property
    def unsent_bytes(self) -> int:
        """Bytes of answers and events that are held for it now."""
        ...

    def slow_down(self) -> None:
        """Do not read from it until it has taken everything."""
        ...

    def drop(self) -> None:
        """Disconnect it, and free what is held for it."""
        ...


@final
class Unsent:
    """The unsent bytes of all connections of a node.

    Attributes:
        limit: how many there may be.
        most: how many there were at most.
        disconnected: how many connections were disconnected because there were too many.

    Args:
        limit: how many there may be.
    """

    __slots__ = ("_log_at", "_sizes", "_total", "disconnected", "limit", "most")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.most = 0
        self.disconnected = 0
        # The connections that had something unsent when they wrote last, and how much: at least as much as they have now.
        self._sizes: dict[Writer, int] = {}
        self._total = 0
        self._log_at = 0.0

    @property
    def bytes(self) -> int:
        """How many there are now."""
        self._count()
        return self._total

    def note(self, writer: Writer, size: int) -> None:
        """A connection has written, and so many bytes are unsent."""
        self._total += size - self._sizes.get(writer, 0)
        self._sizes[writer] = size
        if self._total * 2 > self.limit:
            self._relieve()
        elif self._total > self.most:
            self.most = self._total

    def forget(self, writer: Writer) -> None:
        """A connection is gone."""
        self._total -= self._sizes.pop(writer, 0)

    def _count(self) -> None:
        sizes = {writer: writer.unsent_bytes for writer in self._sizes}
        self._sizes = {writer: size for writer, size in sizes.items() if size}
        self._total = sum(self._sizes.values())

    def _relieve(self) -> None:
        self._count()
        if self._total > self.limit:
            self._drop_worst()
        self.most = max(self.most, self._total)
        if self._total * 2 > self.limit:
            for writer in tuple(self._sizes):
                writer.slow_down()

    def _drop_worst(self) -> None:
        worst = sorted(self._sizes, key=self._sizes.__getitem__)
        while self._total > self.limit:
            writer = worst.pop()
            size = self._sizes[writer]
            self.forget(writer)
            self.disconnected += 1
            self._log(writer, size)
            writer.drop()

    def _log(self, writer: Writer, size: int) -> None:
        """Say so in the log, but not for every connection: clients can cause this as often as they like."""
        now = time.monotonic()
        if now < self._log_at:
            return
        self._log_at = now + SILENCE_S
        logger.warning(
            "%s is disconnected: it has not taken %d bytes, and the clients of this node together more than the %d that "
            "NodeConfig.max_unsent_bytes allows; %d were disconnected so far",
            writer.name,
            size,
            self.limit,
            self.disconnected,
        )
