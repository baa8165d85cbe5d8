"""A handle: what one holds of a typed actor. Each class of actors has a handle class of its own, made with the class.

A handle is the id of an actor with its methods in front. It is cheap, hashable, comparable and good on every thread. One
that belongs to a supervisor's child has a *place*, and finds the present incarnation there when the one it knows has ended;
while nothing ended, it never looks.
"""

# set_past and new_handle come from one of two places, of which the checker sees one.
# pyright: reportPossiblyUnboundVariable=false
# An actor keeps what the room needs under private names, to leave users theirs.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from bandstand.core.hot.desk import Desk
from bandstand.core.hot.ids import ActorId
from bandstand.errors import BandstandError

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import interpreted as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from bandstand.actor.hot.asks import Asked, Asks
    from bandstand.actor.hot.method import Method

Milliseconds: TypeAlias = int

if not cython.compiled:
    # Compiled, these two are C's own, in the .pxd.
    set_past = object.__setattr__

    def new_handle(kind: type[Handle]) -> Handle:
        """Make an object of a class of handles past its constructor."""
        return kind.__new__(kind)


class Place(Protocol):
    """Where an actor is to be found that is started again after its end."""

    def find(self) -> ActorId | None:
        """The present incarnation; None while there is none. From any thread."""
        ...

    def describe(self) -> str:
        """How to speak of it, and why nobody is there."""
        ...

    @property
    def is_patient(self) -> bool:
        """Whether messages may wait there for somebody to come: then `hold` is asked."""
        ...

    def hold(
        self, handle: Handle, method: Method, data: object, asked: Asked | None, may_wait: bool, /
    ) -> int:
        """Nobody is there to take a message. From any thread.

        REFUSED; HELD, if it is kept for whoever comes; or RETRY, if this has waited, and somebody has come.

        Args:
            handle: by which it was sent.
            method: what it is.
            data: its arguments, as they were bound.
            asked: who waits for an answer, on whatever thread; None for nobody.
            may_wait: whether the caller may be blocked.
        """
        ...

    def passport(self) -> tuple[Any, ...] | None:
        """How a handle of this place is found in another process, as `pickle` wants it; None if it cannot be."""
        ...


class Handle:
    """The base of all handles."""

    __slots__ = ("__weakref__", "_bs_actor", "_bs_ask_ms", "_bs_asks", "_bs_loop", "_bs_name", "_bs_place")

    def __init__(
        self,
        loop: Desk,
        actor: ActorId,
        name: str | None,
        asks: Asks,
        ask_ms: Milliseconds,
        place: Place | None,
    ) -> None:
        # Where its actors live, all its incarnations: kept here so that a send need not look.
        self._bs_loop = loop
        self._bs_actor = actor
        self._bs_name = name
        self._bs_asks = asks
        # How long an ask through this handle waits; below 0 for ever.
        self._bs_ask_ms = ask_ms
        self._bs_place = place

    def _bs_renew(self) -> bool:
        """Look for another incarnation than the one known; whether there is one."""
        place = self._bs_place
        if place is None:
            return False
        actor: ActorId | None = place.find()
        if actor is None or actor is self._bs_actor:
            return False
        # One store: whoever reads it on another thread meanwhile finds the loop by the actor. The rest is for people.
        self._bs_actor = actor
        home: Any = actor.home
        if home is not self._bs_loop:
            self._bs_loop = home
            self._bs_asks = home._asks
        return True

    def _bs_forget(self) -> None:
        """Know nobody any more: the next message asks the place. From any thread."""
        self._bs_actor = ActorId(0, None, self._bs_loop)

    def _bs_refresh(self) -> bool:
        """Whether somebody accepts messages behind it; looks for another incarnation if the one known does not."""
        return self._bs_actor.is_alive or (self._bs_renew() and self._bs_actor.is_alive)

    def __actor_id__(self) -> ActorId:
        """The id of the actor behind it: of its present incarnation, if it is a supervisor's child. From any thread."""
        self._bs_refresh()
        return self._bs_actor

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(self._bs_key() == other._bs_key())

    def __hash__(self) -> int:
        return hash(self._bs_key())

    def _bs_key(self) -> Any:
        """What makes it the handle it is: its place, or, without one, its actor."""
        return self._bs_actor if self._bs_place is None else self._bs_place

    def __reduce__(self) -> tuple[Any, ...]:
        passport = None if self._bs_place is None else self._bs_place.passport()
        if passport is None:
            raise TypeError(f"{self!r} belongs to its loop and cannot be pickled or copied")
        return passport

    def __repr__(self) -> str:
        name = "" if self._bs_name is None else f" {self._bs_name!r}"
        kind: str = getattr(type(self), "_bs_kind", "Handle")
        return f"<{kind}{name} {self._bs_actor!r}>"


def attach(loop: Any, instance: object, actor: ActorId, name: str | None, ask_ms: int | None) -> Handle:
    """Make an object that actor; its handle. `loop` is one with typed actors, `ask_ms` None for what its class says."""
    kind: Any = type(instance)
    handle = new_handle(kind.__actor_schema__.handle)
    handle._bs_loop = loop
    handle._bs_actor = actor
    handle._bs_name = name
    handle._bs_asks = loop._asks
    handle._bs_ask_ms = kind.__actor_ask_ms__ if ask_ms is None else ask_ms
    handle._bs_place = None
    # Past a __setattr__ of the class's own: a frozen dataclass can be an actor, too.
    set_past(instance, "__actor_handle__", handle)
    set_past(instance, "__actor_children__", None)
    return handle


def stop_at_once(handle: Handle) -> bool:
    """Stop the actor that a handle knows, from its own thread; False if another has come after it, or this is elsewhere."""
    kernel: Desk = handle._bs_actor.home  # type: ignore[assignment]  # a loop
    if kernel._is_afar():
        return False
    try:
        handle._bs_loop.stop_actor(handle._bs_actor)
    except BandstandError:
        return False
    return True
