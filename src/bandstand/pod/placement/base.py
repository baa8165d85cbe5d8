"""The interface between the controller and one incarnation of a pod, and what all placements in this process share."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from bandstand.core.logs import SafeLogger
from bandstand.errors import WrongThreadError
from bandstand.errors.formatting import safe_repr
from bandstand.pod.cpu_affinity import pin, unpin
from bandstand.pod.enums import PodPhase
from bandstand.pod.pod_runtime import PodRuntime
from bandstand.pod.restart import PodEnding
from bandstand.pod.status import PodStats

if TYPE_CHECKING:
    import socket

    from bandstand.core import ActorId
    from bandstand.pod.address_book import AddressBook
    from bandstand.pod.link import Undelivered
    from bandstand.pod.spec import TroupeSpec

__all__ = (
    "IDLE",
    "LocalPlacement",
    "Placement",
    "PlacementCallbacks",
    "PodActivity",
    "PodLocation",
    "ending_from_exception",
    "report_started",
)

logger = SafeLogger("bandstand.pod")


@dataclass(frozen=True, slots=True)
class PodLocation:
    """Where an incarnation runs, in terms of the operating system."""

    process: int | None = None
    """The id of its process; None if it runs in this one."""
    native_id: int | None = None
    """The native id of its thread."""
    core: int | None = None
    """The CPU core that it is pinned to, if pinning has succeeded."""


@dataclass(frozen=True, slots=True)
class PodActivity:
    """What an incarnation is doing."""

    is_quiet: bool
    """Whether it has nothing to do, and nothing that it has sent is unanswered."""
    waiting: Mapping[str, int]
    """How many messages wait in the mailbox of each role."""
    stats: PodStats = PodStats()  # noqa: RUF009  # frozen
    """The counts of messages to its actors, and of those that it has sent to other processes."""


IDLE = PodActivity(is_quiet=True, waiting={})
"""The activity of an incarnation that has ended."""


@dataclass(frozen=True, slots=True)
class PlacementCallbacks:
    """What a placement calls when something happens. Always on the controller's thread, except for `on_undelivered`."""

    on_phase: Callable[[Placement, PodPhase, str], object]
    """The incarnation has entered a phase, for a reason. Not called for the phases that end it."""
    on_started: Callable[[Placement], object]
    """Its actors are being started. From now on the placement accepts `attach` and news about other pods."""
    on_peer_reachable: Callable[[Placement, str], object]
    """The link to another pod is up, and the incarnation can reach its actors."""
    on_failing: Callable[[Placement, PodEnding], object]
    """The incarnation has failed and is stopping its other actors."""
    on_undelivered: Callable[[Undelivered], object]
    """A message to another process was lost. Called on any thread."""
    on_link_lost: Callable[[Placement, int, str, bool], object] = (
        lambda _placement, _number, _reason, _is_ours: None
    )
    """The link with this number has failed, for a reason; True if this side of it is at fault."""
    is_stopping: Callable[[], bool] = lambda: False
    """Whether the deployment is stopping."""


class Placement(Protocol):
    """One incarnation of a pod, or the caller's part of a deployment. Call everything but `kill` on the controller's thread."""

    @property
    def pod(self) -> str | None:
        """The pod's name; None for the caller's part."""
        ...

    @property
    def number(self) -> int:
        """The number of the incarnation."""
        ...

    @property
    def is_out_of_process(self) -> bool:
        """Whether it runs in a process of its own, so that all other pods need a link to it."""
        ...

    @property
    def exposed(self) -> Mapping[str, ActorId]:
        """The actors in its exposed roles, by role; empty if it is out of process."""
        ...

    @property
    def location(self) -> PodLocation:
        """Where it runs."""
        ...

    @property
    def final(self) -> PodStats:
        """Its message counts after it has ended; zero as far as a killed process could not report them."""
        ...

    async def run(self) -> PodEnding:
        """Run the incarnation to its end. Raises nothing but a cancellation."""
        ...

    # -- news about other pods -------------------------------------------------------------------------------------------------

    def publish(self, pod: str, addresses: Mapping[str, ActorId]) -> None:
        """Set the addresses of a pod of this process that has started to run."""
        ...

    def withdraw(self, pod: str, reason: str) -> None:
        """Remove the addresses of a pod whose incarnation has ended, and close the link to it."""
        ...

    def retire(self, pod: str, reason: str) -> None:
        """Mark a pod as gone for good."""
        ...

    def attach(self, peer: str | None, end: socket.socket, *, is_running: bool, number: int) -> None:
        """Add one end of a link to a pod, or to the caller's part for None. The placement owns the socket from now on.

        `number` identifies the link in `PlacementCallbacks.on_link_lost`.
        """
        ...

    def announce(self, peer: str) -> None:
        """Mark the pod at the other end of a link as running."""
        ...

    # -- its own end -----------------------------------------------------------------------------------------------------------

    def stop(self, within_ms: float) -> None:
        """Handle the messages that are there, accept no others, and end."""
        ...

    def kill(self, ending: PodEnding) -> None:
        """End at once, with this ending."""
        ...

    def fail_if_alive(self, reason: str) -> None:
        """End with a failure because a link or the control channel is lost, unless the process is exiting anyway."""
        ...

    def abandon(self, ending: PodEnding) -> None:
        """Make `run` return although the incarnation does not end, and leave it behind."""
        ...

    def activity(self) -> Future[PodActivity]:
        """Ask what it is doing. The future stays pending as long as its thread is blocked."""
        ...


