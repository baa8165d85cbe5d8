"""The stall watchdog: names the actor that blocks the thread, while it still does.

A thread looks at the loop a few times within the threshold. If the same message is at hand as long as that, it logs
whose it is, what type the message has, and where the thread stands. Once for each message. Without a watchdog the loop
pays one branch a message; with one, two assignments.
"""

from __future__ import annotations

import sys
import threading
import traceback
from logging import Logger
from typing import TYPE_CHECKING, Protocol, final

if TYPE_CHECKING:
    from bandstand.core.hot.ids import ActorId

__all__ = ("Watchdog",)

LOOKS = 4


class Stage(Protocol):
    """What the watchdog needs of the loop."""

    _watching: bool

    def _at_hand(self) -> tuple[int, ActorId | None, str | None, object]: ...


@final
class Watchdog:
    """Watches the thread that makes it, until `stop`."""

    __slots__ = ("_ident", "_logger", "_over", "_stage", "_stall_ms", "_thread")

    def __init__(self, stage: Stage, stall_ms: float, logger: Logger) -> None:
        self._stage = stage
        self._stall_ms = stall_ms
        self._logger = logger
        self._ident = threading.get_ident()
        self._over = threading.Event()
        stage._watching = True  # noqa: SLF001
        self._thread = threading.Thread(target=self._watch, name="bandstand watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the watch and its thread."""
        self._stage._watching = False  # noqa: SLF001
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        pause = self._stall_ms / 1000 / LOOKS
        last = -1
        looks = 0
        while not self._over.wait(pause):
            number, actor, name, message = self._stage._at_hand()  # noqa: SLF001
            if actor is None or number != last:
                last, looks = number, 0
                continue
            looks += 1
            if looks == LOOKS:
                self._report(actor, name, message)

    def _report(self, actor: ActorId, name: str | None, message: object) -> None:
        frame = sys._current_frames().get(self._ident)  # noqa: SLF001  # the documented way to another thread's stack
        where = "" if frame is None else "".join(traceback.format_stack(frame))
        self._logger.warning(
            "actor %r %s has blocked the loop for %g ms with a message of type %s; it stands at\n%s",
            actor,
            name or "(unnamed)",
            self._stall_ms,
            type(message).__qualname__,
            where,
        )
