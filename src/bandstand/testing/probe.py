"""A probe: a behavior that keeps what it receives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, final

if TYPE_CHECKING:
    from bandstand.core import ActorId, Context, Lane, Loop, Verdict

__all__ = ("Probe", "Received")


class Received(NamedTuple):
    """One message as an actor saw it."""

    data: Any
    tag: int
    sender: ActorId | int
    lane: Lane


@final
class Probe:
    """A behavior that keeps what it receives, and then does what another one does, if it was given one.

        probe = Probe()
        actor = loop.spawn(probe)
        loop.send(actor, "hello")
        loop.poll_once()
        assert probe.data == ["hello"]

    One that stands for several actors keeps what all of them receive.
    """

    __slots__ = ("_behavior", "received")

    def __init__(self, behavior: Callable[[Context[Any], Any], Any] | None = None) -> None:
        self._behavior = behavior
        self.received: list[Received] = []
        """All that was received, oldest first."""

    @property
    def data(self) -> list[Any]:
        """The data of all that was received, oldest first."""
        return [message.data for message in self.received]

    def spawn(self, loop: Loop, state: object = None, **options: Any) -> ActorId:
        """Spawn an actor of this probe; options as for `Loop.spawn`."""
        return loop.spawn(self, state, **options)

    def clear(self) -> None:
        """Forget what was received."""
        self.received.clear()

    def __call__(self, ctx: Context[Any], data: Any) -> Verdict | None:
        """Keep the message, then do what the probed behavior does."""
        self.received.append(Received(data, ctx.tag, ctx.sender, ctx.lane))
        # A coroutine is passed through as it is: the loop performs it.
        return None if self._behavior is None else self._behavior(ctx, data)
