"""Sending, on the loop's own thread: the public way, the fast way, and the way of the rooms above."""

# PyThread_get_thread_ident comes from one of two places, of which the checker sees one.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from bandstand.core.enums import ACCEPTED, FULL, NO_ACTOR, OTHER_THREAD, STOPPING, Lane
from bandstand.core.hot.arrivals import Arrivals
from bandstand.core.ids import ActorId

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if not cython.compiled:
    # Compiled, one is C's function, declared in the .pxd, and the other is written into this module.
    from threading import get_ident as PyThread_get_thread_ident

    from bandstand.core.mailbox import push

if TYPE_CHECKING:
    from bandstand.core.delivery import DeliveryCallback

Count: TypeAlias = int
FateNumber: TypeAlias = int
LaneNumber: TypeAlias = int

DATA_LANE = Lane.DATA
ZERO = 0


class Sending(Arrivals):
    """The ways into a mailbox for those on the loop's own thread."""

    __slots__ = ("_porter",)

    def __init__(self, loop_tag: Count, max_actors: Count, reserve: Count, now: Callable[[], int]) -> None:
        super().__init__(loop_tag, max_actors, reserve, now)
        # Packs the data of what the rooms above send with what is to travel along; None for nothing.
        self._porter: Any = None

    def send(
        self,
        target: ActorId | int,
        data: object,
        *,
        tag: int = 0,
        lane: Lane = Lane.DATA,
        sender: ActorId | int = 0,
    ) -> None:
        """Send `data` to an actor.

        Either the message is enqueued, and the behavior then sees it exactly once unless its actor ends first (then it
        is a counted dead letter), or this raises and nothing was enqueued. References are passed, nothing is copied.
        Messages of one lane are seen in the order of these calls.

        Raises:
            MailboxFull: the target's lane has no room; the error says how many wait and how many may.
            NoSuchActor, ActorNotLocal: the target has ended, never was, or lives on another loop.
            InvalidArgument: `tag` or `lane` is the system's, `target` is no id, or `sender` is neither an id nor an int.
            LoopClosed: the loop was asked to stop.
            WrongThread: called off the loop's thread; `send_async` is made for that.
        """
        if not self._post_fast(target, data, tag, lane, sender):
            self._check_sender(sender)
            cell = self._reach(target)
            number = self._checked(tag, lane)
            if cell is None:
                raise self._unreachable(target)
            if self._enqueue(cell, number, data, tag, sender) != ACCEPTED:
                raise self._full(cell, number)

    def _send_for(self, target: ActorId, data: object, lane: Lane, receipt: DeliveryCallback) -> None:
        """Send as `send` does, with a receipt in the sender's place."""
        cell = self._reach(target)
        number = self._checked(0, lane)
        if cell is None:
            raise self._unreachable(target)
        if self._enqueue(cell, number, data, 0, receipt) != ACCEPTED:
            raise self._full(cell, number)

    def _send_async_for(self, target: ActorId, data: object, lane: Lane, receipt: DeliveryCallback) -> None:
        """Send as `send_async` does, with a receipt in the sender's place."""
        self._post_afar(target, self._checked(0, lane), data, 0, receipt)

    def try_send(
        self,
        target: ActorId | int,
        data: object,
        *,
        tag: int = 0,
        lane: Lane = Lane.DATA,
        sender: ActorId | int = 0,
    ) -> bool:
        """Send as `send` does, but answer False where there is no room, no such actor, or no open loop.

        What can never work still raises: `InvalidArgument`, `WrongThread`.
        """
        if self._post_fast(target, data, tag, lane, sender):
            return True
        self._check_sender(sender)
        cell = self._reach(target)
        number = self._checked(tag, lane)
        if cell is None:
            self._refused += 1
            return False
        return self._enqueue(cell, number, data, tag, sender) == ACCEPTED

    def _post_fast(self, target: object, data: object, tag: object, lane: object, sender: object) -> bool:
        """Enqueue an untagged DATA message if nothing at all stands in the way; False if something might.

        The same checks as `_reach`, `_checked` and `_enqueue` make, in one function: five calls less is a tenth of a
        message. Whatever does not pass here goes the ordinary way, which then says what is wrong.
        """
        if type(target) is not ActorId or lane is not DATA_LANE or tag is not ZERO:
            return False
        if sender is not ZERO and type(sender) is not ActorId:
            return False
        return self._slip_in(target, data, tag, sender)

    @cython.nonecheck(False)
    def _slip_in(self, actor: ActorId, data: object, tag: object, sender: object) -> bool:
        """The same for a message to an actor that is known, whose tag may be any object of the rooms above."""
        if self._closed or PyThread_get_thread_ident() != self._owner:
            return False
        cell = actor.cell
        if cell is None or cell.status >= STOPPING or actor.home is not self:
            return False
        ring = cell.data
        if ring is None or ring.count + cell.coming_data >= cell.limit:
            return False
        push(ring, data, tag, sender)
        self._accepted += 1
        if not cell.queued:
            self._ready(cell)
        return True

    def _is_afar(self) -> bool:
        """Whether this is another thread than the loop's own."""
        return PyThread_get_thread_ident() != self._owner

    def _post_known(
        self, actor: ActorId, lane: LaneNumber, data: object, tag: object, sender: object
    ) -> FateNumber:
        """Enqueue a message of the rooms above, whose tag may be any object of theirs, to an actor of this loop.

        ACCEPTED, FULL, NO_ACTOR if there is nobody to take it, or OTHER_THREAD on any other thread than the loop's own. Nothing is
        raised, and nothing but ACCEPTED has done anything yet.
        """
        if PyThread_get_thread_ident() != self._owner:
            return OTHER_THREAD
        cell = actor.cell
        if cell is None or cell.status >= STOPPING or self._closed or (self._shut and self._current is None):
            return NO_ACTOR
        if not cell.offer(lane, data, tag, sender):
            return FULL
        self._accepted += 1
        if not cell.queued:
            self._ready(cell)
        return ACCEPTED
