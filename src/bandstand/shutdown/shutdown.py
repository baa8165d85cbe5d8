"""A graceful shutdown in four phases: intake, drain, stop, kill.

Stopping a loop finishes nothing (`Loop.request_stop`): messages in mailboxes are lost. To finish first, the order matters. First nothing more may
come in, or the drain never ends. Then the actors handle what they have. Then they end, each after those that may still need it. One deadline covers
all of it; what is left then is killed. This module does that on any loop and reports how it went.

*When is a loop drained?* When every mailbox is empty and no coroutine is suspended. The kernel's counters say so exactly after each round, so
nothing polls, and while nothing happens only the progress line runs, once a second. Timers do not count: a periodic timer would keep the drain from
ending. Messages from timers that fire during the drain are handled like any other.

*The loop is open while actors stop*, one at a time, the youngest first, because younger actors may depend on older ones: what an actor sends to another
in `on_stop` still arrives. Only then the loop is asked to stop, with no actor left on it.

*Hooks* of INTAKE and DRAIN run before the phase's own work, in order: close the listener, then let the actors finish. Hooks of STOP and KILL run after
it, the last one first: a connection pool is closed when its users have ended.

Refused: closing the loop to everything outside (`kernel.is_internal_only`, as pods do), since a hook or a request that is being answered may still ask an actor;
and a phase for each service, as larger systems have: the supervision tree is that order already.

Cost: one Python call per round during the drain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar, final

from bandstand.core import Loop
from bandstand.core.asyncio_host import StopSignals, running_loops
from bandstand.core.logs import SafeLogger
from bandstand.errors import InvalidArgumentError, LoopBusyError, LoopClosedError, WrongThreadError
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import Seconds, check_member, to_ms
from bandstand.shutdown.report import ShutdownPhase
from bandstand.shutdown.shutdown_run import ActorCensus, Hook, Hooks, ShutdownLimits, ShutdownRun

if TYPE_CHECKING:
    from bandstand.shutdown.report import ShutdownReport
    from bandstand.shutdown.shutdown_run import ActorLike

__all__ = ("GracefulShutdown",)

logger = SafeLogger("bandstand.shutdown")

H = TypeVar("H", bound=Hook)


@final
class GracefulShutdown:
    """Shuts a loop down in phases, once: by `run`, by `begin` or on a signal.

    The loop must be driven by `async with` or `run()`. The shutdown is over at most `deadline` + 250 ms after it began, unless a handler or a
    hook blocks the thread: plain functions cannot be interrupted.

    Args:
        loop: the loop to shut down.
        deadline: the time for the whole shutdown.
        intake_timeout: the time for the hooks of INTAKE; None for all the time that is left.
        drain_timeout: how long actors may take to handle their messages; None for all the time that is left.
        stop_timeout: how long actors may take to end; None for all the time that is left. This much, but at most a third of the deadline, is reserved for it.
        actor_timeout: how long to wait for one actor, or one supervisor and everything below it, before the next one is stopped too; None for all the
            time that is left.
        hook_timeout: the time for one hook; None for all the time that is left.
        progress_period: how often the log names the actors that have not finished.

    Raises:
        InvalidArgumentError: an argument is not valid.
    """

    def __init__(
        self,
        loop: Loop,
        *,
        deadline: Seconds = 30.0,
        intake_timeout: Seconds | None = 5.0,
        drain_timeout: Seconds | None = None,
        stop_timeout: Seconds | None = 10.0,
        actor_timeout: Seconds | None = 5.0,
        hook_timeout: Seconds | None = 5.0,
        progress_period: Seconds = 1.0,
    ) -> None:
        if not isinstance(loop, Loop):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgumentError(f"loop is {safe_repr(loop)}: pass a Loop")
        self._limits = ShutdownLimits(
            to_ms("GracefulShutdown: deadline", deadline, is_zero_allowed=False),
            _limit_ms("intake_timeout", intake_timeout),
            _limit_ms("drain_timeout", drain_timeout),
            _limit_ms("stop_timeout", stop_timeout),
            _limit_ms("actor_timeout", actor_timeout),
            _limit_ms("hook_timeout", hook_timeout),
            to_ms("GracefulShutdown: progress_period", progress_period, is_zero_allowed=False),
        )
        self._loop = loop
        self._census = ActorCensus(loop)
        self._hooks = Hooks()
        self._run: ShutdownRun | None = None
        self._task: asyncio.Task[None] | None = None
        self._report: ShutdownReport | None = None
        # The exception that ended the run early.
        self._failure: Exception | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._is_hurried = False

    # -- configuration -----------------------------------------------------------------------------------------------------------

    def on(self, phase: ShutdownPhase) -> Callable[[H], H]:
        """Add a hook to a phase: `@shutdown.on(ShutdownPhase.INTAKE)` on a function or a coroutine function without arguments.

        Hooks of INTAKE and DRAIN run before the phase's own work, in order; hooks of STOP and KILL after it, the last one first. A hook is cancelled
        after `hook_timeout`. One that raises or is late is logged and named in the report, and the shutdown goes on. Hooks of KILL always run, last of all.

        Raises:
            InvalidArgumentError: it is not a phase, or the hook is not callable.
        """
        check_member("GracefulShutdown.on: phase", phase, ShutdownPhase)

        def add(hook: H) -> H:
            self._hooks.add(phase, hook)
            return hook

        return add

    def intake(self, *actors: ActorLike) -> None:
        """Name actors that accept messages from outside. In INTAKE they accept nothing more, handle what they have, and end.

        Raises:
            InvalidArgumentError: one is not an actor, or is a supervisor's child, which would be restarted.
            ActorNotLocalError: one lives on another loop.
            WrongThreadError: called from another thread.
        """
        self._loop.kernel.check_thread()
        self._census.add_intake(actors)

    def drain_only(self, *actors: ActorLike) -> None:
        """Name the actors that the drain waits for, instead of all: use it when others always have work.

        Raises:
            InvalidArgumentError, ActorNotLocalError, WrongThreadError: as for `intake`.
        """
        self._loop.kernel.check_thread()
        self._census.drain_only(actors)

    # -- running -----------------------------------------------------------------------------------------------------------------

    def begin(self, reason: str = "") -> None:
        """Begin the shutdown without waiting. Any thread, signal handler or actor may call this. The first reason is kept."""
        self._loop.kernel.inbox.call_soon(partial(self._start, reason))

    def hurry(self) -> None:
        """Stop waiting and kill the actors that are left. Any thread may call this. Begins the shutdown if necessary."""
        self._is_hurried = True
        self.begin("in a hurry")
        self._loop.kernel.inbox.call_soon(self._hurry)

    async def run(self, reason: str = "") -> ShutdownReport:
        """Shut the loop down, wait for the end, and return the report. Later callers wait for the same run.

        If the caller is cancelled, the shutdown goes on.

        Raises:
            LoopBusyError: called by an actor, which would wait for its own end: use `begin` there.
            InvalidArgumentError: the loop does not run on the running event loop.
            LoopClosedError: the loop ended without this shutdown, or its task was cancelled.
            WrongThreadError: called from another thread.
            Exception: an object given to `intake` or `drain_only` raised when asked for its id.
        """
        self._refuse_actors()
        if self._task is None and not self._loop.kernel.is_closed:
            if self._loop not in running_loops():
                raise InvalidArgumentError(
                    "the loop does not run on this event loop, so its actors would not run: enter "
                    "`async with loop`, or call begin() and let loop.run() run"
                )
            self._start(reason)
        return await self.wait()

    async def wait(self) -> ShutdownReport:
        """Wait until the shutdown has begun and is over, and return the report.

        Raises:
            LoopBusyError, LoopClosedError, WrongThreadError, Exception: as for `run`.
        """
        self._refuse_actors()
        if not self._loop.kernel.is_closed if self._task is None else not self._task.done():
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            unwatch = self._loop.runner.on_end(self._release_if_not_begun)
            try:
                await future
            finally:
                unwatch()
                with suppress(ValueError):
                    self._waiting.remove(future)
        if self._failure is not None:
            raise self._failure
        if self._report is None:
            raise LoopClosedError(
                "the loop was not shut down: it was asked to stop before, or something cancelled the shutdown's own task"
            )
        return self._report

    @contextmanager
    def on_signals(self) -> Generator[Self]:
        """Begin the shutdown on SIGTERM or SIGINT inside this block. Use it around `loop.run()` or inside `async with loop`, on the main thread.

        A second SIGINT calls `hurry()`. If an actor blocks the thread then, and at any further SIGINT, KeyboardInterrupt is raised. A second SIGTERM
        changes nothing, because some service managers send one to the process and one to its group. The block restores the previous handlers.

        Raises:
            InvalidArgumentError: this is not the main thread.
        """
        interrupts = StopSignals(
            lambda: self.begin(_signal_name(interrupts)), is_on=True, hurry=self._hurry_by_signal
        )
        with interrupts:
            yield self

    @property
    def phase(self) -> ShutdownPhase | None:
        """The current phase; None before the beginning and after the end."""
        return None if self._run is None or self._report is not None else self._run.phase

    @property
    def report(self) -> ShutdownReport | None:
        """The report; None until the shutdown is over."""
        return self._report

    # -- inside ----------------------------------------------------------------------------------------------------------------------

    def _start(self, reason: str) -> None:
        if self._task is not None or self._loop.kernel.is_closed:
            return
        if self._loop not in running_loops():
            logger.error(
                "shutdown: the loop is driven by hand, so a shutdown cannot wait: use run() or `async with`"
            )
            return
        self._run = ShutdownRun(self._loop, self._census, self._hooks, self._limits, reason)
        if self._is_hurried:
            self._run.hurry()
        self._task = asyncio.get_running_loop().create_task(
            self._perform(self._run), name="bandstand shutdown"
        )

    async def _perform(self, run: ShutdownRun) -> None:
        try:
            self._report = await run.run()
        except Exception as error:
            # The program was asked to end, so it must not run on because of this error.
            logger.exception("shutdown failed; the loop is asked to stop at once")
            self._failure = error
            self._loop.request_stop()
        finally:
            self._release()

    def _release(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    def _release_if_not_begun(self) -> None:
        if self._task is None:
            self._release()

    def _hurry(self) -> None:
        if self._run is not None:
            self._run.hurry()

    def _hurry_by_signal(self) -> None:
        if self._is_hurried or self._is_blocked():
            raise KeyboardInterrupt
        self.hurry()

    def _is_blocked(self) -> bool:
        """Return whether this thread is running an actor."""
        try:
            self._loop.kernel.check_thread()
        except WrongThreadError:
            return False
        return self._loop.kernel.current_actor() is not None

    def _refuse_actors(self) -> None:
        self._loop.kernel.check_thread()
        if self._loop.kernel.current_actor() is not None:
            raise LoopBusyError(
                "an actor cannot wait for the shutdown, which waits for its own end: call begin(), which does not wait"
            )


def _signal_name(interrupts: StopSignals) -> str:
    return "a signal" if interrupts.first is None else interrupts.first.name


def _limit_ms(name: str, value: Seconds | None) -> float | None:
    return (
        None
        if value is None
        else to_ms(f"GracefulShutdown: {name}", value, otherwise=", or None for all the time that is left")
    )
