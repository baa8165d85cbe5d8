"""Performing: where a behavior that returned a coroutine, and the drivers that step it, come together.

The top of what is compiled. Nothing here is called for a message to a plain function.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from bandstand.core.coroutines import TaskPool
from bandstand.core.hot.spawning import Spawning

if TYPE_CHECKING:
    from contextvars import Context

    from bandstand.core.coroutines import DriverFuture, TaskDriver
    from bandstand.core.mailbox import ActorCell


class Performing(Spawning):
    """The kernel with its drivers. `Loop` is what to use."""

    __slots__ = ("_drivers", "_is_by_hand")

    # Made when they are first needed.
    _drivers: TaskPool | None
    # While somebody polls: then time, too, is moved by hand only.
    _is_by_hand: bool

    def _drivers_of_host(self) -> TaskPool:
        """Who performs coroutines on the present host. The loop above overrides it."""
        raise NotImplementedError

    def _perform(
        self, cell: ActorCell, coroutine: Coroutine[Any, Any, Any], context: Context | None
    ) -> object:
        drivers = self._drivers
        if drivers is None:
            drivers = self._drivers_of_host()
        if self._is_by_hand or not self._may_inline:
            return drivers.start_later(cell, coroutine, context)
        was_abroad = self._abroad
        self._abroad = True
        try:
            return drivers.start(cell, coroutine, context, self._is_inline)
        finally:
            self._abroad = was_abroad

    def _continue(self, driver: Any) -> None:
        drivers = self._drivers
        assert drivers is not None
        was_abroad = self._abroad
        self._abroad = True
        try:
            # Whoever polls by hand may do so in a task of his own.
            drivers.advance(driver, self._is_inline or self._is_by_hand)
        finally:
            self._abroad = was_abroad

    def _pause(self) -> DriverFuture | None:
        """Something to wait for that ends inside the loop, for the coroutine that is being stepped; None if there is none."""
        drivers = self._drivers
        stepper: TaskDriver | None = self._stepper
        if stepper is None or drivers is None or drivers.is_closing or not self._may_inline:
            return None
        return drivers.new_future(stepper)
