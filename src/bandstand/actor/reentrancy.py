"""Reentrant asks: an actor answers an ask that it waits for itself.

The problem. A asks B, and B, to answer, asks A. A's handler is suspended, and A does not start the next message before it
ends, so both would wait for ever: `AskCycleError`. If A's method only reads, or is written for it, A may answer it all the same.

The choice. If an ask would close a cycle and its method is marked `@ask(reentrant=True)`, its message moves from the mailbox of
the actor to the mailbox of a child actor that is created for it and has the same object as its state. So it is handled like
every message: by a plain or async handler, with its context variables, declared errors and deadline. It is cancelled with its
asker, and it ends with its actor. The wait graph sees the child instead of the actor, and still detects the remaining cycles. A
failure of the child is a failure of the actor.

Only an ask that closes a cycle is handled this way; an ask from outside the chain waits for its turn. So an actor that is not
part of a cycle never handles two messages at the same time. We refused reentrancy for all messages of a class: such an actor
could not rely on anything between two awaits.

The cost is one actor cell for each such ask, and nothing for others.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, final

from bandstand.actor.dispatch import dispatch_message
from bandstand.core import ActorId, ExitReason
from bandstand.errors import BandstandError

if TYPE_CHECKING:
    from bandstand.actor.dispatch import Method
    from bandstand.actor.system import ActorSystem

__all__ = ("MAX_NESTED", "Reentrancy")

MAX_NESTED = 64
"""How many reentrant asks of one actor may be nested."""


@final
class Reentrancy:
    """Handles the reentrant asks of one loop."""

    __slots__ = ("_loop", "_nested", "_parents")

    def __init__(self, loop: ActorSystem) -> None:
        self._loop = loop
        # How many reentrant asks of an actor are being handled.
        self._nested: dict[ActorId, int] = {}
        # For each child that handles one, its actor.
        self._parents: dict[ActorId, ActorId] = {}

    def handle_now(self, callback: Any, method: Method) -> bool:
        """Handle a queued ask now, in a child. Return False if it is not queued, or there is no room for the child."""
        loop = self._loop
        actor: ActorId = callback.actor
        instance: Any = loop.kernel.state_of(actor)
        if not hasattr(instance, "__actor_ensure_children__") or self._nested.get(actor, 0) >= MAX_NESTED:
            return False
        if not loop.kernel.has_message_from(actor, method.lane, callback):
            # It is already being handled.
            return False
        name = f"{method.name} out of turn"
        try:
            child = loop.kernel.actors.spawn(
                dispatch_message,
                instance,
                name,
                loop.kernel.actors.checked_cap(None),
                None,
                actor,
                loop.kernel.context_of(actor),
            )
        except BandstandError:
            # There is no room for another actor, or this one is stopping.
            return False
        instance.__actor_ensure_children__().add(child, name)
        instance.__actor_ensure_children__().ignore_exit(child)
        if not loop.kernel.move_message(actor, method.lane, callback, child):
            # An observer has stopped one of them.
            loop.kernel.actors.stop_or_kill(child)
            return False
        self._nested[actor] = self._nested.get(actor, 0) + 1
        callback.redirect(child)
        # A failure is reported for the actor, so it is not reported for the child.
        loop.kernel.actors.set_exit_handled(child)
        self._parents[child] = actor
        loop.kernel.actors.on_exit(child, partial(self._exited, child))
        # The child exits after this one message.
        loop.kernel.actors.close_mailbox(child)
        return True

    def stop(self, child: ActorId) -> None:
        """Stop the handler of an ask whose deadline has passed, if it is a child; a handler of the actor itself goes on."""
        if child in self._parents:
            self._loop.kernel.actors.stop_or_kill(child)

    def _exited(self, child: ActorId, reason: ExitReason, cause: BaseException | None) -> None:
        actor = self._parents.pop(child)
        left = self._nested[actor] - 1
        if left:
            self._nested[actor] = left
        else:
            del self._nested[actor]
        if reason is not ExitReason.NORMAL:
            self._loop.kernel.actors.panic(actor, cause)
