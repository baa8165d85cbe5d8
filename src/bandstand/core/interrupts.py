"""Ctrl-C and SIGTERM, for a loop that was asked to handle them.

The first one asks the loop to stop, in good order. A second Ctrl-C raises KeyboardInterrupt there and then, also inside
a behavior that does not return: handlers of Python's own are used, not the event loop's, because those would wait for
the very thread that is stuck. Whatever was installed before is put back.
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
    """A block in which SIGINT and SIGTERM ask for a stop; does nothing unless `is_on`."""

    __slots__ = ("_before", "_has_asked", "_is_on", "_request_stop")

    def __init__(self, request_stop: Callable[[], None], *, is_on: bool) -> None:
        self._request_stop = request_stop
        self._is_on = is_on
        self._has_asked = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> None:
        if not self._is_on:
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self._before[number] = signal.signal(number, self._handle)
            except ValueError as error:
                raise InvalidArgument(
                    "handle_signals needs the main thread: Python delivers signals nowhere else"
                ) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self._has_asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._has_asked = True
        self._request_stop()
