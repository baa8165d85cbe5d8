"""The controller: one thread that starts, watches and restarts the pods of a deployment.

The public API and the log call it the kubelet.

It has one task for each pod: start an incarnation, wait for its end, decide, wait, start again. Nested deployments have a task each,
too, and a controller and thread of their own. Cooperative pods run on the controller's thread. It does not poll: everything
that happens wakes its event loop.

It is not an actor: whether pods run must be known without sending messages to actors.

    Controller
     ├─ ControllerThread     the thread and its event loop
     ├─ Membership           which incarnations are there, and their links
     ├─ ReadinessTracker     when a pod counts as RUNNING
     ├─ PodLifecycle         one for each pod: its incarnations, one after the other
     └─ NestedLifecycle      one for each nested deployment
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from bandstand.core.asyncio_host import new_event_loop
from bandstand.core.logs import SafeLogger
from bandstand.errors import PodFailedError, PodGoneError
from bandstand.errors.formatting import safe_repr, safe_str
from bandstand.errors.validation import to_ms
from bandstand.pod.cpu_affinity import pin, unpin
from bandstand.pod.enums import PodPhase, ThreadModel
from bandstand.pod.membership import Membership
from bandstand.pod.placement import (
    CooperativePlacement,
    DedicatedPlacement,
    MainPlacement,
    PlacementCallbacks,
    ProcessPlacement,
)
from bandstand.pod.placement.base import ending_from_exception
from bandstand.pod.placement.threads import CANCEL_TIMEOUT_S, OwnedEventLoop
from bandstand.pod.restart import PodAction, PodEnding, RestartDecision, RestartTracker
from bandstand.pod.shutdown import Deadline, Stoppable, shut_down
from bandstand.pod.status import PodStats, thread_location
from bandstand.pod.threads import call_later_on, call_threadsafe, wait_done
from bandstand.supervision import RestartPolicy

if TYPE_CHECKING:
    from bandstand.pod.declaration import NestedSpec
    from bandstand.pod.link import Undelivered
    from bandstand.pod.phases import Phases
    from bandstand.pod.placement import CallerPlacement, Placement, PodActivity
    from bandstand.pod.spec import PodSpec, TroupeSpec

__all__ = (
    "Controller",
    "ControllerThread",
    "NestedDeployment",
    "NestedLifecycle",
    "PodLifecycle",
    "ReadinessTracker",
)

logger = SafeLogger("bandstand.pod")

# How long an incarnation that failed may take to end before its failure is reported, in seconds. Most end at once; then everything of
# it has ended when the failure is reported.
REPORT_FAILURE_AFTER_S = 0.1
# How long a pod that runs waits at most until all others can reach it, in seconds.
READY_TIMEOUT_S = 1.0


@final
class Controller:
    """Runs a deployment, once: from `start` until `ended`.

    Args:
        spec: the deployment.
        phases: records the phases of its pods.
        caller: the caller's part of the deployment.
        nested: the nested deployments, by name.
        is_nested: whether the deployment is nested in another one. Then it may be restarted, and its handles wait for that.
        on_undelivered: called with messages to other processes that were lost, on any thread.
        class_path: where the class of the deployment can be imported, if its processes need it.

    Attributes:
        ready: done when all pods have run; with the failure, if the deployment fails before.
        ended: done when everything has ended.
        failure: why the deployment failed; None if it has not.
        main: the placement of the main pod; None if there is none.
        caller: the caller's part of the deployment.
    """

    def __init__(
        self,
        spec: TroupeSpec,
        phases: Phases,
        caller: CallerPlacement,
        *,
        nested: Mapping[str, NestedDeployment] | None = None,
        is_nested: bool = False,
        on_undelivered: Callable[[Undelivered], object] = lambda _message: None,
        class_path: str | None = None,
    ) -> None:
        self.spec = spec
        self.phases = phases
        self._thread = ControllerThread(spec.name, spec.core, self._main, self._on_interrupt, self._close)
        self.thread = self._thread.thread
        self.membership = Membership(spec, call_later_on(self._thread.event_loop))
        self.ready: Future[None] = Future()
        self.ended: Future[None] = Future()
        self.failure: PodFailedError | None = None
        # The last failure for good of a pod that the deployment does not need.
        self._last_pod_failure: PodFailedError | None = None
        self.is_stopping = False
        self.is_abandoned = False
        """Whether its thread is stuck, and is not waited for any more."""
        self.ready_at = 0.0
        self._ended_stats = PodStats()
        self.caller = caller
        self._nested = dict(nested or {})
        self._is_nested = is_nested
        self._class_path = class_path
        self._readiness = ReadinessTracker(self.membership, self._on_ready)
        self._callbacks = PlacementCallbacks(
            on_phase=self._on_phase,
            on_started=self.membership.add,
            on_peer_reachable=self._readiness.mark_reachable,
            on_failing=self._on_failing,
            on_undelivered=on_undelivered,
            on_link_lost=self._on_link_lost,
            is_stopping=lambda: self.is_stopping,
        )
        self._extra = {name: each.directory for name, each in self._nested.items()}
        self._not_started = {pod.name for pod in spec.members} | set(self._nested)
        self._lifecycles: list[Stoppable] = []
        self._pods: dict[str, PodLifecycle] = {}
        # How many lifecycles have not ended.
        self._left = 0
        self._deadline: Deadline | None = None
        self._stop_requested: asyncio.Future[None] = self._thread.event_loop.create_future()
        mains = [pod.name for pod in spec.pods if pod.thread is ThreadModel.MAIN]
        self.main: MainPlacement | None = None
        if mains:
            address_book = self.membership.address_books[mains[0]]
            self.main = MainPlacement(
                spec, mains[0], self._callbacks, extra=self._extra, address_book=address_book
            )

    # -- from any thread ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread. Call it once. If the system cannot start a thread, the deployment fails and has ended."""
        try:
            self._thread.start()
        except RuntimeError as error:
            self.failure = PodFailedError.of(
                "kubelet", "", f"its thread did not start: {safe_str(error)}", error
            )
            self._close(None)

    def stop(self, within_ms: float | None = None) -> None:
        """Request a stop of everything within a time; None for that of the spec. The shortest time requested counts."""
        self.call(lambda: self._request_stop(within_ms))

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended. Returns at once on the thread itself."""
        self._thread.join(seconds)

    def call(self, function: Callable[[], object]) -> bool:
        """Call a function on the controller's thread, in the order of the requests; return False if the thread has ended."""
        return call_threadsafe(self._thread.event_loop, function)

    def activities(self) -> Future[Mapping[str | None, Future[PodActivity]]] | None:
        """Ask all incarnations how they are, by pod. None if the controller has ended.

        The outer future is done when the controller's thread has asked.
        """
        answer: Future[Mapping[str | None, Future[PodActivity]]] = Future()

        def ask_all() -> None:
            answer.set_result(
                {pod: placement.activity() for pod, placement in self.membership.placements.items()}
            )

        if threading.current_thread() is self.thread:
            ask_all()
        elif not self.call(ask_all):
            return None
        return answer

    def ping(self) -> Mapping[str, Future[None]]:
        """Ping the process pods that run over their links with the caller; return a future for each pod.

        Empty on the thread that runs the caller's part: the answers arrive there.
        """
        if self.caller.location.native_id == threading.get_native_id():
            return {}
        return {
            pod.name: self.caller.ping(pod.name)
            for pod in self.spec.members
            if pod.thread is ThreadModel.PROCESS
            and any(role.is_exposed for role in pod.roles)
            and self.phases.of(pod.name).phase is PodPhase.RUNNING
        }

    def ended_stats(self) -> PodStats:
        """Return the counts of incarnations that have ended, and of messages that wait, or waited, for pods that are down."""
        return sum((book.stats() for book in self.membership.address_books.values()), self._ended_stats)

    # -- on its own thread -------------------------------------------------------------------------------------------------------

    async def _main(self) -> None:
        callers: list[CallerPlacement] = []
        if not self._is_nested:
            callers += [caller for each in self._nested.values() for caller in each.callers]
        if not self.caller.is_hosted_elsewhere:
            callers.append(self.caller)
        tasks = [asyncio.create_task(caller.run_runtime(), name="bandstand caller") for caller in callers]
        self.caller.on_known = lambda peer: self.call(
            lambda: self._readiness.mark_reachable(self.caller, peer)
        )
        self.caller.on_lost = lambda number, reason, is_ours: self.call(
            lambda: self._on_link_lost(self.caller, number, reason, is_ours)
        )
        self.membership.add(self.caller)
        # Nested deployments start before the pods that use them, and stop after them.
        self._lifecycles += [NestedLifecycle(each, self) for each in self._nested.values()]
        self._pods = {pod.name: PodLifecycle(pod, self) for pod in self.spec.members}
        self._lifecycles += self._pods.values()
        self._left = len(self._lifecycles)
        for lifecycle in self._lifecycles:
            lifecycle.task.add_done_callback(self._on_lifecycle_done)
        await self._stop_requested
        if not self._is_nested:
            self.caller.close("its troupe is stopping")
        assert self._deadline is not None
        # What the program has sent to replicas may still wait on its side.
        feeds = [self.caller.activity] if any(pod.replicas is not None for pod in self.spec.pods) else []
        await shut_down(self.spec.name, self._lifecycles, self._deadline, feeds)
        self.membership.close("its troupe has ended")
        for caller in callers:
            caller.kill(PodEnding(PodPhase.COMPLETED, "the troupe has ended"))
        if tasks:
            await asyncio.wait(tasks, timeout=CANCEL_TIMEOUT_S)

    def _on_lifecycle_done(self, task: asyncio.Task[None]) -> None:
        self._left -= 1
        error = None if task.cancelled() else task.exception()
        if error is not None:
            # A bug in bandstand. Without this, the pod would never be started again, and nothing would say so.
            self._fail(PodFailedError.of("kubelet", "", f"{task.get_name()}: {safe_repr(error)}", error))
        if not self._left:
            if self._last_pod_failure is not None and not self.is_stopping:
                # No pod is left, and not all ended normally: that must not look like success.
                self._fail(self._last_pod_failure)
            self._request_stop(None)

    def _request_stop(self, within_ms: float | None) -> None:
        ms = to_ms("stop_timeout", self.spec.stop_timeout) if within_ms is None else within_ms
        if self._deadline is None:
            self._deadline = Deadline(ms)
        elif within_ms is not None:
            self._deadline.shorten(ms)
        self.is_stopping = True
        if not self._stop_requested.done():
            self._stop_requested.set_result(None)

    def _close(self, error: BaseException | None) -> None:
        if error is not None:
            self.failure = PodFailedError.of("kubelet", "", f"it crashed: {safe_repr(error)}", error)
        if self.main is not None:
            self.main.ready.cancel()
        if not self.ready.done() and self.failure is None:
            self.ready.set_exception(
                PodGoneError(f"troupe {self.spec.name!r} was stopped before all its pods ran")
            )
        self._settle_ready()
        self.ended.set_result(None)

    def _on_interrupt(self, error: BaseException) -> None:
        """Fail the cooperative pod whose handler raised an exit or a Ctrl-C: that has closed its loop."""
        for placement in self.membership.placements.values():
            if isinstance(placement, CooperativePlacement) and placement.runtime.loop.kernel.is_closed:
                placement.kill(ending_from_exception(error))
                return
        logger.error(
            "the kubelet of troupe %r received %r, which came from none of its pods, and ignores it",
            self.spec.name,
            error,
        )

    # -- reports of placements ---------------------------------------------------------------------------------------------------

    def _on_phase(self, placement: Placement, phase: PodPhase, reason: str) -> None:
        """Record that an incarnation has entered a phase in which it has not ended."""
        if placement.pod is None or self.membership.placements.get(placement.pod) is not placement:
            return
        if self.phases.of(placement.pod).phase.is_end:
            # Its failure was reported before.
            return
        if phase is PodPhase.RUNNING:
            self._pods[placement.pod].mark_running()
            self._readiness.add(placement)
            return
        self._readiness.finish(placement)
        self.phases.publish(placement.pod, phase, reason, number=placement.number)

    def _on_ready(self, placement: Placement) -> None:
        """Record that an incarnation runs, and all others can send to it."""
        assert placement.pod is not None
        self.phases.publish(placement.pod, PodPhase.RUNNING, "", number=placement.number)
        self.mark_started(placement.pod)

    def _on_failing(self, placement: Placement, ending: PodEnding) -> None:
        """Handle the failure of an incarnation whose other actors are still ending."""
        if placement.pod is not None and placement.pod in self._pods:
            self._pods[placement.pod].on_failing(placement, ending)

    def _on_link_lost(self, placement: Placement, number: int, reason: str, is_ours: bool) -> None:
        """Fail the process that is at fault for a lost link: the other end could never reach it again."""
        found = self.membership.lose_link(placement, number, is_ours=is_ours)
        if found is not None:
            culprit, peer = found
            culprit.fail_if_alive(f"its link with {peer} ended while its process was alive: {reason}")

    # -- called by lifecycles ----------------------------------------------------------------------------------------------------

    def make_placement(self, pod: PodSpec, number: int) -> Placement:
        """Make the placement of an incarnation."""
        if pod.thread is ThreadModel.PROCESS:
            return ProcessPlacement(self.spec, pod, number, self._callbacks, self._class_path)
        if pod.thread is ThreadModel.MAIN:
            assert self.main is not None
            return self.main
        kind = CooperativePlacement if pod.thread is ThreadModel.COOPERATIVE else DedicatedPlacement
        address_book = self.membership.address_books[pod.name]
        return kind(
            self.spec, pod.name, number, self._callbacks, extra=self._extra, address_book=address_book
        )

    def remove(self, placement: Placement, reason: str) -> None:
        """Remove an incarnation that has ended, and add up its counts."""
        self._readiness.finish(placement)
        self.membership.remove(placement, reason)
        self._readiness.check_all()
        self._ended_stats += placement.final

    def report_failed(self, placement: Placement, reason: str) -> None:
        """Record that an incarnation has failed that has not ended yet."""
        assert placement.pod is not None
        self._readiness.finish(placement)
        self.phases.publish(placement.pod, PodPhase.FAILED, reason, number=placement.number)

    async def sleep(self, ms: float) -> bool:
        """Wait; return False, at once, when the deployment begins to stop."""
        await asyncio.wait((self._stop_requested,), timeout=ms / 1000)
        return not self._stop_requested.done()

    def mark_started(self, name: str) -> None:
        """Note that a pod, or a nested deployment, runs. After the first run of the last one, the deployment is ready."""
        self._not_started.discard(name)
        if not self._not_started:
            self._settle_ready()

    def on_retired(self, name: str, ending: PodEnding, decision: RestartDecision) -> None:
        """Decide what the end for good of a pod, or of a nested deployment, means for this deployment."""
        if self.is_stopping:
            return
        nested = self._nested.get(name)
        is_needed = nested is None or nested.spec.is_watched
        if decision.action is PodAction.ESCALATE:
            self._fail(PodFailedError.of(name, ending.actor, decision.reason, ending.cause))
        elif ending.is_failure and is_needed and name in self._not_started:
            self._fail(
                PodFailedError.of(name, ending.actor, f"it did not start: {ending.reason}", ending.cause)
            )
        else:
            if ending.is_failure and is_needed:
                self._last_pod_failure = ending.error(name)
            self.mark_started(name)
            if self.main is not None and name == self.main.pod:
                self._request_stop(None)

    def _fail(self, failure: PodFailedError) -> None:
        """Log the failure of the deployment, and stop it."""
        self.failure = failure
        logger.error(
            "troupe %r has failed and is stopping: %s", self.spec.name, failure, exc_info=failure.__cause__
        )
        self._settle_ready()
        self._request_stop(None)

    def _settle_ready(self) -> None:
        if self.ready.done():
            return
        self.ready_at = time.monotonic()
        if self.failure is None:
            self.ready.set_result(None)
        else:
            self.ready.set_exception(self.failure)


