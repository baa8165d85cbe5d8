"""What travels with a message besides its data: the sender's context variables, and what a tracer adds.

If nothing travels along, a message is its data and nothing else. Otherwise the data is in an `Envelope`. Only a context that
differs from the loop's own is worth one; two contexts with the same variables compare equal by one comparison of pointers.
"""

# current_context has one definition for each mode, and pyright sees one of them.
# pyright: reportPossiblyUnboundVariable=false
from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import Context, copy_context
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any, Protocol

from bandstand.actor.async_handlers import run_in_context, run_traced

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if not cython.compiled:
    # In compiled mode this is the C function, declared in the .pxd.
    current_context = copy_context

if TYPE_CHECKING:
    from bandstand.actor.dispatch import Method
    from bandstand.actor.handle import Handle
    from bandstand.core import ActorId
    from bandstand.core.context import ActorContext
    from bandstand.core.kernel import Kernel


class Tracer(Protocol):
    """Sees each message of typed actors where it is sent and where it is handled.

    A tracer is part of the call, not an observer: an exception it raises is raised in the sender, or in the handling actor.
    """

    def sending(self, target: ActorId, method: str) -> object:
        """Called on the sender's thread before a message is sent. The return value travels with the message."""
        ...

    def handling(self, target: ActorId, method: str, carried: Any) -> AbstractContextManager[Any]:
        """Called where the message is handled. The handler, also an async one, runs inside the returned context manager."""
        ...


class Envelope:
    """The data of a message, with the context it is handled in."""

    __slots__ = ("carried", "data")

    def __init__(self, data: object, carried: CarriedContext) -> None:
        self.data = data
        self.carried = carried


class CarriedContext:
    """The context that travels with a message: context variables, a tracer's value, or both."""

    __slots__ = ("context", "tracer", "value")

    def __init__(self, context: Context | None, tracer: Tracer | None, value: object) -> None:
        self.context = context
        self.tracer = tracer
        self.value = value

    def run(self, ctx: ActorContext, method: Method, work: Callable[[], Any]) -> Any:
        """Call `work` in the sender's context and inside the tracer. Return its result, or a coroutine to run."""
        if self.tracer is not None:
            work = self._traced(self.tracer, ctx, method, work)
        if self.context is None:
            return work()
        if method.awaits:
            return run_in_context(self.context, work)
        kernel: Any = ctx.self_id.home
        # Messages that the handler sends carry this context on.
        was_foreign, kernel.is_context_foreign = kernel.is_context_foreign, True
        try:
            result = self.context.run(work)
        finally:
            kernel.is_context_foreign = was_foreign
        return run_in_context(self.context, lambda: result) if iscoroutine(result) else result

    def fits(self, other: CarriedContext) -> bool:
        """Return whether one batch may hold both messages: they have the same context, and no tracer.

        A tracer sees each message separately.
        """
        return self.tracer is None and other.tracer is None and self.context == other.context

    def _traced(
        self, tracer: Tracer, ctx: ActorContext, method: Method, work: Callable[[], Any]
    ) -> Callable[[], Any]:
        def run() -> Any:
            manager = tracer.handling(ctx.self_id, f"{method.owner}.{method.name}", self.value)
            if method.awaits:
                return run_traced(manager, work)
            with manager:
                return work()

        return run


class ContextCarrier:
    """Wraps the data of messages that are sent through the handles of one loop.

    Args:
        home: the context that the loop's plain handlers run in.
        carries: whether context variables travel along.
        tracer: adds a value to each message; None for no tracer.
        pack: makes what is sent from handle, method and data, instead of all of the above; None for nearly every loop.
    """

    __slots__ = ("carries", "home", "pack", "tracer", "wraps_every_message")

    def __init__(
        self,
        home: Context,
        carries: bool,
        tracer: Tracer | None = None,
        pack: Callable[[Handle, Method, object], object] | None = None,
    ) -> None:
        self.home = home
        self.carries = carries
        self.tracer = tracer
        self.pack = pack
        # If only context variables can travel along, a plain handler's message is always its data: see `wrap`.
        self.wraps_every_message = tracer is not None or pack is not None

    def wrap(self, kernel: Kernel, handle: Handle, method: Method, data: object) -> object:
        """Return the data of a message to an actor of this loop, in an envelope if something travels along."""
        if self.pack is not None:
            return self.pack(handle, method, data)
        context: Context | None = None
        # A plain handler runs in the loop's own context, and all of them see what it sets there: nothing to carry.
        if self.carries and (kernel.is_context_foreign or not kernel.is_ticking or kernel.is_other_thread()):
            context = current_context()
            if context == self.home:
                context = None
        tracer = self.tracer
        if tracer is not None:
            value = tracer.sending(handle.__handle_actor__, f"{method.owner}.{method.name}")
            return Envelope(data, CarriedContext(context, tracer, value))
        return data if context is None else Envelope(data, CarriedContext(context, None, None))


def wrap_in(context: Context, data: object) -> Envelope:
    """Return the data of a message that is handled in a given context."""
    return Envelope(data, CarriedContext(context, None, None))
