"""A graceful shutdown: intake, drain, stop, kill.

Stopping a loop finishes nothing (`Loop.request_stop`): what waits in mailboxes is lost. Finishing first is a matter of order. First
nothing more may come in, else the drain has no end; then whoever has work does it; then actors end, each after those that may still
need it; and all of it within one time, after which what is left is killed. That is what this does, on any loop, and it
writes down how it went.

*When is a loop done?* When nothing waits in any mailbox and no coroutine is in flight. The kernel's books say so exactly, after
each round; so nobody looks now and then, and while nothing happens nothing is called but the line of progress, once a second. Timers
do not count: a tick that comes every second would never let anything end. What they set off while the drain lasts is handled like anything else.

*The stop happens while the loop is open*, one actor at a time, the youngest first, as they may build on the older ones: what one says to
another at its end still arrives. Only then is the loop asked to stop, with nobody left on it.

*Hooks* of INTAKE and DRAIN come before the phase's own work, in their order: close the listener, then let the actors finish. Those of
STOP and KILL come after it, the last one first: a pool of connections is closed when those who use it have ended.

Refused: shutting the loop to everybody outside (`lifelines.shut`, as pods do), since a hook, or a request that is being answered, may
still have something to ask of an actor; a phase for each service, as larger systems have them: the tree of supervisors is that order already.

Cost: while the drain lasts, one Python call a round.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar, final

from bandstand.core import Loop
from bandstand.core.interrupts import Interrupts
from bandstand.core.lifelines import at_end, current_actor, current_loops
from bandstand.core.logs import SafeLogger
from bandstand.core.lowlevel import call_afar, check_thread, is_open
from bandstand.errors import InvalidArgument, LoopBusy, LoopClosed, WrongThread
from bandstand.errors.formatting import safe_repr
from bandstand.shutdown.company import Company
from bandstand.shutdown.course import Course
from bandstand.shutdown.hooks import Hook, Hooks
from bandstand.shutdown.limits import Limits
from bandstand.shutdown.vocabulary import ShutdownPhase
from bandstand.supervise.lowlevel import check_member

if TYPE_CHECKING:
    from bandstand.shutdown.company import Anybody
    from bandstand.shutdown.report import ShutdownReport

__all__ = ("GracefulShutdown",)

logger = SafeLogger("bandstand.shutdown")

H = TypeVar("H", bound=Hook)


@final
class GracefulShutdown:
    """How a loop is shut down, in phases; it happens once, by `run`, `begin` or a signal.

    The loop must be driven by `async with` or `run()`. Everything is over `deadline_ms` after it was begun, and 250 ms at most, unless
    somebody blocks the thread: a handler, or a hook that is no coroutine function, cannot be interrupted.

    Args:
        loop: which loop.
        deadline_ms: how long all of it may take.
        intake_ms: how long its first phase may take, which is as long as the hooks take; None for what is left.
        drain_ms: how long actors may take to handle what they have; None for what is left.
        stop_ms: how long they may take to end; None for what is left. A third of the deadline, but not more than this, is kept for it.
        actor_ms: how long one of them, or one supervisor with all below it, is waited for before the next one is stopped as well;
            None for what is left.
        hook_ms: how long one hook may take; None for what is left.
        progress_ms: how often the log is told who is not done yet.

    Raises:
        InvalidArgument: one of them has no sense.
    """

    def __init__(
        self,
        loop: Loop,
        *,
        deadline_ms: float = 30_000,
        intake_ms: float | None = 5_000,
        drain_ms: float | None = None,
        stop_ms: float | None = 10_000,
        actor_ms: float | None = 5_000,
        hook_ms: float | None = 5_000,
        progress_ms: float = 1_000,
    ) -> None:
        if not isinstance(loop, Loop):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgument(f"loop is {safe_repr(loop)}: pass a Loop")
        self._limits = Limits(deadline_ms, intake_ms, drain_ms, stop_ms, actor_ms, hook_ms, progress_ms)
        self._loop = loop
        self._company = Company(loop)
        self._hooks = Hooks()
        self._course: Course | None = None
        self._task: asyncio.Task[None] | None = None
        self._report: ShutdownReport | None = None
        # What has kept it from going through to its end.
        self._failure: Exception | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._is_hurried = False

    # -- what it consists of -----------------------------------------------------------------------------------------------------

    def on(self, phase: ShutdownPhase) -> Callable[[H], H]:
        """Have a function, or a coroutine function, called in a phase: `@shutdown.on(ShutdownPhase.INTAKE)`. It has no arguments.

        Those of INTAKE and DRAIN are called before the phase's own work, in the order they came; those of STOP and KILL after it,
        the last one first. Each has `hook_ms`, and then is cancelled. One that raises or is late is logged, named in the
        report, and keeps nobody from anything. KILL's come last of all, whether or not there was anybody to kill.

        Raises:
            InvalidArgument: that is no phase; or no function.
        """
        check_member("GracefulShutdown.on", "phase", phase, ShutdownPhase)

        def add(hook: H) -> H:
            self._hooks.add(phase, hook)
            return hook

        return add

    def intake(self, *actors: Anybody) -> None:
        """Say through whom messages come from outside. In INTAKE they accept nothing more, handle what they have, and end.

        Raises:
            InvalidArgument: one is no actor, or is a supervisor's child, which would be started again.
            ActorNotLocal: it lives on another loop.
            WrongThread: called off the loop's thread.
        """
        check_thread(self._loop)
        self._company.let_in_by(actors)

    def drain_only(self, *actors: Anybody) -> None:
        """Say whom the drain waits for, instead of everybody: if others are always at something.

        Raises:
            InvalidArgument, ActorNotLocal, WrongThread: as for `intake`.
        """
        check_thread(self._loop)
        self._company.choose(actors)

    # -- doing it ----------------------------------------------------------------------------------------------------------------

    def begin(self, reason: str = "") -> None:
        """Have it begin, and do not wait: from any thread, from a signal handler, from an actor. The first reason counts."""
        call_afar(self._loop, partial(self._start, reason))

    def hurry(self) -> None:
        """Wait for nothing any more: whoever has not ended is killed now. From any thread; begins it, if nobody has."""
        self._is_hurried = True
        self.begin("in a hurry")
        call_afar(self._loop, self._hurry)

    async def run(self, reason: str = "") -> ShutdownReport:
        """Shut the loop down, and wait for it; how it went. Who comes later waits for the same one.

        A caller that is cancelled stops waiting; the shutdown goes on.

        Raises:
            LoopBusy: called in an actor's turn, whose end it would wait for: use `begin` there.
            InvalidArgument: the loop does not ride the running event loop.
            LoopClosed: the loop has ended without it, or its task was cancelled.
            WrongThread: called off the loop's thread.
            Exception: whatever kept it from its end: what was given to `intake` or `drain_only` has raised when asked for its id.
        """
        self._refuse_actors()
        if self._task is None and is_open(self._loop):
            if self._loop not in current_loops():
                raise InvalidArgument(
                    "the loop does not ride the event loop that runs here, and nobody would run its actors: enter "
                    "`async with loop`, or call begin() and let loop.run() run"
                )
            self._start(reason)
        return await self.wait()

    async def wait(self) -> ShutdownReport:
        """Wait until somebody has begun it and it is over; how it went.

        Raises:
            LoopBusy, LoopClosed, WrongThread, Exception: as for `run`.
        """
        self._refuse_actors()
        if is_open(self._loop) if self._task is None else not self._task.done():
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            unwatch = at_end(self._loop, self._release_if_not_begun)
            try:
                await future
            finally:
                unwatch()
                with suppress(ValueError):
                    self._waiting.remove(future)
        if self._failure is not None:
            raise self._failure
        if self._report is None:
            raise LoopClosed(
                "the loop was not shut down: somebody has asked it to stop before, or has cancelled the shutdown's own task"
            )
        return self._report

    @contextmanager
    def on_signals(self) -> Generator[Self]:
        """A block in which SIGTERM or SIGINT begins it. Around `loop.run()`, or inside `async with loop`; main thread only.

        A SIGINT after that hurries: everybody is killed, and it is over. If an actor blocks the thread at that moment, or at one more
        SIGINT, KeyboardInterrupt is raised there and then. A second SIGTERM changes nothing: those who send one to a process and
        to its group send two. Handlers that were there before are put back.

        Raises:
            InvalidArgument: this is not the main thread.
        """
        interrupts = Interrupts(
            lambda: self.begin(_named(interrupts)), is_on=True, hurry=self._hurry_by_signal
        )
        with interrupts:
            yield self

    @property
    def phase(self) -> ShutdownPhase | None:
        """Which phase it is in; None before it has begun and when it is over."""
        return None if self._course is None or self._report is not None else self._course.phase

    @property
    def report(self) -> ShutdownReport | None:
        """How it went; None until it is over."""
        return self._report

    # -- inside ----------------------------------------------------------------------------------------------------------------------

    def _start(self, reason: str) -> None:
        if self._task is not None or not is_open(self._loop):
            return
        if self._loop not in current_loops():
            logger.error(
                "shutdown: the loop is driven by hand, where nothing can be waited for: use run() or `async with`"
            )
            return
        self._course = Course(self._loop, self._company, self._hooks, self._limits, reason)
        if self._is_hurried:
            self._course.hurry()
        self._task = asyncio.get_running_loop().create_task(
            self._perform(self._course), name="bandstand shutdown"
        )

    async def _perform(self, course: Course) -> None:
        try:
            self._report = await course.run()
        except Exception as error:
            # A program that was told to end must not go on for ever because of that.
            logger.exception("shutdown: it has failed, and the loop is asked to stop as it is")
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
        if self._course is not None:
            self._course.hurry()

    def _hurry_by_signal(self) -> None:
        if self._is_hurried or self._is_blocked():
            raise KeyboardInterrupt
        self.hurry()

    def _is_blocked(self) -> bool:
        """Whether this very thread is in the middle of an actor's turn."""
        try:
            check_thread(self._loop)
        except WrongThread:
            return False
        return current_actor(self._loop) is not None

    def _refuse_actors(self) -> None:
        check_thread(self._loop)
        if current_actor(self._loop) is not None:
            raise LoopBusy(
                "an actor that waits for the shutdown would wait for its own end: call begin(), which does not wait"
            )


def _named(interrupts: Interrupts) -> str:
    return "a signal" if interrupts.first is None else interrupts.first.name
