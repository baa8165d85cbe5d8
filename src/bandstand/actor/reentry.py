"""Asks that are handled out of turn: an actor answers those that it waits for itself.

The problem. A asks B, and B, to answer, asks A. A's handler is suspended, its next message is not begun before it has ended, and so
both would wait for ever: `AskCycle`. Where A's method only reads, or is written for it, it may be answered all the same.

The choice. Where an ask would close a cycle and its method is marked `@ask(reentrant=True)`, its message is moved from the mailbox of its
actor to that of a child, made for it, whose state is the very same object. So it is handled as every message is: plain or async, with
its context variables, its declared errors, its deadline; it is cancelled with its asker, and ends with its actor. Whoever looks for
cycles sees the child, and not the actor, and goes on finding those that are left. A failure in it is a failure of the actor.

Only an ask that closes a cycle is treated so: one from outside the chain waits its turn. An actor that nobody waits for in a circle
never handles two messages at a time. Refused: reentrancy for all messages of a class, as an actor then has no turn to rely on.

Cost: a cell for each such ask; nothing for any other.
"""

# An actor keeps what the room needs under private names, to leave users theirs.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, final

from bandstand.actor.hot.stage import perform
from bandstand.core import ActorId, ExitReason
from bandstand.core.lifelines import mourn
from bandstand.core.lowlevel import checked_cap, close_mailbox, end_actor
from bandstand.errors import BandstandError

if TYPE_CHECKING:
    from bandstand.actor.hot.method import Method
    from bandstand.actor.loop import Loop

__all__ = ("MOST_INSIDE", "Reentry")

MOST_INSIDE = 64
"""How many asks of one actor may be inside each other."""


@final
class Reentry:
    """Has asks of one loop handled out of turn."""

    __slots__ = ("_children", "_inside", "_loop")

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._inside: dict[ActorId, int] = {}
        # Those that handle an ask at present, and in whose name.
        self._children: dict[ActorId, ActorId] = {}

    def serve(self, asked: Any, method: Method) -> bool:
        """Have an ask that waits in a mailbox handled now; False if it does not wait there, or there is no room for it."""
        loop = self._loop
        actor: ActorId = asked.actor
        instance: Any = loop._state_of(actor)
        if not hasattr(instance, "__actor_ensure_children__") or self._inside.get(actor, 0) >= MOST_INSIDE:
            return False
        if not loop._holds(actor, method.lane, asked):
            # It is being handled already.
            return False
        name = f"{method.name} out of turn"
        try:
            child = loop._make(
                perform, instance, name, checked_cap(loop, None), None, actor, loop._lineage(actor)
            )
        except BandstandError:
            # There is no room for one more, or the actor is ending.
            return False
        instance.__actor_ensure_children__().add(child, name)
        instance.__actor_ensure_children__().ignore_exit(child)
        if not loop._move(actor, method.lane, asked, child):
            # An observer has ended one of them.
            end_actor(loop, child)
            return False
        self._inside[actor] = self._inside.get(actor, 0) + 1
        asked.moved(child)
        # What it fails with is its actor's, and told as such.
        loop._set_heard(child)
        self._children[child] = actor
        mourn(loop, child, partial(self._over, child))
        # One message, and then its end.
        close_mailbox(loop, child)
        return True

    def recall(self, child: ActorId) -> None:
        """The deadline of an ask has come: end its handler, if it is out of turn. The actor's own goes on, and is to be alone again."""
        if child in self._children:
            end_actor(self._loop, child)

    def _over(self, child: ActorId, reason: ExitReason, cause: BaseException | None) -> None:
        actor = self._children.pop(child)
        left = self._inside[actor] - 1
        if left:
            self._inside[actor] = left
        else:
            del self._inside[actor]
        if reason is not ExitReason.NORMAL:
            self._loop._fail_like(actor, cause)
