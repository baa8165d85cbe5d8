"""What is on its way to a handler: a request that is owed an answer, or an event that is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from bandstand.bus.frame import Frame
    from bandstand.bus.hot.purse import Purse
    from bandstand.bus.hot.route import Route
    from bandstand.bus.origin import Origin
    from bandstand.core import TimerId

Count: TypeAlias = int
Flag: TypeAlias = bool
Moment: TypeAlias = float


@cython.freelist(512)
@cython.cclass
class Pending:
    """A request, from the moment it is taken in until its one answer has gone out, and for as long as that is remembered.

    Its stage (see `numbers`) only ever goes forward; the one who sets it to `DONE` sends the answer. So there is exactly one.
    """

    __slots__ = (
        "answer",
        "counted",
        "frame",
        "is_answered",
        "is_begun",
        "is_queued",
        "joined",
        "origin",
        "parent",
        "payload",
        "purse",
        "retries",
        "route",
        "settles",
        "size",
        "stage",
        "timer",
        "until_ms",
    )

    def __init__(
        self,
        origin: Origin,
        frame: Frame,
        purse: Purse,
        settles: Flag,
        parent: Pending | Delivery | None = None,
    ) -> None:
        self.origin = origin
        self.frame = frame
        # Where it was paid from; gets it back in the end.
        self.purse = purse
        # Whether the answer gives a client its credit back.
        self.settles = settles
        # The message whose handler waits for this one.
        self.parent = parent
        self.stage: Count = 0
        # Whether an answer is on its way through the router: a second one need not set out.
        self.is_answered: Flag = False
        # Whether it, or its answer, lies in the router's mailbox: a slot that is paid for until it comes out.
        self.is_queued: Flag = False
        # Whether a handler has begun with it.
        self.is_begun: Flag = False
        self.route: Route | None = None
        # Where it counts among the requests of clients that are under way; None if it does not.
        self.counted: Route | None = None
        # Any: its type is known to the capability that declared it.
        self.payload: Any = None
        self.timer: TimerId | None = None
        # How often it was tried again.
        self.retries: Count = 0
        # Requests that are the same, and get the same answer.
        self.joined: list[Pending] | None = None
        # While it is remembered: its answer, until when by the loop's clock, and how many bytes of data that is.
        self.answer: Frame | None = None
        self.until_ms: Moment = 0.0
        self.size: Count = 0


class Delivery:
    """An event on its way to one subscriber, with a copy of its data for that one alone."""

    __slots__ = ("frame", "payload", "route")

    # Any: as for `Pending`.
    def __init__(self, frame: Frame, route: Route, payload: Any) -> None:
        self.frame = frame
        self.route = route
        self.payload = payload
