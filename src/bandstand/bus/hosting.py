"""Workers: objects of people's own that take messages and say things in their own time, and so answer for themselves.

The seat's actor hands each message over and is done with it; what the Worker says comes by its `onmessage`, is held against the
contract, and is matched with its request by the causation it names. A Worker that reports an error is started again, and what it
still owes is answered for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from bandstand.bus.contracts.discover import spoken
from bandstand.bus.contracts.messages import Message
from bandstand.bus.deputy import Deputy
from bandstand.bus.frame import Frame
from bandstand.bus.hot.pending import Delivery, Pending
from bandstand.bus.numbers import DONE
from bandstand.bus.outlet import Outlet
from bandstand.bus.performers import Function, Methods, Performer
from bandstand.bus.wire import DECODE_ERRORS
from bandstand.bus.worker import worker_of
from bandstand.errors import BadContract, OutboundFault
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Sequence

    from msgspec import Raw

    from bandstand.bus.frame import Kind
    from bandstand.bus.seat import Seat
    from bandstand.bus.worker import ErrorEvent, MessageEvent, Worker

__all__ = ("WorkerHost", "performer_of")

# What was given to a Worker and has been answered by its deadline is forgotten when this much is waiting, or twice what is left.
SWEEP = 64
# How many messages are remembered that a Worker was given, for what follows from them.
KNOWN = 1024


def performer_of(seat: Seat) -> Performer:
    """Make an incarnation.

    Raises:
        BadContract: what `spawn` made is neither a function nor a Worker.
    """
    elsewhere = seat.blueprint.elsewhere
    if elsewhere is not None:
        return Deputy(seat, elsewhere)
    made = seat.blueprint.make()
    if seat.blueprint.is_class:
        return Methods(seat, made)
    worker = worker_of(made, seat.id)
    if worker is not None:
        return WorkerHost(seat, worker)
    if callable(made):
        return Function(seat, made)
    raise BadContract(
        f"{seat.id}: spawn has made {safe_repr(made)}: it must make a function of one message, or an object with post_message()"
    )


class Correspondent:
    """A Worker that has sent a request: the answer is posted to it as a message."""

    __slots__ = ("_host",)

    def __init__(self, host: WorkerHost) -> None:
        self._host = host

    def settle(self, frame: Frame, _settles: bool, /) -> bool:
        """Post the answer."""
        return self._host.hear(frame)


class WorkerHost:
    """An object shaped like a Worker, in a seat."""

    __slots__ = ("_is_over", "_known", "_outlet", "_seat", "_sweep_at", "_waiting", "_worker")

    def __init__(self, seat: Seat, worker: Worker) -> None:
        self._seat = seat
        self._worker = worker
        self._outlet = Outlet(seat.router, seat)
        self._is_over = False
        # What it was given and has not answered, by the id that it knows it by.
        self._waiting: dict[str, Pending] = {}
        self._sweep_at = SWEEP
        # The last messages it was given, likewise: what it says follows from one of them.
        self._known: dict[str, Pending | Delivery] = {}

    handlers = None

    def finish(self, item: Pending | Delivery, result: object) -> None:
        """A Worker's handlers are its own affair."""
        raise NotImplementedError  # never called: it has no handlers of ours

    @property
    def is_busy(self) -> bool:
        """Whether it owes an answer, or says itself that it is at something."""
        self._sweep()
        return bool(self._waiting) or getattr(self._worker, "is_idle", True) is False

    def start(self) -> Awaitable[None] | None:
        """Listen to it."""
        self._worker.add_event_listener("message", self._heard)
        self._worker.add_event_listener("error", self._failed)
        return None

    def perform(self, item: Pending | Delivery) -> Coroutine[Any, Any, None] | None:
        """Hand over the message, unless as much waits for it as may."""
        seat, frame, metadata = self._seat, item.frame, item.frame.metadata
        seat.at_hand = None
        if self._is_full(item):
            seat.turn_away(item)
            return None
        if metadata.id in self._known or metadata.id in self._waiting:
            # Another message with this id was given to it, and what it says about that one may still come: this one gets another
            # name, of which nobody but the worker hears.
            metadata = msgspec.structs.replace(metadata, id=seat.router.ids())
        self._known[metadata.id] = item
        if len(self._known) > KNOWN:
            del self._known[next(iter(self._known))]
        if type(item) is Pending:
            self._waiting[metadata.id] = item
        try:
            self._worker.post_message(
                Message(kind=frame.kind, type=frame.type, data=item.payload, metadata=metadata)
            )
        except BaseException:  # whatever it was, it is raised again: only what is at hand is put right
            # What it was at is answered with the reason why it has failed.
            self._waiting.pop(metadata.id, None)
            seat.at_hand = item
            raise
        return None

    def _is_full(self, item: Pending | Delivery) -> bool:
        if type(item) is Pending and len(self._waiting) >= min(self._sweep_at, self._seat.cap):
            self._sweep()
        waiting: object = getattr(self._worker, "backlog", 0)
        return len(self._waiting) >= self._seat.cap or (
            isinstance(waiting, int) and waiting >= self._seat.cap
        )

    def hear(self, frame: Frame) -> bool:
        """Post the answer to a request of the Worker's own; False if it has ended, or the data has what Python does not."""
        if self._is_over:
            return False
        try:
            data = msgspec.json.decode(frame.data)
        except DECODE_ERRORS:
            return False
        try:
            self._worker.post_message(
                Message(kind=frame.kind, type=frame.type, data=data, metadata=frame.metadata)
            )
        except Exception as error:  # noqa: BLE001  # whatever it is, it is this capability's, and not the router's
            self._end(error)
        return True

    # -- what it says ------------------------------------------------------------------------------------------------------

    def _heard(self, event: MessageEvent) -> None:
        if self._is_over:
            return
        seat = self._seat
        try:
            kind, type_name, data = spoken(event.data)
            said = getattr(event.data, "metadata", None)
            causation = getattr(said, "causation", None) or event.causation
            item = self._cause(causation)
            raw = seat.written(kind, type_name, data)
            # What it follows from may be an event, or have been answered.
            seat.sync_item = item if causation is None else self._known.get(causation, item)
            try:
                if kind in {"reply", "error"}:
                    self._answer(item, kind, type_name, raw)
                else:
                    self._outlet.pass_on(kind, type_name, raw, Correspondent(self))
            finally:
                seat.sync_item = None
        except Exception as error:  # noqa: BLE001  # whatever it is, it is this capability's, and ends this incarnation
            self._end(error)

    def _cause(self, causation: str | None) -> Pending | None:
        """The request that something follows from, if it has not been answered."""
        if causation is not None:
            return self._waiting.get(causation)
        # What does not say what it follows from can only be about the one request there is.
        self._sweep()
        return next(iter(self._waiting.values())) if len(self._waiting) == 1 else None

    def _answer(self, item: Pending | None, kind: Kind, type_name: str, raw: Raw) -> None:
        seat = self._seat
        seat.note_answer()
        if item is None:
            # Too late, or a second time: discarded and counted, as an answer after its deadline is.
            seat.router.discard(kind, type_name, raw)
            return
        if kind == "reply" and type_name != item.frame.type:
            raise OutboundFault(f"{seat.id}: reply {type_name} is no reply to {item.frame.type}")
        self._forget(item)
        seat.answer(item, kind, type_name, raw)

    def _forget(self, item: Pending) -> None:
        # Nearly always under its own id, and else under the one that it was given.
        name = item.frame.metadata.id
        if self._waiting.get(name) is not item:
            name = next(key for key, each in self._waiting.items() if each is item)
        del self._waiting[name]

    def _sweep(self) -> None:
        self._waiting = {key: item for key, item in self._waiting.items() if item.stage != DONE}
        self._sweep_at = max(SWEEP, 2 * len(self._waiting))

    # -- its end -----------------------------------------------------------------------------------------------------------

    def _failed(self, event: ErrorEvent) -> None:
        if self._is_over:
            return
        error = event.error
        if not isinstance(error, Exception) or not self._seat.is_refusal(error):
            self._end(error)
            return
        self._seat.note_answer()
        item = self._cause(event.causation)
        if item is None:
            # An event, to which nobody waits for an answer; or too late.
            return
        try:
            self._seat.is_refused(item, error)
            self._forget(item)
        except OutboundFault as fault:
            self._end(fault)

    def _end(self, error: BaseException) -> None:
        self._is_over = True
        self._seat.crash(error)

    def stop(self) -> Awaitable[None] | None:
        """Nothing yet: `terminate` comes in any case."""
        return None

    def owed(self) -> Sequence[Pending]:
        """What it was given and has not answered."""
        return list(self._waiting.values())

    def terminate(self) -> None:
        """Terminate it; what it has not answered, the router does."""
        self._is_over = True
        self._worker.remove_event_listener("message", self._heard)
        self._worker.remove_event_listener("error", self._failed)
        self._worker.terminate()
