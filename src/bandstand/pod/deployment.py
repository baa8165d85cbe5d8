"""Troupes: actors in pods, declared as a class, started and stopped as a whole.

    with Studio() as studio:
        studio.engine.render(scene)

`start()` and both kinds of `with` return when all pods run. `play()` blocks until the troupe has ended; it runs a main pod on the
calling thread. A troupe object can be started once.

`Troupe` is the public class: it reads the declaration, checks arguments and documents guarantees. It has a `Deployment`, which runs the
plan of the class: the kubelet, the handles of the calling program, and the nested troupes.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self, final

from bandstand.actor.cross_thread import is_plain_thread
from bandstand.core.asyncio_host import StopSignals
from bandstand.core.logs import SafeLogger
from bandstand.errors import InvalidArgumentError, LoopBusyError, PodFailedError, PodTimeoutError
from bandstand.errors.formatting import safe_str
from bandstand.errors.validation import Seconds, to_ms, to_seconds
from bandstand.pod.controller import Controller, NestedDeployment
from bandstand.pod.declaration import DeploymentPlan, checked_plan, import_path, read_plan
from bandstand.pod.directory import Directory
from bandstand.pod.enums import PodPhase, ThreadModel
from bandstand.pod.handle_pickling import DeploymentId
from bandstand.pod.monitor import check_health, collect_stats, read_status
from bandstand.pod.phases import Phases
from bandstand.pod.placement import CallerPlacement
from bandstand.pod.process import check_main_guard
from bandstand.pod.restart import PodEnding
from bandstand.pod.shutdown import KILL_TIMEOUT_S
from bandstand.pod.spec import TroupeSpec
from bandstand.pod.status import PodStats, thread_location
from bandstand.pod.threads import call_in_forks, wait_done, wait_with_signals

if TYPE_CHECKING:
    from bandstand.pod.declaration import NestedSpec
    from bandstand.pod.link import Undelivered
    from bandstand.pod.phases import PodEvent
    from bandstand.pod.spec import PodSpec
    from bandstand.pod.status import Health, TroupeStatus

__all__ = ("Deployment", "Troupe")

logger = SafeLogger("bandstand.pod")

# The default timeout of a start.
START_TIMEOUT = 60.0
# The default timeout of status(), health() and stats().
STATUS_TIMEOUT = 0.5
# How long a troupe that was not stopped may take to stop at interpreter exit.
EXIT_MS = 2000.0
# How much longer than its own limit the end of a troupe is waited for. After that, its kubelet must be stuck.
STOP_MARGIN_S = 2 * KILL_TIMEOUT_S + 3.0

ENDED = "its troupe has ended"


class Troupe:
    """The base class of troupes. The attributes of a subclass declare its pods and roles: see `pod(...)`.

    A subclass inherits the declarations of its bases, which come first in the order of declaration. It may override a role, or the
    options of a pod, under the same name.

    Args:
        layout: other pods for the same roles; None for the declared ones. Start from what `layout()` returns.

    Raises:
        DeclarationError: when a subclass is made that contradicts itself. The message names class, pod and role.
        InvalidArgumentError: when an object is made and there are no pods, the layout is invalid, or a process pod cannot be pickled.
    """

    carries: ClassVar[tuple[ContextVar[Any], ...]] = ()
    """Context variables that messages to other processes carry. Messages between threads carry all context variables."""
    kubelet_core: ClassVar[int | None] = None
    """The core that the kubelet's thread, and with it every cooperative pod, is pinned to; None for any."""
    stop_timeout: ClassVar[Seconds] = 30.0
    """How long the whole troupe may take to stop, in seconds. Then the rest is killed."""

    # Dunder names, so that every other name is free for roles.
    __deployment_plan__: ClassVar[DeploymentPlan] = DeploymentPlan(TroupeSpec(name="Troupe"))
    """What the class declares."""
    __deployment__: Deployment
    """What runs it."""

    def __init_subclass__(cls, **options: Any) -> None:  # for other bases of the subclass
        super().__init_subclass__(**options)
        cls.__deployment_plan__ = read_plan(cls)

    def __init__(self, *, layout: Mapping[str, PodSpec] | None = None) -> None:
        self.__deployment__ = Deployment(checked_plan(type(self), layout), type(self))
        self.__async_block = _AsyncBlock(self.__deployment__)

    @classmethod
    def layout(cls) -> dict[str, PodSpec]:
        """Return the declared pods by name. Change them, and pass them as `layout=`."""
        return {pod.name: pod for pod in cls.__deployment_plan__.spec.pods}

    # -- running ---------------------------------------------------------------------------------------------------------------

    def start(self, *, timeout: Seconds = START_TIMEOUT) -> None:
        """Start the troupe, and return when all pods run. For threads without an event loop; otherwise use `async with`.

        Args:
            timeout: how long that may take, in seconds.

        Raises:
            PodFailedError: a pod did not start and will not be restarted. Everything was stopped.
            PodTimeoutError: not all pods ran in time. Everything was stopped.
            InvalidArgumentError: it has a main pod, or was started before.
            LoopBusyError: this thread runs an event loop.
        """
        _check_plain_thread("start()")
        deployment = self.__deployment__
        if any(pod.thread is ThreadModel.MAIN for pod in deployment.spec.pods):
            raise InvalidArgumentError(
                f"troupe {deployment.name!r} has a main pod, which start() cannot run: call play(), or use `async with`"
            )
        timeout_ms = to_ms("start: timeout", timeout, is_zero_allowed=False)
        kubelet = deployment.launch()
        try:
            deployment.wait_up(kubelet, timeout_ms)
        except BaseException:  # Ctrl-C too: leave nothing running
            kubelet.stop()
            deployment.wait_over(kubelet)
            raise

    def stop(self, timeout: Seconds | None = None) -> None:
        """Stop the troupe gracefully: pods handle the messages they have, then end, the last declared first.

        Does nothing if the troupe does not run. On a plain thread it returns when everything has ended. On a thread that runs an
        event loop it returns at once.

        Args:
            timeout: how long that may take, in seconds. Then the rest is killed. None for the `stop_timeout` of the class.

        Raises:
            PodTimeoutError: a thread is stuck and cannot be killed. The log has its location.
        """
        within_ms = None if timeout is None else to_ms("stop: timeout", timeout)
        deployment = self.__deployment__
        kubelet = deployment.kubelet
        if kubelet is None:
            return
        kubelet.stop(within_ms)
        if is_plain_thread():
            deployment.wait_over(kubelet, within_ms)

    def play(self, *, signals: bool = True) -> None:
        """Start the troupe, and return when it has ended: because its main pod or all its pods have ended, or it was stopped.

        The main pod, if there is one, runs on this thread.

        Args:
            signals: whether SIGTERM and Ctrl-C stop it gracefully, and a second Ctrl-C raises KeyboardInterrupt at once. Has no
                effect caller the main thread.

        Raises:
            PodFailedError: it has failed. The message names the pod, the actor and the cause.
            PodTimeoutError: the main pod did not end in time when it was stopped.
            InvalidArgumentError: it was started before.
            LoopBusyError: this thread runs an event loop.
            KeyboardInterrupt, SystemExit: from Ctrl-C, or from a handler of the main pod. Everything was stopped.
        """
        _check_plain_thread("play()")
        deployment = self.__deployment__
        is_on = signals and threading.current_thread() is threading.main_thread()
        has_signal = threading.Event()

        def on_signal() -> None:
            has_signal.set()
            if deployment.kubelet is not None:
                deployment.kubelet.stop()

        with StopSignals(on_signal, is_on=is_on):
            kubelet = deployment.launch()
            try:
                if has_signal.is_set():
                    kubelet.stop()
                if kubelet.main is not None:
                    kubelet.main.is_interruptible = is_on
                    try:
                        kubelet.main.run_blocking()
                    finally:
                        kubelet.main.is_interruptible = False
                wait_with_signals(kubelet.ended)
            except BaseException as error:  # SystemExit or Ctrl-C: stop everything first
                if not deployment.is_fork:
                    # After a second Ctrl-C, do not drain.
                    kubelet.stop(0 if has_signal.is_set() else None)
                    deployment.wait_over(kubelet)
                if kubelet.main is not None and kubelet.main.is_abandoned:
                    raise PodTimeoutError(
                        f"the main pod of troupe {deployment.name!r} did not end in time when it was stopped: its handler was "
                        f"interrupted"
                    ) from error
                raise
        deployment.finish(kubelet)
        deployment.raise_failure()

    def wait(self, *, timeout: Seconds | None = None) -> bool:
        """Wait on a plain thread until the troupe has ended. Return whether it has.

        Args:
            timeout: how long to wait, in seconds; None for no timeout.

        Raises:
            PodFailedError: it has ended because it failed.
            InvalidArgumentError: it was not started.
            LoopBusyError: this thread runs an event loop.
        """
        _check_plain_thread("wait()")
        seconds = None if timeout is None else to_seconds("wait: timeout", timeout)
        deployment = self.__deployment__
        kubelet = deployment.kubelet
        if kubelet is None:
            why = "runs in the process that forked this one" if deployment.is_fork else "was not started"
            raise InvalidArgumentError(f"troupe {deployment.name!r} {why}: there is nothing to wait for")
        try:
            kubelet.ended.result(seconds)
        except TimeoutError:
            return False
        deployment.finish(kubelet)
        deployment.raise_failure()
        return True

    def __enter__(self) -> Self:
        """Start the troupe."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the troupe.

        Raises:
            PodFailedError: it has failed. If the block raises an exception itself, that exception gets a note instead.
        """
        self.stop()
        self.__deployment__.raise_failure(error)

    async def __aenter__(self) -> Self:
        """Start the troupe. Its main pod and the handles of the calling program run on this event loop."""
        await self.__async_block.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the troupe, as `with` does. If the troupe fails, the block is cancelled, and raises `PodFailedError`."""
        await self.__async_block.exit(error)

    # -- observing -------------------------------------------------------------------------------------------------------------

    @property
    def phases(self) -> Phases:
        """The phases of its pods: `async for event in troupe.phases`."""
        return self.__deployment__.phases

    @property
    def failure(self) -> PodFailedError | None:
        """Why it has failed; None if it has not."""
        return self.__deployment__.failure

    def on_phase(self, callback: Callable[[PodEvent], object]) -> Callable[[], None]:
        """Call a function with every transition of a pod. Call the returned function to end that. See `Phases.listen`."""
        return self.phases.listen(callback)

    def on_dead_letter(self, callback: Callable[[Undelivered], object]) -> Callable[[], None]:
        """Call a function with each message to another process that was lost. Call the returned function to end that.

        The callback may run on any thread and must not block. An exception that it raises is logged.
        """
        return self.__deployment__.add_undelivered_callback(callback)

    def status(self, *, timeout: Seconds = STATUS_TIMEOUT) -> TroupeStatus:
        """Return the status of all pods. Waits at most this long for busy ones. Thread-safe."""
        return self.__deployment__.status(self.__deployment__.name, to_ms("status: timeout", timeout))

    def health(self, *, timeout: Seconds = STATUS_TIMEOUT) -> Health:
        """Check whether the kubelet and the pods answer within the timeout, and which pods are down. Thread-safe."""
        return self.__deployment__.health(self.__deployment__.name, to_ms("health: timeout", timeout))

    def stats(self, *, timeout: Seconds = STATUS_TIMEOUT) -> PodStats:
        """Return how many messages were sent so far and what became of them. Thread-safe.

        Pods that do not answer within the timeout are not counted. After the end of the troupe, all are.
        """
        return self.__deployment__.stats(to_ms("stats: timeout", timeout))


@final
class Deployment:
    """Runs the plan of a troupe class: the kubelet, the handles of the calling program, and the nested troupes.

    It runs once. That of a nested troupe gets a new kubelet whenever its parent restarts it; its handles stay valid.

    Args:
        plan: the checked plan.
        troupe: the class that it belongs to.

    Attributes:
        plan: the plan, with an identity of its own.
        phases: the phases of its pods.
        caller: the part of the troupe that belongs to the calling program; it has the handles.
        nested: the nested troupe objects by name.
        kubelet: the kubelet; None before the start, and in a forked process.
        is_fork: whether this process was forked from the one that runs it. Its threads and processes do not exist here.
    """

    def __init__(self, plan: DeploymentPlan, troupe: type[Troupe]) -> None:
        # All objects of a class share its plan, but each object needs its own identity.
        identity = DeploymentId(plan.spec.name)
        self.plan = replace(plan, spec=replace(plan.spec, identity=identity))
        self._troupe = troupe
        self.phases = Phases(pod.name for pod in plan.spec.members)
        self._lock = threading.Lock()
        self._undelivered_callbacks: tuple[Callable[[Undelivered], object], ...] = ()
        self.caller = CallerPlacement(self.spec, self._report_undelivered)
        self._handles: dict[str, Any] = {}
        self.nested: Mapping[str, Troupe] = {
            each.name: each.troupe(layout=each.layout) for each in plan.nested
        }
        self._inner = {name: each.__deployment__ for name, each in self.nested.items()}
        self.set_path(plan.spec.name)
        self.kubelet: Controller | None = None
        self.is_fork = False
        # The counts of previous kubelets, if it is nested and was restarted.
        self._past = PodStats()
        self._is_nested = False

    @property
    def spec(self) -> TroupeSpec:
        """The spec of the troupe."""
        return self.plan.spec

    @property
    def name(self) -> str:
        """The name of the troupe."""
        return self.plan.spec.name

    @property
    def failure(self) -> PodFailedError | None:
        """Why it has failed; None if it has not."""
        return None if self.kubelet is None else self.kubelet.failure

    def handle(self, role: str) -> Any:
        """Return the handle of an exposed role for the calling program."""
        handle = self._handles.get(role)
        if handle is None:
            handle = self._handles[role] = self.caller.runtime.handle(role)
        return handle

    def add_undelivered_callback(self, callback: Callable[[Undelivered], object]) -> Callable[[], None]:
        """Call a function with each lost message. Return a function that ends that."""
        with self._lock:
            self._undelivered_callbacks = (*self._undelivered_callbacks, callback)

        def remove() -> None:
            with self._lock:
                self._undelivered_callbacks = tuple(
                    each for each in self._undelivered_callbacks if each is not callback
                )

        return remove

    def _report_undelivered(self, message: Undelivered) -> None:
        for callback in self._undelivered_callbacks:
            try:
                callback(message)
            except Exception:
                logger.exception("%r raised when it was called with %s", callback, message)

    def set_path(self, path: str) -> None:
        """Set the path of the troupe and of the nested ones: `Studio.effects`."""
        self.spec.identity.path = path
        for name, each in self._inner.items():
            each.set_path(f"{path}.{name}")

    # -- its kubelet -----------------------------------------------------------------------------------------------------------

    def launch(self, *, is_hosted_elsewhere: bool = False) -> Controller:
        """Start the kubelet.

        Args:
            is_hosted_elsewhere: whether the calling program's part runs on an event loop of the program.

        Raises:
            InvalidArgumentError: it was started before, is nested, or is started at the import of a script that one of its processes
                imports.
        """
        check_main_guard(f"troupe {self.name!r}")
        with self._lock:
            if self._is_nested:
                raise InvalidArgumentError(
                    f"troupe {self.name!r} is nested in another one, which starts it: start that one"
                )
            if self.kubelet is not None or self.is_fork:
                raise InvalidArgumentError(f"troupe {self.name!r} was started before: make a new object")
            self.caller.is_hosted_elsewhere = is_hosted_elsewhere
            kubelet = self._make_kubelet()
            call_in_forks(self.after_fork)
        kubelet.ended.add_done_callback(lambda _over: self.close(ENDED))
        atexit.register(self.stop_at_exit)
        kubelet.start()
        return kubelet

    def _make_kubelet(self) -> Controller:
        self.kubelet = kubelet = Controller(
            self.spec,
            self.phases,
            self.caller,
            nested={each.name: self._inner[each.name].as_nested(each) for each in self.plan.nested},
            is_nested=self._is_nested,
            on_undelivered=self._report_undelivered,
            class_path=import_path(self._troupe) if self.spec.carries else None,
        )
        return kubelet

    def as_nested(self, spec: NestedSpec) -> NestedDeployment:
        """Return what the kubelet of the parent needs of this deployment."""
        self._is_nested = True
        self.caller.is_hosted_elsewhere = True
        return NestedDeployment(
            spec=spec,
            callers=tuple(self.callers()),
            directory=self.directory(),
            make_controller=self._remake_kubelet,
            close=self.caller.close,
            stop_ms=to_ms("stop_timeout", self.spec.stop_timeout),
        )

    def callers(self) -> list[CallerPlacement]:
        """Return `caller`, here and in nested deployments. They outlive the kubelet, which may be restarted."""
        return [self.caller, *(caller for each in self._inner.values() for caller in each.callers())]

    def directory(self) -> Directory:
        """Return the handles of all exposed roles, for the pods of the parent."""
        handles = {name: self.handle(name) for name in self.spec.visible_to(None)}
        return Directory(**handles, **{name: each.directory() for name, each in self._inner.items()})

    def _remake_kubelet(self) -> Controller:
        """Return a kubelet for the next incarnation of a nested troupe."""
        for pod in self.spec.by_name:
            self.caller.runtime.address_book.revive(pod)
        if self.kubelet is not None:
            self._past += self.kubelet.ended_stats()
        return self._make_kubelet()

    def close(self, reason: str) -> None:
        """Close the handles and the phases, because the troupe has ended. Thread-safe and idempotent."""
        atexit.unregister(self.stop_at_exit)
        self.caller.close(reason)
        self.phases.close()
        for each in self._inner.values():
            each.close(reason)

    def after_fork(self) -> None:
        """Mark the deployment as not running in this forked process. Its handles raise an error that says so."""
        self.is_fork = True
        self.kubelet = None
        self._lock = threading.Lock()
        atexit.unregister(self.stop_at_exit)
        self.phases = Phases(pod.name for pod in self.spec.members)
        self.phases.close()
        self.caller.runtime.address_book.abandon(
            f"this process is a fork of the one that runs troupe {self.name!r}: use its handles there"
        )
        for each in self._inner.values():
            each.after_fork()

    # -- waiting ---------------------------------------------------------------------------------------------------------------

    def wait_up(self, kubelet: Controller, timeout_ms: float) -> None:
        """Wait on a plain thread until all pods run.

        Raises:
            PodFailedError, PodGoneError: they will not.
            PodTimeoutError: they did not in time.
        """
        with suppress(TimeoutError):
            kubelet.ready.exception(timeout_ms / 1000)
        self.check_up(kubelet, timeout_ms)

    def check_up(self, kubelet: Controller, timeout_ms: float) -> None:
        """Check that all pods run, after this long. Raises what `wait_up` raises."""
        if not kubelet.ready.done():
            pending = [
                pod.name for pod in self.spec.members if self.phases.of(pod.name).phase is PodPhase.PENDING
            ]
            raise PodTimeoutError(
                f"troupe {self.name!r} was not up within {timeout_ms / 1000:g} s: {', '.join(pending) or 'a nested troupe'} did not run; it "
                f"was stopped"
            )
        kubelet.ready.result()

    def wait_over(self, kubelet: Controller, within_ms: float | None = None) -> None:
        """Wait on a plain thread until everything has ended.

        Raises:
            PodTimeoutError: the kubelet's thread is stuck.
        """
        if self.is_fork:
            return
        ms = to_ms("stop_timeout", self.spec.stop_timeout) if within_ms is None else within_ms
        try:
            kubelet.ended.result(ms / 1000 + STOP_MARGIN_S)
        except TimeoutError:
            raise self._stuck(kubelet) from None
        self.finish(kubelet)

    async def stop_async(self, kubelet: Controller) -> None:
        """Stop, and wait on an event loop until everything has ended. A cancellation skips the drain, and is raised at the end.

        Raises:
            PodTimeoutError: the kubelet's thread is stuck.
        """
        if self.is_fork:
            return
        kubelet.stop()
        cancelled: asyncio.CancelledError | None = None
        over = asyncio.ensure_future(wait_done(kubelet.ended))
        try:
            left_s = to_seconds("stop_timeout", self.spec.stop_timeout) + STOP_MARGIN_S
            while not over.done() and left_s > 0:
                try:
                    await asyncio.wait((over,), timeout=left_s)
                    left_s = 0
                except asyncio.CancelledError as error:
                    cancelled = error
                    left_s = STOP_MARGIN_S
                    kubelet.stop(0)
            self.caller.kill(PodEnding(PodPhase.COMPLETED, "the troupe has ended"))
            if not over.done():
                raise self._stuck(kubelet)
        finally:
            over.cancel()
        self.finish(kubelet)
        if cancelled is not None:
            raise cancelled

    def _stuck(self, kubelet: Controller) -> PodTimeoutError:
        atexit.unregister(self.stop_at_exit)
        kubelet.is_abandoned = True
        location = thread_location(kubelet.thread.native_id)
        error = PodTimeoutError(
            f"troupe {self.name!r} did not end in time: the thread of its kubelet is stuck{location and f', at {location}'}"
        )
        logger.error("%s", error)
        return error

    def finish(self, kubelet: Controller) -> None:
        """Clean up once the kubelet has ended: close the handles, join the kubelet's thread and the phase callbacks."""
        self.close(ENDED)
        # Setting `ended` is the last thing that its thread does.
        kubelet.join(KILL_TIMEOUT_S)
        self.join_phases()

    def join_phases(self) -> None:
        """Wait until all phase callbacks were called with all events, unless they are slow."""
        self.phases.join(KILL_TIMEOUT_S)
        for each in self._inner.values():
            each.join_phases()

    def raise_failure(self, error: BaseException | None = None) -> None:
        """Raise the failure of the troupe, if it has failed. If another error is being raised, add a note to that instead.

        Raises:
            PodFailedError: it has failed, and there is no other error.
        """
        failure = self.failure
        if failure is None:
            return
        if error is None:
            raise failure
        if error is not failure:
            error.add_note(f"Meanwhile, troupe {self.name!r} failed: {safe_str(failure)}")

    def stop_at_exit(self) -> None:
        """Stop a troupe that still runs at interpreter exit."""
        kubelet = self.kubelet
        if kubelet is None or kubelet.ended.done():
            return
        logger.warning(
            "troupe %r still runs at interpreter exit, and is stopped: call stop(), or use `with`", self.name
        )
        kubelet.stop(EXIT_MS)
        with suppress(PodTimeoutError):
            self.wait_over(kubelet, EXIT_MS)

    # -- observing -------------------------------------------------------------------------------------------------------------

    def status(self, name: str, timeout_ms: float) -> TroupeStatus:
        """Return the status of the troupe and its nested troupes; `name` is what it is called there."""
        nested = tuple(each.status(inner, timeout_ms) for inner, each in self._inner.items())
        return read_status(name, self.spec, self.phases, self.kubelet, nested, timeout_ms)

    def health(self, name: str, timeout_ms: float) -> Health:
        """Check the health of the troupe and its nested troupes; `name` is what it is called there."""
        nested = tuple(each.health(inner, timeout_ms) for inner, each in self._inner.items())
        return check_health(name, self.spec, self.phases, self.kubelet, nested, timeout_ms)

    def stats(self, timeout_ms: float) -> PodStats:
        """Add up the message counts of the troupe and its nested troupes, over all incarnations."""
        own = self._past + collect_stats(self.kubelet, timeout_ms)
        return sum((each.stats(timeout_ms) for each in self._inner.values()), own)


