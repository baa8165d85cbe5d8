"""Those who listen to a token on behalf of others: of a function, of somebody who waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, final

from bandstand.core.logs import SafeLogger
from bandstand.scope.hot.parked import LOCK

if TYPE_CHECKING:
    from bandstand.scope.latch import Wait
    from bandstand.scope.token import CancelToken

__all__ = ("Bell", "Errand")

logger = SafeLogger("bandstand.scope")


@final
class Errand:
    """A function to be called once."""

    __slots__ = ("_callback", "_token")

    def __init__(self, token: CancelToken, callback: Callable[[CancelToken], object]) -> None:
        self._token = token
        self._callback = callback

    def interrupt(self) -> None:
        """Call it; an exception of its is logged, anything worse goes on."""
        try:
            self._callback(self._token)
        except Exception:
            logger.exception(
                "%r raised, called at the end of %r; everything else goes on", self._callback, self._token
            )

    def take_back(self) -> bool:
        """Have it not called; False if that is too late."""
        return self._token.dismiss(self)


@final
class Bell:
    """What one wait for a token takes for its latch: it listens while somebody waits."""

    __slots__ = ("_token", "_wait")

    def __init__(self, token: CancelToken) -> None:
        self._token = token
        self._wait: Wait[str] | None = None

    @property
    def what(self) -> str:
        """What it is that happens, for errors."""
        return f"the cancellation of <CancelToken {self._token.number}>"

    @property
    def is_open(self) -> bool:
        """Whether it has happened."""
        return self._token.cancelled

    @property
    def value(self) -> str | None:
        """Why."""
        return self._token.reason

    def enter(self, wait: Wait[str]) -> bool:
        """Have the wait woken when it happens: now, if it has."""
        self._wait = wait
        self._token.enlist(self)
        return True

    def quit(self, _wait: Wait[str]) -> None:
        """Forget the wait."""
        self._token.dismiss(self)
        # The wait holds us as its latch: no cycle of the two.
        self._wait = None

    def interrupt(self) -> None:
        """It has happened."""
        wait, self._wait = self._wait, None
        if wait is None:
            # It was forgotten this very moment.
            return
        with LOCK:
            is_waiting = wait.settle()
        if is_waiting:
            wait.wake()
