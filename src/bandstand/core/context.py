"""What a behavior is told about the message at hand.

One turn for each actor, made at its first message and refilled for every next one: an actor handles one message at
a time, so nothing is ever overwritten that somebody still reads, and no message costs an allocation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from bandstand.core.vocabulary import Lane

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import interpreted as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from bandstand.core.hot.ids import ActorId
    from bandstand.core.hot.kernel import Kernel

LaneNumber: TypeAlias = int

LANES = tuple(Lane)


@cython.freelist(1024)
@cython.cclass
class Turn:
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
        return f"<Turn of {self.self_id!r}>"
