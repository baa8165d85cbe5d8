"""The stall watchdog: reports an actor that blocks the loop's thread, while it still does.

A thread checks the loop a few times per threshold. If the loop is still at the same message, the watchdog logs the actor, the message and
the stack of the loop's thread, once per message. Without a watchdog the loop pays one branch per message; with one, two assignments.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, final

from bandstand.core.logs import SafeLogger

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

    __slots__ = ("_current_message", "_ident", "_logger", "_on_stall", "_stopped", "_stall_ms", "_thread")

    def __init__(
        self, current_message: CurrentMessage, stall_ms: float, logger: SafeLogger, on_stall: OnStall
    ) -> None:
        self._current_message = current_message
        self._stall_ms = stall_ms
        self._logger = logger
        self._on_stall = on_stall
        self._ident = threading.get_ident()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="bandstand watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the watchdog and its thread."""
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        pause = self._stall_ms / 1000 / CHECKS
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
        # The documented way to get the stack of another thread, despite the underscore.
        frame = sys._current_frames().get(self._ident)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        where = "" if frame is None else "".join(traceback.format_stack(frame))
        self._logger.warning(
            "actor %r %s has blocked the loop for %g ms with a message, %s; the stack is\n%s",
            actor,
            name or "(unnamed)",
            self._stall_ms,
            self._on_stall(actor, name, message),
            where,
        )
