"""A pod in a child process: the control messages, the child's side and the controller's side.

The controller starts a process that runs `run_pod`, and both exchange the messages below over the control channel. Messages
between actors do not pass here: they take the links, whose sockets arrive with `AttachLink`. An unknown message is an error that
fails the pod.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pkgutil import resolve_name
from typing import TYPE_CHECKING, final

from bandstand.core.logs import SafeLogger
from bandstand.errors import BandstandError, InvalidMessageError
from bandstand.errors.formatting import safe_repr, safe_str
from bandstand.errors.validation import to_ms
from bandstand.pod.cpu_affinity import pin
from bandstand.pod.enums import PodPhase
from bandstand.pod.link import Undelivered
from bandstand.pod.link.codec import PackedError, pack_error, unpack_error
from bandstand.pod.placement.base import IDLE, PodActivity, PodLocation, report_started
from bandstand.pod.pod_runtime import PodRuntime
from bandstand.pod.process import ControlChannel, ControlMessage, spawn_child
from bandstand.pod.process.control import close_fds
from bandstand.pod.restart import PodEnding
from bandstand.pod.spec import TroupeSpec, spec_for_process
from bandstand.pod.status import PodStats

if TYPE_CHECKING:
    from bandstand.core import ActorId
    from bandstand.pod.placement.base import PlacementCallbacks
    from bandstand.pod.process import ChildProcess, ProcessExit
    from bandstand.pod.spec import PodSpec

__all__ = (
    "RUN_POD",
    "ActivityReport",
    "AttachLink",
    "LinkFailed",
    "MessageLost",
    "PeerEnded",
    "PeerReachable",
    "PeerRemoved",
    "PeerRunning",
    "PhaseChanged",
    "PodEnded",
    "PodFailing",
    "PodStart",
    "ProcessPlacement",
    "QueryActivity",
    "StopPod",
    "run_pod",
)

logger = SafeLogger("bandstand.pod")

RUN_POD = f"{__name__}:run_pod"
"""The target of a child process that runs a pod."""

# How long a process may take to exit after its pod has ended, in seconds.
EXIT_TIMEOUT_S = 2.0
# If the process exits within this time after a link or the control channel is lost, its exit is the reason, in seconds.
LOSS_GRACE_S = 1.0


# -- messages to the process -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStart:
    """The pod to run: the payload of the child process."""

    spec: TroupeSpec
    """The part of the deployment that the pod needs."""
    pod: str
    number: int
    """The number of the incarnation."""
    deployment_class: str | None = None
    """Where to import the class of the deployment from, if its `carries` is needed."""


@dataclass(frozen=True, slots=True)
class AttachLink:
    """Use a new link to a pod, or to the caller's part for None. The descriptor of its socket comes with the message."""

    peer: str | None
    is_running: bool
    """Whether that pod runs. Otherwise `PeerRunning` follows."""
    number: int = 0
    """The number of the link."""


@dataclass(frozen=True, slots=True)
class PeerRunning:
    """The pod at the other end of a link runs now."""

    peer: str


@dataclass(frozen=True, slots=True)
class PeerEnded:
    """An incarnation of a pod has ended. A link to it is useless."""

    pod: str
    reason: str = "it has ended"


@dataclass(frozen=True, slots=True)
class PeerRemoved:
    """A pod is gone for good."""

    pod: str
    reason: str


@dataclass(frozen=True, slots=True)
class StopPod:
    """Handle the messages that are there, accept no others, and end."""

    within_ms: float


@dataclass(frozen=True, slots=True)
class QueryActivity:
    """Answer with an `ActivityReport` of the same number."""

    number: int


# -- messages from the process ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PhaseChanged:
    """The pod has entered a phase, for a reason."""

    phase: PodPhase
    reason: str


@dataclass(frozen=True, slots=True)
class PeerReachable:
    """The link to another pod is up, and this pod can reach its actors."""

    peer: str


