"""How many bytes may be under way to one lane of a role in another process.

A message counts from the call that packs it until it has its fate: while it waits for its pod, in the mailbox here, on the socket, and over there
until it is acknowledged. It is counted by its packet, and as long as that exists, so that no way a message may end can forget it.
Plain values are not counted: at most 64 KiB each, they are bounded by their number.

When the lane has as many bytes as it may, all its slots are held. So one message more meets a full mailbox, and whatever happens then is what
happens when there are too many messages: the send is refused, waits for room, or follows the overflow policy. A message is let in while there is
any room left, so one that is larger than the whole bound can be sent, alone.
"""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from bandstand.actor import Loop
    from bandstand.core import ActorId

__all__ = ("ByteBudget",)


@final
class ByteBudget:
    """The bytes of one lane. From any thread.

    Args:
        limit: how many there may be.
        lane: the number of the lane.

    Attributes:
        used: how many there are.
    """

    __slots__ = ("_actor", "_is_opening", "_lane", "_lock", "_porch", "_shut", "limit", "used")

    def __init__(self, limit: int, lane: int) -> None:
        self.limit = limit
        self.used = 0
        self._lane = lane
        # Reentrant: a packet may be collected, and pay back, while this thread has it.
        self._lock = RLock()
        self._porch: Loop | None = None
        self._actor: ActorId | None = None
        # Whose slots are held.
        self._shut: ActorId | None = None
        self._is_opening = False

    def join(self, porch: Loop, actor: ActorId) -> None:
        """Messages go to this stand-in from now on."""
        with self._lock:
            self._porch, self._actor = porch, actor
            # The slots of the one before went with it.
            self._shut = None
            self._is_opening = False

    def charge(self, size: int) -> bool:
        """Count the bytes of a message; whether there was no room left for it."""
        with self._lock:
            is_over = self.used >= self.limit
            self.used += size
            if is_over and self._shut is None and self._porch is not None and self._actor is not None:
                self._shut = self._actor
                self._porch.kernel.hold_all_slots(self._actor, self._lane)
        return is_over

    def refund(self, size: int) -> None:
        """The message has its fate."""
        with self._lock:
            self.used -= size
            porch = self._porch
            if self._shut is None or self._is_opening or self.used >= self.limit or porch is None:
                return
            self._is_opening = True
        # Never here: this may be in the middle of anything.
        porch.kernel.inbox.call_soon(self._open)

    def _open(self) -> None:
        """Let messages in again. On the porch's thread."""
        with self._lock:
            self._is_opening = False
            porch, actor = self._porch, self._shut
            if actor is None or porch is None or self.used >= self.limit:
                return
            self._shut = None
        porch.kernel.free_all_slots(actor, self._lane)
