"""Observing and shuffling actors in tests: a behavior that records what it receives, and a random order of ready actors."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, final

if TYPE_CHECKING:
    from bandstand.core import ActorId, Context, Lane, Loop, Verdict

__all__ = ("Probe", "Received", "shuffle")


class Received(NamedTuple):
    """One message that an actor received."""

    data: Any
    tag: int
    sender: ActorId | int
    lane: Lane


@final
class Probe:
    """A behavior that records the messages it receives, and then calls another behavior, if it has one.

        probe = Probe()
        actor = loop.spawn(probe)
        loop.send(actor, "hello")
        loop.poll_once()
        assert probe.data == ["hello"]

    A probe can be the behavior of several actors; it then records the messages of all of them.
    """

    __slots__ = ("_behavior", "received")

    def __init__(self, behavior: Callable[[Context[Any], Any], Any] | None = None) -> None:
        self._behavior = behavior
        self.received: list[Received] = []
        """The received messages, oldest first."""

    @property
    def data(self) -> list[Any]:
        """The data of the received messages, oldest first."""
        return [message.data for message in self.received]

    def spawn(self, loop: Loop, state: object = None, **options: Any) -> ActorId:
        """Spawn an actor with this probe as its behavior; options as for `Loop.spawn`."""
        return loop.spawn(self, state, **options)

    def clear(self) -> None:
        """Remove all recorded messages."""
        self.received.clear()

    def __call__(self, ctx: Context[Any], data: Any) -> Verdict | None:
        """Record the message, then call the other behavior."""
        self.received.append(Received(data, ctx.tag, ctx.sender, ctx.lane))
        # The result may be a coroutine: the loop runs it.
        return None if self._behavior is None else self._behavior(ctx, data)


def shuffle(loop: Loop, seed: int) -> None:
    """Make the loop run its ready actors in an order that depends only on `seed`.

    A test that passes under many seeds does not depend on the order in which actors become ready. The order of messages to one
    actor, the priority of lanes and all documented guarantees stay the same.
    """
    loop.kernel.pick_next = Random(seed).randrange  # noqa: S311  # must be reproducible, not secure
