"""The kubelet: a thread that watches over the pods of a troupe.

For each pod it has one task, which is its whole life: start an incarnation, wait for its end, decide, wait, start again. For each
troupe inside it has one likewise. Pods that are cooperative run on its thread, too. When nothing happens, it sleeps: whatever happens
anywhere wakes its event loop, and nothing is looked at in turns.

It is no actor. An actor's messages are the program's business; who is there at all must be known without them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, final

from bandstand.core.logs import SafeLogger
from bandstand.errors import PodFailed, PodGone
from bandstand.errors.formatting import safe_repr, safe_str
from bandstand.pod.arrivals import Arrivals
from bandstand.pod.books import PodBooks
from bandstand.pod.ending import Ending
from bandstand.pod.exchange import Exchange
from bandstand.pod.gate import Plan, Verdict
from bandstand.pod.later import Later
from bandstand.pod.life import PodLife
from bandstand.pod.nest import NestLife
from bandstand.pod.post import Post
from bandstand.pod.shutdown import Deadline, Life, shut_down
from bandstand.pod.stages import CooperativeStage, DedicatedStage, MainStage, ProcessStage, Told
from bandstand.pod.stages.hosting import LAST_S
from bandstand.pod.stages.local import failed_by
from bandstand.pod.vocabulary import PodPhase, ThreadModel

if TYPE_CHECKING:
    from bandstand.pod.link import Undelivered
    from bandstand.pod.nest import Nest
    from bandstand.pod.phases import Phases
    from bandstand.pod.spec import PodSpec, TroupeSpec
    from bandstand.pod.stages import Look, OutsideStage, Stage

__all__ = ("Kubelet",)

logger = SafeLogger("bandstand.pod")


@final
class Kubelet:
    """Plays a troupe, once: from `launch` until `over`.

    Args:
        spec: the troupe.
        phases: who is told what becomes of its pods.
        outside: the program's part of it.
        nests: the troupes inside, by name.
        is_inner: whether the troupe is inside another, and may be started again: then its handles wait for that.
        on_dead: called with messages to other processes that were lost, on whichever thread.
        address: where the class of the troupe is found, if its processes need something of it.

    Attributes:
        up: done when all pods have run; with the failure, if the troupe fails before.
        over: done when everything has ended.
        failure: why the troupe has failed; None if it has not.
        main: the stage of the main pod; None if there is none.
        outside: the program's part of it.
    """

    def __init__(
        self,
        spec: TroupeSpec,
        phases: Phases,
        outside: OutsideStage,
        *,
        nests: Mapping[str, Nest] | None = None,
        is_inner: bool = False,
        on_dead: Callable[[Undelivered], object] = lambda _letter: None,
        address: str | None = None,
    ) -> None:
        self.spec = spec
        self.phases = phases
        self._post = Post(spec.name, spec.core, self._main, self._blame, self._close)
        self.thread = self._post.thread
        self.exchange = Exchange(spec, Later(self._post.home))
        self.up: Future[None] = Future()
        self.over: Future[None] = Future()
        self.failure: PodFailed | None = None
        # The last pod that has failed for good, and the troupe went on without it.
        self._fallen: PodFailed | None = None
        self.is_stopping = False
        self.is_left_behind = False
        """Whether nobody waits any more for its thread, which is stuck."""
        self.up_at = 0.0
        self.past = PodBooks()
        """The books of the incarnations that have ended."""
        self.outside = outside
        self._nests = dict(nests or {})
        self._is_inner = is_inner
        self._address = address
        self._arrivals = Arrivals(self.exchange, self._arrive)
        self._told = Told(
            phase=self._hear,
            begun=self.exchange.begin,
            known=self._arrivals.know,
            failing=self._hear_failing,
            dead=on_dead,
            lost=self._lose_link,
            is_stopping=lambda: self.is_stopping,
        )
        self._extra = {name: nest.directory for name, nest in self._nests.items()}
        self._unborn = {pod.name for pod in spec.pods} | set(self._nests)
        self._lives: list[Life] = []
        self._pods: dict[str, PodLife] = {}
        # How many of the lives are not over.
        self._left = 0
        self._deadline: Deadline | None = None
        self._wanted: asyncio.Future[None] = self._post.home.create_future()
        mains = [pod.name for pod in spec.pods if pod.thread is ThreadModel.MAIN]
        self.main: MainStage | None = None
        if mains:
            registry = self.exchange.registries[mains[0]]
            self.main = MainStage(spec, mains[0], self._told, extra=self._extra, registry=registry)

    # -- from any thread -------------------------------------------------------------------------------------------------------

    def launch(self) -> None:
        """Start its thread. Once. If the system has none to give, the troupe has failed, and is over."""
        try:
            self._post.start()
        except RuntimeError as error:
            self.failure = PodFailed.of("kubelet", "", f"its thread did not start: {safe_str(error)}", error)
            self._close(None)

    def stop(self, within_ms: float | None = None) -> None:
        """Ask it to stop everything, within a time; None for what the troupe declares. The shortest that was asked for counts."""
        self._post.call(lambda: self._want_stop(within_ms))

    def join(self, seconds: float) -> None:
        """Wait for the end of its thread, unless that is the one that asks."""
        self._post.join(seconds)

    def look(self) -> Future[Mapping[str | None, Future[Look]]] | None:
        """Ask everybody who is there how they are, by pod: done when its own thread has had time for that. None, if it is over."""
        answer: Future[Mapping[str | None, Future[Look]]] = Future()

        def ask_all() -> None:
            answer.set_result({pod: stage.look() for pod, stage in self.exchange.stages.items()})

        if threading.current_thread() is self.thread:
            ask_all()
        elif not self._post.call(ask_all):
            return None
        return answer

    def ping(self) -> Mapping[str, Future[None]]:
        """Have the pods of other processes that run answer over their links with the program outside, by pod. From any thread.

        None of them can be told from that thread whose turn it is to hear the answers.
        """
        if self.outside.where.native_id == threading.get_native_id():
            return {}
        return {
            pod.name: self.outside.ping(pod.name)
            for pod in self.spec.pods
            if pod.thread is ThreadModel.PROCESS
            and any(role.is_exposed for role in pod.roles)
            and self.phases.of(pod.name).phase is PodPhase.RUNNING
        }

    def closed_books(self) -> PodBooks:
        """The books of the incarnations that have ended, and of what waits for pods that are down, or has waited in vain."""
        return sum((registry.books() for registry in self.exchange.registries.values()), self.past)

    # -- on its own thread -----------------------------------------------------------------------------------------------------

    async def _main(self) -> None:
        guests: list[OutsideStage] = []
        if not self._is_inner:
            guests += [outside for nest in self._nests.values() for outside in nest.outsides]
        if not self.outside.is_guest:
            guests.append(self.outside)
        rides = [asyncio.create_task(guest.perform(), name="bandstand outside") for guest in guests]
        self.outside.on_known = lambda peer: self._post.call(lambda: self._arrivals.know(self.outside, peer))
        self.outside.on_lost = lambda number, reason, is_ours: self._post.call(
            lambda: self._lose_link(self.outside, number, reason, is_ours)
        )
        self.exchange.begin(self.outside)
        # Those inside start before those who use them, and stop after them.
        self._lives += [NestLife(nest, self) for nest in self._nests.values()]
        self._pods = {pod.name: PodLife(pod, self) for pod in self.spec.pods}
        self._lives += self._pods.values()
        self._left = len(self._lives)
        for life in self._lives:
            life.task.add_done_callback(self._look_over)
        await self._wanted
        if not self._is_inner:
            self.outside.close("its troupe is stopping")
        assert self._deadline is not None
        await shut_down(self.spec.name, self._lives, self._deadline)
        self.exchange.close("its troupe is over")
        for guest in guests:
            guest.kill(Ending(PodPhase.COMPLETED, "the troupe is over"))
        if rides:
            await asyncio.wait(rides, timeout=LAST_S)

    def _look_over(self, task: asyncio.Task[None]) -> None:
        """One life is over. If nobody is left, there is nothing to play any more."""
        self._left -= 1
        error = None if task.cancelled() else task.exception()
        if error is not None:
            # A fault of our own must not be silent: nobody would ever start that pod again.
            self._fail(PodFailed.of("kubelet", "", f"{task.get_name()}: {safe_repr(error)}", error))
        if not self._left:
            if self._fallen is not None and not self.is_stopping:
                # Nobody is left, and not in good order: that must not look like success.
                self._fail(self._fallen)
            self._want_stop(None)

    def _want_stop(self, within_ms: float | None) -> None:
        ms = self.spec.stop_ms if within_ms is None else within_ms
        if self._deadline is None:
            self._deadline = Deadline(ms)
        elif within_ms is not None:
            self._deadline.shorten(ms)
        self.is_stopping = True
        if not self._wanted.done():
            self._wanted.set_result(None)

    def _close(self, error: BaseException | None) -> None:
        if error is not None:
            self.failure = PodFailed.of("kubelet", "", f"it is broken: {safe_repr(error)}", error)
        if self.main is not None:
            self.main.turn.cancel()
        if not self.up.done() and self.failure is None:
            self.up.set_exception(PodGone(f"troupe {self.spec.name!r} was stopped before all its pods ran"))
        self._settle_up()
        self.over.set_result(None)

    def _blame(self, error: BaseException) -> None:
        """An exit or a Ctrl-C came out of a handler of a cooperative pod, and has ended its loop: that pod has failed."""
        for stage in self.exchange.stages.values():
            if isinstance(stage, CooperativeStage) and stage.ensemble.loop.kernel.is_closed:
                stage.kill(failed_by(error))
                return
        logger.error(
            "%r came to the kubelet of troupe %r, and nobody knows from where: it goes on",
            error,
            self.spec.name,
        )

    def _hear(self, stage: Stage, phase: PodPhase, reason: str) -> None:
        """An incarnation has come into a phase that is no end."""
        if stage.pod is None or self.exchange.stages.get(stage.pod) is not stage:
            return
        if self.phases.of(stage.pod).phase.is_end:
            # It was told already that it has failed.
            return
        if phase is PodPhase.RUNNING:
            self._pods[stage.pod].run()
            self._arrivals.add(stage)
            return
        self._arrivals.finish(stage)
        self.phases.tell(stage.pod, phase, reason, number=stage.number)

    def _hear_failing(self, stage: Stage, ending: Ending) -> None:
        """An incarnation has failed, and its other actors are ending."""
        if stage.pod is not None and stage.pod in self._pods:
            self._pods[stage.pod].fail(stage, ending)

    def _lose_link(self, stage: Stage, number: int, reason: str, is_ours: bool) -> None:
        """A link has failed: the incarnation whose process is to blame has failed with it, as nobody could reach it any more."""
        blamed = self.exchange.lose(stage, number, is_ours=is_ours)
        if blamed is not None:
            culprit, witness = blamed
            culprit.fail_alive(f"its link with {witness} ended while its process was alive: {reason}")

    def _arrive(self, stage: Stage) -> None:
        """An incarnation runs, and whoever hears of it can send to it."""
        assert stage.pod is not None
        self.phases.tell(stage.pod, PodPhase.RUNNING, "", number=stage.number)
        self.bear(stage.pod)

    # -- what lives need of it -------------------------------------------------------------------------------------------------

    def stage_of(self, pod: PodSpec, number: int) -> Stage:
        """Make the stage of an incarnation."""
        if pod.thread is ThreadModel.PROCESS:
            return ProcessStage(self.spec, pod, number, self._told, self._address)
        if pod.thread is ThreadModel.MAIN:
            assert self.main is not None
            return self.main
        kind = CooperativeStage if pod.thread is ThreadModel.COOPERATIVE else DedicatedStage
        registry = self.exchange.registries[pod.name]
        return kind(self.spec, pod.name, number, self._told, extra=self._extra, registry=registry)

    def leave(self, stage: Stage, reason: str) -> None:
        """An incarnation has ended, for a reason: nobody is there any more, and its books are closed."""
        self._arrivals.finish(stage)
        self.exchange.leave(stage, reason)
        self._arrivals.look()
        self.past += stage.final

    def tell_failed(self, stage: Stage, reason: str) -> None:
        """An incarnation has failed, and has not ended yet."""
        assert stage.pod is not None
        self._arrivals.finish(stage)
        self.phases.tell(stage.pod, PodPhase.FAILED, reason, number=stage.number)

    async def pause(self, ms: float) -> bool:
        """Wait; False, at once, if the troupe begins to stop."""
        await asyncio.wait((self._wanted,), timeout=ms / 1000)
        return not self._wanted.done()

    def bear(self, name: str) -> None:
        """One runs, maybe for the first time."""
        self._unborn.discard(name)
        if not self._unborn:
            self._settle_up()

    def bury(self, name: str, ending: Ending, plan: Plan) -> None:
        """One has ended for good: see what that means for the troupe."""
        if self.is_stopping:
            return
        nest = self._nests.get(name)
        is_needed = nest is None or nest.spec.is_watched
        if plan.verdict is Verdict.ESCALATE:
            self._fail(PodFailed.of(name, ending.actor, plan.reason, ending.cause))
        elif ending.is_failure and is_needed and name in self._unborn:
            self._fail(PodFailed.of(name, ending.actor, f"it did not start: {ending.reason}", ending.cause))
        else:
            if ending.is_failure and is_needed:
                self._fallen = PodFailed.of(name, ending.actor, ending.reason, ending.cause)
            self.bear(name)
            if self.main is not None and name == self.main.pod:
                self._want_stop(None)

    def _fail(self, failure: PodFailed) -> None:
        """The troupe cannot go on: say so, loudly, and stop it."""
        self.failure = failure
        logger.error(
            "troupe %r has failed, and is stopped: %s", self.spec.name, failure, exc_info=failure.__cause__
        )
        self._settle_up()
        self._want_stop(None)

    def _settle_up(self) -> None:
        if self.up.done():
            return
        self.up_at = time.monotonic()
        if self.failure is None:
            self.up.set_result(None)
        else:
            self.up.set_exception(self.failure)
