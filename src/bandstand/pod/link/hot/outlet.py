"""An outlet: one method of an actor in another process, as this end sends to it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from bandstand.actor.dispatch import Method
    from bandstand.pod.link.hot.standin import StandIn

Code: TypeAlias = int
LaneNumber: TypeAlias = int


class Channel:
    """One lane of a stand-in. `line` is a message whose parts are under way, and those that wait behind it; None if there is none."""

    __slots__ = ("lane", "line", "stand_in")

    def __init__(self, stand_in: StandIn, lane: LaneNumber) -> None:
        self.stand_in = stand_in
        self.lane: LaneNumber = lane
        self.line: deque[tuple[Outlet, int, object]] | None = None


class Outlet:
    """One method of a remote actor. `pending` are the arguments of its one-way messages that are not acknowledged, in order."""

    __slots__ = ("channel", "code", "is_ask", "lane", "method", "pending")

    def __init__(self, method: Method, code: Code, channel: Channel) -> None:
        self.method = method
        self.code: Code = code
        self.channel = channel
        self.is_ask = method.is_ask
        self.lane: LaneNumber = method.lane
        self.pending: deque[object] = deque()
