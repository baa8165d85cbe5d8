"""A stash: messages that an actor has set aside to handle later.

    class Client(Actor):
        def __init__(self) -> None:
            self._ready = False
            self._early = Stash(self)

        @ask
        def fetch(self, key: str) -> bytes:
            if not self._ready:
                self._early.keep()
            return self._store[key]

        @tell
        def connected(self) -> None:
            self._ready = True
            self._early.release()

`keep()` ends the handler by raising an exception that the kernel catches. So an ask needs no dummy answer, and messages that are
not stashed cost nothing extra. Refused: a `keep()` that returns, after which the handler would continue with a message it no
longer owns.

Stashed messages have a limit of their own and take no slots in the mailbox. Refused: letting them keep their mailbox slots. A lane
full of stashed messages would then reject the message that makes the actor release them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, final

from bandstand.actor.actor import BaseActor, own_handle
from bandstand.actor.dispatch import Method
from bandstand.actor.timers import is_deferred_call
from bandstand.core.delivery import StashMessage
from bandstand.errors import InvalidArgumentError, LoopBusyError, StashFullError
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.actor.handle import Handle

__all__ = ("Stash",)

MAX_LIMIT = 1_000_000


@final
class _Counter:
    """The number of messages in a stash. The kernel updates it."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


@final
class Stash:
    """Messages of one actor that wait until it releases them. Create it in `__init__` or `on_start`; an actor may have several.

    A stashed message keeps its deadline, can be cancelled, and gets `TargetEndedError` if the actor ends. When the actor
    ends, its stashed messages are treated like those in its mailbox, and come first.

    Args:
        actor: the actor it belongs to: `self`.
        limit: the maximum number of messages.

    Raises:
        InvalidArgumentError: `actor` is not an actor instance, or the limit is invalid.
    """

    __slots__ = ("_actor", "_counter", "_limit")

    def __init__(self, actor: BaseActor, limit: int = 100) -> None:
        if not isinstance(actor, BaseActor):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped callers
            raise InvalidArgumentError(f"actor is {safe_repr(actor)}: a stash belongs to an actor, pass self")
        if type(limit) is not int or not 1 <= limit <= MAX_LIMIT:
            raise InvalidArgumentError(
                f"limit is {safe_repr(limit)}: pass a number of messages, from 1 to 1,000,000"
            )
        self._actor = actor
        self._limit = limit
        self._counter = _Counter()

    @property
    def limit(self) -> int:
        """The maximum number of messages."""
        return self._limit

    def __len__(self) -> int:
        return self._counter.count

    def keep(self) -> NoReturn:
        """Stash the current message and end its handler: no code after this call runs, except `finally` blocks.

        The message is neither handled nor answered. In an `async def`, call this in the body of the handler, not in a task group.

        Raises:
            StashFullError: the stash is full. Unless the handler catches this, the actor fails.
            LoopBusyError: the actor is not handling a single message of a method: it is in a timer call, in a hook, in a handler that is
                called out of turn, in a batch, or ending.
            WrongThreadError: called from another thread than the loop's.
        """
        handle = self._handle()
        method = handle.__handle_kernel__.current_tag(handle.__handle_actor__)
        if not isinstance(method, Method):
            raise LoopBusyError(
                f"{handle!r} is not handling a message in its turn: call keep() in the handler of a message, not in a hook, in background "
                f"work, or in a handler that is called out of turn"
            )
        if is_deferred_call(method):
            raise LoopBusyError(
                f"{handle!r} is in a call of a timer or of background work, which cannot be stashed: call keep() in the handler of a "
                f"message"
            )
        if method.limit > 0:
            raise LoopBusyError(
                f"{method.owner}.{method.name}() of {handle!r} handles a batch, which cannot be stashed: store its items in the actor, "
                f"or declare the method without batches"
            )
        if self._counter.count >= self._limit:
            raise StashFullError(
                f"the stash of {handle!r} is full: it has {self._limit} messages and cannot keep {method.owner}.{method.name}(). Release "
                f"them sooner, raise the limit, or catch this error and answer"
            )
        raise StashMessage(self._counter)

    def release(self) -> int:
        """Return all messages to the front of their lanes, in the order they were stashed; return how many there were.

        They are handled after the current handler has ended, as if they had just arrived. They may exceed the mailbox's limit.

        Raises:
            LoopBusyError: the object does not run as an actor.
            WrongThreadError: called from another thread than the loop's.
        """
        handle = self._handle()
        count: int = handle.__handle_kernel__.unstash(handle.__handle_actor__, self._counter)
        return count

    def _handle(self) -> Handle:
        handle: Handle = own_handle(self._actor)
        handle.__handle_kernel__.check_thread()
        return handle

    def __repr__(self) -> str:
        return f"<Stash with {self._counter.count} of {self._limit} messages>"
