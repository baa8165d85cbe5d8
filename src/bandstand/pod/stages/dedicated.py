"""Dedicated: on a thread of its own, with an event loop of its own."""

from __future__ import annotations

import threading
from typing import final

from bandstand.errors.formatting import safe_str
from bandstand.pod.ending import Ending
from bandstand.pod.stages.local import failed_by
from bandstand.pod.stages.remote import RemoteStage
from bandstand.pod.vocabulary import PodPhase

__all__ = ("DedicatedStage",)

# How long its thread may take to end after it has said that it does, in seconds.
LAST_S = 1.0


@final
class DedicatedStage(RemoteStage):
    """An ensemble on a thread of its own.

    The thread is a daemon: one that is stuck in somebody's handler must not keep the interpreter alive for ever. It is always joined
    where that is possible, and the log names it where it is not.
    """

    async def play(self) -> Ending:
        """Start the thread, and wait for its end."""
        thread = threading.Thread(
            target=self._run,
            name=f"bandstand {self.ensemble.spec.name}.{self.ensemble.name}",
            daemon=True,
        )
        self._open()
        try:
            thread.start()
        except RuntimeError as error:
            return Ending(PodPhase.FAILED, f"its thread did not start: {safe_str(error)}", "", error)
        self.begin()
        ending = await self._wait()
        if not self.is_abandoned:
            # Its last act was to say so.
            thread.join(LAST_S)
        return ending

    def _run(self) -> None:
        pod = self.ensemble.pod
        assert pod is not None
        ending = Ending(PodPhase.FAILED, "its thread has ended without a word")
        try:
            self._settle(pod.core)
            ending = self.run_alone(self.perform())
        except BaseException as error:  # noqa: BLE001  # an exit, too, is the end of this pod and of nobody else
            ending = failed_by(error)
        finally:
            self._close(ending)
