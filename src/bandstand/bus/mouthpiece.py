"""What a capability that runs elsewhere says on the node: it is said here, as if it were said by somebody here.

What it asks is asked with the message at hand as its parent: so cycles are found through any number of processes. What it has scheduled for
later is its last will: if it ends before, the node does it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bandstand.bus.errands import Answered, Asked, Emitted, Later, TakenBack, Withdrawn, written
from bandstand.bus.faults import OVERLOADED
from bandstand.bus.hot.pending import Pending
from bandstand.bus.origin import NOBODY
from bandstand.bus.wire import read_frame, write_frame
from bandstand.errors import Refused

if TYPE_CHECKING:
    from bandstand.bus.frame import Frame
    from bandstand.bus.ports import Outpost
    from bandstand.bus.seat import Seat

__all__ = ("Mouthpiece",)

# How long to wait until it is tried again, when as many events wait to be routed as may. In seconds.
SOON = 0.001


class Relay:
    """The capability has asked something: the answer goes back to it."""

    __slots__ = ("_mouthpiece", "is_idle", "number")

    def __init__(self, mouthpiece: Mouthpiece, number: int, *, is_idle: bool) -> None:
        self._mouthpiece = mouthpiece
        self.number = number
        self.is_idle = is_idle

    def settle(self, frame: Frame, _settles: bool, /) -> bool:
        """Pass it on."""
        return self._mouthpiece.hear(self, frame)


class Mouthpiece:
    """Says on a node what one incarnation says that runs elsewhere."""

    __slots__ = ("_asked", "_now_ms", "_outpost", "_seat", "_wills")

    def __init__(self, seat: Seat, outpost: Outpost) -> None:
        self._seat = seat
        self._outpost = outpost
        self._now_ms = seat.router.loop.kernel.timers.elapsed_ms
        # What it has asked and was not answered.
        self._asked: dict[int, Pending] = {}
        # What it will send, by its id, and when by our clock.
        self._wills: dict[str, tuple[float, Frame]] = {}

    @property
    def is_busy(self) -> bool:
        """Whether it will say something."""
        return bool(self._wills)

    def _read(self, line: bytes) -> Frame:
        frame = read_frame(line)
        # If it was to be said later, it has been.
        self._wills.pop(frame.metadata.id, None)
        return frame

    async def say(self, said: Asked | Withdrawn | Emitted | Later | TakenBack) -> None:
        """Say it, as soon as there is room for it."""
        match said:
            case Emitted():
                await self._emit(said.frame)
            case Asked():
                self._ask(said)
            case Withdrawn():
                self._withdraw(said.number)
            case Later():
                frame = read_frame(said.frame)
                self._wills[frame.metadata.id] = (self._now_ms() + said.delay_ms, frame)
            case TakenBack():
                self._wills.pop(said.id, None)

    async def _emit(self, line: bytes) -> None:
        router, frame = self._seat.router, self._read(line)
        # Nothing more is read until there is room; in the end, the capability itself finds that there is none. That it is tried again
        # so soon costs nothing: the router has thousands of events to route meanwhile.
        while router.is_running and not router.post_event(frame):  # noqa: ASYNC110  # see above
            await asyncio.sleep(SOON)

    def _ask(self, said: Asked) -> None:
        seat = self._seat
        router, frame = seat.router, self._read(said.frame)
        relay = Relay(self, said.number, is_idle=said.is_idle)
        parent = seat.at_hand if said.is_awaited else None
        pending = Pending(relay, frame, router.inside, False, parent)  # noqa: FBT003  # by position: it is hot
        self._asked[said.number] = pending
        if not router.submit(pending):
            words = f"{pending.purse.used} requests of capabilities are under way, and the node allows {pending.purse.limit}"
            self.hear(relay, router.faults.make(OVERLOADED, words, request=frame))
        elif parent is not None:
            seat.awaits = pending

    def hear(self, relay: Relay, frame: Frame) -> bool:
        """Pass on an answer; False if nobody is there any more who has asked."""
        pending = self._take_asked(relay.number)
        if pending is not None:
            self._outpost.send(written(Answered(relay.number, write_frame(frame))))
        if not relay.is_idle:
            return pending is not None
        # As for what any capability sends without wanting to know: a reply is dropped, an error is not.
        router = self._seat.router
        if frame.kind == "error":
            router.sink(frame)
        else:
            router.books.unclaimed += 1
        return True

    def _withdraw(self, number: int) -> None:
        pending = self._take_asked(number)
        if pending is not None:
            self._seat.router.withdraw(pending)

    def _take_asked(self, number: int) -> Pending | None:
        pending = self._asked.pop(number, None)
        if pending is not None and self._seat.awaits is pending:
            self._seat.awaits = None
        return pending

    def close(self) -> None:
        """It has ended: it waits for nothing any more, and what it has scheduled is the node's."""
        router = self._seat.router
        asked, self._asked = self._asked, {}
        for pending in asked.values():
            if isinstance(pending.origin, Relay) and not pending.origin.is_idle:
                router.withdraw(pending)
        wills, self._wills = self._wills, {}
        if not router.is_draining:
            for due_ms, frame in wills.values():
                self._execute(due_ms, frame)

    def _execute(self, due_ms: float, frame: Frame) -> None:
        router, name = self._seat.router, self._seat.id
        assert router.schedule is not None
        try:
            router.schedule.add(frame, max(0, round(due_ms - self._now_ms())), NOBODY, "$")
        except Refused as refusal:
            said = f"{frame.type} was to be sent later by {name}, which has ended: {refusal}"
            router.sink(router.faults.make(OVERLOADED, said, request=frame, capability=name))
