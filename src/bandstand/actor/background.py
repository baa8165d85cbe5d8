"""Work in the background, owned by an actor: a coroutine of its own, whose result comes back as a message.

It is a child actor with one coroutine and no mailbox to speak of. So it has what every actor has: it is cancelled and waited
for when its parent ends, shows in the tree, and begins when somebody drives the loop. It is nobody's turn: the parent handles
messages meanwhile, and what the work waits for, the parent does not.
"""

# An actor keeps what the room needs under private names, to leave users theirs.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from asyncio import CancelledError, current_task
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any, final

from bandstand.actor.hot.port import land
from bandstand.actor.hot.reply import Reply
from bandstand.actor.jobs import Job, job_method
from bandstand.core.lowlevel import end_actor
from bandstand.errors import ActorFailed, BandstandError, InvalidArgument
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.actor.declaration import Schema
    from bandstand.actor.hot.handle import Handle
    from bandstand.core import ActorId, Loop
    from bandstand.core import Context as ActorContext

__all__ = ("Work",)


@final
class Work:
    """A piece of work in the background."""

    __slots__ = ("_actor", "_awaitable", "_failed", "_has_begun", "_loop", "_parent", "_schema", "_then")

    def __init__(
        self,
        loop: Loop,
        parent: Handle,
        schema: Schema,
        awaitable: Awaitable[Any],
        then: Callable[[Any], Any] | None,
        failed: Callable[[Exception], Any] | None,
    ) -> None:
        if isinstance(awaitable, Reply):
            # The turn that asked goes on without it.
            awaitable.detach()
        for callback in (then, failed):
            if callback is not None and not callable(callback):
                raise InvalidArgument(
                    f"{safe_repr(callback)} cannot be called: pass a function, self.got, and not what it returns"
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
        """The init of the actor that does it."""
        self._actor = ctx.self_id
        return Piece(self, self._run(ctx.self_id))

    def abandon(self) -> None:
        """It never begins: a coroutine that nobody will await is closed."""
        if not self._has_begun and iscoroutine(self._awaitable):
            self._awaitable.close()

    def cancel(self) -> bool:
        """Give it up: it is cancelled, and no message comes. False if it has ended."""
        actor, self._actor = self._actor, None
        if actor is None:
            return False
        with suppress(BandstandError):
            end_actor(self._loop, actor)
        return True

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return self._actor is None

    async def _run(self, actor: ActorId) -> None:
        if self._actor is None:
            # It was given up before it began: then it never does.
            self.abandon()
            return
        self._has_begun = True
        try:
            job = self._job_of(await self._awaitable)
        except CancelledError as error:
            if is_being_cancelled():
                raise
            # Not we were cancelled, but what we waited for.
            job = self._failure(ActorFailed("work in the background was cancelled by somebody else"), error)
        except Exception as error:  # noqa: BLE001  # whatever it raises, the parent decides
            job = self._failure(error, None)
        if job is not None:
            lane_and_method = job_method(self._schema, job.function)
            # It waits for room: a result is never lost to a full mailbox.
            await land(self._parent, lane_and_method[1], job)
        self._actor = None
        end_actor(self._loop, actor)

    def _failure(self, error: Exception, cause: BaseException | None) -> Job:
        if cause is not None:
            error.__cause__ = cause
        return Job(_fail if self._failed is None else self._failed, (error,), {})

    def _job_of(self, result: object) -> Job | None:
        return None if self._then is None else Job(self._then, (result,), {})


def is_being_cancelled() -> bool:
    """Whether somebody has cancelled the task we run in."""
    task = current_task()
    return task is not None and task.cancelling() > 0


def _fail(error: Exception) -> None:
    raise error


@final
class Piece(Coroutine[Any, Any, None]):
    """The coroutine that does it. Closed before it has begun, it closes what it was to wait for."""

    __slots__ = ("_inner", "_work")

    def __init__(self, work: Work, inner: Coroutine[Any, Any, None]) -> None:
        self._work = work
        self._inner = inner

    def send(self, value: Any) -> Any:
        """Go on."""
        return self._inner.send(value)

    def throw(self, *error: Any) -> Any:
        """Go on with an error."""
        return self._inner.throw(*error)

    def close(self) -> None:
        """End."""
        self._inner.close()
        self._work.abandon()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._inner.__await__()
