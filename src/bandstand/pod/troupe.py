"""A troupe: actors in pods, declared as a class, played as a whole.

    with Studio() as studio:
        studio.engine.render(scene)

`start()` and the blocks return when all pods run. `play()` blocks until the troupe is over; it is the way to play one with a main
pod, which runs on the calling thread. Each troupe object plays once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from bandstand.actor.cross_thread import is_plain_thread
from bandstand.core.asyncio_host import StopSignals
from bandstand.errors import InvalidArgument, PodFailed, PodTimeout
from bandstand.errors.validation import check_ms
from bandstand.pod.production import Production
from bandstand.pod.settled import settled
from bandstand.pod.shutdown import KILL_S
from bandstand.pod.vocabulary import ThreadModel
from bandstand.pod.wakeup import wait_hearing

if TYPE_CHECKING:
    from bandstand.pod.books import PodBooks
    from bandstand.pod.health import Health
    from bandstand.pod.kubelet import Kubelet
    from bandstand.pod.link import Undelivered
    from bandstand.pod.phases import Phases, PodEvent
    from bandstand.pod.spec import PodSpec
    from bandstand.pod.status import TroupeStatus

__all__ = ("Troupe",)

# How long all pods may take to run for the first time, if nothing is said.
START_MS = 60_000.0
# How long a look at everybody may take, if nothing is said.
LOOK_MS = 500.0


class Troupe(Production):
    """What a program derives its troupes from. See `pod(...)` for what goes into the class.

    Args:
        layout: other pods for the same roles; None for the declared ones. `layout()` gives those, to be altered.

    Raises:
        InvalidArgument: there is nothing to play, the layout has no sense, or a process pod could not be made in a process.
    """

    def __init__(self, *, layout: Mapping[str, PodSpec] | None = None) -> None:
        super().__init__(layout=layout)
        # What rides the event loop of the block, the block itself, and whether we have cancelled it.
        self._guests: list[asyncio.Task[Any]] = []  # of whatever they return
        self._body: asyncio.Task[Any] | None = None  # likewise
        self._has_cancelled = False

    # -- playing ---------------------------------------------------------------------------------------------------------------

    def start(self, *, timeout_ms: float = START_MS) -> None:
        """Start it, and return when all pods run. From a plain thread; `async with` is for event loops.

        Args:
            timeout_ms: how long that may take.

        Raises:
            PodFailed: a pod did not start, and will not. Everything was stopped.
            PodTimeout: not all of them ran in time. Likewise.
            InvalidArgument: it has a main pod, or was played before.
            LoopBusy: this thread runs an event loop.
        """
        self._refuse_loop_thread("start()")
        if any(pod.thread is ThreadModel.MAIN for pod in self._plan.spec.pods):
            raise InvalidArgument(
                f"troupe {self._title!r} has a main pod, and start() returns: call play(), or use `async with`"
            )
        check_ms("start: timeout_ms", timeout_ms, is_zero_allowed=False)
        kubelet = self._launch()
        try:
            self._wait_up(kubelet, timeout_ms)
        except BaseException:  # whatever it is, Ctrl-C included: nothing is left of it
            kubelet.stop()
            self._wait_over(kubelet)
            raise

    def stop(self, within_ms: float | None = None) -> None:
        """Stop it, in good order: pods handle what they have, then end, the last declared first. Nothing if it does not play.

        On a plain thread it returns when everything has ended. On a thread that runs an event loop it only asks.

        Args:
            within_ms: how long that may take in all; then what is left is killed. None for what the class declares.

        Raises:
            PodTimeout: something is stuck that cannot be killed. What it is doing is in the log.
        """
        if within_ms is not None:
            check_ms("stop: within_ms", within_ms)
        kubelet = self._kubelet
        if kubelet is None:
            return
        kubelet.stop(within_ms)
        if is_plain_thread():
            self._wait_over(kubelet, within_ms)

    def play(self, *, signals: bool = True) -> None:
        """Start it, and return when it is over: when its main pod has ended, all pods have, or somebody has stopped it.

        The main pod, if there is one, runs on this thread.

        Args:
            signals: whether SIGTERM and Ctrl-C stop it in good order, and a second Ctrl-C raises KeyboardInterrupt at once. On other
                threads than the main one signals are left alone.

        Raises:
            PodFailed: it has failed; says which pod, whose fault and why.
            InvalidArgument: it was played before.
            LoopBusy: this thread runs an event loop.
            KeyboardInterrupt, SystemExit: from Ctrl-C, or from a handler of the main pod. Everything was stopped.
        """
        self._refuse_loop_thread("play()")
        is_on = signals and threading.current_thread() is threading.main_thread()
        has_signal = threading.Event()

        def heed() -> None:
            has_signal.set()
            if self._kubelet is not None:
                self._kubelet.stop()

        with StopSignals(heed, is_on=is_on):
            kubelet = self._launch()
            try:
                if has_signal.is_set():
                    kubelet.stop()
                if kubelet.main is not None:
                    kubelet.main.is_interruptible = is_on
                    try:
                        kubelet.main.run_in_turn()
                    finally:
                        kubelet.main.is_interruptible = False
                wait_hearing(kubelet.over)
            except (
                BaseException
            ) as error:  # an exit or Ctrl-C, which goes on when everything has been stopped
                # Whoever presses it twice is in a hurry.
                if not self._is_fork:
                    kubelet.stop(0 if has_signal.is_set() else None)
                    self._wait_over(kubelet)
                if kubelet.main is not None and kubelet.main.is_abandoned:
                    raise PodTimeout(
                        f"the main pod of troupe {self._plan.spec.name!r} had not ended in time when it was stopped: its handler was "
                        f"interrupted where it was"
                    ) from error
                raise
        self._finish(kubelet)
        self._raise_failure()

    def wait(self, *, timeout_ms: float | None = None) -> bool:
        """Wait, on a plain thread, until it is over; whether it is.

        Args:
            timeout_ms: how long to wait; None for ever.

        Raises:
            PodFailed: it is over because it has failed.
            InvalidArgument: it was not started.
            LoopBusy: this thread runs an event loop.
        """
        self._refuse_loop_thread("wait()")
        kubelet = self._kubelet
        if kubelet is None:
            where = "plays in the process that this one is a fork of" if self._is_fork else "was not started"
            raise InvalidArgument(f"troupe {self._title!r} {where}: there is nothing to wait for")
        try:
            kubelet.over.result(None if timeout_ms is None else timeout_ms / 1000)
        except TimeoutError:
            return False
        self._finish(kubelet)
        self._raise_failure()
        return True

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it.

        Raises:
            PodFailed: it has failed meanwhile. If the block raises something itself, that has a note instead.
        """
        self.stop()
        self._raise_failure(error)

    async def __aenter__(self) -> Self:
        """Start it; its main pod, if there is one, and the program's handles ride this event loop."""
        kubelet = self._launch(is_guest=True)
        home = asyncio.get_running_loop()
        self._guests.append(home.create_task(self._outside.perform(), name="bandstand outside"))
        if kubelet.main is not None:
            self._guests.append(home.create_task(kubelet.main.ride_in_turn(), name="bandstand main pod"))
        try:
            # Not by wait_for: until Python 3.12 that forgets a cancellation that comes when it is done.
            with suppress(TimeoutError):
                async with asyncio.timeout(START_MS / 1000):
                    await settled(kubelet.up)
            self._wait_up(kubelet, 0)
        except BaseException:  # whatever it is, a cancellation included: nothing is left of it
            await self._leave_all(kubelet)
            raise
        self._body = asyncio.current_task()

        def look(_over: object) -> None:
            # The event loop may have been closed meanwhile.
            with suppress(RuntimeError):
                home.call_soon_threadsafe(self._look_failed)

        kubelet.over.add_done_callback(look)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it, as `with` does. A troupe that fails cancels its block, and comes out of it as `PodFailed`."""
        body, self._body = self._body, None
        if self._kubelet is None:
            # A fork: the block of the original is not ours to end.
            return
        await self._leave_all(self._kubelet)
        if self._has_cancelled and body is not None:
            is_only_ours = body.uncancel() == 0
            if is_only_ours and isinstance(error, asyncio.CancelledError):
                error = None
        self._raise_failure(error)

    def _look_failed(self) -> None:
        """It is over. If it has failed, nothing in the block can be of use any more."""
        if self._body is not None and self.failure is not None:
            self._has_cancelled = True
            self._body.cancel()

    async def _leave_all(self, kubelet: Kubelet) -> None:
        try:
            await self._leave(kubelet)
        finally:
            if self._guests:
                await asyncio.wait(self._guests, timeout=KILL_S)

    # -- looking ---------------------------------------------------------------------------------------------------------------

    @property
    def phases(self) -> Phases:
        """What becomes of its pods: `async for event in troupe.phases`."""
        return self._phases

    @property
    def failure(self) -> PodFailed | None:
        """Why it has failed; None if it has not."""
        return None if self._kubelet is None else self._kubelet.failure

    def on_phase(self, callback: Callable[[PodEvent], object]) -> Callable[[], None]:
        """Have a function called with every transition of a pod; what is returned takes it back. See `Phases.listen`."""
        return self._phases.listen(callback)

    def on_dead_letter(self, callback: Callable[[Undelivered], object]) -> Callable[[], None]:
        """Have a function called with each message to another process that was lost; what is returned takes it back.

        It is called on whichever thread finds out, and must not wait. What it raises is logged.
        """
        with self._lock:
            self._mourners = (*self._mourners, callback)

        def take_back() -> None:
            with self._lock:
                self._mourners = tuple(each for each in self._mourners if each is not callback)

        return take_back

    def status(self, *, timeout_ms: float = LOOK_MS) -> TroupeStatus:
        """What all its pods do at this moment. From any thread; waits so long at most for those that are busy."""
        return self._look(self._title, timeout_ms)

    def health(self, *, timeout_ms: float = LOOK_MS) -> Health:
        """Whether its kubelet and its pods answer within so long, and who is down. From any thread."""
        return self._check_up(self._title, timeout_ms)

    def books(self, *, timeout_ms: float = LOOK_MS) -> PodBooks:
        """What became of all messages so far, of those that answer within so long; when it is over, of all. From any thread."""
        return self._count(timeout_ms)
