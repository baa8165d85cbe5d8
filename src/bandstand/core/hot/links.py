"""Links: two actors that share one fate.

When one of two linked actors ends abnormally, the other is ended too, for the same reason; a normal end ends only the link.
An actor that *traps exits* is not ended: it is told, by an `Exit` in a slot of its own, of normal ends as well. A link is
symmetrical, there is one between two actors at most, and it goes with the first end.

A chain of ten thousand linked actors falls like dominoes. It falls in a loop, not by recursion: whoever must end waits in
a list, and the outermost exit empties it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from bandstand.core.enums import NORMAL, STOPPED, STOPPING, SystemTag
from bandstand.core.hot.life import REASONS
from bandstand.core.hot.monitors import Monitors
from bandstand.core.messages import Exit
from bandstand.errors import InvalidArgument, LinkBroken

if TYPE_CHECKING:
    from bandstand.core.ids import ActorId
    from bandstand.core.mailbox import ActorCell

Count: TypeAlias = int
ReasonNumber: TypeAlias = int

EXIT = SystemTag.EXIT


class Links(Monitors):
    """Who is linked with whom."""

    __slots__ = ("_doomed", "_falling")

    def __init__(self, loop_tag: Count, max_actors: Count, reserve: Count) -> None:
        super().__init__(loop_tag, max_actors, reserve)
        # Those who must end because one they were linked with has: cell, reason, and the error that says why.
        self._doomed: list[Any] = []
        # Whether somebody is ending them already.
        self._falling = False

    def link(self, one: ActorId | int, other: ActorId | int) -> None:
        """Have two actors share an abnormal end. Linking them again changes nothing.

        If `other` has ended already, `one` hears of it, or shares it, as if that had happened just now.

        Raises:
            InvalidArgument: both are the same actor.
            NoSuchActor, ActorNotLocal: `one` is not there, or `other` was never an actor of this loop.
            LoopClosed: the loop was asked to stop.
            WrongThread: called off the loop's thread.
        """
        cell = self._reach(one)
        if cell is None:
            raise self._missing(one)
        actor = self._local_id(other)
        if actor is None:
            raise self._missing(other)
        peer = actor.cell
        if peer is cell:
            raise InvalidArgument(f"{one!r} cannot be linked with itself")
        if peer is None:
            self._part(cell, actor, actor.reason, None)
            self._fall()
            return
        if cell.links is None:
            cell.links = {}
        if peer.links is None:
            peer.links = {}
        cell.links[peer] = None
        peer.links[cell] = None

    def unlink(self, one: ActorId | int, other: ActorId | int) -> bool:
        """Take a link back, from either side. False if there is none, or one of them has ended.

        Raises:
            ActorNotLocal, NoSuchActor: one of them was never an actor of this loop.
            WrongThread: called off the loop's thread.
        """
        self._check_thread()
        first = self._local_id(one)
        if first is None:
            raise self._missing(one)
        second = self._local_id(other)
        if second is None:
            raise self._missing(other)
        cell = first.cell
        peer = second.cell
        if cell is None or peer is None or cell.links is None or peer not in cell.links:
            return False
        assert peer.links is not None
        del cell.links[peer]
        del peer.links[cell]
        return True

    def trap_exits(self, actor: ActorId | int, is_on: bool = True) -> None:
        """Have an actor told of the ends of those it is linked with, by an `Exit`, instead of sharing them.

        Raises:
            NoSuchActor, ActorNotLocal: the actor is not there.
            LoopClosed: the loop was asked to stop.
            WrongThread: called off the loop's thread.
        """
        cell = self._reach(actor)
        if cell is None:
            raise self._missing(actor)
        cell.traps = bool(is_on)

    def _sever(self, cell: ActorCell, reason: ReasonNumber, cause: BaseException | None) -> None:
        """Have an actor's end heard by everyone it was linked with."""
        links = cell.links
        actor = cell.actor
        assert links is not None
        assert actor is not None
        cell.links = None
        for peer in links:
            assert peer.links is not None
            del peer.links[cell]
            self._part(peer, actor, reason, cause)
        self._fall()

    def _part(
        self, cell: ActorCell, gone: ActorId, reason: ReasonNumber, cause: BaseException | None
    ) -> None:
        """One end of a link has gone: the other is told, or is to fall."""
        if cell.status >= STOPPED:
            return
        if cell.traps:
            cell.offer_reserved(Exit(gone, REASONS[reason], cause), EXIT, 0)
            self._accepted += 1
            if not cell.queued:
                self._ready(cell)
        elif reason != NORMAL:
            error = LinkBroken(
                f"actor {self._called(cell)} was linked with {gone!r}, which ended with reason {REASONS[reason].name}"
            )
            # The first cause, not a chain as long as the row of dominoes.
            if cause is not None and issubclass(type(cause), LinkBroken):
                cause = cause.__cause__
            error.__cause__ = cause
            self._doomed.append((cell, reason, error))

    def _fall(self) -> None:
        """End those who must, one after the other, and those whom that takes along."""
        if self._falling:
            return
        self._falling = True
        try:
            while len(self._doomed) > 0:
                doomed, self._doomed = self._doomed, []
                for cell, reason, error in doomed:
                    self._end_linked(cell, reason, error)
        finally:
            self._falling = False

    def _end_linked(self, cell: ActorCell, reason: ReasonNumber, error: BaseException) -> None:
        if cell.status < STOPPING:
            self._end(cell, reason, error)
