"""Placements in this process: on the controller's thread, on a dedicated thread, or on the thread that runs the deployment."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, final

from bandstand.core.asyncio_host import new_event_loop
from bandstand.core.logs import SafeLogger
from bandstand.errors.formatting import safe_str
from bandstand.errors.validation import to_seconds
from bandstand.pod.cpu_affinity import unpin
from bandstand.pod.enums import PodPhase
from bandstand.pod.placement.base import (
    LocalPlacement,
    PlacementCallbacks,
    ending_from_exception,
    report_started,
)
from bandstand.pod.restart import PodEnding
from bandstand.pod.status import thread_location
from bandstand.pod.threads import signals_wake_event_loop, wait_done

if TYPE_CHECKING:
    from bandstand.pod.address_book import AddressBook
    from bandstand.pod.link import Undelivered
    from bandstand.pod.spec import TroupeSpec

__all__ = (
    "CallerPlacement",
    "CooperativePlacement",
    "DedicatedPlacement",
    "MainPlacement",
    "OwnedEventLoop",
    "ThreadPlacement",
)

logger = SafeLogger("bandstand.pod")

T = TypeVar("T")

CANCEL_TIMEOUT_S = 1.0
"""How long cancelled tasks may take to end, in seconds."""
# How long a thread may take to end after its pod has ended, in seconds.
JOIN_TIMEOUT_S = 1.0
# How long after the first interrupt of the main thread a second one follows, in seconds.
SECOND_INTERRUPT_S = 0.1


@final
class CooperativePlacement(LocalPlacement):
    """A pod on the controller's event loop.

    In each iteration of the event loop, each cooperative pod runs one tick of its actors, by priority and within its budgets. The
    event loop therefore schedules the pods round robin, and sleeps when none of them has work.
    """


@final
class CallerPlacement(LocalPlacement):
    """The caller's part of a deployment: its handles, from before the deployment runs until after its end. It has no actors.

    It runs on the controller's event loop or on another one: the caller's own, or that of the controller of the deployment
    around this one.

    Args:
        spec: the whole deployment.
        on_undelivered: called with messages to other processes that were lost, on any thread.
    """

    def __init__(self, spec: TroupeSpec, on_undelivered: Callable[[Undelivered], object]) -> None:
        callbacks = PlacementCallbacks(
            on_phase=_ignore,
            on_started=_ignore,
            on_peer_reachable=lambda _placement, peer: self.on_known(peer),
            on_failing=_ignore,
            on_undelivered=on_undelivered,
            on_link_lost=lambda _placement, number, reason, is_ours: self.on_lost(number, reason, is_ours),
        )
        super().__init__(spec, None, 0, callbacks)
        self.is_hosted_elsewhere = False
        """Whether another event loop than that of the deployment's own controller runs it."""
        self.on_known: Callable[[str], object] = _ignore
        """Called with each pod that it can reach by a link, on the thread that runs it. The controller sets it."""
        self.on_lost: Callable[[int, str, bool], object] = _ignore
        """Called with the number of each link that has failed, the reason, and whether this side is at fault. Likewise."""

    def ping(self, pod: str) -> Future[None]:
        """Ask a pod of another process to answer over its link. From any thread.

        The future stays pending if there is no link or the pod does not answer.
        """
        answer: Future[None] = Future()

        def answered() -> None:
            if answer.set_running_or_notify_cancel():
                answer.set_result(None)

        self.call_runtime(lambda: self.runtime.links.ping(pod, answered))
        return answer

    def close(self, reason: str) -> None:
        """Fail all calls through its handles from now on: no pod will come back. From any thread."""
        self.runtime.address_book.close(reason)


def _ignore(*_arguments: object) -> None:
    """A callback that does nothing."""