@dataclass(frozen=True, slots=True)
class LinkFailed:
    """A link has failed."""

    number: int
    reason: str
    is_ours: bool
    """Whether this process is at fault, as far as it knows."""


@dataclass(frozen=True, slots=True)
class MessageLost:
    """A message to another process was lost. Its data is left out, because it may not be picklable."""

    undelivered: Undelivered


@dataclass(frozen=True, slots=True)
class ActivityReport:
    """The answer to `QueryActivity`."""

    number: int
    activity: PodActivity


@dataclass(frozen=True, slots=True)
class PodFailing:
    """The pod has failed and is stopping its other actors."""

    reason: str
    actor: str
    fault: PackedError | None

    @classmethod
    def of(cls, ending: PodEnding) -> PodFailing:
        """Make the message from an ending."""
        return cls(ending.reason, ending.actor, None if ending.cause is None else pack_error(ending.cause))

    def ending(self) -> PodEnding:
        """Restore the ending."""
        cause = None if self.fault is None else unpack_error(self.fault)
        return PodEnding(PodPhase.FAILED, self.reason, self.actor, cause)


@dataclass(frozen=True, slots=True)
class PodEnded:
    """The pod has ended, and the process is exiting. The last message."""

    phase: PodPhase
    reason: str
    actor: str
    fault: PackedError | None
    stats: PodStats
    """Its final message counts."""
    is_terminated: bool = False
    """Whether it has stopped because of a SIGTERM, without a `StopPod`."""

    @classmethod
    def of(cls, ending: PodEnding, stats: PodStats, *, is_terminated: bool = False) -> PodEnded:
        """Make the message from an ending."""
        fault = None if ending.cause is None else pack_error(ending.cause)
        return cls(ending.phase, ending.reason, ending.actor, fault, stats, is_terminated)

    def ending(self) -> PodEnding:
        """Restore the ending."""
        cause = None if self.fault is None else unpack_error(self.fault)
        return PodEnding(self.phase, self.reason, self.actor, cause)


# -- in the child process --------------------------------------------------------------------------------------------------


async def run_pod(control: ControlChannel, start: PodStart) -> None:
    """Run a pod to its end, and report how it has ended. The target of the child process.

    The exit code is 1 if the pod has failed. SIGTERM, which cancels this, stops the pod.
    """
    carries = () if start.deployment_class is None else resolve_name(start.deployment_class).carries
    process = _PodProcess(control, replace(start, spec=replace(start.spec, carries=carries)))
    ending = await process.run()
    control.send(PodEnded.of(ending, process.stats, is_terminated=process.is_terminated))
    if ending.is_failure:
        sys.exit(1)


