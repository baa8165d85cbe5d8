"""One incarnation of a capability, performed in an annex, from its start to its end."""

from __future__ import annotations

import asyncio
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING

from bandstand.actor import Loop
from bandstand.bus.annex.router import AnnexRouter
from bandstand.bus.annex.seat import AnnexSeat
from bandstand.bus.annex.will import Will
from bandstand.bus.contracts.declare import blueprint_of
from bandstand.bus.errands import Answered, Begin, Crashed, Done, Given, Ready, read_down, written
from bandstand.bus.hot.pending import Delivery, Pending
from bandstand.bus.numbers import ROUTED
from bandstand.bus.schedule import Due
from bandstand.bus.wire import read_frame, write_frame
from bandstand.core import ChildExit, ChildStart, Clock, Lane, LoopConfig
from bandstand.errors import OutboundFault
from bandstand.errors.formatting import describe_exception, safe_str, safe_traceback

if TYPE_CHECKING:
    from bandstand.bus.contracts.blueprint import Blueprint
    from bandstand.bus.contracts.capability import Capability, Provision
    from bandstand.bus.contracts.contract import Contract
    from bandstand.bus.frame import Frame
    from bandstand.bus.ports import Passage

__all__ = ("perform",)


async def perform(
    passage: Passage, source: type[Capability] | Provision | Contract, *, clock: Clock | None = None
) -> None:
    """Run one incarnation of a capability for the node at the other end, until it has ended, by wish or not.

    Args:
        passage: the way to the node.
        source: the capability, as a node would be given it.
        clock: where its time comes from; None for the machine's own.
    """
    errand = await passage.receive()
    if errand is None:
        return
    begin = read_down(errand)
    assert isinstance(begin, Begin)
    try:
        blueprint = blueprint_of(source)
    except Exception as error:  # noqa: BLE001  # whatever it is, the node is told, and says so
        passage.send(written(crash_of(error)))
        return
    loop = Loop(LoopConfig(), clock=clock)
    async with loop:
        await Annex(loop, passage, begin, replace(blueprint, elsewhere=None)).run()


def crash_of(error: BaseException) -> Crashed:
    """A failure in words."""
    if isinstance(error, MemoryError):
        # What its frames hold is what there is no memory for.
        traceback.clear_frames(error.__traceback__)
    is_fault = isinstance(error, OutboundFault)
    words = safe_str(error) if is_fault else describe_exception(error)
    return Crashed(is_fault, words, safe_traceback(error))


class Giver:
    """The node has given a request: its answer goes up."""

    __slots__ = ("_passage", "number")

    def __init__(self, passage: Passage, number: int) -> None:
        self._passage = passage
        self.number = number

    def settle(self, frame: Frame, _settles: bool, /) -> bool:
        """Send the answer."""
        self._passage.send(written(Answered(self.number, write_frame(frame))))
        return True


class Finished:
    """A handler has come to its end: said by way of the router, after all that the handler has said."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class Over:
    """The incarnation has ended, likewise."""

    __slots__ = ("cause",)

    def __init__(self, cause: BaseException | None) -> None:
        self.cause = cause


class Annex:
    """One capability, and what it needs of a node."""

    __slots__ = ("_events", "_over", "_passage", "_router", "_routes", "_schedule", "_seat")

    def __init__(self, loop: Loop, passage: Passage, begin: Begin, blueprint: Blueprint) -> None:
        self._passage = passage
        self._router = router = AnnexRouter(loop, begin, passage)
        router.schedule = self._schedule = schedule = Will(router, passage)
        self._seat = AnnexSeat(router, blueprint, on_risen=self._risen, on_finished=self._finished)
        router.seats = {self._seat.id: self._seat}
        router.handlers = {
            ChildExit: self._take_exit,
            # The seat has told already.
            ChildStart: lambda _start: None,
            Due: schedule.fire,
            Finished: self._tell_finished,
            Over: self._tell_over,
        }
        self._routes = {(route.entry.kind, route.type): route for route in self._seat.routes}
        # The numbers of events that are being handled.
        self._events: dict[Delivery, int] = {}
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Start it, give it what comes, until it has ended."""
        self._router.is_running = True
        self._seat.launch()
        reading = asyncio.get_running_loop().create_task(self._read())
        # A node that is gone needs nobody to be told.
        await asyncio.wait([reading, self._over], return_when=asyncio.FIRST_COMPLETED)
        self._router.is_running = False
        if reading.done():
            await reading
        reading.cancel()

    async def _read(self) -> None:
        while (errand := await self._passage.receive()) is not None:
            said = read_down(errand)
            if isinstance(said, Given):
                self._give(said.number, read_frame(said.frame))
            elif isinstance(said, Answered):
                self._router.hear(said.number, read_frame(said.frame))
            else:
                # As on a node that stops: what was to be sent later is not.
                self._schedule.cancel_all()
                self._seat.stop()

    def _give(self, number: int, frame: Frame) -> None:
        router, seat = self._router, self._seat
        route = self._routes[frame.kind, frame.type]
        item: Pending | Delivery
        # The node has read it already, so it can be read: unless a check of the capability's own says now this, now that.
        payload = route.read(frame.data)
        if frame.is_request:
            item = Pending(Giver(self._passage, number), frame, router.given, False)  # noqa: FBT003  # by position: it is hot
            item.stage, item.route, item.payload = ROUTED, route, payload
            router.given.used += 1
            if seat.is_worker:
                wait_ms = frame.metadata.timeout or route.timeout_ms
                item.timer = router.loop.send_after(router.actor, wait_ms, item, lane=Lane.CONTROL)
        else:
            item = Delivery(frame, route, payload)
            self._events[item] = number
        # There is room: the node gives no more than the mailbox holds. One that has just ended takes nothing any more, and then it
        # is the node that answers.
        if seat.actor is not None:
            router.loop.try_send(seat.actor, item)

    # -- what is told ------------------------------------------------------------------------------------------------------

    def _risen(self) -> None:
        """It has started."""
        self._passage.send(written(Ready(self._seat.is_worker)))

    def _finished(self, item: Pending | Delivery) -> None:
        """A handler has come to its end."""
        number = self._events.pop(item) if isinstance(item, Delivery) else giver_of(item).number
        self._router.post(Finished(number))

    def _tell_finished(self, finished: Finished) -> None:
        self._passage.send(written(Done(finished.number)))

    def _take_exit(self, exit_: ChildExit) -> None:
        """It has ended: after all that it has said, that is said too."""
        self._seat.fall(exit_.child)
        self._router.post(Over(exit_.cause))

    def _tell_over(self, over: Over) -> None:
        if over.cause is not None:
            self._passage.send(written(crash_of(over.cause)))
        self._over.set_result(None)


def giver_of(pending: Pending) -> Giver:
    """Who has given a request."""
    giver = pending.origin
    assert isinstance(giver, Giver)
    return giver
