"""A watch over a world that hangs: a lost wake-up or a deadlock must become a sentence, not a silence."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
from collections.abc import Callable

GRACE = 45.0
"""Seconds a world may take longer than planned, on the busiest machine."""


class Warden:
    """Unless it is dismissed in time: says where every thread stands, calls `speak`, and ends the process with code 1."""

    def __init__(self, seconds: float, speak: Callable[[], None]) -> None:
        self._speak = speak
        self._timer = threading.Timer(seconds + GRACE, self._act)
        self._timer.daemon = True
        self._timer.name = "warden"
        self._timer.start()

    def dismiss(self) -> None:
        """The world has ended."""
        self._timer.cancel()
        self._timer.join()

    def _act(self) -> None:
        faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
        self._speak()
        sys.stdout.flush()
        sys.stderr.flush()
        # The main thread is stuck where no exception reaches it.
        os._exit(1)