# -- lifecycles ------------------------------------------------------------------------------------------------------------------


@final
class PodLifecycle:
    """All incarnations of one pod, one after the other, in one task. On the controller's thread."""

    def __init__(self, pod: PodSpec, controller: Controller) -> None:
        self._pod = pod
        self._controller = controller
        self._placement: Placement | None = None
        # What happens if the current incarnation, which has failed, does not end soon.
        self._failure_timers: list[asyncio.TimerHandle] = []
        self._restarts = RestartTracker(pod, is_essential=pod.thread is ThreadModel.MAIN)
        self.name = f"pod {pod.name!r}"
        self.stop_ms = to_ms("stop_timeout", pod.stop_timeout)
        self.task = asyncio.create_task(self._run(), name=f"bandstand pod {pod.name}")

    async def _run(self) -> None:
        controller, pod, restarts = self._controller, self._pod, self._restarts
        number = controller.phases.of(pod.name).number + 1
        controller.phases.publish(pod.name, PodPhase.PENDING, "", number=number)
        while True:
            restarts.mark_starting()
            ending = await self._run_incarnation(number)
            decision = restarts.decide(ending, is_stopping=controller.is_stopping)
            if decision.action is not PodAction.RESTART:
                self._retire(ending, decision, number)
                return
            self._report_end(ending, number)
            number += 1
            reason = f"restarts in {decision.delay_ms:.0f} ms" if decision.delay_ms else "restarts"
            controller.phases.publish(pod.name, PodPhase.PENDING, reason, number=number)
            if not await controller.sleep(decision.delay_ms):
                stopped = PodEnding(PodPhase.COMPLETED, "stopped before it was restarted")
                self._retire(stopped, RestartDecision(PodAction.RETIRE, "the troupe is stopping"), number)
                return

    def mark_running(self) -> None:
        """Note that the current incarnation runs."""
        self._restarts.mark_running()

    async def _run_incarnation(self, number: int) -> PodEnding:
        self._placement = placement = self._controller.make_placement(self._pod, number)
        ending = PodEnding(PodPhase.FAILED, "its kubelet has ended")
        try:
            ending = await placement.run()
        except Exception as error:
            logger.exception("%s could not be run: this is a bug in bandstand", self.name)
            ending = ending_from_exception(error)
        finally:
            self._placement = None
            while self._failure_timers:
                self._failure_timers.pop().cancel()
            self._controller.remove(placement, ending.reason)
        if ending.is_failure and ending.cause is not None:
            logger.warning("%s #%d failed with this exception", self.name, number, exc_info=ending.cause)
        return ending

    def _retire(self, ending: PodEnding, decision: RestartDecision, number: int) -> None:
        # First, so that listeners of the phase find the pod gone.
        self._controller.membership.retire(self._pod.name, decision.reason)
        self._report_end(ending, number)
        self._controller.on_retired(self._pod.name, ending, decision)

    def _report_end(self, ending: PodEnding, number: int) -> None:
        """Record how an incarnation ended, unless that was recorded when it failed."""
        phases = self._controller.phases
        event = phases.of(self._pod.name)
        if event.number != number or not event.phase.is_end:
            phases.publish(self._pod.name, ending.phase, ending.describe(), number=number)

    # -- failures that take long -------------------------------------------------------------------------------------------------

    def on_failing(self, placement: Placement, ending: PodEnding) -> None:
        """Limit the end of an incarnation that has failed to the time that a stop may take."""
        if placement is not self._placement or self._failure_timers:
            return
        event_loop = asyncio.get_running_loop()
        self._failure_timers += (
            event_loop.call_later(REPORT_FAILURE_AFTER_S, self._report_failed, placement, ending),
            event_loop.call_later(self.stop_ms / 1000, self._end_failed, placement, ending),
        )

    def _report_failed(self, placement: Placement, ending: PodEnding) -> None:
        if self._pod.restart is RestartPolicy.NEVER:
            # As in `_retire`: listeners of the phase find the pod gone.
            self._controller.membership.retire(self._pod.name, f"it has failed: {ending.reason}")
        self._controller.report_failed(placement, ending.describe())

    def _end_failed(self, placement: Placement, ending: PodEnding) -> None:
        problem = f"{self.name} #{placement.number} has failed, but its actors did not end within {self.stop_ms / 1000:g} s"
        if self._pod.thread is ThreadModel.PROCESS:
            logger.warning("%s: its process is killed", problem)
            placement.kill(ending)
        elif self._pod.thread is ThreadModel.DEDICATED:
            at = self.location()
            logger.error("%s: its thread is abandoned%s", problem, at and f", at {at}")
            placement.abandon(ending)

    # -- ending it ---------------------------------------------------------------------------------------------------------------

    def activity(self) -> Future[PodActivity] | None:
        """Ask the current incarnation how it is; None if the pod does not run, and so has nothing to handle."""
        is_running = self._controller.phases.of(self._pod.name).phase is PodPhase.RUNNING
        return self._placement.activity() if self._placement is not None and is_running else None

    def stop(self, within_ms: float) -> None:
        """Let the current incarnation handle the messages it has, and end."""
        if self._placement is not None:
            self._placement.stop(within_ms)

    def kill(self, ending: PodEnding) -> None:
        """End the current incarnation at once."""
        if self._placement is not None:
            self._placement.kill(ending)

    def abandon(self, ending: PodEnding) -> None:
        """Stop waiting for the current incarnation."""
        if self._placement is not None:
            self._placement.abandon(ending)

    def location(self) -> str:
        """Return where the code of its thread is, for display."""
        return "" if self._placement is None else thread_location(self._placement.location.native_id)


