"""Repeats: requests that come with an id that another request has, or had.

An id names one request, on whatever connection it comes: who did not get the answer, because a connection broke, asks again with the same id. The
same content is the same request: it gets the same answer, and is handled once. While the first is open, the repeat joins it; its deadline is the
first one's. Other content under a used id is somebody's mistake, and is told so; the first is not disturbed.

That holds for what clients send: commands, and queries whose class says `remember=True`. A scheduled message is sent once for each time that it was
scheduled, whatever its id.

What is remembered is an answer that somebody has given: a reply, a refusal, a crash. After a fault that says that nothing was done, or that nobody
knows, the same request is handled anew (see `faults.PASSING`). So it is when the answer has been forgotten, and after a time-out: even if the
first one's handler is still at it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from bandstand.bus.faults import CONFLICT
from bandstand.bus.frame import Frame, Metadata
from bandstand.bus.numbers import DONE, NEW
from bandstand.bus.wire import DECODE_ERRORS

if TYPE_CHECKING:
    from bandstand.bus.endings import Endings
    from bandstand.bus.hot.pending import Pending

__all__ = ("Repeats", "is_same")


class Repeats:
    """What becomes of repeats on one node."""

    __slots__ = ("_router",)

    def __init__(self, router: Endings) -> None:
        self._router = router

    def take(self, pending: Pending) -> None:
        """A request has its turn that came with an id that another had."""
        router, frame = self._router, pending.frame
        route = router.find(frame.kind, frame.type)
        if not pending.purse.remembers or (route is not None and not route.remembers):
            self._take_anew(pending)
            return
        roll = router.roll
        roll.expire(router.now_ms())
        first = roll.find(frame.metadata.id)
        if (
            first is None
            or not first.purse.remembers
            or (first.route is not None and not first.route.remembers)
        ):
            roll.take_over(pending)
            self._take_anew(pending)
            return
        if not is_same(first.frame, frame):
            router.books.conflicting += 1
            router.note(frame, "nobody")
            words = (
                f"the id {frame.metadata.id} was used for another request ({first.frame.kind} {first.frame.type}), with other "
                f"content; nothing was done: send this one with an id of its own"
            )
            router.fail(pending, CONFLICT, words)
            return
        router.note(frame, "repeat")
        if first.answer is not None:
            router.books.repeated += 1
            self._answer(pending, first.answer)
        else:
            router.books.joined += 1
            if first.joined is None:
                first.joined = []
            first.joined.append(pending)

    def _take_anew(self, pending: Pending) -> None:
        pending.stage = NEW
        self._router.take(pending)

    def settle_joined(self, first: Pending, answer: Frame) -> None:
        """A request has its answer: those that have joined it get it too."""
        joined, first.joined = first.joined, None
        for pending in joined or ():
            # Nobody may wait for it any more.
            if pending.stage != DONE:
                self._answer(pending, answer)

    def _answer(self, pending: Pending, answer: Frame) -> None:
        """The one end of a request that is the same as another: the same answer, in an envelope of its own."""
        router, own = self._router, pending.frame.metadata
        again = Frame(
            kind=answer.kind,
            type=answer.type,
            data=answer.data,
            metadata=Metadata(router.ids(), router.ids.last_ms, own.id, own.correlation),
        )
        router.close(pending)
        router.roll.leave(pending)
        router.note(again, "requester")
        if again.kind == "reply":
            router.books.answered += 1
        else:
            router.books.fail(again.type)
        if router.settle(pending, again):
            # What the client of the first has not got, it has got now.
            router.letters.claim(own.id)
        else:
            router.leave_unsettled(pending, again)
        if router.on_credit is not None:
            router.on_credit()


def is_same(first: Frame, other: Frame) -> bool:
    """Whether two requests have the same content: kind, type and data, however that is written."""
    if (first.kind, first.type) != (other.kind, other.type):
        return False
    one, two = bytes(first.data), bytes(other.data)
    return one == two or _plain(one) == _plain(two)


def _plain(data: bytes) -> bytes:
    """Data as it would be written here, in the order of its keys; as it is, if it has what Python does not."""
    try:
        return msgspec.json.encode(msgspec.json.decode(data), order="sorted")
    except (*DECODE_ERRORS, ValueError, TypeError):
        return data
