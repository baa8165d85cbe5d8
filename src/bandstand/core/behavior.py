"""The types of what a user writes: a behavior, and the context it is called with."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from bandstand.core.hot.ids import ActorId
from bandstand.core.vocabulary import Lane, Verdict

if TYPE_CHECKING:
    from bandstand.core.loop import Loop

__all__ = ("Behavior", "Context")

State = TypeVar("State")


class Context(Protocol[State]):
    """What a behavior is told about itself and about the message at hand.

    One for each actor, refilled for every message: `tag`, `sender` and `lane` hold until the behavior has ended.
    """

    state: State
    """What the actor was spawned with; assign to it to keep something else between messages."""

    @property
    def self_id(self) -> ActorId:
        """The actor's own id."""
        ...

    @property
    def loop(self) -> Loop:
        """The loop it lives on."""
        ...

    @property
    def tag(self) -> int:
        """The message's tag; 0 is untyped, below 0 is the system's."""
        ...

    @property
    def sender(self) -> ActorId | int:
        """Who sent the message, as the sender said; 0 is nobody, or the system."""
        ...

    @property
    def lane(self) -> Lane:
        """The lane by which it came."""
        ...


# The data of a raw message is whatever its sender passed, so a behavior may declare the type it expects and no checker
# can hold it to that: hence Any. Typed services are the room above.
Behavior: TypeAlias = (
    Callable[[Context[State], Any], Verdict | None]
    | Callable[[Context[State], Any], Coroutine[Any, Any, Verdict | None]]
)
