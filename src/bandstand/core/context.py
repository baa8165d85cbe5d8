"""What a behavior is told about the message at hand.

One turn for each actor, made at its first message and refilled for every next one: an actor handles one message at
a time, so nothing is ever overwritten that somebody still reads, and no message costs an allocation.
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
    from bandstand.core.hot.kernel import Kernel
    from bandstand.core.ids import ActorId
    from bandstand.core.loop import Loop

State = TypeVar("State")
LaneNumber: TypeAlias = int

LANES = tuple(Lane)


@cython.freelist(1024)
@cython.cclass
class ActorContext:
    """The circumstances of one call of a behavior.

    `self_id` is the actor's own id, `loop` its loop, `state` what it was spawned with (assignable, kept between
    messages). `tag`, `sender` and `lane` belong to the message at hand and hold until the behavior has ended.
    """

    __slots__ = ("lane_number", "loop", "self_id", "sender", "state", "tag")

    def __init__(self, self_id: ActorId, loop: Kernel, state: object) -> None:
        self.self_id = self_id
        self.loop = loop
        self.state = state
        self.tag: Any = 0
        self.sender: object = 0
        self.lane_number: LaneNumber = 3

    @property
    def lane(self) -> Lane:
        """The lane by which the message came."""
        return LANES[self.lane_number]

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} belongs to one actor, and cannot be pickled or copied")

    def __repr__(self) -> str:
        return f"<ActorContext of {self.self_id!r}>"


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
