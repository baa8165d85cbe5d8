"""Ctrl-C and SIGTERM, for a loop that was asked to handle them.

The first one asks the loop to stop, in good order. A second Ctrl-C raises KeyboardInterrupt there and then, also inside
a behavior that does not return: handlers of Python's own are used, not the event loop's, because those would wait for
the very thread that is stuck. Whoever knows a gentler way to hurry is asked instead. Whatever was installed before is put back.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, final

from bandstand.errors import InvalidArgument

__all__ = ("Interrupts",)


@final
class Interrupts:
    """A block in which SIGINT and SIGTERM ask for a stop; does nothing unless `is_on`.

    `hurry` is called at each SIGINT after the first signal, and may raise.
    """

    __slots__ = ("_before", "_has_asked", "_hurry", "_is_on", "_request_stop", "first")

    def __init__(
        self, request_stop: Callable[[], None], *, is_on: bool, hurry: Callable[[], None] | None = None
    ) -> None:
        self._request_stop = request_stop
        self._hurry = hurry
        self._is_on = is_on
        self._has_asked = False
        self.first: signal.Signals | None = None
        """The signal that has asked for the stop."""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> None:
        if not self._is_on:
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self._before[number] = signal.signal(number, self._handle)
            except ValueError as error:
                raise InvalidArgument(
                    "handling signals needs the main thread: Python delivers them nowhere else"
                ) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self._has_asked and number == signal.SIGINT:
            if self._hurry is None:
                raise KeyboardInterrupt
            self._hurry()
            return
        if not self._has_asked:
            self.first = signal.Signals(number)
        self._has_asked = True
        self._request_stop()
