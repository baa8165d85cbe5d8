"""Those who wait for a name: woken when somebody has come under it, and when the loop ends."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, final

from bandstand.core.lifelines import at_end
from bandstand.core.lowlevel import clock_of
from bandstand.errors import ChannelClosed, ChannelTimeout, LoopClosed, NameTimeout
from bandstand.scope import CONFLATED, Channel

if TYPE_CHECKING:
    from bandstand.service import Loop

__all__ = ("Waiting",)


@final
class Waiting:
    """Who waits, by name. Loop thread only."""

    __slots__ = ("_bells", "_loop")

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._bells: dict[str, dict[Channel[None], None]] = {}

    def wake(self, name: str) -> None:
        """Somebody has come under a name."""
        for bell in self._bells.get(name, ()):
            bell.try_send(None)

    async def until(self, name: str, look: Callable[[], Any], ms: float | None) -> Any:
        """Wait until `look` finds somebody. It is asked whenever somebody has come, and what it raises comes out here.

        Raises:
            NameTimeout: nobody has come in time.
            LoopClosed: the loop has ended.
        """
        now = clock_of(self._loop)
        since = now()
        with self._standing(name) as bell:
            while (found := look()) is None:
                left = None if ms is None else max(0.0, since + ms - now())
                try:
                    await bell.receive(timeout_ms=left)
                except ChannelTimeout:
                    raise NameTimeout(f"nobody has come under the name {name!r} in {ms:.15g} ms") from None
                except ChannelClosed:
                    raise LoopClosed(
                        f"the loop has ended, and nobody comes under the name {name!r} any more"
                    ) from None
        return found

    @contextmanager
    def _standing(self, name: str) -> Generator[Channel[None]]:
        bell: Channel[None] = Channel(CONFLATED)
        self._bells.setdefault(name, {})[bell] = None
        forget = at_end(self._loop, bell.close)
        try:
            yield bell
        finally:
            forget()
            bells = self._bells[name]
            del bells[bell]
            if not bells:
                del self._bells[name]
