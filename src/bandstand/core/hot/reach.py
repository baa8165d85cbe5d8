"""Who is meant: from what a caller passes to the living cell on this loop, or to the reason why there is none.

An id object leads straight to its cell; a bare number is looked up in the table. Both meet the same refusals: the wrong
thread, a closed loop, another loop's actor, one that has ended.
"""

# PyThread_get_thread_ident comes from one of two places, of which the checker sees one.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from bandstand.core.enums import LOOP_SHIFT, STOPPING, ActorStatus
from bandstand.core.hot.post import Post
from bandstand.core.ids import ActorId, ActorTable
from bandstand.errors import (
    ActorNotLocal,
    BandstandError,
    InvalidArgument,
    LoopClosed,
    NoSuchActor,
    WrongThread,
)
from bandstand.errors.formatting import safe_repr

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if not cython.compiled:
    # Compiled, this is C's function, declared in the .pxd: the check is made by every send and must cost nothing.
    from threading import get_ident as PyThread_get_thread_ident

if TYPE_CHECKING:
    from bandstand.core.mailbox import ActorCell

Count: TypeAlias = int
Number: TypeAlias = int

STATUSES = tuple(ActorStatus)


class Reach(Post):
    """The table of actors, the thread they belong to, and the way to them."""

    __slots__ = ("_closed", "_owner", "_table")

    def __init__(self, loop_tag: Count, max_actors: Count) -> None:
        super().__init__()
        self._table = ActorTable(loop_tag, max_actors)
        self._owner: Number = PyThread_get_thread_ident()
        # From the request to stop on: nothing is sent, spawned or run any more.
        self._closed = False

    def status(self, target: ActorId | int) -> ActorStatus:
        """Where an actor stands in its life. An `ActorId` remembers how its actor ended; a bare number does not.

        Raises:
            NoSuchActor: a number that names nobody any more.
            ActorNotLocal: the id is another loop's.
            WrongThread: called off the loop's thread.
        """
        self._check_thread()
        actor = self._local_id(target)
        if actor is None:
            raise self._missing(target)
        return STATUSES[actor.status]

    def _claim(self) -> None:
        """Make the calling thread the owner."""
        self._owner = PyThread_get_thread_ident()

    def _check_thread(self) -> None:
        """Raise `WrongThread` unless the calling thread is the owner."""
        if PyThread_get_thread_ident() != self._owner:
            raise WrongThread(self._wrong_thread())

    def _wrong_thread(self) -> str:
        """The sentence that names both threads. The loop above overrides it."""
        return "this call belongs on the loop's own thread"

    def _reach(self, target: object) -> ActorCell | None:
        """The living cell that `target` names on this loop, None if a send to it must be refused.

        Raises `WrongThread` off the owner's thread and `InvalidArgument` for what cannot be an id at all.
        """
        if PyThread_get_thread_ident() != self._owner:
            raise WrongThread(self._wrong_thread())
        return self._find(target)

    def _find(self, target: object) -> ActorCell | None:
        """The same, from any thread: it only reads."""
        if self._closed:
            return None
        if type(target) is ActorId:
            actor = target
            cell = actor.cell
            if cell is None or cell.status >= STOPPING or actor.home is not self:
                return None
            return cell
        if isinstance(target, int):
            return self._reach_number(target)
        raise InvalidArgument(
            f"{safe_repr(target)} is no actor id: pass what spawn() returned, or its number"
        )

    def _reach_number(self, number: Number) -> ActorCell | None:
        """The same, for a bare number: the slow way, through the table."""
        if not self._is_own_number(number):
            return None
        cell = self._table.find(number)
        if cell is None or cell.status >= STOPPING:
            return None
        return cell

    def _is_own_number(self, number: int) -> bool:
        """Whether a number could be that of an actor of this loop."""
        return 0 < number < 1 << 64 and number >> LOOP_SHIFT == self._table.loop_tag

    def _unreachable(self, target: object) -> BandstandError:
        """Say why `_reach` found nobody for a message, and count the refusal."""
        self._refused += 1
        return self._missing(target)

    def _missing(self, target: object) -> BandstandError:
        """Say why `_reach` found nobody, for a call that is no send."""
        if self._closed:
            return LoopClosed("the loop is closed: it was asked to stop, or was destroyed")
        if self._is_foreign(target):
            return ActorNotLocal(
                f"actor {safe_repr(target)} belongs to another loop: an id is good only on the loop it came from"
            )
        if type(target) is not ActorId and target == 0:
            return NoSuchActor(
                "there is no actor 0: 0 stands for nobody, as in the sender of a message without one"
            )
        return NoSuchActor(f"there is no actor {safe_repr(target)}: it has ended, or never was")

    def _is_foreign(self, target: object) -> bool:
        """Whether an id, or a number that could be one, is another loop's."""
        if type(target) is ActorId:
            actor = target
            return actor.home is not self
        number = int(target)  # type: ignore[call-overload]  # _find has seen to it that it is an id or an int
        return 0 < number < 1 << 64 and number >> LOOP_SHIFT not in {0, self._table.loop_tag}

    def _local_id(self, target: object) -> ActorId | None:
        """The id that `target` is or names, of this loop; an id may be stale, a number may not."""
        if type(target) is ActorId:
            actor = target
            return actor if actor.home is self else None
        if not isinstance(target, int):
            raise InvalidArgument(
                f"{safe_repr(target)} is no actor id: pass what spawn() returned, or its number"
            )
        if not self._is_own_number(target):
            return None
        cell = self._table.find(target)
        return None if cell is None else cell.actor
