"""Background work of an actor: a coroutine that runs beside its messages, and whose result comes back as a message.

The work runs in a child actor that has one coroutine and receives no messages. So it behaves like any actor: it is cancelled and
awaited when its parent ends, it appears in the tree, and it starts when the loop runs. It takes no turn of the parent, which
handles messages meanwhile and does not wait for what the work waits for.
"""

from __future__ import annotations

from asyncio import CancelledError, current_task
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any, final

from bandstand.actor.handle import tell_when_room
from bandstand.actor.reply import LocalReply
from bandstand.actor.timers import DeferredCall, lane_and_method
from bandstand.errors import ActorFailedError, BandstandError, InvalidArgumentError
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.actor.declaration import ActorSchema
    from bandstand.actor.handle import Handle
    from bandstand.core import ActorId, Loop
    from bandstand.core import Context as ActorContext

__all__ = ("Work",)


@final
class Work:
    """A piece of background work. `Actor.background` creates it; keep it to cancel the work."""

    __slots__ = (
        "_actor",
        "_awaitable",
        "_failed",
        "_has_begun",
        "_loop",
        "_parent",
        "_schema",
        "_then",
    )

    def __init__(
        self,
        loop: Loop,
        parent: Handle,
        schema: ActorSchema,
        awaitable: Awaitable[Any],
        then: Callable[[Any], Any] | None,
        failed: Callable[[Exception], Any] | None,
    ) -> None:
        if isinstance(awaitable, LocalReply):
            # The work waits for the reply, not the turn that asked.
            awaitable.detach()
        for callback in (then, failed):
            if callback is not None and not callable(callback):
                raise InvalidArgumentError(
                    f"{safe_repr(callback)} is not callable: pass the function, self.got, not its result"
                )
        self._loop = loop
        self._parent = parent
        self._schema = schema
        self._awaitable = awaitable
        self._then = then
        self._failed = failed
        self._actor: ActorId | None = None
        self._has_begun = False

    def begin(self, ctx: ActorContext[Any]) -> Any:
        """Return the coroutine that does the work. This is the init function of the child actor."""
        self._actor = ctx.self_id
        return WorkCoroutine(self, self._run(ctx.self_id))

    def abandon(self) -> None:
        """Close the coroutine if the work has not begun, so that Python does not warn that it was never awaited."""
        if not self._has_begun and iscoroutine(self._awaitable):
            self._awaitable.close()

    def cancel(self) -> bool:
        """Cancel the work: neither callback is called. False if the work has ended."""
        actor, self._actor = self._actor, None
        if actor is None:
            return False
        with suppress(BandstandError):
            self._loop.kernel.actors.stop_or_kill(actor)
        return True

    @property
    def is_done(self) -> bool:
        """Whether the work has ended or was cancelled."""
        return self._actor is None

    async def _run(self, actor: ActorId) -> None:
        if self._actor is None:
            # Cancelled before it began.
            self.abandon()
            return
        self._has_begun = True
        call: DeferredCall | None
        try:
            result = await self._awaitable
            call = None if self._then is None else DeferredCall(self._then, (result,), {})
        except CancelledError as error:
            if _is_being_cancelled():
                raise
            # The awaitable was cancelled, not this task.
            failure = ActorFailedError("what the background work waited for was cancelled")
            failure.__cause__ = error
            call = self._failure_call(failure)
        except Exception as error:  # noqa: BLE001  # the parent decides about any exception
            call = self._failure_call(error)
        if call is not None:
            _, method = lane_and_method(self._schema, call.function)
            # This waits for room, so that a full mailbox does not lose the result.
            await tell_when_room(self._parent, method, call)
        self._actor = None
        self._loop.kernel.actors.stop_or_kill(actor)

    def _failure_call(self, error: Exception) -> DeferredCall:
        return DeferredCall(_raise if self._failed is None else self._failed, (error,), {})


def _is_being_cancelled() -> bool:
    task = current_task()
    return task is not None and task.cancelling() > 0


def _raise(error: Exception) -> None:
    raise error


@final
class WorkCoroutine(Coroutine[Any, Any, None]):
    """The coroutine of a `Work`. If it is closed before it starts, it also closes what it was to await."""

    __slots__ = ("_inner", "_work")

    def __init__(self, work: Work, inner: Coroutine[Any, Any, None]) -> None:
        self._work = work
        self._inner = inner

    def send(self, value: Any) -> Any:
        """Resume the coroutine."""
        return self._inner.send(value)

    def throw(self, *error: Any) -> Any:
        """Resume the coroutine with an exception."""
        return self._inner.throw(*error)

    def close(self) -> None:
        """Close the coroutine."""
        self._inner.close()
        self._work.abandon()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._inner.__await__()