def report_started(placement: Placement, callbacks: PlacementCallbacks) -> None:
    """Call `on_started`. If that fails, the incarnation cannot be reached, so kill it."""
    try:
        callbacks.on_started(placement)
    except Exception as error:
        logger.exception("pod %r cannot be connected to its peers", placement.pod)
        placement.kill(
            PodEnding(
                PodPhase.FAILED, f"it could not be connected to its peers: {safe_repr(error)}", "", error
            )
        )


def ending_from_exception(error: BaseException) -> PodEnding:
    """The ending of an incarnation whose event loop has raised: an exit, Ctrl-C or an internal error, and not a failed actor."""
    return PodEnding(PodPhase.FAILED, f"its event loop raised {safe_repr(error)}", "", error)


def _call_now(function: Callable[[], object]) -> None:
    function()


class LocalPlacement:
    """A pod runtime in this process, on the thread that calls `run_runtime`. Subclasses choose the thread.

    Methods that act on the runtime pass the call to its thread. Calls stay in order.

    Args:
        spec: the whole deployment.
        pod: the pod's name; None for the caller's part.
        number: the number of the incarnation.
        callbacks: called when something happens.
        extra: objects for its directories besides the handles of the deployment's own roles, by name.
        address_book: how its handles find other pods, shared by all incarnations; None to create one for this incarnation.
        call_controller: calls a function on the controller's thread.
    """

    is_out_of_process = False
    is_abandoned = False
    """Whether the controller has left it behind because its thread does not end."""

    def __init__(
        self,
        spec: TroupeSpec,
        pod: str | None,
        number: int,
        callbacks: PlacementCallbacks,
        *,
        extra: Mapping[str, object] | None = None,
        address_book: AddressBook | None = None,
        call_controller: Callable[[Callable[[], object]], object] = _call_now,
    ) -> None:
        self.callbacks = callbacks
        self.location = PodLocation()
        self._call_controller = call_controller
        self.runtime = PodRuntime(
            spec,
            pod,
            number,
            on_phase=self._on_phase,
            on_undelivered=callbacks.on_undelivered,
            on_reachable=self._on_peer_reachable,
            on_failing=self._on_failing,
            on_link_lost=self._on_link_lost,
            extra=extra,
            address_book=address_book,
        )
        # An event loop keeps only weak references to tasks.
        self._stop_task: asyncio.Task[None] | None = None

    @property
    def pod(self) -> str | None:
        """The pod's name; None for the caller's part."""
        return None if self.runtime.pod is None else self.runtime.pod.name

    @property
    def number(self) -> int:
        """The number of the incarnation."""
        return self.runtime.number

    @property
    def exposed(self) -> Mapping[str, ActorId]:
        """The actors in its exposed roles, by role."""
        return self.runtime.exposed

    @property
    def final(self) -> PodStats:
        """Its message counts after it has ended; of an abandoned one, as far as other threads can read them."""
        if self.is_abandoned:
            return self.runtime.abandoned_stats()
        try:
            return self.runtime.stats()
        except WrongThreadError:
            # It was given up, but its thread is still running.
            return self.runtime.abandoned_stats()

    async def run(self) -> PodEnding:
        """Run on the current event loop, which is the controller's, to the end."""
        report_started(self, self.callbacks)
        return await self.run_runtime()

    async def run_runtime(self) -> PodEnding:
        """Run the runtime on the current event loop to its end."""
        self.location = replace(self.location, native_id=threading.get_native_id())
        return await self.runtime.run()

    def pin_thread(self, core: int | None) -> None:
        """Pin the current thread to a core. Without one, undo a pinning that it has inherited from the starting thread."""
        is_pinned = core is not None and pin(core, f"pod {self.runtime.name!r}")
        if not is_pinned:
            unpin()
        self.location = PodLocation(native_id=threading.get_native_id(), core=core if is_pinned else None)

    # -- news about other pods -------------------------------------------------------------------------------------------------

    def publish(self, pod: str, addresses: Mapping[str, ActorId]) -> None:
        """Set the addresses of a pod of this process that has started to run."""
        self.runtime.address_book.publish(pod, addresses)

    def withdraw(self, pod: str, reason: str) -> None:
        """Remove the addresses of a pod whose incarnation has ended, and close the link to it."""
        self.runtime.address_book.withdraw(pod)
        self.call_runtime(partial(self.runtime.detach, pod, reason))

    def retire(self, pod: str, reason: str) -> None:
        """Mark a pod as gone for good."""
        self.runtime.address_book.retire(pod, reason)
        self.call_runtime(partial(self.runtime.links.retire, pod, reason))

    def attach(self, peer: str | None, end: socket.socket, *, is_running: bool, number: int = 0) -> None:
        """Add one end of a link to a pod, or to the caller's part for None."""
        self.call_runtime(
            partial(self.runtime.attach, peer, end, is_running=is_running, number=number), end.close
        )

    def announce(self, peer: str) -> None:
        """Mark the pod at the other end of a link as running."""
        self.call_runtime(partial(self.runtime.announce, peer))

    # -- its own end -----------------------------------------------------------------------------------------------------------

    def stop(self, within_ms: float) -> None:
        """Handle the messages that are there, accept no others, and end."""
        self.call_runtime(partial(self._stop, within_ms))

    def kill(self, ending: PodEnding) -> None:
        """End at once, with this ending. From any thread."""
        self.runtime.kill(ending)

    def fail_if_alive(self, reason: str) -> None:
        """Do nothing: if a link to this process is lost, its other end is at fault."""

    def abandon(self, ending: PodEnding) -> None:
        """Kill it: it runs on the controller's own thread, so that thread is not blocked."""
        self.kill(ending)

    def activity(self) -> Future[PodActivity]:
        """Ask what it is doing."""
        answer: Future[PodActivity] = Future()
        if self.location.native_id == threading.get_native_id():
            # The caller may block this thread while it waits for the answer.
            self._answer_activity(answer)
        else:
            self.call_runtime(partial(self._answer_activity, answer), lambda: answer.set_result(IDLE))
        return answer

    # -- internals -------------------------------------------------------------------------------------------------------------

    def call_runtime(
        self, function: Callable[[], object], if_ended: Callable[[], object] = lambda: None
    ) -> None:
        """Call a function on the thread of the runtime, in the order of these calls; `if_ended` instead if that has ended."""
        proxy_loop = self.runtime.proxy_loop
        # The inbox of a closed kernel calls the function at once, on this thread.
        proxy_loop.kernel.inbox.call_soon(
            lambda: function() if not proxy_loop.kernel.is_closed else if_ended()
        )

    def _stop(self, within_ms: float) -> None:
        if self._stop_task is None:
            self._stop_task = asyncio.get_running_loop().create_task(
                self.runtime.stop(within_ms), name=f"bandstand stops {self.runtime.name}"
            )

    def _answer_activity(self, answer: Future[PodActivity]) -> None:
        if answer.set_running_or_notify_cancel():
            runtime = self.runtime
            answer.set_result(PodActivity(runtime.is_quiet, runtime.waiting(), runtime.stats()))

    def _on_phase(self, phase: PodPhase, reason: str) -> None:
        # `run` returns how it ends.
        if not phase.is_end:
            self._call_controller(lambda: self.callbacks.on_phase(self, phase, reason))

    def _on_peer_reachable(self, peer: str) -> None:
        self._call_controller(lambda: self.callbacks.on_peer_reachable(self, peer))

    def _on_failing(self, ending: PodEnding) -> None:
        self._call_controller(lambda: self.callbacks.on_failing(self, ending))

    def _on_link_lost(self, number: int, reason: str, is_ours: bool) -> None:
        self._call_controller(lambda: self.callbacks.on_link_lost(self, number, reason, is_ours))