@final
class _PodProcess:
    """A pod runtime that obeys the messages from a control channel and reports over it.

    Attributes:
        is_terminated: whether a SIGTERM has stopped it, and no `StopPod` has arrived.
    """

    __slots__ = ("_control", "_is_stop_requested", "_runtime", "_stop_ms", "_stop_task", "is_terminated")

    def __init__(self, control: ControlChannel, start: PodStart) -> None:
        self._control = control
        self._runtime = PodRuntime(
            start.spec,
            start.pod,
            start.number,
            on_phase=self._on_phase,
            on_undelivered=self._on_undelivered,
            on_reachable=self._on_peer_reachable,
            on_failing=self._on_failing,
            on_link_lost=self._on_link_lost,
        )
        self._stop_task: asyncio.Task[None] | None = None
        self._stop_ms = 0.0
        self._is_stop_requested = False
        self.is_terminated = False
        if (pod := self._runtime.pod) is not None:
            self._stop_ms = to_ms("stop_timeout", pod.stop_timeout)
            if pod.core is not None:
                # Threads that are started later inherit the core.
                pin(pod.core, f"pod {pod.name!r}")

    @property
    def stats(self) -> PodStats:
        """Its message counts."""
        return self._runtime.stats()

    async def run(self) -> PodEnding:
        """Run the pod to its end."""
        running = asyncio.create_task(self._runtime.run(), name="bandstand pod")
        receiving = asyncio.create_task(self._receive(), name="bandstand control")
        try:
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError:
                if running.done():
                    # Code in the pod has cancelled it.
                    raise
                self.is_terminated = not self._is_stop_requested
                self._stop(self._stop_ms)
                return await running
        finally:
            receiving.cancel()
            if self._stop_task is not None:
                self._stop_task.cancel()

    async def _receive(self) -> None:
        try:
            async for message in self._control:
                # On the runtime's own loop: before that has started, it cannot attach links.
                self._runtime.proxy_loop.kernel.inbox.call_soon(partial(self._on_message, message))
        except InvalidMessageError as error:
            self._fail(str(error))
        except Exception as error:
            # Without control messages, the pod could not be stopped.
            logger.exception("receiving control messages failed")
            self._fail(f"receiving control messages failed ({type(error).__name__})")

    def _on_message(self, message: ControlMessage) -> None:
        try:
            self._handle(message)
        except Exception as error:
            # It may have been a link, without which other pods cannot reach this one.
            close_fds(message.fds)
            kind = type(message.body).__name__
            logger.exception("handling the control message %s failed", kind)
            self._fail(f"handling the control message {kind} failed ({type(error).__name__})")

    def _handle(self, message: ControlMessage) -> None:
        if self._runtime.proxy_loop.kernel.is_closed:
            # The pod has ended meanwhile.
            close_fds(message.fds)
            return
        match message.body, message.fds:
            case AttachLink(peer, is_running, number), (fd,):
                self._runtime.attach(peer, socket.socket(fileno=fd), is_running=is_running, number=number)
            case PeerRunning(peer), ():
                self._runtime.announce(peer)
            case PeerEnded(pod, reason), ():
                self._runtime.address_book.withdraw(pod)
                self._runtime.detach(pod, reason)
            case PeerRemoved(pod, reason), ():
                self._runtime.address_book.retire(pod, reason)
                self._runtime.links.retire(pod, reason)
            case StopPod(within_ms), ():
                self._is_stop_requested = True
                self.is_terminated = False
                self._stop(within_ms)
            case QueryActivity(number), ():
                activity = PodActivity(self._runtime.is_quiet, self._runtime.waiting(), self.stats)
                self._control.send(ActivityReport(number, activity))
            case body, fds:
                close_fds(fds)
                self._fail(f"unknown control message with {len(fds)} descriptors: {safe_repr(body)}")

    def _stop(self, within_ms: float) -> None:
        if self._stop_task is None:
            self._stop_task = asyncio.create_task(self._runtime.stop(within_ms), name="bandstand stop")

    def _fail(self, reason: str) -> None:
        self._runtime.kill(PodEnding(PodPhase.FAILED, reason))

    def _on_phase(self, phase: PodPhase, reason: str) -> None:
        # `PodEnded` reports how the pod ends.
        if not phase.is_end:
            self._control.send(PhaseChanged(phase, reason))

    def _on_peer_reachable(self, peer: str) -> None:
        self._control.send(PeerReachable(peer))

    def _on_failing(self, ending: PodEnding) -> None:
        self._control.send(PodFailing.of(ending))

    def _on_link_lost(self, number: int, reason: str, is_ours: bool) -> None:
        self._control.send(LinkFailed(number, reason, is_ours))

    def _on_undelivered(self, undelivered: Undelivered) -> None:
        self._control.send(MessageLost(replace(undelivered, data=None)))


# -- in the controller's process -------------------------------------------------------------------------------------------