@dataclass(frozen=True, slots=True)
class NestedDeployment:
    """What a controller needs to know about a nested deployment."""

    spec: NestedSpec
    callers: tuple[CallerPlacement, ...]
    """The caller's part of it, and of the deployments nested in it. The outermost controller runs them, over all incarnations."""
    directory: object
    """What the pods around it get: its handles, by role."""
    make_controller: Callable[[], Controller]
    """Makes a controller for the next incarnation."""
    close: Callable[[str], object]
    """Closes its handles, until the deployment around it is restarted and makes another controller for it."""
    stop_ms: float


@final
class NestedLifecycle:
    """All incarnations of one nested deployment, one after the other, in one task. On the thread of the controller around it."""

    def __init__(self, nested: NestedDeployment, controller: Controller) -> None:
        self._nested = nested
        self._controller = controller
        # The controller of the current incarnation.
        self._inner: Controller | None = None
        self._restarts = RestartTracker(nested.spec, is_essential=nested.spec.is_watched)
        self.name = f"troupe {nested.spec.name!r}"
        self.stop_ms = nested.stop_ms
        self.task = asyncio.create_task(self._run(), name=f"bandstand troupe {nested.spec.name}")

    async def _run(self) -> None:
        while True:
            self._restarts.mark_starting()
            ending = await self._run_incarnation()
            decision = self._restarts.decide(ending, is_stopping=self._controller.is_stopping)
            if decision.action is not PodAction.RESTART:
                break
            logger.warning("%s restarts: %s", self.name, decision.reason)
            if not await self._controller.sleep(decision.delay_ms):
                decision = RestartDecision(PodAction.RETIRE, "the troupe around it is stopping")
                break
        self._nested.close(decision.reason)
        self._controller.on_retired(self._nested.spec.name, ending, decision)

    async def _run_incarnation(self) -> PodEnding:
        self._inner = inner = self._nested.make_controller()
        inner.start()
        if self._controller.is_stopping:
            inner.stop()
        await wait_done(inner.ready)
        if inner.failure is None:
            self._restarts.mark_running()
            self._controller.mark_started(self._nested.spec.name)
        await wait_done(inner.ended)
        self._inner = None
        if inner.failure is None:
            return PodEnding(PodPhase.COMPLETED, "its pods have ended")
        return PodEnding(PodPhase.FAILED, str(inner.failure), "", inner.failure)

    # -- ending it ---------------------------------------------------------------------------------------------------------------

    def activity(self) -> Future[PodActivity] | None:
        """Return None: it drains when it is stopped, and by then the pods that use it are idle."""
        return None

    def stop(self, within_ms: float) -> None:
        """Let it handle the messages it has, and end."""
        if self._inner is not None:
            self._inner.stop(within_ms)

    def kill(self, ending: PodEnding) -> None:  # noqa: ARG002  # its own controller decides how it ended
        """End it at once."""
        self.stop(0)

    def abandon(self, ending: PodEnding) -> None:  # noqa: ARG002  # likewise
        """Stop waiting for it: its controller was asked to stop, and is stuck."""
        self.task.cancel()

    def location(self) -> str:
        """Return nothing: its own controller logs where it is stuck."""
        return ""


