"""What a scope owns: a task, an actor, or an actor that consumes a channel; how each is ended, and what its end says.

All of them tell their scope of their end exactly once, from a turn of the event loop that is nobody else's: never inside the
exit of an actor, where nothing may be done.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, final

from bandstand.core import ActorId, ExitReason, Loop
from bandstand.core.lifelines import answer_for, is_current, mourn
from bandstand.core.lowlevel import close_mailbox, end_actor
from bandstand.errors import ActorKilled, ChildFailed, LoopClosed, NoSuchActor

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task

    from bandstand.scope.channelactor import ChannelActor

__all__ = ("ActorChild", "Child", "ConsumerChild", "Ended", "Handle", "HasActorId", "TaskChild")

# A scope takes in tasks of every result and consumers of every element, and looks at neither.
Handle: TypeAlias = "Task[Any] | ChannelActor[Any] | ActorId"


class HasActorId(Protocol):
    """What stands for an actor: a typed handle, a supervisor. The rooms they are made in are above this one."""

    def __actor_id__(self) -> ActorId:
        """The id of the actor; of its present incarnation, if it is started again."""
        ...


class Child(Protocol):
    """One of those that a scope owns."""

    ends_by_itself: ClassVar[bool]
    """Whether the end of the block waits for it to end; if not, it is asked to."""

    @property
    def handle(self) -> Handle:
        """What its user knows it by."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether it has ended, though the scope may not have been told yet."""
        ...

    def watch(self) -> None:
        """Begin to tell of its end; now, if it has ended."""
        ...

    def cancel(self, reason: str) -> None:
        """Have it end soon. Asking again changes nothing."""
        ...

    def drain(self) -> None:
        """Have it finish what it has got, and end."""
        ...

    def kill(self) -> bool:
        """End it at once; False if it is of a kind that cannot be ended."""
        ...


Ended: TypeAlias = Callable[[Child, BaseException | None], object]


@final
class TaskChild:
    """A task. What it raises is its error; that it was cancelled is none."""

    __slots__ = ("_ended", "handle")

    ends_by_itself: ClassVar[bool] = True

    def __init__(self, task: Task[Any], ended: Ended) -> None:
        self.handle = task
        self._ended = ended

    def watch(self) -> None:
        """Begin to tell; at once, if it began eagerly and has ended."""
        if self.handle.done():
            self._done(self.handle)
        else:
            self.handle.add_done_callback(self._done)

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.handle.done()

    def cancel(self, reason: str) -> None:
        """Cancel it, as asyncio does."""
        self.handle.cancel(reason)

    def drain(self) -> None:
        """It ends by itself."""

    def kill(self) -> bool:
        """Nothing can end a task that does not want to."""
        return False

    def _done(self, task: Task[Any]) -> None:
        self._ended(self, None if task.cancelled() else task.exception())


class ActorChild:
    """An actor. The cause of an abnormal end is its error, unless the scope itself has killed it."""

    __slots__ = ("_ended", "_host", "_is_killed", "_loop", "actor", "is_over")

    ends_by_itself: ClassVar[bool] = False

    def __init__(self, loop: Loop, actor: ActorId, host: AbstractEventLoop, ended: Ended) -> None:
        self._loop = loop
        self.actor = actor
        self._host = host
        self._ended = ended
        self._is_killed = False
        self.is_over = False

    def watch(self) -> None:
        """Begin to tell."""
        answer_for(self._loop, self.actor)
        mourn(self._loop, self.actor, self._mourned)

    @property
    def handle(self) -> Handle:
        """Its id."""
        return self.actor

    def is_asking(self) -> bool:
        """Whether the caller is the actor itself, in its turn."""
        return is_current(self._loop, self.actor)

    def cancel(self, reason: str) -> None:  # noqa: ARG002  # an actor is not told why
        """Stop it."""
        end_actor(self._loop, self.actor)

    def drain(self) -> None:
        """Have it handle what is in its mailbox, and end. A supervisor's children end with it, as they always do."""
        # A loop that was asked to stop ends it by itself.
        with suppress(NoSuchActor, LoopClosed):
            close_mailbox(self._loop, self.actor)

    def kill(self) -> bool:
        """End it without waiting for what it does."""
        self._is_killed = True
        end_actor(
            self._loop, self.actor, ActorKilled("its scope was cancelled, and it had not ended in time")
        )
        return True

    def _mourned(self, reason: ExitReason, cause: BaseException | None) -> None:
        """It has ended; this is inside of its exit, so the scope is told in the next turn.

        A channel actor has asked before us to be told: whoever waits for its end hears of it before the scope does.
        """
        self.is_over = True
        # If that event loop is closed nobody waits any more.
        with suppress(RuntimeError):
            self._host.call_soon(self._ended, self, self._error(reason, cause))

    def _error(self, reason: ExitReason, cause: BaseException | None) -> BaseException | None:
        if reason is ExitReason.NORMAL or self._is_killed:
            return None
        return cause or ChildFailed(f"{self.handle!r} has ended with reason {reason.name}")


@final
class ConsumerChild(ActorChild):
    """An actor that consumes a channel: it ends with that."""

    __slots__ = ("_consumer",)

    ends_by_itself: ClassVar[bool] = True

    def __init__(self, consumer: ChannelActor[Any], host: AbstractEventLoop, ended: Ended) -> None:
        super().__init__(consumer.loop, consumer.id, host, ended)
        self._consumer = consumer

    @property
    def handle(self) -> Handle:
        """Its handle."""
        return self._consumer

    def cancel(self, reason: str) -> None:
        """Its token is a child of the scope's: it knows already."""

    def drain(self) -> None:
        """It ends by itself."""
