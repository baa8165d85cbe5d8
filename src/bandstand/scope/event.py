"""A one-shot event with a value: tasks and threads wait for it, and callbacks run when it is set.

The end of a channel actor, the end of a scope's children and (through `CancelToken.wait`) a cancellation are
such events. An event is set once, from any thread. Every waiter is woken, later waits return at once, and
every callback is called exactly once, outside locks.

The result of an ask is not such an event (`actor.reply.LocalReply`): it belongs to one loop and needs no lock, and it is itself the
delivery callback that the kernel calls, so that an ask allocates one object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, cast, final
from warnings import warn

from bandstand.core.logs import SafeLogger
from bandstand.errors import ChannelTimeoutError, InvalidArgumentError
from bandstand.errors.validation import Seconds
from bandstand.scope._channel import LOCK, Waiter, WaitState, check_token, checked_ms

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ("EventSource", "EventWait", "OneShotEvent")

T = TypeVar("T")

logger = SafeLogger("bandstand.scope")

# Plain integers: reading a member of an enum takes a function call in Python 3.11.
FRESH: Final = WaitState.FRESH.value
WAITING: Final = WaitState.WAITING.value
DONE: Final = WaitState.DONE.value
EXPIRED: Final = WaitState.EXPIRED.value
CANCELLED: Final = WaitState.CANCELLED.value
SPENT: Final = WaitState.SPENT.value


class EventSource(Protocol[T]):
    """What an `EventWait` waits for."""

    @property
    def description(self) -> str:
        """What happens, for errors: "the end of <...>"."""
        ...

    @property
    def is_set(self) -> bool:
        """Whether it has happened."""
        ...

    @property
    def value(self) -> T | None:
        """The value of the event; None before it is set."""
        ...

    def add_wait(self, wait: EventWait[T]) -> bool:
        """Register a wait, to be woken once; return False if the event is set."""
        ...

    def remove_wait(self, wait: EventWait[T]) -> None:
        """Deregister a wait."""
        ...


@final
class OneShotEvent(Generic[T]):
    """An event that is set once, with a value. `description` names it in errors: "the end of <...>"."""

    __slots__ = ("_callbacks", "_is_set", "_value", "_waits", "description")

    def __init__(self, description: str) -> None:
        self.description = description
        self._is_set = False
        self._value: T | None = None
        self._waits: dict[EventWait[T], None] = {}
        self._callbacks: list[Callable[[T], object]] = []

    @property
    def is_set(self) -> bool:
        """Whether it is set."""
        return self._is_set

    @property
    def value(self) -> T | None:
        """The value it was set with; None before."""
        return self._value

    def set(self, value: T) -> bool:
        """Set it, wake all waiters and call all callbacks.

        From any thread. Return False if it was set before.
        """
        with LOCK:
            if self._is_set:
                return False
            self._is_set = True
            self._value = value
            callbacks, self._callbacks = self._callbacks, []
            waits, self._waits = self._waits, {}
            woken = [wait for wait in waits if wait.complete_locked()]
        for wait in woken:
            wait.wake()
        self._call_all(callbacks, value)
        return True

    def add_callback(self, callback: Callable[[T], object]) -> None:
        """Call a function once with the value, on the thread that sets the event; now, if it is set.

        Its exceptions are logged.
        """
        with LOCK:
            if not self._is_set:
                self._callbacks.append(callback)
                return
        self._call(callback, cast("T", self._value))

    def wait(
        self,
        *,
        timeout: Seconds | None = None,
        token: Any = None,
        immediate: T | None = None,
        is_request: bool = False,
    ) -> EventWait[T]:
        """Return a wait for the event, to be awaited or used with `.blocking()`. Its result is the value.

        Args:
            timeout: how long to wait at most; None for no limit.
            token: a token that cancels the wait.
            immediate: if not None, the result, without waiting.
            is_request: whether the wait belongs to a request that was made already: then it is no mistake to
                ignore the wait. Otherwise Python warns if it is never awaited.
        """
        return EventWait(self, timeout, token, immediate, is_request=is_request)

    def add_wait(self, wait: EventWait[T]) -> bool:
        """Register a wait, to be woken once; return False if the event is set."""
        with LOCK:
            if self._is_set:
                return False
            self._waits[wait] = None
            return True

    def remove_wait(self, wait: EventWait[T]) -> None:
        """Deregister a wait."""
        with LOCK:
            self._waits.pop(wait, None)

    def _call_all(self, callbacks: list[Callable[[T], object]], value: T) -> None:
        for at, callback in enumerate(callbacks):
            try:
                self._call(callback, value)
            except BaseException:  # KeyboardInterrupt, SystemExit: call the others, then raise it
                self._call_all(callbacks[at + 1 :], value)
                raise

    def _call(self, callback: Callable[[T], object], value: T) -> None:
        try:
            callback(value)
        except Exception:
            logger.exception(
                "callback %r for %s raised; the other callbacks are called", callback, self.description
            )


class EventWait(Waiter, Generic[T]):
    """One wait for an event. It can be used once: awaited, or called with `blocking()`."""

    __slots__ = ("_immediate", "_may_be_ignored", "_source")

    def __init__(
        self,
        source: EventSource[T],
        timeout: Seconds | None,
        token: Any,
        immediate: T | None,
        *,
        is_request: bool = False,
    ) -> None:
        super().__init__()
        # True until all arguments are checked: an invalid wait must not warn that it was never awaited.
        self._may_be_ignored = True
        self._source = source
        self._immediate = immediate
        if timeout is not None:
            self.timeout_ms = checked_ms(timeout)
        if token is not None:
            check_token(token)
        self.token = token
        self._may_be_ignored = is_request

    if TYPE_CHECKING:

        def __await__(self) -> Generator[Any, Any, T]: ...  # type: ignore[override]  # it is its own iterator

    def blocking(self) -> T:
        """Wait on a plain thread.

        Raises:
            LoopBusyError: this thread runs an event loop.
        """
        # Even if this raises, the wait was not forgotten.
        self._may_be_ignored = True
        return cast("T", super().blocking())

    def try_now(self) -> bool:
        """Complete the wait if the event is set, or the result is known."""
        if self._immediate is None and not self._source.is_set:
            return False
        self.state = DONE
        return True

    def enqueue(self) -> bool:
        """Register with the event."""
        self.state = WAITING
        if not self._source.add_wait(self):
            self.state = DONE
        return self.state != WAITING

    def complete_locked(self) -> bool:
        """Complete the wait: the event was set.

        Return whether it was still WAITING. The caller holds the lock.
        """
        if self.state != WAITING:
            return False
        self.state = DONE
        return True

    def withdraw(self, state: int) -> bool:
        """Stop waiting, if it is still WAITING."""
        with LOCK:
            if self.state != WAITING:
                return False
            self.state = state
        # Outside the lock: a token without listeners cancels its timer, which may run foreign code.
        self._source.remove_wait(self)
        return True

    def undo(self) -> None:
        """Do nothing: an event stays set."""

    def result(self) -> Any:
        """Return the value, or raise the error."""
        state, self.state = self.state, SPENT
        if state == DONE:
            return self._source.value if self._immediate is None else self._immediate
        if state == EXPIRED:
            raise ChannelTimeoutError(
                f"{self._source.description} did not come within {self.timeout_ms:.15g} ms"
            )
        if state != CANCELLED:
            raise InvalidArgumentError(f"{self!r} can be awaited only once: create a new one")
        raise self.token.error(f"the wait for {self._source.description}")

    def __del__(self) -> None:
        if self.state == FRESH and not self._may_be_ignored:
            # As for a channel operation.
            warn(f"{self!r} was never awaited: nothing waited for it", RuntimeWarning, stacklevel=2)

    def __repr__(self) -> str:
        return f"<wait for {self._source.description}>"
