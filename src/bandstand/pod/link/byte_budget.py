"""Limits the bytes that are in flight to one lane of a role in another process.

A message counts from the call that packs it until it is acknowledged: while it waits for its pod, in the mailbox of the
proxy, on the socket, and in the other process. Its `Packet` is what counts, for as long as it exists, so no way in which a
message can end leaves bytes behind. Plain values are not counted: each is at most 64 KiB, and the mailbox limits their number.

While the lane is over its limit, the budget holds all mailbox slots of the proxy. The next message then meets a full mailbox,
with the usual consequences: the send fails, waits for room, or follows the overflow policy. A message is accepted while any
room is left, so one that is larger than the whole limit can still be sent, alone.
"""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from bandstand.actor import ActorSystem
    from bandstand.core import ActorId

__all__ = ("ByteBudget",)


@final
class ByteBudget:
    """The byte limit of one lane. Thread-safe.

    Args:
        limit: how many bytes may be in flight.
        lane: the number of the lane.

    Attributes:
        used: how many bytes are in flight.
    """

    __slots__ = ("_held_actor", "_is_release_scheduled", "_lane", "_lock", "_loop", "_proxy", "limit", "used")

    def __init__(self, limit: int, lane: int) -> None:
        self.limit = limit
        self.used = 0
        self._lane = lane
        # Reentrant: while this thread holds it, a packet may be collected, and refund its bytes.
        self._lock = RLock()
        self._loop: ActorSystem | None = None
        self._proxy: ActorId | None = None
        # The proxy whose slots are held.
        self._held_actor: ActorId | None = None
        self._is_release_scheduled = False

    def attach(self, loop: ActorSystem, actor: ActorId) -> None:
        """Note which proxy now receives the messages."""
        with self._lock:
            self._loop, self._proxy = loop, actor
            # The slots of the previous proxy ended with it.
            self._held_actor = None
            self._is_release_scheduled = False

    def charge(self, size: int) -> bool:
        """Count the bytes of a message. Return whether the budget had no room left."""
        with self._lock:
            is_over = self.used >= self.limit
            self.used += size
            if is_over and self._held_actor is None and self._loop is not None and self._proxy is not None:
                self._held_actor = self._proxy
                self._loop.kernel.hold_all_slots(self._proxy, self._lane)
        return is_over

    def refund(self, size: int) -> None:
        """Give back the bytes of a message that has ended."""
        with self._lock:
            self.used -= size
            loop = self._loop
            if (
                self._held_actor is None
                or self._is_release_scheduled
                or self.used >= self.limit
                or loop is None
            ):
                return
            self._is_release_scheduled = True
        # Not here: the garbage collector may call this at any point.
        loop.kernel.inbox.call_soon(self._release_slots)

    def _release_slots(self) -> None:
        """Free the slots, on the thread of the proxy loop."""
        with self._lock:
            self._is_release_scheduled = False
            loop, actor = self._loop, self._held_actor
            if actor is None or loop is None or self.used >= self.limit:
                return
            self._held_actor = None
        loop.kernel.free_all_slots(actor, self._lane)
