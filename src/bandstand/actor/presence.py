"""A presence: whoever is behind a handle, for somebody who keeps the handle and must know when it is good for nothing any more.

A handle of one actor is good until that actor has ended. One of a supervisor's child is good as long as its place is: between two
incarnations nobody is there, and then somebody is again. Names, groups and subscriptions all want the same three answers: who is
there now, will anybody be, and tell me when that changes.

The answers are looked up, not remembered: they are right from the first moment of an exit, whoever is told first. Being told is for
tidying up, and for those who wait. It comes inside the exit, by a receipt that waits there, or from the supervisor itself.
"""

# An actor keeps what the room needs under private names, to leave users theirs.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast, final

from bandstand.actor.children import Seat
from bandstand.actor.hot.handle import Handle
from bandstand.core import ActorId, ActorStatus
from bandstand.core.lifelines import mourn
from bandstand.errors import ActorNotLocal, InvalidArgument, NoSuchActor
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.actor.actor import BaseActor
    from bandstand.actor.loop import Loop

__all__ = ("Presence", "class_of", "key_of")


@final
class Presence:
    """Whoever is behind a handle. Loop thread only.

    Args:
        loop: the loop that the actor must live on.
        handle: of one actor, or of a supervisor's child. Of another place that is kept by somebody (a pod's role), the actor that is there now is meant.
        gone: called once when nobody will be there any more: inside the exit, and before anybody else is told. It must not raise.
        came: called when somebody may be there anew. It must not raise.

    Raises:
        InvalidArgument: it is no handle.
        ActorNotLocal: its actor lives on another loop.
        NoSuchActor: nobody is there, and nobody will be.
    """

    __slots__ = ("_actor", "_came", "_forget", "_gone", "_loop", "_seat", "handle")

    def __init__(
        self,
        loop: Loop,
        handle: object,
        gone: Callable[[], object],
        came: Callable[[], object] | None = None,
    ) -> None:
        known = checked_local(loop, handle)
        self.handle: Any = known
        self._loop = loop
        self._gone: Callable[[], object] | None = gone
        self._came = came
        place = known._bs_place
        self._seat = place if isinstance(place, Seat) else None
        self._actor: ActorId = known._bs_actor
        if self.is_gone:
            raise NoSuchActor(f"{safe_repr(handle)} has ended, and nobody comes after it")
        self._forget: Callable[[], None] = (
            mourn(loop, self._actor, self._mourned)
            if self._seat is None
            else self._seat.follow(self._changed)
        )

    @property
    def key(self) -> object:
        """What makes it the one it is: the place, or the actor. Two handles of one have the same."""
        return self._actor if self._seat is None else self._seat

    @property
    def actor(self) -> ActorId | None:
        """Whoever is there and accepts messages at this moment."""
        actor = self._actor if self._seat is None else self._seat.find()
        return actor if actor is not None and actor.is_alive else None

    @property
    def is_gone(self) -> bool:
        """Whether nobody will be there any more."""
        if self._seat is not None:
            return self._seat.is_gone
        return self._loop.status(self._actor) >= ActorStatus.STOPPED

    def cancel(self) -> None:
        """Be told of nothing any more."""
        self._gone = self._came = None
        self._forget()

    def _mourned(self, _reason: object, _cause: object) -> None:
        self._end()

    def _changed(self) -> None:
        if self.is_gone:
            self._end()
        elif self._came is not None:
            self._came()

    def _end(self) -> None:
        gone = self._gone
        self.cancel()
        if gone is not None:
            gone()


def checked_local(loop: Loop, handle: object) -> Handle:
    """A handle of an actor of a loop.

    Raises:
        InvalidArgument: it is no handle.
        ActorNotLocal: it lives on another loop.
    """
    if isinstance(handle, ActorId):
        raise InvalidArgument(
            f"{safe_repr(handle)} is the id of an actor without a class: pass a handle, what spawn() of a class returned"
        )
    if not isinstance(handle, Handle):
        raise InvalidArgument(
            f"{safe_repr(handle)} is no handle: pass what spawn() returned, or self.me inside an actor"
        )
    # Of a place, whoever is there now.
    handle._bs_refresh()
    if handle._bs_loop is not loop:
        raise ActorNotLocal(f"{safe_repr(handle)} lives on another loop than {safe_repr(loop)}")
    return handle


def key_of(handle: Handle) -> object:
    """What a presence of this handle has for its key."""
    if isinstance(handle._bs_place, Seat):
        return handle._bs_place
    handle._bs_refresh()
    return handle._bs_actor


def class_of(handle: object) -> type[BaseActor]:
    """The class that a handle was made for: whose methods it has."""
    return cast("type[BaseActor]", cast("Any", type(handle))._bs_class)
