"""Who does a capability's work, where that is called here: an object with methods, or a function.

Both are driven alike: `perform` is given one message, and either deals with it at once or gives back a coroutine that does.
What a handler raises comes out, and ends the incarnation: except `Refused` and what the contract declares as a refusal, which are answers.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from bandstand.bus.contracts.discover import spoken
from bandstand.bus.contracts.messages import Message, Spoken
from bandstand.bus.faults import SCHEMA_ERROR, FaultAnswer
from bandstand.bus.hot.pending import Delivery, Pending
from bandstand.bus.outlet import Outlet
from bandstand.errors import BadMessage, OutboundFault, Refused

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from msgspec import Raw

    from bandstand.bus.contracts.shape import Shape
    from bandstand.bus.frame import Kind
    from bandstand.bus.seat import Seat

__all__ = ("Function", "Methods", "Performer")


class Performer(Protocol):
    """One incarnation of a capability."""

    # Any: the types of messages are the contract's affair.
    @property
    def handlers(self) -> tuple[Callable[[Any], Any], ...] | None:
        """What to call for each route and reply to with what it returns, by place; None to use `perform` instead."""
        ...

    @property
    def is_busy(self) -> bool:
        """Whether it is at something that its seat does not know of."""
        ...

    def start(self) -> Awaitable[None] | None:
        """Get ready."""
        ...

    def perform(self, item: Pending | Delivery) -> Coroutine[Any, Any, None] | None:
        """Deal with one message, and tell the seat when it is done."""
        ...

    def finish(self, item: Pending | Delivery, result: object) -> None:
        """Make an answer of what a handler's coroutine has returned."""
        ...

    def stop(self) -> Awaitable[None] | None:
        """The incarnation ends by wish, or has failed; its last turn."""
        ...

    def owed(self) -> Sequence[Pending]:
        """What it has taken and not answered, besides the message at hand."""
        ...

    def terminate(self) -> None:
        """The incarnation has ended."""
        ...


class Direct:
    """What handlers that are called here have in common."""

    __slots__ = ("_seat", "handlers")

    is_busy = False

    def __init__(self, seat: Seat, handlers: tuple[Callable[[Any], Any], ...] | None) -> None:
        self._seat = seat
        self.handlers = handlers

    def start(self) -> Awaitable[None] | None:
        """Nothing to get ready."""

    def stop(self) -> Awaitable[None] | None:
        """Nothing to release."""

    def owed(self) -> Sequence[Pending]:
        """Nothing: messages are dealt with one at a time."""
        return ()

    def terminate(self) -> None:
        """Nothing runs outside of the seat's actor."""

    def perform(self, item: Pending | Delivery) -> Coroutine[Any, Any, None] | None:
        """Call a handler that wants the whole envelope, or whose result is not simply the reply."""
        seat, route = self._seat, item.route
        assert route is not None
        payload = item.payload
        seat.sync_item = item
        try:
            if route.shape is not None:
                payload = self._shaped(route.shape, item)
            result: object = self._call(route.place, payload)
            if isinstance(result, Coroutine):
                return seat.await_result(item, cast("Coroutine[object, object, object]", result))
            self.finish(item, result)
        except Exception as error:
            if not seat.is_refused(item, error):
                raise
        finally:
            seat.sync_item = None
        seat.at_hand = None
        return None

    # Any, here and below: messages and results are whatever the contract says.
    @staticmethod
    def _shaped(shape: Shape, item: Pending | Delivery) -> Any:
        frame = item.frame
        try:
            return shape.build(frame.kind, frame.type, item.payload, frame.metadata)
        except BadMessage as problem:
            # A check of the envelope's own, which only now could be made.
            raise Refused(FaultAnswer(SCHEMA_ERROR, f"{frame.type}: {problem}", problem.path)) from None

    def _call(self, place: int, payload: Any) -> Any:
        raise NotImplementedError  # a hook: who derives from this fills it in

    def finish(self, item: Pending | Delivery, result: object) -> None:
        """Answer with what the handler has returned."""
        raise NotImplementedError  # a hook: who derives from this fills it in


class Methods(Direct):
    """An object of a class that derives from `Capability`."""

    __slots__ = ("_methods", "_object")

    # Any: an object of a class of the user's own; the blueprint has been read from that class.
    def __init__(self, seat: Seat, made: Any) -> None:
        made.bus = Outlet(seat.router, seat)
        self._object = made
        self._methods = tuple(getattr(made, str(route.method)) for route in seat.routes)
        super().__init__(seat, self._methods)

    def _call(self, place: int, payload: Any) -> Any:
        return self._methods[place](payload)

    def finish(self, item: Pending | Delivery, result: object) -> None:
        """The result is the reply."""
        self._seat.reply(item, result)

    def start(self) -> Awaitable[None] | None:
        """Call `on_start`."""
        started: Awaitable[None] | None = self._object.on_start()
        return started

    def stop(self) -> Awaitable[None] | None:
        """Call `on_stop`."""
        stopped: Awaitable[None] | None = self._object.on_stop()
        return stopped


class Function(Direct):
    """A function of one message, which gives back what is to be said: nothing, one message, or several."""

    __slots__ = ("_handler", "_outlet")

    def __init__(self, seat: Seat, handler: Callable[[Any], Any]) -> None:
        self._outlet = Outlet(seat.router, seat)
        self._handler = handler
        super().__init__(seat, None)

    def _call(self, place: int, payload: Any) -> Any:
        route = self._seat.routes[place]
        item = self._seat.sync_item
        if route.shape is None and item is not None and not isinstance(payload, Spoken):
            # Plain data does not say of what type it is.
            frame = item.frame
            payload = Message(kind=frame.kind, type=frame.type, data=payload, metadata=frame.metadata)
        return self._handler(payload)

    def finish(self, item: Pending | Delivery, result: object) -> None:
        """Say it all, in order; a request must have its answer among it.

        Raises:
            OutboundFault: something the contract does not allow; or no answer, or two.
        """
        outputs: Iterable[object]
        if result is None:
            outputs = ()
        elif isinstance(result, (list, tuple, Iterator)):
            # Not whatever can be iterated: a pydantic model can, and is one message.
            outputs = cast("Iterable[object]", result)
        else:
            outputs = (result,)
        answers = 0
        for output in outputs:
            kind, type_name, data = spoken(output)
            raw = self._seat.written(kind, type_name, data)
            if kind in {"reply", "error"}:
                self._answer(item, kind, type_name, raw, is_first=not answers)
                answers += 1
            else:
                self._outlet.pass_on(kind, type_name, raw)
        if type(item) is Pending and not answers:
            reply = None if item.route is None else item.route.reply
            if reply is not None and reply.kind is None:
                # It need not be said where the contract promises an empty one.
                self._seat.reply(item, None)
            else:
                raise OutboundFault(
                    f"{self._seat.id}: the handler of {item.frame.type} has given back neither a reply nor an error"
                )

    def _answer(
        self, item: Pending | Delivery, kind: Kind, type_name: str, raw: Raw, *, is_first: bool
    ) -> None:
        asked = item.frame
        if type(item) is not Pending or not is_first:
            raise OutboundFault(
                f"{self._seat.id}: {kind} {type_name} answers "
                f"{'a request twice' if type(item) is Pending else f'event {asked.type}'}, which is owed one answer at most"
            )
        if kind == "reply" and type_name != asked.type:
            raise OutboundFault(f"{self._seat.id}: reply {type_name} is no reply to {asked.type}")
        self._seat.answer(item, kind, type_name, raw)
