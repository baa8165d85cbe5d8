"""Main: on the thread that plays the troupe, for what must be there."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import TYPE_CHECKING, final

from bandstand.pod.affinity import unpin
from bandstand.pod.ending import Ending
from bandstand.pod.settled import settled
from bandstand.pod.stages.local import failed_by
from bandstand.pod.stages.remote import RemoteStage
from bandstand.pod.vocabulary import PodPhase
from bandstand.pod.wakeup import hearing_signals

if TYPE_CHECKING:
    from bandstand.pod.registry import PodRegistry
    from bandstand.pod.spec import TroupeSpec
    from bandstand.pod.stages.stage import Told

__all__ = ("MainStage",)

# How long a handler may take to hear the first interrupt before there is a second, in seconds.
AGAIN_S = 0.1


@final
class MainStage(RemoteStage):
    """An ensemble on the caller's thread, which either runs it, or already runs an event loop and has it ride along.

    The caller waits for `turn`: then it is his. If the troupe ends before that, it is cancelled.
    """

    def __init__(
        self,
        spec: TroupeSpec,
        pod: str,
        told: Told,
        *,
        extra: Mapping[str, object] | None = None,
        registry: PodRegistry | None = None,
    ) -> None:
        # There is only one: nobody can start it again.
        super().__init__(spec, pod, 1, told, extra=extra, registry=registry)
        self.turn: Future[None] = Future()
        self.is_interruptible = False
        """Whether the caller's is the main thread, and minds signals."""

    async def play(self) -> Ending:
        """Give the caller his turn, and wait for the end."""
        self._open()
        self.begin()
        if self.turn.set_running_or_notify_cancel():
            self.turn.set_result(None)
        return await self._wait()

    def abandon(self, ending: Ending) -> None:
        """Have `play` return; and the handler that keeps the caller's thread, if a signal can do that."""
        super().abandon(ending)
        if self.is_interruptible:
            # The first is taken for a wish to stop, unless there was one before; the second is raised in the handler.
            self._interrupt()
            asyncio.get_running_loop().call_later(AGAIN_S, self._interrupt)

    def _interrupt(self) -> None:
        if self.is_interruptible:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def run_in_turn(self) -> None:
        """Wait for the turn, on the caller's thread, and play to the end; nothing, if it does not come."""
        with suppress(CancelledError):
            self.turn.result()
            self.run()

    async def ride_in_turn(self) -> None:
        """The same on the event loop that runs here."""
        await settled(self.turn)
        if not self.turn.cancelled():
            await self.ride()

    def run(self) -> None:
        """Play on this thread to the end. Whatever comes out of it that is no actor's failure comes out here, too."""
        pod = self.ensemble.pod
        assert pod is not None
        ending = Ending(PodPhase.FAILED, "its thread has ended without a word")
        try:
            if pod.core is not None:
                self._settle(pod.core)
            ending = self.run_alone(self._perform_hearing())
        except BaseException as error:
            ending = failed_by(error)
            raise
        finally:
            if pod.core is not None:
                unpin()
            self._close(ending)

    async def _perform_hearing(self) -> Ending:
        with hearing_signals():
            return await self.perform()

    async def ride(self) -> None:
        """The same on the event loop that runs here."""
        ending = Ending(PodPhase.FAILED, "the event loop that it ran on has ended")
        try:
            ending = await self.perform()
        except BaseException as error:
            ending = failed_by(error)
            raise
        finally:
            self._close(ending)
