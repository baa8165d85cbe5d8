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

from bandstand.actor.reply import LocalReply
from bandstand.actor.timers import DeferredCall
from bandstand.errors import ActorFailedError, BandstandError, InvalidArgumentError
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from contextvars import Context

    from bandstand.actor.actor import OwnedChildren
    from bandstand.actor.timers import CallTarget
    from bandstand.core import ActorId
    from bandstand.core import Context as ActorContext

__all__ = ("Work", "checked_awaitable", "start_work", "work_name")


@final
class Work:
    """A piece of background work. `Actor.background` creates it; keep it to cancel the work."""

    __slots__ = (
        "_actor",
        "_awaitable",
        "_failed",
        "_has_begun",
        "_target",
        "_then",
    )

    def __init__(
        self,
        target: CallTarget,
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
        self._target = target
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
            self._target.loop.kernel.actors.stop_or_kill(actor)
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
            # This waits for room, so that a full mailbox does not lose the result.
            await self._target.send_when_room(call)
        self._actor = None
        self._target.loop.kernel.actors.stop_or_kill(actor)

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


# -- starting work -----------------------------------------------------------------------------------------------------


def checked_awaitable(work: Any) -> Awaitable[Any]:
    """Return what `background` was given, if it can be awaited.

    Raises:
        InvalidArgumentError: it cannot.
    """
    if not hasattr(work, "__await__"):
        raise InvalidArgumentError(
            f"work is {safe_repr(work)}, which is not awaitable: pass a coroutine, self.fetch(), not self.fetch"
        )
    awaitable: Awaitable[Any] = work
    return awaitable


def start_work(piece: Work, target: CallTarget, children: OwnedChildren, name: str, context: Context) -> None:
    """Start a piece of work as a child of the actor that gets its result. The child is added to `children`."""
    actors = target.loop.kernel.actors
    try:
        child = actors.spawn_child(
            _ignore_message,
            piece.begin,
            name=name,
            cap=actors.checked_cap(None),
            supervisor=target.actor,
            context=context,
        )
    except BaseException:  # the loop has no room for the child, or is closing
        piece.abandon()
        raise
    children.add(child, name, reports_exit=False)


def work_name(work: object) -> str:
    """Return the name of the child that does a piece of work, for the tree."""
    return f"background {getattr(work, '__qualname__', type(work).__name__)}"


def _ignore_message(_ctx: Any, _data: Any) -> None:
    """The behavior of a child actor that only has an init function."""