@final
class _AsyncBlock:
    """An `async with` block of a troupe: the tasks on its event loop, and the task to cancel when the troupe fails."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._tasks: list[asyncio.Task[Any]] = []
        # The task that runs the block, while it does, and whether we have cancelled it.
        self._body: asyncio.Task[Any] | None = None
        self._has_cancelled = False

    async def enter(self) -> None:
        deployment = self._deployment
        kubelet = deployment.launch(is_hosted_elsewhere=True)
        event_loop = asyncio.get_running_loop()
        self._tasks.append(event_loop.create_task(deployment.caller.run_runtime(), name="bandstand caller"))
        if kubelet.main is not None:
            self._tasks.append(event_loop.create_task(kubelet.main.run_async(), name="bandstand main pod"))
        try:
            # Not wait_for: before Python 3.12 it loses a cancellation that arrives together with the result.
            with suppress(TimeoutError):
                async with asyncio.timeout(START_TIMEOUT):
                    await wait_done(kubelet.ready)
            deployment.check_up(kubelet, START_TIMEOUT * 1000)
        except BaseException:  # a cancellation too: leave nothing running
            await self._stop(kubelet)
            raise
        self._body = asyncio.current_task()

        def on_over(_over: object) -> None:
            # RuntimeError: the event loop is closed.
            with suppress(RuntimeError):
                event_loop.call_soon_threadsafe(self._cancel_if_failed)

        kubelet.ended.add_done_callback(on_over)

    async def exit(self, error: BaseException | None) -> None:
        deployment = self._deployment
        body, self._body = self._body, None
        if deployment.kubelet is None:
            # A forked process: the troupe runs in the original, which stops it.
            return
        await self._stop(deployment.kubelet)
        if self._has_cancelled and body is not None:
            is_only_ours = body.uncancel() == 0
            if is_only_ours and isinstance(error, asyncio.CancelledError):
                error = None
        deployment.raise_failure(error)

    def _cancel_if_failed(self) -> None:
        if self._body is not None and self._deployment.failure is not None:
            self._has_cancelled = True
            self._body.cancel()

    async def _stop(self, kubelet: Controller) -> None:
        try:
            await self._deployment.stop_async(kubelet)
        finally:
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=KILL_TIMEOUT_S)


def _check_plain_thread(what: str) -> None:
    """Check that this thread runs no event loop.

    Raises:
        LoopBusyError: it does.
    """
    if not is_plain_thread():
        raise LoopBusyError(f"{what} would block a thread that runs an event loop: use `async with` there")
