"""Watching a handle: for code that keeps a handle and must know when it stops being useful.

A handle of one actor is useful until that actor exits. A handle of a supervised child is useful as long as the child has a place
in the tree: between two incarnations there is no actor, and then there is one again. Names, groups and subscriptions all need to
know which actor is there now, whether there will be one, and when that changes.

The state is looked up, not stored, so it is right from the first moment of an exit, whichever callback runs first. The callbacks
are for cleanup and for waiters. They run inside the exit, or inside the supervisor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

from bandstand.actor.child_ref import ChildRef
from bandstand.actor.handle import Handle, refresh
from bandstand.core import ActorId, ActorStatus
from bandstand.errors import ActorNotLocalError, InvalidArgumentError, NoSuchActorError
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.actor.system import ActorSystem

__all__ = ("HandleWatch", "watch_key")


@final
class HandleWatch:
    """Watches the actor of a handle. Loop thread only.

    Args:
        loop: the loop that the actor must run on.
        handle: a handle of one actor or of a supervised child. For a handle of a pod's role, the current actor is watched.
        on_gone: called once when there is no actor and will be none: inside the exit, before observers, supervisors and
            monitors learn of it. It must not raise.
        on_restart: called when there may be a new incarnation. It must not raise.

    Raises:
        InvalidArgumentError: it is not a handle.
        ActorNotLocalError: its actor runs on another loop.
        NoSuchActorError: there is no actor and will be none.
    """

    __slots__ = ("_actor", "_child", "_loop", "_on_gone", "_on_restart", "_unsubscribe", "handle")

    def __init__(
        self,
        loop: ActorSystem,
        handle: object,
        on_gone: Callable[[], object],
        on_restart: Callable[[], object] | None = None,
    ) -> None:
        known = checked_local(loop, handle)
        self.handle: Any = known
        self._loop = loop
        self._on_gone: Callable[[], object] | None = on_gone
        self._on_restart = on_restart
        ref = known.__handle_ref__
        self._child = ref if isinstance(ref, ChildRef) else None
        self._actor: ActorId = known.__handle_actor__
        if self.is_gone:
            raise NoSuchActorError(f"{safe_repr(handle)} has ended and will not be restarted")
        self._unsubscribe: Callable[[], None] = (
            loop.kernel.actors.on_exit(self._actor, self._exited)
            if self._child is None
            else self._child.follow(self._changed)
        )

    @property
    def key(self) -> object:
        """What identifies it: the `ChildRef`, or the actor. Two handles of the same child have the same key."""
        return self._actor if self._child is None else self._child

    @property
    def actor(self) -> ActorId | None:
        """The actor, if one accepts messages at this moment."""
        actor = self._actor if self._child is None else self._child.find()
        return actor if actor is not None and actor.is_alive else None

    @property
    def is_gone(self) -> bool:
        """Whether there is no actor and will be none."""
        if self._child is not None:
            return self._child.is_gone
        return self._loop.status(self._actor) >= ActorStatus.STOPPED

    def cancel(self) -> None:
        """Stop watching."""
        self._on_gone = self._on_restart = None
        self._unsubscribe()

    def _exited(self, _reason: object, _cause: object) -> None:
        self._end()

    def _changed(self) -> None:
        if self.is_gone:
            self._end()
        elif self._on_restart is not None:
            self._on_restart()

    def _end(self) -> None:
        on_gone = self._on_gone
        self.cancel()
        if on_gone is not None:
            on_gone()


def checked_local(loop: ActorSystem, handle: object) -> Handle:
    """Return the argument if it is a handle of an actor of this loop.

    Raises:
        InvalidArgumentError: it is not a handle.
        ActorNotLocalError: its actor runs on another loop.
    """
    if isinstance(handle, ActorId):
        raise InvalidArgumentError(
            f"{safe_repr(handle)} is the id of a raw actor: pass a handle, as spawn() of a class returns it"
        )
    if not isinstance(handle, Handle):
        raise InvalidArgumentError(
            f"{safe_repr(handle)} is not a handle: pass what spawn() returned, or self.me inside an actor"
        )
    refresh(handle)
    if handle.__handle_kernel__ is not loop.kernel:
        raise ActorNotLocalError(f"{safe_repr(handle)} runs on another loop than {safe_repr(loop)}")
    return handle


def watch_key(handle: Handle) -> object:
    """Return the `key` that a watch of this handle has."""
    if isinstance(handle.__handle_ref__, ChildRef):
        return handle.__handle_ref__
    refresh(handle)
    return handle.__handle_actor__