class ThreadPlacement(LocalPlacement):
    """A pod on a thread other than the controller's, with an event loop of its own. Subclasses choose the thread."""

    def __init__(
        self,
        spec: TroupeSpec,
        pod: str,
        number: int,
        callbacks: PlacementCallbacks,
        *,
        extra: Mapping[str, object] | None = None,
        address_book: AddressBook | None = None,
    ) -> None:
        super().__init__(
            spec,
            pod,
            number,
            callbacks,
            extra=extra,
            address_book=address_book,
            call_controller=self._post_to_controller,
        )
        # Set by the controller's thread before the pod's thread starts.
        self._controller_loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Future[PodEnding] | None = None

    def abandon(self, ending: PodEnding) -> None:
        """Make `run` return, and leave the thread behind."""
        self.is_abandoned = True
        # Close the loops at once, so that messages to them fail. If the blocked handler returns, its loop ends.
        self.runtime.loop.request_stop()
        self.runtime.proxy_loop.request_stop()
        self._set_ended(ending)

    def bind_controller(self) -> None:
        """Remember the running event loop as the controller's. Call it on the controller's thread before the pod starts."""
        self._controller_loop = asyncio.get_running_loop()
        self._ended = self._controller_loop.create_future()

    async def wait_ended(self) -> PodEnding:
        """Wait for `report_ended` or `abandon`."""
        assert self._ended is not None
        return await self._ended

    def report_ended(self, ending: PodEnding) -> None:
        """Make `wait_ended` return. The last call on the pod's thread."""
        self._post_to_controller(lambda: self._set_ended(ending))

    def run_on_new_loop(self, main: Coroutine[Any, Any, PodEnding]) -> PodEnding:
        """Run a coroutine to its end on a new event loop on this thread. An exit or Ctrl-C raises from here."""
        config = self.runtime.loop.config
        event_loop = OwnedEventLoop(config.loop_factory or new_event_loop, f"pod {self.runtime.name!r}")
        try:
            # The actors have a timeout of their own for their end.
            return event_loop.run(main, to_seconds("stop_timeout", config.stop_timeout) + CANCEL_TIMEOUT_S)
        finally:
            event_loop.close()

    def _set_ended(self, ending: PodEnding) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(ending)

    def _post_to_controller(self, function: Callable[[], object]) -> None:
        event_loop = self._controller_loop
        assert event_loop is not None
        # An abandoned pod may end after the controller has closed its event loop.
        with suppress(RuntimeError):
            event_loop.call_soon_threadsafe(function)


@final
class DedicatedPlacement(ThreadPlacement):
    """A pod on a thread of its own.

    The thread is a daemon, so that a blocked handler does not keep the interpreter alive. It is joined where that is possible, and
    the log names it where it is not.
    """

    async def run(self) -> PodEnding:
        """Start the thread, and wait for the end of the pod."""
        thread = threading.Thread(
            target=self._run,
            name=f"bandstand {self.runtime.spec.name}.{self.runtime.name}",
            daemon=True,
        )
        self.bind_controller()
        try:
            thread.start()
        except RuntimeError as error:
            return PodEnding(PodPhase.FAILED, f"its thread did not start: {safe_str(error)}", "", error)
        report_started(self, self.callbacks)
        ending = await self.wait_ended()
        if not self.is_abandoned:
            # The report was the last thing that the thread did.
            thread.join(JOIN_TIMEOUT_S)
        return ending

    def _run(self) -> None:
        pod = self.runtime.pod
        assert pod is not None
        ending = PodEnding(PodPhase.FAILED, "its thread ended unexpectedly")
        try:
            self.pin_thread(pod.core)
            ending = self.run_on_new_loop(self.run_runtime())
        except BaseException as error:  # noqa: BLE001  # an exit ends this pod only
            ending = ending_from_exception(error)
        finally:
            self.report_ended(ending)


@final
class MainPlacement(ThreadPlacement):
    """A pod on the caller's thread, either on a new event loop or on the one that already runs there.

    The caller calls `run_blocking` or `run_async`, which wait until `ready` is done. If the deployment ends before that, the
    controller cancels `ready`.
    """

    def __init__(
        self,
        spec: TroupeSpec,
        pod: str,
        callbacks: PlacementCallbacks,
        *,
        extra: Mapping[str, object] | None = None,
        address_book: AddressBook | None = None,
    ) -> None:
        # There is only one incarnation: the caller does not come back for another.
        super().__init__(spec, pod, 1, callbacks, extra=extra, address_book=address_book)
        self.ready: Future[None] = Future()
        self.is_interruptible = False
        """Whether the caller's thread is the main thread and handles SIGINT."""

    async def run(self) -> PodEnding:
        """Let the caller run the pod, and wait for its end. On the controller's thread."""
        self.bind_controller()
        report_started(self, self.callbacks)
        if self.ready.set_running_or_notify_cancel():
            self.ready.set_result(None)
        return await self.wait_ended()

    def abandon(self, ending: PodEnding) -> None:
        """Make `run` return, and interrupt the handler that blocks the caller's thread, if a signal can do that."""
        super().abandon(ending)
        if self.is_interruptible:
            # The first SIGINT may only request a stop. The second one raises in the handler.
            self._interrupt()
            asyncio.get_running_loop().call_later(SECOND_INTERRUPT_S, self._interrupt)

    def _interrupt(self) -> None:
        if self.is_interruptible:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def run_blocking(self) -> None:
        """Run the pod on this thread to its end, on a new event loop. Returns at once if the deployment ends before it starts.

        Raises:
            BaseException: what the event loop raises: an exit or Ctrl-C. The pod has failed with it. Failures of actors are not
                raised.
        """
        with suppress(CancelledError):
            self.ready.result()
            self._run_on_new_loop()

    async def run_async(self) -> None:
        """Run the pod on the running event loop to its end. Otherwise like `run_blocking`."""
        await wait_done(self.ready)
        if not self.ready.cancelled():
            await self._run_on_this_loop()

    def _run_on_new_loop(self) -> None:
        pod = self.runtime.pod
        assert pod is not None
        ending = PodEnding(PodPhase.FAILED, "its thread ended unexpectedly")
        try:
            if pod.core is not None:
                self.pin_thread(pod.core)
            ending = self.run_on_new_loop(self._run_with_signals())
        except BaseException as error:
            ending = ending_from_exception(error)
            raise
        finally:
            if pod.core is not None:
                unpin()
            self.report_ended(ending)

    async def _run_with_signals(self) -> PodEnding:
        with signals_wake_event_loop():
            return await self.run_runtime()

    async def _run_on_this_loop(self) -> None:
        ending = PodEnding(PodPhase.FAILED, "its event loop ended unexpectedly")
        try:
            ending = await self.run_runtime()
        except BaseException as error:
            ending = ending_from_exception(error)
            raise
        finally:
            self.report_ended(ending)


