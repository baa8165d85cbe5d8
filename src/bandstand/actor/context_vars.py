"""What travels with a message besides its data: the sender's context variables, and whatever a tracer gives along.

The packing is in `hot.porter`; here is what a parcel does where it arrives.
"""

# An actor keeps what the room needs under private names, to leave users theirs.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from contextvars import Context
from inspect import iscoroutine
from types import coroutine
from typing import TYPE_CHECKING, Any, Protocol, final

from bandstand.actor.hot.porter import Porter
from bandstand.actor.hot.stage import gather, handle

if TYPE_CHECKING:
    from bandstand.actor.hot.handle import Handle
    from bandstand.actor.hot.method import Method
    from bandstand.core import ActorId
    from bandstand.core.hot.turn import Turn

__all__ = ("Tracer", "make_porter")


class Tracer(Protocol):
    """Watches messages of typed actors where they are sent and where they are handled.

    It is part of the call, and no observer: what it raises is raised there, in the sender, or in the handler's actor.
    """

    def sending(self, target: ActorId, method: str) -> object:
        """Called where a message is sent, before it is, on the sender's thread. What it returns travels with the message."""
        ...

    def handling(self, target: ActorId, method: str, carried: Any) -> AbstractContextManager[Any]:
        """Called where it is handled. What it returns is entered around the handler, until an async one has ended."""
        ...


def make_porter(home: Context, tracer: Tracer | None, *, carries: bool) -> Porter | None:
    """What packs the messages of a loop; None if nothing is to travel along."""
    if tracer is None:
        return Porter(home, True, None, _plain_luggage) if carries else None  # noqa: FBT003  # by position in C

    def sending(handle: Handle, method: Method) -> object:
        return tracer.sending(handle._bs_actor, _name(method))

    def luggage(context: Context | None, carried: object) -> Luggage:
        return Luggage(context, tracer, carried)

    return Porter(home, carries, sending, luggage)


def _plain_luggage(context: Context | None, _carried: object) -> Luggage:
    return Luggage(context, None, None)


def _name(method: Method) -> str:
    return f"{method.owner}.{method.name}"


@final
class Luggage:
    """What travels along, and how a message is handled that has it."""

    __slots__ = ("_carried", "_context", "_tracer")

    def __init__(self, context: Context | None, tracer: Tracer | None, carried: object) -> None:
        self._context = context
        self._tracer = tracer
        self._carried = carried

    def handle(self, turn: Turn, method: Method, data: object) -> Any:
        """Handle a message: in the sender's context, and in what the tracer says."""
        work: Callable[[], Any] = lambda: handle(turn, method, data)  # noqa: E731  # a partial could not be told from it
        if method.limit > 0:
            work = lambda: gather(turn, method, data, self)  # noqa: E731  # same
        if self._tracer is not None:
            work = self._traced(self._tracer, turn, method, work)
        if self._context is None:
            return work()
        if method.awaits:
            return inside(self._context, work)
        loop = turn.loop
        # What is sent from here on takes this context along.
        was_abroad, loop._abroad = loop._abroad, True
        try:
            result = self._context.run(work)
        finally:
            loop._abroad = was_abroad
        return inside(self._context, lambda: result) if iscoroutine(result) else result

    def fits(self, other: Luggage) -> bool:
        """Whether a message with that luggage can be handled together with ours: in one context, and by no tracer.

        A tracer sees each message by itself.
        """
        return self._tracer is None and other._tracer is None and self._context == other._context

    def _traced(
        self, tracer: Tracer, turn: Turn, method: Method, work: Callable[[], Any]
    ) -> Callable[[], Any]:
        name = _name(method)

        def run() -> Any:
            manager = tracer.handling(turn.self_id, name, self._carried)
            if method.awaits:
                return _traced_coroutine(manager, work)
            with manager:
                return work()

        return run


async def _traced_coroutine(manager: AbstractContextManager[Any], work: Callable[[], Any]) -> Any:
    with manager:
        result = work()
        return await result if iscoroutine(result) else result


async def inside(context: Context, make: Callable[[], Any]) -> Any:
    """Perform a coroutine in a context, inside whoever performs us. It is made in here: if we never begin, nothing does."""
    work = context.run(make)
    # There may be nothing to do any more: an ask that was taken back.
    return await _steps_inside(context, work) if iscoroutine(work) else work


@coroutine
def _steps_inside(context: Context, work: Any) -> Generator[Any, Any, Any]:
    step: Callable[..., Any] = work.send
    value: Any = None
    while True:
        try:
            yielded = context.run(step, value)
        except StopIteration as stop:
            return stop.value
        try:
            value = yield yielded
            step = work.send
        except GeneratorExit:
            work.close()
            raise
        except BaseException as error:  # noqa: BLE001  # a cancellation, or what it waited for has failed with
            step, value = work.throw, error