# -- parts -----------------------------------------------------------------------------------------------------------------------


@final
class ReadinessTracker:
    """Decides when a pod that runs counts as RUNNING: once it and all other pods can reach each other. On the controller's thread.

    Within a process that is so at once. Between processes, a link must come up at both ends first: a listener that hears that a pod
    is RUNNING, and sends to it without waiting, must not find it down. The wait is short: a pod whose thread is stuck does not hold up
    the others for longer than `READY_TIMEOUT_S`.

    Args:
        membership: knows which placements can reach each other.
        on_ready: called once with each placement that is ready.
    """

    def __init__(self, membership: Membership, on_ready: Callable[[Placement], object]) -> None:
        self._membership = membership
        self._on_ready = on_ready
        self._pending: dict[Placement, asyncio.TimerHandle] = {}

    def add(self, placement: Placement) -> None:
        """Publish a placement that runs, and wait until others can reach it."""
        self._membership.mark_running(placement)
        timer = asyncio.get_running_loop().call_later(READY_TIMEOUT_S, self.finish, placement)
        self._pending[placement] = timer
        self._check(placement)

    def mark_reachable(self, placement: Placement, peer: str) -> None:
        """Note that a placement can reach the actors of pod `peer` by a link."""
        self._membership.mark_reachable(placement, peer)
        other = self._membership.placements.get(peer)
        self._check(placement)
        if other is not None:
            self._check(other)

    def finish(self, placement: Placement) -> None:
        """Stop waiting: the placement counts as ready now. Does nothing if it did before."""
        timer = self._pending.pop(placement, None)
        if timer is not None:
            timer.cancel()
            self._on_ready(placement)

    def check_all(self) -> None:
        """Check all placements that wait: the one that they waited for may have ended."""
        for placement in list(self._pending):
            self._check(placement)

    def _check(self, placement: Placement) -> None:
        if placement in self._pending and self._membership.is_reachable(placement):
            self.finish(placement)


