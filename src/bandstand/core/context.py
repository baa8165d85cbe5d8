"""The context that a behavior is called with, and the types of both.

`ActorContext` is the object. `Context` is the type that users annotate with: it is generic in the actor's state.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias, TypeVar

from bandstand.core.enums import Lane, Verdict

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from bandstand.core.ids import ActorId
    from bandstand.core.loop import Loop

State = TypeVar("State")
LaneNumber: TypeAlias = int

LANES = tuple(Lane)


@cython.freelist(1024)
@cython.cclass
class ActorContext:
    """The context of an actor, as `Context` describes it.

    Each actor has one, made for its first message and filled in anew for every other. An actor handles one message at a time, so nothing is
    overwritten that is still in use, and no message costs an allocation.
    """

    __slots__ = ("lane_number", "loop", "self_id", "sender", "state", "tag")

    def __init__(self, self_id: ActorId, loop: Loop, state: object) -> None:
        self.self_id = self_id
        self.loop = loop
        self.state = state
        self.tag: Any = 0
        self.sender: object = 0
        self.lane_number: LaneNumber = 3

    @property
    def lane(self) -> Lane:
        """The lane of the message."""
        return LANES[self.lane_number]

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} belongs to one actor and cannot be pickled or copied")

    def __repr__(self) -> str:
        return f"<ActorContext of {self.self_id!r}>"


class Context(Protocol[State]):
    """What a behavior can learn about its actor and about the current message.

    An actor has one context for all its messages: `tag`, `sender` and `lane` are valid until the behavior has finished.
    """

    state: State
    """The state that the actor was spawned with. Assign to it to keep another value between messages."""

    @property
    def self_id(self) -> ActorId:
        """The actor's own id."""
        ...

    @property
    def loop(self) -> Loop:
        """The loop that runs the actor."""
        ...

    @property
    def tag(self) -> int:
        """The tag of the message; 0 if the sender gave none, negative for system messages."""
        ...

    @property
    def sender(self) -> ActorId | int:
        """The sender of the message, as given by the sender; 0 if it gave none, and for system messages."""
        ...

    @property
    def lane(self) -> Lane:
        """The lane of the message."""
        ...


# The second argument is Any so that a behavior may declare the type of data it expects; no type checker can verify what a sender passes.
# `bandstand.actor` has typed messages.
Behavior: TypeAlias = (
    Callable[[Context[State], Any], Verdict | None]
    | Callable[[Context[State], Any], Coroutine[Any, Any, Verdict | None]]
)
