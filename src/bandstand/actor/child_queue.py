"""The messages that wait for a supervised child to be restarted.

An `ActorSystem` has one queue for each child that messages wait for, whichever of its handles they were sent with. It is made with the
first message, and it is gone when the child has started or will not be started. Nothing polls: a `ChildWatch` calls the queue
when the supervisor has started the child, has stopped it, or has given it up.

The messages enter the new incarnation's mailbox when its supervisor starts it, before any that are sent later, and behind those of a kept
mailbox. From then on they are like all others: if that incarnation fails, also in an asynchronous `on_start`, they end with it.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, final

from bandstand.actor.handle import post_held
from bandstand.core import Lane
from bandstand.core.events import DeadLetter
from bandstand.errors import ActorRestartingError, BandstandError

if TYPE_CHECKING:
    from bandstand.actor.child_ref import ChildRef
    from bandstand.actor.system import ActorSystem
    from bandstand.actor.when_down import PendingMessage
    from bandstand.core import ActorId

__all__ = ("ChildQueue", "deliver_held", "fail_held")


@final
class ChildQueue:
    """The messages that wait for one child. Loop thread only.

    Args:
        system: the system of the child.
        ref: a reference to the child.
    """

    __slots__ = ("_messages", "_ref", "_system", "_unfollow")

    def __init__(self, system: ActorSystem, ref: ChildRef) -> None:
        self._system = system
        self._ref = ref
        self._messages: deque[PendingMessage] = deque()
        system.child_queues[ref] = self
        self._unfollow = ref.follow(self._changed)

    def __len__(self) -> int:
        return len(self._messages)

    def has_room(self, capacity: int) -> bool:
        """Return whether one more message may wait. Asks that have ended do not count."""
        if len(self._messages) >= capacity:
            self._messages = deque(message for message in self._messages if not message.is_done)
        return len(self._messages) < capacity

    def add(self, message: PendingMessage, timeout_ms: float | None) -> None:
        """Queue a message, for at most this time."""
        self._messages.append(message)
        if timeout_ms is not None:
            expire = partial(self._expire, message, timeout_ms)
            message.cancels.append(self._system.kernel.call_later(ceil(timeout_ms), expire))

    def _changed(self) -> None:
        """Deliver or fail all messages, if the supervisor has decided."""
        actor = self._ref.find()
        if actor is None and self._ref.will_start:
            return
        del self._system.child_queues[self._ref]
        self._unfollow()
        messages, self._messages = self._messages, deque()
        for message in messages:
            message.cancel_timers()
            if message.is_done:
                continue
            if actor is None:
                fail_held(self._system, message, self._ref.refusal())
            else:
                deliver_held(self._system, message, actor)

    def _expire(self, message: PendingMessage, timeout_ms: float) -> None:
        if message in self._messages:
            self._messages.remove(message)
            if not message.is_done:
                error = ActorRestartingError(f"{self._ref} was not restarted within {timeout_ms / 1000:g} s")
                fail_held(self._system, message, error)


def deliver_held(system: ActorSystem, message: PendingMessage, actor: ActorId) -> None:
    """Send a message that has waited to the child that has started. Loop thread only."""
    try:
        post_held(message.handle, actor, message.method, message.data, message.callback)
    except BandstandError as error:
        fail_held(system, message, error)


def fail_held(system: ActorSystem, message: PendingMessage, error: BandstandError) -> None:
    """Fail an ask that has waited; a one-way message becomes a dead letter. Loop thread only."""
    if not message.fail(error):
        method = message.method
        what = f"{method.owner}.{method.name}()"
        system.events.tell(DeadLetter(message.handle.__handle_actor__, Lane(method.lane), message.data, what))
