"""A stage inside this process: an ensemble, on whichever thread. What is done to it is done on that thread, in order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from bandstand.core.logs import SafeLogger
from bandstand.errors import WrongThread
from bandstand.errors.formatting import safe_repr
from bandstand.pod.affinity import pin, unpin
from bandstand.pod.books import PodBooks
from bandstand.pod.ending import Ending
from bandstand.pod.ensemble import Ensemble
from bandstand.pod.stages.stage import ENDED, Look, Where
from bandstand.pod.vocabulary import PodPhase

if TYPE_CHECKING:
    import socket

    from bandstand.core import ActorId
    from bandstand.pod.registry import PodRegistry
    from bandstand.pod.spec import TroupeSpec
    from bandstand.pod.stages.stage import Told

__all__ = ("LocalStage", "failed_by")

logger = SafeLogger("bandstand.pod")


class LocalStage:
    """An ensemble, as the kubelet has it. Derive from it to say where it runs.

    Args:
        spec: the whole troupe.
        pod: the pod's name; None for the outside.
        number: which incarnation it is.
        told: who hears of what happens here.
        extra: what goes into its directories besides handles of the troupe's own roles, by name.
        registry: how its handles find others, in this incarnation and in the next; None for one of its own.
    """

    is_apart = False

    def __init__(
        self,
        spec: TroupeSpec,
        pod: str | None,
        number: int,
        told: Told,
        *,
        extra: Mapping[str, object] | None = None,
        registry: PodRegistry | None = None,
    ) -> None:
        self.told = told
        self.where = Where()
        self.ensemble = Ensemble(
            spec,
            pod,
            number,
            on_phase=self._tell_phase,
            on_dead=told.dead,
            on_known=self._tell_known,
            on_failing=self._tell_failing,
            on_lost=self._tell_lost,
            extra=extra,
            registry=registry,
        )
        # Tasks are kept by those who need them: an event loop does not.
        self._stopping: asyncio.Task[None] | None = None

    @property
    def pod(self) -> str | None:
        """The pod's name; None for the outside."""
        return None if self.ensemble.pod is None else self.ensemble.pod.name

    @property
    def number(self) -> int:
        """Which incarnation it is."""
        return self.ensemble.number

    @property
    def exposed(self) -> Mapping[str, ActorId]:
        """Who plays its exposed roles."""
        return self.ensemble.exposed

    @property
    def final(self) -> PodBooks:
        """What became of its messages, when it has ended."""
        try:
            return self.ensemble.books()
        except WrongThread:
            # It has not ended, whatever one did.
            return self.ensemble.last_books()

    async def play(self) -> Ending:
        """Play on the running event loop to the end."""
        self.begin()
        return await self.perform()

    def begin(self) -> None:
        """Say that it has begun. If it cannot be made known to the others, it ends at once."""
        try:
            self.told.begun(self)
        except Exception as error:
            logger.exception("pod %r cannot be made known to the others", self.ensemble.name)
            self.kill(
                Ending(
                    PodPhase.FAILED,
                    f"it could not be made known to the others: {safe_repr(error)}",
                    "",
                    error,
                )
            )

    async def perform(self) -> Ending:
        """Run the ensemble here."""
        self.where = replace(self.where, native_id=threading.get_native_id())
        return await self.ensemble.run()

    def _settle(self, core: int | None) -> None:
        """Have the current thread run where it should: it has been given the cores of whoever has started it."""
        is_pinned = core is not None and pin(core, f"pod {self.ensemble.name!r}")
        if not is_pinned:
            unpin()
        self.where = Where(native_id=threading.get_native_id(), core=core if is_pinned else None)

    # -- what it is told -------------------------------------------------------------------------------------------------------

    def publish(self, pod: str, addresses: Mapping[str, ActorId]) -> None:
        """A pod of this process runs."""
        self.ensemble.registry.publish(pod, addresses)

    def withdraw(self, pod: str, reason: str) -> None:
        """An incarnation of a pod has ended."""
        self.ensemble.registry.withdraw(pod)
        self._there(partial(self.ensemble.detach, pod, reason))

    def retire(self, pod: str, reason: str) -> None:
        """A pod is gone for good."""
        self.ensemble.registry.retire(pod, reason)

    def attach(self, peer: str | None, end: socket.socket, *, is_running: bool, number: int = 0) -> None:
        """Here is the end of a link."""
        self._there(partial(self.ensemble.attach, peer, end, is_running=is_running, number=number), end.close)

    def announce(self, peer: str) -> None:
        """The pod at the other end of a link runs now."""
        self._there(partial(self.ensemble.announce, peer))

    def stop(self, within_ms: float) -> None:
        """Have it handle what it has, and end."""
        self._there(partial(self._stop, within_ms))

    def kill(self, ending: Ending) -> None:
        """End it at once. From any thread."""
        self.ensemble.end(ending)

    def fail_alive(self, reason: str) -> None:
        """It is in this process: the other end of the link has lost it."""

    def abandon(self, ending: Ending) -> None:
        """It runs on the kubelet's own thread: somebody who is here can end it."""
        self.kill(ending)

    def look(self) -> Future[Look]:
        """Ask it how it is."""
        answer: Future[Look] = Future()
        if self.where.native_id == threading.get_native_id():
            # Whoever asks has the thread: waiting for it would be in vain.
            self._answer(answer)
        else:
            self._there(partial(self._answer, answer), lambda: answer.set_result(ENDED))
        return answer

    # -- inside ----------------------------------------------------------------------------------------------------------------

    def _there(self, function: Callable[[], object], instead: Callable[[], object] = lambda: None) -> None:
        """Call a function on its thread, in the order in which this is asked for; something else, if it has ended."""
        porch = self.ensemble.porch
        # If it has ended, this is called here and now.
        porch.kernel.inbox.call_soon(lambda: function() if not porch.kernel.is_closed else instead())

    def _stop(self, within_ms: float) -> None:
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(
                self.ensemble.stop(within_ms), name=f"bandstand stops {self.ensemble.name}"
            )

    def _answer(self, answer: Future[Look]) -> None:
        if answer.set_running_or_notify_cancel():
            ensemble = self.ensemble
            answer.set_result(Look(ensemble.is_quiet, ensemble.waiting(), ensemble.books()))

    def _tell_known(self, peer: str) -> None:
        self.told.known(self, peer)

    def _tell_failing(self, ending: Ending) -> None:
        self.told.failing(self, ending)

    def _tell_lost(self, number: int, reason: str, is_ours: bool) -> None:
        self.told.lost(self, number, reason, is_ours)

    def _tell_phase(self, phase: PodPhase, reason: str) -> None:
        # How it ends is what `play` returns.
        if not phase.is_end:
            self.told.phase(self, phase, reason)


def failed_by(error: BaseException) -> Ending:
    """How an incarnation has ended that something came out of which is no actor's failure: an exit, a Ctrl-C, a bug of ours."""
    return Ending(PodPhase.FAILED, f"{safe_repr(error)} came out of it", "", error)
