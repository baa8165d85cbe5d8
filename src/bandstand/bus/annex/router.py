"""The router of an annex: it has no routes. What its capability says goes up to the node, and what it has asked is kept until the answer comes."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from bandstand.bus.books import Books
from bandstand.bus.errands import Asked, Discarded, Emitted, Withdrawn, written
from bandstand.bus.faults import ROUTING_ERROR, FaultAnswer
from bandstand.bus.hot.idmaker import IdMaker
from bandstand.bus.hot.purse import Purse
from bandstand.bus.numbers import DONE
from bandstand.bus.origin import NOBODY
from bandstand.bus.router import Router
from bandstand.bus.tap import Taps
from bandstand.bus.wire import write_frame
from bandstand.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msgspec import Raw

    from bandstand.bus.errands import Begin
    from bandstand.bus.frame import Frame, Kind
    from bandstand.bus.hot.pending import Pending
    from bandstand.bus.ports import Passage
    from bandstand.core import Loop

__all__ = ("AnnexRouter",)


class Blank:
    """A log that keeps nothing: the node has one."""

    def append(self, frame: Frame) -> None:
        """Forget it."""

    def recent(self, limit: int) -> Sequence[Frame]:  # noqa: ARG002  # the port's signature
        """Nothing."""
        return ()

    def lineage(self, name: str, limit: int) -> Sequence[Frame]:  # noqa: ARG002  # likewise
        """Nothing."""
        return ()

    def close(self) -> None:
        """Nothing is to be released."""


class AnnexRouter(Router):
    """What a seat and an outlet need of a router, for one capability whose node is elsewhere."""

    def __init__(self, loop: Loop, begin: Begin, passage: Passage) -> None:
        # Repeats and dead letters are the node's affair, as are retries.
        config = replace(begin.config, remember_count=0, dead_count=0)
        super().__init__(loop, config, ids=IdMaker(), log=Blank(), taps=Taps(), books=Books())
        self._passage = passage
        self._known = frozenset(begin.known)
        self._numbers = count(1)
        self._asked: dict[int, Pending] = {}
        self._names: dict[Pending, int] = {}
        self.given = Purse(1 << 30)
        """What pays for requests of the node: it has counted them itself."""
        self.on_event = self._emit

    # -- up ----------------------------------------------------------------------------------------------------------------

    def fail_unrouted(self, pending: Pending) -> None:
        """A request of the capability: the node knows whom it is for."""
        number = next(self._numbers)
        self._asked[number] = pending
        self._names[pending] = number
        line = write_frame(pending.frame)
        self._passage.send(written(Asked(number, line, pending.parent is not None, pending.origin is NOBODY)))

    def post_event(self, frame: Frame) -> bool:
        """Take in an event. False if too many wait to be routed, here or on their way to the node."""
        return self._passage.is_writable and super().post_event(frame)

    def _emit(self, frame: Frame, _said: object) -> None:
        self._passage.send(written(Emitted(write_frame(frame))))

    def withdraw(self, pending: Pending) -> None:
        """Nobody waits for it any more."""
        super().withdraw(pending)
        number = self._names.pop(pending, None)
        if number is not None:
            del self._asked[number]
            self._passage.send(written(Withdrawn(number)))

    def discard(self, kind: Kind, type_name: str, data: Raw) -> None:
        """A Worker has answered what is not open any more: the node takes note of it."""
        self._passage.send(written(Discarded(kind, type_name, bytes(data))))

    def answer(self, pending: Pending, frame: Frame) -> None:
        """Take in an answer. A Worker's that comes too late is the node's to discard."""
        if pending.stage == DONE:
            pending.origin.settle(frame, False)  # noqa: FBT003  # by position, as a protocol has it
        else:
            super().answer(pending, frame)

    # -- down --------------------------------------------------------------------------------------------------------------

    def hear(self, number: int, frame: Frame) -> None:
        """The node has the answer to a request."""
        pending = self._asked.pop(number, None)
        if pending is not None:
            del self._names[pending]
            self.answer(pending, frame)

    # -- what the node does ------------------------------------------------------------------------------------------------

    def expire(self, pending: Pending) -> None:
        """The deadline of what a Worker was given: the node has answered, and here it is forgotten."""
        self.close(pending)
        self.roll.leave(pending)

    def goes_again(self, pending: Pending, frame: Frame) -> bool:  # noqa: ARG002  # the hook's signature
        """Never from here."""
        return False

    def leave_unsettled(self, pending: Pending, frame: Frame) -> None:
        """Nobody has taken an answer: the node has counted it."""

    def check(self, frame: Frame, path: str) -> None:
        """Refuse what the node could not route, if it is to be sent later.

        Raises:
            Refused: nobody handles it.
        """
        if frame.is_request and (frame.kind, frame.type) not in self._known:
            raise Refused(FaultAnswer(ROUTING_ERROR, self._lost(frame), f"{path}.type"))
