"""The stall watchdog: reports an actor that blocks the loop's thread, while it still does.

A thread checks the loop a few times per threshold. If the loop is still at the same message, the watchdog logs the actor, the message and
the stack of the loop's thread, once per message. Further stalls of actors with the same name within a minute have one line without the stack, up to
ten per second. Without a watchdog the loop pays one branch per message; with one, two assignments.

Time in which the whole process or machine is suspended, or stopped in a debugger, counts as one check, because the thread counts its own checks instead of
reading a clock. So a resumed program reports at most the message that it was stopped in.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, final

from bandstand.core.config import MonotonicClock
from bandstand.core.logs import CrashLimiter, SafeLogger

if TYPE_CHECKING:
    from bandstand.core.ids import ActorId

__all__ = ("Watchdog",)

CHECKS = 4

# Returns the number of the current message, its actor, the actor's name, and the message. The actor is None while no message is handled.
CurrentMessage: TypeAlias = "Callable[[], tuple[int, ActorId | None, str | None, object]]"
# Called with the actor that blocks, its name and the message. Returns a description of the message.
OnStall: TypeAlias = "Callable[[ActorId, str | None, object], str]"


@final
class Watchdog:
    """Watches the thread that creates it, until `stop`."""

    __slots__ = (
        "_current_message",
        "_ident",
        "_limiter",
        "_logger",
        "_on_stall",
        "_stall_timeout",
        "_stopped",
        "_thread",
    )

    def __init__(
        self, current_message: CurrentMessage, stall_timeout: float, logger: SafeLogger, on_stall: OnStall
    ) -> None:
        self._current_message = current_message
        self._stall_timeout = stall_timeout
        self._logger = logger
        self._on_stall = on_stall
        # Its own one: the loop's is not for other threads.
        self._limiter = CrashLimiter(MonotonicClock())
        self._ident = threading.get_ident()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="bandstand watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the watchdog and its thread."""
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        pause = self._stall_timeout / CHECKS
        last = -1
        checks = 0
        while not self._stopped.wait(pause):
            number, actor, name, message = self._current_message()
            if actor is None or number != last:
                last, checks = number, 0
                continue
            checks += 1
            if checks == CHECKS:
                self._report(actor, name, message)

    def _report(self, actor: ActorId, name: str | None, message: object) -> None:
        what = self._on_stall(actor, name, message)
        count = self._limiter.admit(f"stall {name or what}", None)
        if count == 0:
            return
        if count > 1:
            self._logger.warning(
                "actor %r %s has blocked the loop for %g s with a message, %s (number %d of its kind)",
                actor,
                name or "(unnamed)",
                self._stall_timeout,
                what,
                count,
            )
            return
        # The documented way to get the stack of another thread, despite the underscore.
        frame = sys._current_frames().get(self._ident)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        where = "" if frame is None else "".join(traceback.format_stack(frame))
        self._logger.warning(
            "actor %r %s has blocked the loop for %g s with a message, %s; the stack is\n%s",
            actor,
            name or "(unnamed)",
            self._stall_timeout,
            what,
            where,
        )
