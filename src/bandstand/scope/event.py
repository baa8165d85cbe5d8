"""A latch: something that happens once, with a value. Tasks and threads can wait for it, and functions be called.

What a token's cancellation, an actor's end and a scope's end have in common: it is opened once, from any thread; whoever waits
is woken, whoever asks later is answered at once, every function is called exactly once and outside of any lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, final
from warnings import warn

from bandstand.core.logs import SafeLogger
from bandstand.errors import ChannelTimeout, InvalidArgument
from bandstand.scope.checks import check_token, checked_ms
from bandstand.scope.hot.parked import LOCK, Parked
from bandstand.scope.numbers import CANCELLED, DONE, EXPIRED, FRESH, SPENT, WAITING

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ("Latch", "Wait")

T = TypeVar("T")

logger = SafeLogger("bandstand.scope")


@final
class Latch(Generic[T]):
    """Happens once. `what` says what, in errors: "the end of <...>"."""

    __slots__ = ("_callbacks", "_is_open", "_value", "_waits", "what")

    def __init__(self, what: str) -> None:
        self.what = what
        self._is_open = False
        self._value: T | None = None
        self._waits: dict[Wait[T], None] = {}
        self._callbacks: list[Callable[[T], object]] = []

    @property
    def is_open(self) -> bool:
        """Whether it has happened."""
        return self._is_open

    @property
    def value(self) -> T | None:
        """What it has happened with; None before."""
        return self._value

    def open(self, value: T) -> bool:
        """Have it happen. From any thread. False if it has already."""
        with LOCK:
            if self._is_open:
                return False
            self._is_open = True
            self._value = value
            callbacks, self._callbacks = self._callbacks, []
            waits, self._waits = self._waits, {}
            woken = [wait for wait in waits if wait.settle()]
        for wait in woken:
            wait.wake()
        self._call_all(callbacks, value)
        return True

    def on_open(self, callback: Callable[[T], object]) -> None:
        """Have a function called once with the value, by whoever opens it; at once, if it is open. What it raises is logged."""
        with LOCK:
            if not self._is_open:
                self._callbacks.append(callback)
                return
        self._call(callback, cast("T", self._value))

    def wait(
        self,
        *,
        timeout_ms: float | None = None,
        token: Any = None,
        at_once: T | None = None,
        is_request: bool = False,
    ) -> Wait[T]:
        """Something to await, or to wait for with `.blocking()`: it gives the value; `at_once`, if that is given, now.

        One that comes of a request need not be waited for; of another, Python warns if nobody does.
        """
        return Wait(self, timeout_ms, token, at_once, is_request=is_request)

    def _call_all(self, callbacks: list[Callable[[T], object]], value: T) -> None:
        for at, callback in enumerate(callbacks):
            try:
                self._call(callback, value)
            except BaseException:  # Ctrl-C, or an exit: it goes on when all have been called
                self._call_all(callbacks[at + 1 :], value)
                raise

    def _call(self, callback: Callable[[T], object], value: T) -> None:
        try:
            callback(value)
        except Exception:
            logger.exception("%r raised, called at %s; everything else goes on", callback, self.what)

    # -- for waits -----------------------------------------------------------------------------------------------------

    def enter(self, wait: Wait[T]) -> bool:
        """Have a wait woken when it happens; False if it has happened."""
        with LOCK:
            if self._is_open:
                return False
            self._waits[wait] = None
            return True

    def quit(self, wait: Wait[T]) -> None:
        """Forget a wait."""
        with LOCK:
            self._waits.pop(wait, None)


class Wait(Parked, Generic[T]):
    """One wait for a latch. To be awaited once, or waited for with `blocking()`, once."""

    __slots__ = ("_at_once", "_has_done_something", "_latch")

    def __init__(
        self,
        latch: Latch[T],
        timeout_ms: float | None,
        token: Any,
        at_once: T | None,
        *,
        is_request: bool = False,
    ) -> None:
        super().__init__()
        # While it is being made nobody can have forgotten it.
        self._has_done_something = True
        self._latch = latch
        self._at_once = at_once
        if timeout_ms is not None:
            self.ms = checked_ms(timeout_ms)
        if token is not None:
            check_token(token)
        self.token = token
        self._has_done_something = is_request

    if TYPE_CHECKING:

        def __await__(self) -> Generator[Any, Any, T]: ...  # type: ignore[override]  # its own iterator is one

    def blocking(self) -> T:
        """Wait for it on a plain thread."""
        # Whatever comes of it, it was not forgotten.
        self._has_done_something = True
        return cast("T", super().blocking())

    def begin(self) -> bool:
        """It may have happened."""
        if self._at_once is None and not self._latch.is_open:
            return False
        self.state = DONE
        return True

    def stand(self) -> bool:
        """Have it be woken."""
        self.state = WAITING
        if not self._latch.enter(self):
            self.state = DONE
        return self.state != WAITING

    def settle(self) -> bool:
        """It has happened; whether it was still waited for. The lock is held."""
        if self.state != WAITING:
            return False
        self.state = DONE
        return True

    def leave(self, state: int) -> bool:
        """Wait no more."""
        with LOCK:
            if self.state != WAITING:
                return False
            self.state = state
        # Outside: a token that is listened to no more takes its timer back, which may call anything.
        self._latch.quit(self)
        return True

    def give_back(self) -> None:
        """There is nothing to give back."""

    def finish(self) -> Any:
        """The value, or an error that is raised."""
        state, self.state = self.state, SPENT
        if state == DONE:
            return self._latch.value if self._at_once is None else self._at_once
        if state == EXPIRED:
            raise ChannelTimeout(f"{self._latch.what} did not come within {self.ms:.15g} ms")
        if state != CANCELLED:
            raise InvalidArgument(f"{self!r} can be waited for once: make another one")
        raise self.token.error(f"the wait for {self._latch.what}")

    def __del__(self) -> None:
        if self.state == FRESH and not self._has_done_something:
            # As for an operation of a channel.
            warn(f"{self!r} was never awaited: nobody has waited", RuntimeWarning, stacklevel=2)

    def __repr__(self) -> str:
        return f"<wait for {self._latch.what}>"
