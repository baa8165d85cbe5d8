"""The stall watchdog: names the actor that blocks the thread, while it still does.

A thread looks at the loop a few times within the threshold. If the same message is at hand as long as that, it logs
whose it is, what the message is, and where the thread stands. Once for each message, and whoever listens to the loop's events is
told when it is over. Without a watchdog the loop pays one branch a message; with one, two assignments.
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

LOOKS = 4

# How many messages there have been, whose is at hand, under which name, and which.
AtHand: TypeAlias = "Callable[[], tuple[int, ActorId | None, str | None, object]]"
# Who blocks, under which name, with which message. Answers what the message is, for people.
OnStall: TypeAlias = "Callable[[ActorId, str | None, object], str]"


@final
class Watchdog:
    """Watches the thread that makes it, until `stop`."""

    __slots__ = ("_at_hand", "_ident", "_logger", "_on_stall", "_over", "_stall_ms", "_thread")

    def __init__(self, at_hand: AtHand, stall_ms: float, logger: SafeLogger, on_stall: OnStall) -> None:
        self._at_hand = at_hand
        self._stall_ms = stall_ms
        self._logger = logger
        self._on_stall = on_stall
        self._ident = threading.get_ident()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="bandstand watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the watch and its thread."""
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        pause = self._stall_ms / 1000 / LOOKS
        last = -1
        looks = 0
        while not self._over.wait(pause):
            number, actor, name, message = self._at_hand()
            if actor is None or number != last:
                last, looks = number, 0
                continue
            looks += 1
            if looks == LOOKS:
                self._report(actor, name, message)

    def _report(self, actor: ActorId, name: str | None, message: object) -> None:
        # Documented, underscore and all, as the way to another thread's stack.
        frame = sys._current_frames().get(self._ident)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        where = "" if frame is None else "".join(traceback.format_stack(frame))
        self._logger.warning(
            "actor %r %s has blocked the loop for %g ms with a message, %s; it stands at\n%s",
            actor,
            name or "(unnamed)",
            self._stall_ms,
            self._on_stall(actor, name, message),
            where,
        )
