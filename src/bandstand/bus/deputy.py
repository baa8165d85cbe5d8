"""A deputy has the seat of a capability that runs elsewhere: it hands over what comes for it, and says on the node what it says.

For the node nothing is different: the seat has a mailbox, a supervisor and a deadline for each request, and whoever sits there owes one answer
for the message at hand. The handler itself is at the other end of a passage (see `annex`). One message at a time is over there, as one at
a time would be at hand here, and the next follows when the handler has come to its end: so a process that dies, in whatever way, costs the
one request that it was at, and those that wait are still here for the next. To hand over several would be faster, and cost as many. (A Worker
takes several at a time, here as there, and owes them all.)

An incarnation has failed when its process has ended, or says that it does; the seat hears of it only when nothing is left of that process. So
whoever has heard of a failure, or of the end of the node, can be sure of that too.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from bandstand.bus.errands import (
    Answered,
    Begin,
    Crashed,
    Discarded,
    Done,
    Given,
    Ready,
    Stop,
    read_up,
    written,
)
from bandstand.bus.hot.pending import Delivery, Pending
from bandstand.bus.mouthpiece import Mouthpiece
from bandstand.bus.numbers import DONE
from bandstand.bus.wire import read_frame, write_frame
from bandstand.errors import ActorFailed, BadMessage, OutboundFault

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Sequence

    from bandstand.bus.errands import Up
    from bandstand.bus.ports import Elsewhere, Outpost
    from bandstand.bus.seat import Seat

__all__ = ("Deputy", "Fallen")

# How long a capability has to stop: a little less than its supervisor gives the deputy. In seconds, as is the next.
PATIENCE = 4.5
# How long one that has no more to say may take to be gone.
LAST_BREATH = 1.0


class Fallen(ActorFailed):
    """A capability that runs elsewhere has failed; says how, in its own words."""


class Deputy:
    """Who sits in the seat of a capability that runs elsewhere. One for each incarnation."""

    __slots__ = (
        "_elsewhere",
        "_failure",
        "_given",
        "_is_gone",
        "_is_over",
        "_is_worker",
        "_mouthpiece",
        "_numbers",
        "_outpost",
        "_reading",
        "_ready",
        "_seat",
        "_turn",
    )

    def __init__(self, seat: Seat, elsewhere: Elsewhere) -> None:
        self._seat = seat
        self._elsewhere = elsewhere
        self._outpost: Outpost | None = None
        self._mouthpiece: Mouthpiece | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] | None = None
        # Done when the handler at hand has come to its end.
        self._turn: asyncio.Future[None] | None = None
        self._is_worker = False
        # Whether its end is no failure any more; and whether nothing that it says matters.
        self._is_over = self._is_gone = False
        self._failure: Exception | None = None
        self._numbers = count(1)
        # What is over there.
        self._given: dict[int, Pending | Delivery] = {}

    handlers = None

    def finish(self, item: Pending | Delivery, result: object) -> None:
        """The handlers are elsewhere."""
        raise NotImplementedError  # never called: it has no handlers of ours

    @property
    def is_busy(self) -> bool:
        """Whether it owes an answer, or has something scheduled."""
        return bool(self._given) or (self._mouthpiece is not None and self._mouthpiece.is_busy)

    # -- life ------------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin an incarnation, and wait until it is ready."""
        seat = self._seat
        self._outpost = outpost = await self._elsewhere.open(seat.id)
        self._mouthpiece = mouthpiece = Mouthpiece(seat, outpost)
        running = asyncio.get_running_loop()
        self._ready = running.create_future()
        self._reading = running.create_task(self._read(outpost, mouthpiece))
        index = seat.router.index
        known = () if index is None else tuple(index.handlers)
        outpost.send(written(Begin(seat.router.config, known)))
        await self._ready
        if self._failure is not None:
            raise self._failure

    def stop(self) -> Awaitable[None] | None:
        """Have it end in good order, in its time; what it says meanwhile is still said."""
        if self._is_over or self._outpost is None or self._reading is None:
            return None
        return self._stop(self._outpost, self._reading)

    async def _stop(self, outpost: Outpost, reading: asyncio.Task[None]) -> None:
        self._is_over = True
        outpost.send(written(Stop()))
        await asyncio.wait([reading], timeout=PATIENCE)
        outpost.kill()
        await asyncio.wait([reading])

    def owed(self) -> Sequence[Pending]:
        """What is over there, and has perhaps not been answered."""
        return [item for item in self._given.values() if type(item) is Pending]

    def terminate(self) -> None:
        """It has ended, or does now."""
        self._is_over = self._is_gone = True
        if self._mouthpiece is not None:
            self._mouthpiece.close()
        if self._outpost is not None:
            self._outpost.kill()
        reading = self._reading
        if reading is not None and not reading.done():
            departing = self._seat.router.departing
            departing.add(reading)
            reading.add_done_callback(departing.discard)

    # -- what it is given --------------------------------------------------------------------------------------------------

    def perform(self, item: Pending | Delivery) -> Coroutine[Any, Any, None] | None:
        """Hand over a message; unless it is a Worker's, see its handler to the end."""
        seat = self._seat
        assert self._outpost is not None
        if self._is_worker and self._is_full():
            seat.at_hand = None
            seat.turn_away(item)
            return None
        number = next(self._numbers)
        self._given[number] = item
        self._outpost.send(written(Given(number, write_frame(item.frame))))
        if self._is_worker:
            seat.at_hand = None
            return None
        self._turn = asyncio.get_running_loop().create_future()
        return self._await_turn(self._turn)

    async def _await_turn(self, turn: asyncio.Future[None]) -> None:
        await turn
        # Not in a finally: what is at hand when this is cancelled, the ward answers.
        self._seat.at_hand = None

    def _is_full(self) -> bool:
        cap = self._seat.cap
        if len(self._given) >= cap:
            # Those whose deadline has passed are not waited for.
            self._given = {number: item for number, item in self._given.items() if not is_expired(item)}
        return len(self._given) >= cap

    # -- what it says ------------------------------------------------------------------------------------------------------

    async def _read(self, outpost: Outpost, mouthpiece: Mouthpiece) -> None:
        """Do what it says, until it is gone."""
        failure: Exception | None = None
        try:
            while failure is None and (errand := await outpost.receive()) is not None:
                if not self._is_gone:
                    failure = await self._take(read_up(errand), mouthpiece)
        except (BadMessage, msgspec.MsgspecError) as problem:
            failure = OutboundFault(f"{self._seat.id} has said what cannot be read: {problem}")
        ending = asyncio.ensure_future(outpost.wait())
        await asyncio.wait([ending], timeout=LAST_BREATH)
        outpost.kill()
        how = await ending
        self._fail(failure or Fallen(f"its process has ended: {how}"))

    def _fail(self, failure: Exception) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._failure = failure
        if not self._tell_ready():
            self._seat.crash(failure)

    def _tell_ready(self) -> bool:
        """Have the start go on; False if it has."""
        if self._ready is None or self._ready.done():
            return False
        self._ready.set_result(None)
        return True

    async def _take(self, said: Up, mouthpiece: Mouthpiece) -> Exception | None:
        """Do one thing that it says. What comes back is what it has failed with, if it says that."""
        match said:
            case Answered():
                self._answer(said)
            case Done():
                self._end_turn(said.number)
            case Discarded():
                self._seat.router.discard(said.kind, said.type, Raw(said.data))
            case Ready():
                self._is_worker = said.is_worker
                self._tell_ready()
            case Crashed():
                return failure_of(said)
            case _:
                await mouthpiece.say(said)
        return None

    def _answer(self, said: Answered) -> None:
        item = self._given.get(said.number)
        if type(item) is Pending:
            if self._is_worker:
                del self._given[said.number]
                self._seat.note_answer()
            self._seat.router.answer(item, read_frame(said.frame))

    def _end_turn(self, number: int) -> None:
        if self._is_worker and type(self._given.get(number)) is Pending:
            # It was posted, and will be answered.
            return
        self._given.pop(number, None)
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)


def is_expired(item: Pending | Delivery) -> bool:
    """Whether it is a request that has been answered, in whatever way."""
    return type(item) is Pending and item.stage == DONE


def failure_of(said: Crashed) -> Exception:
    """What it has failed with, as far as that can travel."""
    failure = OutboundFault(said.words) if said.is_fault else Fallen(said.words)
    failure.add_note(said.trace)
    return failure