# -- event loops -----------------------------------------------------------------------------------------------------------


@final
class _TrackedExecutor(ThreadPoolExecutor):
    """A thread pool that records whether it was ever used."""

    is_used = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Call a function on one of its threads."""
        self.is_used = True
        return super().submit(fn, *args, **kwargs)


@final
class OwnedEventLoop:
    """An event loop for one thread that closes within a bounded time.

    `asyncio.Runner` does not: at its end it waits for the threads of `asyncio.to_thread` and for tasks that resist cancellation,
    however long that takes, and until then the controller would not see that the pod has ended.

    Args:
        factory: creates the event loop.
        name: its owner, for the log: "pod 'engine'".
    """

    def __init__(self, factory: Callable[[], asyncio.AbstractEventLoop], name: str) -> None:
        self.loop = factory()
        self._name = name
        # Its own, so that `close` need not wait for it. It starts threads only when it is used.
        self._executor = _TrackedExecutor(thread_name_prefix=f"asyncio_bandstand {name}")
        self.loop.set_default_executor(self._executor)

    def run(self, main: Coroutine[Any, Any, T], cancel_timeout_s: float = CANCEL_TIMEOUT_S) -> T:
        """Run a coroutine to its end.

        If the event loop raises, because of an exit or Ctrl-C, cancel the coroutine, wait up to `cancel_timeout_s` for its end,
        and raise the same from here.
        """
        task = self.loop.create_task(main)
        try:
            return self.loop.run_until_complete(task)
        finally:
            if not task.done():
                task.cancel()
                self._wait({task}, cancel_timeout_s)

    def discard(self) -> None:
        """Close an event loop that has never run. On any thread, also one that runs another event loop."""
        self._executor.shutdown(wait=False)
        self.loop.close()

    def close(self) -> None:
        """Cancel the remaining tasks, wait a moment for their end, and close the event loop."""
        try:
            tasks = asyncio.all_tasks(self.loop)
            for task in tasks:
                task.cancel()
            self._wait(tasks, CANCEL_TIMEOUT_S)
            if left := [task.get_name() for task in tasks if not task.done()]:
                logger.error(
                    "%s: %d tasks are still running after cancellation, and are abandoned: %s",
                    self._name,
                    len(left),
                    ", ".join(left[:10]),
                )
            self.loop.run_until_complete(self._close_generators())
        finally:
            self._close_executor()
            self.loop.close()

    def _close_executor(self) -> None:
        """Shut the executor down without waiting: a running thread cannot be cancelled, and only the interpreter's exit waits for it."""
        # Most pods use no threads. Enumerating those of all pods would take longer the more pods there are.
        running = threading.enumerate() if self._executor.is_used else []
        threads = [each for each in running if each.name.startswith(f"asyncio_bandstand {self._name}_")]
        stacks = [thread_location(thread.native_id) for thread in threads]
        # A thread in _worker() is waiting for work.
        busy = [stack for stack in stacks if stack and not stack.startswith("_worker()")]
        if busy:
            logger.warning(
                "%s: %d executor threads are still running, and the program cannot exit before they end: at %s",
                self._name,
                len(busy),
                "; ".join(busy[:10]),
            )
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _close_generators(self) -> None:
        closing = asyncio.ensure_future(self.loop.shutdown_asyncgens())
        await asyncio.wait((closing,), timeout=CANCEL_TIMEOUT_S)

    def _wait(self, tasks: set[asyncio.Task[Any]], seconds: float) -> None:
        if tasks:
            self.loop.run_until_complete(asyncio.wait(tasks, timeout=seconds))