@final
class ControllerThread:
    """A thread with an event loop that runs one coroutine to its end, whatever else comes out of the event loop.

    Args:
        deployment: the name of the deployment.
        core: the core to pin the thread to; None for any.
        main: the coroutine function to run.
        on_interrupt: called with an exit or a Ctrl-C that a handler raised. The event loop continues.
        on_close: called on the thread at the end, when the event loop is closed; with the exception of `main`, or None.
    """

    def __init__(
        self,
        deployment: str,
        core: int | None,
        main: Callable[[], Coroutine[Any, Any, None]],
        on_interrupt: Callable[[BaseException], object],
        on_close: Callable[[BaseException | None], object],
    ) -> None:
        self._name = f"the kubelet of troupe {deployment!r}"
        self._core = core
        self._main = main
        self._on_interrupt = on_interrupt
        self._on_close = on_close
        self._hosting = OwnedEventLoop(new_event_loop, self._name)
        self.event_loop: asyncio.AbstractEventLoop = self._hosting.loop
        # A daemon: a handler of a cooperative pod that is stuck must not keep the interpreter alive.
        self.thread = threading.Thread(target=self._run, name=f"bandstand {deployment} kubelet", daemon=True)

    def start(self) -> None:
        """Start the thread.

        Raises:
            RuntimeError: the system cannot start a thread. The event loop is closed, and `on_close` is not called.
        """
        try:
            self.thread.start()
        except RuntimeError:
            self._hosting.discard()
            raise

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended, if it was started and is not the current one."""
        if self.thread.ident is not None and threading.current_thread() is not self.thread:
            self.thread.join(seconds)

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            if self._core is None or not pin(self._core, self._name):
                unpin()
            main = self.event_loop.create_task(self._main(), name=self._name)
            while not main.done():
                try:
                    self.event_loop.run_until_complete(main)
                except (KeyboardInterrupt, SystemExit) as interrupt:
                    self._on_interrupt(interrupt)
            main.result()
        except BaseException as bug:  # other threads wait for `on_close`, whatever was raised
            logger.critical("%s crashed: this is a bug in bandstand", self._name, exc_info=bug)
            error = bug
        finally:
            try:
                self._hosting.close()
            finally:
                self._on_close(error)
