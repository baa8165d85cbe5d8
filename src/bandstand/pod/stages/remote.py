"""A stage on another thread than the kubelet's: what happens there is told here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from bandstand.core.asyncio_host import new_event_loop
from bandstand.pod.books import PodBooks
from bandstand.pod.stages.hosting import LAST_S, Hosting
from bandstand.pod.stages.local import LocalStage

if TYPE_CHECKING:
    from bandstand.pod.ending import Ending
    from bandstand.pod.vocabulary import PodPhase

__all__ = ("RemoteStage",)


class RemoteStage(LocalStage):
    """An ensemble on a thread that is not the kubelet's. Derive from it to say which."""

    is_abandoned = False
    """Whether it was left behind: its thread does not end."""
    _home: asyncio.AbstractEventLoop | None = None
    _ended: asyncio.Future[Ending] | None = None

    def _open(self) -> None:
        """From now on it can say something. On the kubelet's thread."""
        self._home = asyncio.get_running_loop()
        self._ended = self._home.create_future()

    @property
    def final(self) -> PodBooks:
        """What became of its messages, when it has ended; of one that was left behind, as far as that can be seen from here."""
        return self.ensemble.last_books() if self.is_abandoned else super().final

    async def _wait(self) -> Ending:
        """Wait until it has ended."""
        assert self._ended is not None
        return await self._ended

    def run_alone(self, playing: Coroutine[Any, Any, Ending]) -> Ending:
        """Play on this thread, on an event loop of its own, to the end; an exit or Ctrl-C comes out."""
        limits = self.ensemble.loop.config
        hosting = Hosting(limits.loop_factory or new_event_loop, f"pod {self.ensemble.name!r}")
        try:
            # Its actors have their own time to end.
            return hosting.run(playing, limits.stop_timeout_ms / 1000 + LAST_S)
        finally:
            hosting.close()

    def _close(self, ending: Ending) -> None:
        """It has ended. On its own thread, as the last thing there."""
        self._at_home(lambda: self._finish(ending))

    def abandon(self, ending: Ending) -> None:
        """Have `play` return, and leave the thread behind."""
        self.is_abandoned = True
        # When it comes back, it finds its loops closed; until then nobody can send to it.
        self.ensemble.loop.request_stop()
        self.ensemble.porch.request_stop()
        self._finish(ending)

    def _finish(self, ending: Ending) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(ending)

    def _tell_known(self, peer: str) -> None:
        self._at_home(lambda: super(RemoteStage, self)._tell_known(peer))

    def _tell_failing(self, ending: Ending) -> None:
        self._at_home(lambda: super(RemoteStage, self)._tell_failing(ending))

    def _tell_lost(self, number: int, reason: str, is_ours: bool) -> None:
        self._at_home(lambda: super(RemoteStage, self)._tell_lost(number, reason, is_ours))

    def _tell_phase(self, phase: PodPhase, reason: str) -> None:
        self._at_home(lambda: super(RemoteStage, self)._tell_phase(phase, reason))

    def _at_home(self, function: Callable[[], object]) -> None:
        """Call a function on the kubelet's thread, in the order in which this is asked for."""
        home = self._home
        assert home is not None
        # One that was left behind may come back when nobody is there any more.
        with suppress(RuntimeError):
            home.call_soon_threadsafe(function)