@final
class ProcessPlacement:
    """A pod in a process of its own.

    Args:
        spec: the whole deployment.
        pod: the pod.
        number: the number of the incarnation.
        callbacks: called when something happens.
        deployment_class: where the child imports the class of the deployment from; None if it does not need it.
    """

    is_out_of_process = True

    def __init__(
        self,
        spec: TroupeSpec,
        pod: PodSpec,
        number: int,
        callbacks: PlacementCallbacks,
        deployment_class: str | None,
    ) -> None:
        self.number = number
        self.exposed: Mapping[str, ActorId] = {}
        self.final = PodStats()
        self._start = PodStart(
            spec=spec_for_process(spec, pod.name),
            pod=pod.name,
            number=number,
            deployment_class=deployment_class,
        )
        self._name = f"{spec.name}.{pod.name}"
        self._core = pod.core
        self._callbacks = callbacks
        self._child: ChildProcess | None = None
        self._spawning: asyncio.Task[ChildProcess] | None = None
        self._queries: dict[int, Future[PodActivity]] = {}
        self._query_numbers = count(1)
        # Why the controller has killed it. This explains more than the exit of a killed process.
        self._kill_ending: PodEnding | None = None
        # Kills it if it stays alive after a link or the control channel is lost.
        self._failing: asyncio.Task[None] | None = None
        self._is_stop_requested = False

    @property
    def pod(self) -> str:
        """The pod's name."""
        return self._start.pod

    @property
    def location(self) -> PodLocation:
        """Where it runs, as the operating system reports."""
        if self._child is None or self._child.exit is not None:
            return PodLocation()
        core = self._core
        is_pinned = core is not None and _cores_of(self._child.pid) == {core}
        return PodLocation(process=self._child.pid, core=core if is_pinned else None)

    async def run(self) -> PodEnding:
        """Start the process, and wait for its end."""
        self._spawning = asyncio.create_task(
            spawn_child(RUN_POD, name=self._name, payload=self._start), name=f"bandstand starts {self._name}"
        )
        try:
            self._child = child = await self._spawning
        except asyncio.CancelledError:
            if self._kill_ending is None:
                # The caller of `run` was cancelled, not the start.
                raise
            return self._kill_ending
        except (BandstandError, TypeError, OSError) as error:
            return PodEnding(PodPhase.FAILED, f"its process did not start: {safe_str(error)}", "", error)
        async with child:
            if self._kill_ending is not None:
                # It was killed in the moment in which the start was complete.
                return self._kill_ending
            report_started(self, self._callbacks)
            try:
                ended = await self._receive(child)
                if ended is not None:
                    # It exits by itself, unless code of the program prevents that.
                    with suppress(TimeoutError):
                        async with asyncio.timeout(EXIT_TIMEOUT_S):
                            await child.wait()
                    child.kill()
                exit_ = await child.wait()
            finally:
                if self._failing is not None:
                    self._failing.cancel()
            for answer in self._queries.values():
                answer.set_result(IDLE)
            return self._ending_from(ended, exit_)

    async def _receive(self, child: ChildProcess) -> PodEnded | None:
        """Handle messages until the pod or the channel has ended."""
        while True:
            try:
                message = await child.control.receive()
            except EOFError as error:
                self.fail_if_alive(
                    f"its control channel ended while its process was alive ({safe_str(error)})"
                )
                return None
            except InvalidMessageError as error:
                self.kill(
                    PodEnding(
                        PodPhase.FAILED, f"it sent an invalid control message: {safe_str(error)}", "", error
                    )
                )
                continue
            if isinstance(message.body, PodEnded):
                return message.body
            self._handle(message.body)

    def _handle(self, body: object) -> None:
        match body:
            case PhaseChanged(phase, reason):
                self._callbacks.on_phase(self, phase, reason)
            case PeerReachable(peer):
                self._callbacks.on_peer_reachable(self, peer)
            case PodFailing() as failing:
                self._callbacks.on_failing(self, failing.ending())
            case LinkFailed(number, reason, is_ours):
                self._callbacks.on_link_lost(self, number, reason, is_ours)
            case MessageLost(undelivered):
                self._callbacks.on_undelivered(undelivered)
            case ActivityReport(number, activity):
                answer = self._queries.pop(number, None)
                if answer is not None and answer.set_running_or_notify_cancel():
                    answer.set_result(activity)
            case _:
                self.kill(
                    PodEnding(PodPhase.FAILED, f"it sent an unknown control message: {safe_repr(body)}")
                )

    def _ending_from(self, ended: PodEnded | None, exit_: ProcessExit) -> PodEnding:
        if ended is not None:
            self.final = ended.stats
            ending = ended.ending()
            is_expected = self._is_stop_requested or self._callbacks.is_stopping()
            if ended.is_terminated and not ending.is_failure and not is_expected:
                return PodEnding(PodPhase.FAILED, "its process received SIGTERM and stopped")
            return ending
        if self._kill_ending is not None:
            return self._kill_ending
        return PodEnding(PodPhase.FAILED, f"its process ended: {exit_.reason}", "", exit_.cause)

    # -- news about other pods -------------------------------------------------------------------------------------------------

    def publish(self, pod: str, addresses: Mapping[str, ActorId]) -> None:
        """Do nothing: the process reaches pods of other processes by links."""

    def withdraw(self, pod: str, reason: str) -> None:
        """Remove the addresses of a pod whose incarnation has ended, and close the link to it."""
        self._send(PeerEnded(pod, reason))

    def retire(self, pod: str, reason: str) -> None:
        """Mark a pod as gone for good."""
        self._send(PeerRemoved(pod, reason))

    def attach(self, peer: str | None, end: socket.socket, *, is_running: bool, number: int = 0) -> None:
        """Send one end of a link to the process, and close it here."""
        with end:
            if self._child is not None:
                self._child.control.send(AttachLink(peer, is_running, number), (end.fileno(),))

    def announce(self, peer: str) -> None:
        """Mark the pod at the other end of a link as running."""
        self._send(PeerRunning(peer))

    # -- its own end -----------------------------------------------------------------------------------------------------------

    def stop(self, within_ms: float) -> None:
        """Handle the messages that are there, accept no others, and end. A process that is still starting is killed."""
        self._is_stop_requested = True
        if self._child is None:
            self.kill(PodEnding(PodPhase.COMPLETED, "stopped before it ran"))
        else:
            self._send(StopPod(within_ms))

    def kill(self, ending: PodEnding) -> None:
        """Kill the process. The first ending counts."""
        self._kill_ending = self._kill_ending or ending
        if self._child is not None:
            self._child.kill()
        elif self._spawning is not None:
            self._spawning.cancel()

    def fail_if_alive(self, reason: str) -> None:
        """Kill the process because a link or the control channel is lost.

        If the process is exiting, its exit is the better explanation, so give it a moment.
        """
        if self._failing is None and self._child is not None and self._child.exit is None:
            self._failing = asyncio.create_task(
                self._fail_if_alive(self._child, reason), name=f"bandstand ends {self._name}"
            )

    async def _fail_if_alive(self, child: ChildProcess, reason: str) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LOSS_GRACE_S):
                await child.wait()
        if child.exit is None:
            self.kill(PodEnding(PodPhase.FAILED, reason))

    def abandon(self, ending: PodEnding) -> None:
        """Kill the process: no process survives that."""
        self.kill(ending)

    def activity(self) -> Future[PodActivity]:
        """Ask what it is doing."""
        answer: Future[PodActivity] = Future()
        number = next(self._query_numbers)
        if self._child is None or self._child.exit is not None:
            answer.set_result(IDLE)
        else:
            self._queries[number] = answer
            self._send(QueryActivity(number))
        return answer

    def _send(self, message: object) -> None:
        if self._child is not None:
            self._child.control.send(message)


def _cores_of(pid: int) -> set[int]:
    """The CPU cores that a process may run on; empty where the platform does not tell."""
    try:
        return os.sched_getaffinity(pid)
    except (AttributeError, OSError):
        return set()
