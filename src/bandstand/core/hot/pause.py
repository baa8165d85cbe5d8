"""A pause: what a coroutine waits for that is answered inside the loop, without a turn of the host.

To whoever awaits it and to whoever ends it, it is as a future is. But the driver knows it: it keeps the coroutine where it
is, and when the pause is over the actor is put back into the run queue, and its coroutine stepped there, in the name of the
same task. A future would take two turns of the event loop for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from bandstand.core.hot.driver import Driver


class Pause:
    """One wait of one coroutine. `is_ours` says that it ends inside the loop, and not with a turn of the host."""

    __slots__ = ("_driver", "_is_awaited", "_is_over", "is_ours")

    def __init__(self, driver: Driver, is_ours: bool) -> None:
        self._driver = driver
        self._is_awaited = False
        self._is_over = False
        self.is_ours = is_ours

    def done(self) -> bool:
        """Whether it is over."""
        return self._is_over

    def set_result(self, _nothing: None) -> None:
        """End it: the coroutine goes on when its actor's turn comes."""
        self._is_over = True
        self._driver.end_pause(self)

    def cancel(self, msg: object = None) -> bool:
        """Never by itself: whoever cancels a driver's task has the cancellation thrown into its coroutine."""
        return False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Self:
        if self._is_awaited:
            raise StopIteration
        self._is_awaited = True
        return self
