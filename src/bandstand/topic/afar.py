"""What other threads publish: taken over to the loop's own thread, in order, and not without bound."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar, final

from bandstand.core.lowlevel import call_afar, is_open
from bandstand.errors import LoopClosed, MailboxFull

if TYPE_CHECKING:
    from contextvars import Context

    from bandstand.service import Loop

__all__ = ("Afar",)

T = TypeVar("T")

MOST = 1024


@final
class Afar(Generic[T]):
    """Has `arrive(event)` called on the loop's thread, in the context of whoever sent it."""

    __slots__ = ("_arrive", "_count", "_lock", "_loop", "_where")

    def __init__(self, loop: Loop, where: str, arrive: Callable[[T], object]) -> None:
        self._loop = loop
        self._where = where
        self._arrive = arrive
        # How many are on their way; counted on all threads.
        self._count = 0
        self._lock = Lock()

    def send(self, event: T) -> None:
        """Send one. From any thread.

        Raises:
            LoopClosed: the loop was asked to stop.
            MailboxFull: as many as may be are on their way.
        """
        if not is_open(self._loop):
            raise LoopClosed("the loop is closed: it was asked to stop, or was destroyed")
        with self._lock:
            if self._count >= MOST:
                raise MailboxFull(
                    f"{MOST} events are on their way to {self._where} from other threads: slow down, or try again later"
                )
            self._count += 1
        call_afar(self._loop, partial(self._land, copy_context(), event))

    def _land(self, context: Context, event: T) -> None:
        with self._lock:
            self._count -= 1
        context.run(self._arrive, event)
