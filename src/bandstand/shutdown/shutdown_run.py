"""One run through the phases of a shutdown, from INTAKE to KILL, with its hooks, the actors it stops, and its waits.

There is one deadline for the whole shutdown and a limit for each phase. DRAIN would take all the time if an actor never finishes, so STOP has a
reserved share: its own limit, but at most a third of the whole.

A hook that raises or takes too long is logged and named in the report, and the next one is called: a connection that does not close must not
keep the program from closing the others. A coroutine that ignores its cancellation is left behind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from inspect import isawaitable, iscoroutinefunction
from math import ceil
from typing import TYPE_CHECKING, Any, TypeAlias, cast, final

from bandstand.core import ActorId, ActorStatus
from bandstand.core.logs import SafeLogger
from bandstand.errors import (
    ActorKilledError,
    ActorNotLocalError,
    BandstandError,
    InvalidArgumentError,
    NoSuchActorError,
)
from bandstand.errors.formatting import safe_repr
from bandstand.shutdown.report import Busy, PhaseEnd, PhaseReport, ShutdownPhase, ShutdownReport, named
from bandstand.supervision.supervisor_actor import is_supervisor_actor, stop_supervisor

if TYPE_CHECKING:
    from bandstand.core import Loop
    from bandstand.scope import HasActorId

__all__ = (
    "REVERSED_PHASES",
    "STUBBORN_MS",
    "ActorCensus",
    "ActorLike",
    "Hook",
    "Hooks",
    "Root",
    "ShutdownLimits",
    "ShutdownRun",
    "ShutdownWaiter",
    "call_hook",
    "name_of",
)

logger = SafeLogger("bandstand.shutdown")

# At the end, how long the loop waits for killed coroutines that ignore their cancellation.
STUBBORN_MS = 100.0
# The share of the deadline that is reserved for STOP is at most this.
MAX_STOP_SHARE = 1 / 3

# How long a hook that was cancelled may take to end.
CANCEL_MS = 100.0
# Hooks of these phases clean up: they run after the phase's own work, the last one first.
REVERSED_PHASES = frozenset({ShutdownPhase.STOP, ShutdownPhase.KILL})
# An actor may start another one while it is killed, so killing is repeated.
KILL_ROUNDS = 3
# An actor, and whether it is a supervisor.

Hook: TypeAlias = Callable[[], object]
"""A function or a coroutine function without arguments."""
ActorLike: TypeAlias = "ActorId | HasActorId"
Root: TypeAlias = tuple[ActorId, bool]
Outcome: TypeAlias = tuple[PhaseEnd, tuple[Busy, ...]]


@dataclass(frozen=True, slots=True)
class ShutdownLimits:
    """The time limits of a shutdown in milliseconds; None means all the time that is left."""

    deadline_ms: float
    intake_ms: float | None
    drain_ms: float | None
    stop_ms: float | None
    actor_ms: float | None
    """How long to wait for one actor, or one supervisor and everything below it, before the next one is stopped too."""
    hook_ms: float | None
    progress_ms: float

    @property
    def stop_share_ms(self) -> float:
        """The time that is reserved for STOP."""
        largest = self.deadline_ms * MAX_STOP_SHARE
        return largest if self.stop_ms is None else min(self.stop_ms, largest)

    def of(self, phase: ShutdownPhase, spent_ms: float) -> float:
        """Return how long a phase may take that begins after `spent_ms`."""
        left = max(0.0, self.deadline_ms - spent_ms)
        if phase is ShutdownPhase.STOP:
            return left if self.stop_ms is None else min(left, self.stop_ms)
        if phase is ShutdownPhase.KILL:
            return left
        own = self.intake_ms if phase is ShutdownPhase.INTAKE else self.drain_ms
        left = max(0.0, left - self.stop_share_ms)
        return left if own is None else min(left, own)


@final
class ShutdownRun:
    """Runs the phases once. Loop thread only."""

    def __init__(
        self, loop: Loop, census: ActorCensus, hooks: Hooks, limits: ShutdownLimits, reason: str
    ) -> None:
        self._loop = loop
        self._census = census
        self._hooks = hooks
        self._limits = limits
        self._reason = reason
        self._waiter = ShutdownWaiter(loop)
        self._now = loop.kernel.timers.elapsed_ms
        self._began = self._now()
        self._lost_before = loop.events.counts().dead_letters
        self._is_hurried = False
        self._was_quiet = False
        self.phase = ShutdownPhase.INTAKE

    def hurry(self) -> None:
        """Stop waiting: go on to KILL."""
        self._is_hurried = True
        self._waiter.wake()

    async def run(self) -> ShutdownReport:
        """Run all phases, ask the loop to stop, and return the report."""
        logger.info(
            "shutdown begins%s: %.0f ms, %d actors",
            f" ({self._reason})" if self._reason else "",
            self._limits.deadline_ms,
            self._loop.statistics().alive,
        )
        unwatch = self._loop.runner.on_end(self._waiter.wake)
        actions = {
            ShutdownPhase.INTAKE: self._close_intake,
            ShutdownPhase.DRAIN: self._drain,
            ShutdownPhase.STOP: self._stop,
            ShutdownPhase.KILL: self._kill,
        }
        try:
            phases = [await self._run_phase(phase, action) for phase, action in actions.items()]
        finally:
            unwatch()
        lost = self._loop.events.counts().dead_letters - self._lost_before
        report = ShutdownReport(self._reason, tuple(phases), self._spent / 1000, lost)
        logger.log(logging.INFO if report.is_clean else logging.WARNING, "%s", report)
        if not self._loop.kernel.is_closed:
            self._loop.runner.stop_within(STUBBORN_MS)
        return report

    @property
    def _spent(self) -> float:
        return self._now() - self._began

    async def _run_phase(
        self, phase: ShutdownPhase, action: Callable[[float], Awaitable[Outcome]]
    ) -> PhaseReport:
        self.phase = phase
        began = self._now()
        until = began + self._limits.of(phase, self._spent)
        failed: list[str] = []
        if phase not in REVERSED_PHASES:
            failed = await self._call_hooks(phase, until)
        end, left = await action(until)
        if phase in REVERSED_PHASES:
            failed = await self._call_hooks(phase, self._began + self._limits.deadline_ms)
        return PhaseReport(phase, end, (self._now() - began) / 1000, left, tuple(failed))

    async def _call_hooks(self, phase: ShutdownPhase, until: float) -> list[str]:
        """Call the hooks of a phase; return the names of those that failed."""
        failed: list[str] = []
        for hook in self._hooks.of(phase):
            own = until if self._limits.hook_ms is None else min(until, self._now() + self._limits.hook_ms)

            def left_ms(own: float = own) -> float:
                return 0.0 if self._is_hurried else own - self._now()

            if not await call_hook(hook, phase, self._waiter, left_ms, self._now):
                failed.append(name_of(hook))
        return failed

    # -- phases -----------------------------------------------------------------------------------------------------------------

    async def _close_intake(self, until: float) -> Outcome:
        if not self._loop.kernel.is_closed:
            self._census.close_intake()
        return await self._until(lambda: self._now() <= until, until), ()

    async def _drain(self, until: float) -> Outcome:
        end = await self._wait_for_quiet(until)
        self._was_quiet = end is PhaseEnd.COMPLETE
        return end, () if self._was_quiet else self._left(self._census.busy)

    async def _wait_for_quiet(self, until: float) -> PhaseEnd:
        unwatch = self._loop.runner.watch_ticks(self._wake_if_quiet)
        try:
            return await self._until(lambda: self._census.is_quiet, until, self._census.busy)
        finally:
            unwatch()

    def _wake_if_quiet(self) -> None:
        if self._census.is_quiet:
            self._waiter.wake()

    async def _stop(self, until: float) -> Outcome:
        asked: set[ActorId] = set()
        while roots := self._not_asked(asked):
            for root in roots:
                asked.add(root[0])
                if self._is_hurried or self._loop.kernel.is_closed:
                    continue
                self._census.stop(root)
                is_over = (
                    self._census.has_ended(root[0])
                    or await self._wait_for([root[0]], self._actor_deadline(until)) is PhaseEnd.COMPLETE
                )
                if self._was_quiet:
                    # Let the others handle what it sent them at its end, unless the drain did not finish either.
                    self._was_quiet = is_over and (
                        self._census.is_quiet
                        or await self._wait_for_quiet(self._actor_deadline(until)) is PhaseEnd.COMPLETE
                    )
        end = (
            await self._wait_for(self._census.ids(), until)
            if not self._loop.kernel.is_closed
            else PhaseEnd.LOOP_ENDED
        )
        return end, self._left(self._census.alive)

    def _actor_deadline(self, until: float) -> float:
        """Return until when to wait for one actor."""
        own = self._limits.actor_ms
        return until if own is None else min(until, self._now() + own)

    def _not_asked(self, asked: set[ActorId]) -> list[Root]:
        """Return the actors not asked to stop yet; an actor may have started others at its end."""
        if self._loop.kernel.is_closed:
            return []
        return [root for root in self._census.roots() if root[0] not in asked]

    async def _wait_for(self, actors: list[ActorId], until: float) -> PhaseEnd:
        """Wait until actors have ended."""
        left = set(actors)

        def end_of(actor: ActorId) -> Callable[..., None]:
            def ended(*_: object) -> None:
                left.discard(actor)
                if not left:
                    self._waiter.wake()

            return ended

        forgets = [self._loop.kernel.actors.on_exit(actor, end_of(actor)) for actor in actors]
        try:
            return await self._until(lambda: not left, until, self._census.alive)
        finally:
            # Actors that have not ended in time are waited for again at the end of the phase.
            for forget in forgets:
                forget()

    async def _kill(self, _until: float) -> Outcome:
        killed = self._census.kill()
        if killed:
            logger.warning("shutdown, kill: killed actors that had not ended in time: %s", named(killed))
        return PhaseEnd.COMPLETE, killed

    def _left(self, remaining: Callable[[], tuple[Busy, ...]]) -> tuple[Busy, ...]:
        return remaining() if not self._loop.kernel.is_closed else ()

    async def _until(
        self,
        is_done: Callable[[], bool],
        until: float,
        remaining: Callable[[], tuple[Busy, ...]] | None = None,
    ) -> PhaseEnd:
        """Wait until `is_done()`; return what ended the wait. Every `progress_ms`, log the actors that remain."""
        next_line = self._now() + self._limits.progress_ms
        while True:
            if self._loop.kernel.is_closed:
                return PhaseEnd.LOOP_ENDED
            if is_done():
                return PhaseEnd.COMPLETE
            if self._is_hurried:
                return PhaseEnd.HURRIED
            now = self._now()
            if now >= until:
                return PhaseEnd.TIMED_OUT
            if now >= next_line and remaining is not None:
                next_line = now + self._limits.progress_ms
                self._log_progress(remaining())
            await self._waiter.wait(min(until, next_line) - now)

    def _log_progress(self, busy: tuple[Busy, ...]) -> None:
        logger.info(
            "shutdown, %s: %d not done after %.0f ms, %.0f ms left: %s",
            self.phase.value,
            len(busy),
            self._spent,
            self._limits.deadline_ms - self._spent,
            named(busy),
        )


# -- hooks -----------------------------------------------------------------------------------------------------------


@final
class Hooks:
    """The hooks of all phases."""

    __slots__ = ("_hooks",)

    def __init__(self) -> None:
        self._hooks: dict[ShutdownPhase, list[Hook]] = {phase: [] for phase in ShutdownPhase}

    def add(self, phase: ShutdownPhase, hook: Hook) -> None:
        """Add a hook to a phase."""
        is_callable = callable(hook)  # callers without types
        if not is_callable:
            raise InvalidArgumentError(f"the hook is {safe_repr(hook)}: pass a function without arguments")
        self._hooks[phase].append(hook)

    def of(self, phase: ShutdownPhase) -> list[Hook]:
        """Return the hooks of a phase in the order of their calls."""
        hooks = self._hooks[phase]
        return hooks[::-1] if phase in REVERSED_PHASES else hooks[:]


def name_of(hook: Hook) -> str:
    """Return the name of a hook for logs and reports."""
    name: str = getattr(hook, "__qualname__", "") or safe_repr(hook)
    return name.rpartition("<locals>.")[2]


async def call_hook(
    hook: Hook,
    phase: ShutdownPhase,
    waiter: ShutdownWaiter,
    left_ms: Callable[[], float],
    now: Callable[[], float],
) -> bool:
    """Call a hook and wait for it as long as `left_ms()` is above 0. Return whether it finished without an error."""
    name = name_of(hook)
    began = now()
    if left_ms() <= 0 and iscoroutinefunction(hook):
        logger.error("shutdown, %s: no time left for the hook %s", phase.value, name)
        return False
    try:
        result = hook()
    except (Exception, asyncio.CancelledError):
        # A plain function cannot be cancelled; it may raise the CancelledError of a task that it looked at.
        logger.exception("shutdown, %s: the hook %s raised", phase.value, name)
        return False
    if not isawaitable(result):
        return True
    task = asyncio.ensure_future(_as_coroutine(result))
    task.add_done_callback(waiter.wake)
    is_late = await _wait(task, waiter, left_ms)
    if is_late:
        task.cancel()
        until = now() + CANCEL_MS
        await _wait(task, waiter, lambda: until - now())
        end = "was cancelled" if task.done() else "was cancelled, but goes on and is left behind"
        logger.error("shutdown, %s: the hook %s took %.0f ms and %s", phase.value, name, now() - began, end)
        task.add_done_callback(_retrieve_exception)
        return False
    if task.cancelled() or task.exception() is not None:
        error = None if task.cancelled() else task.exception()
        logger.error("shutdown, %s: the hook %s raised", phase.value, name, exc_info=error)
        return False
    return True


async def _wait(task: asyncio.Future[Any], waiter: ShutdownWaiter, left_ms: Callable[[], float]) -> bool:
    """Wait for a task; return whether its time was up first."""
    try:
        while not task.done():
            left = left_ms()
            if left <= 0:
                return True
            await waiter.wait(left)
    except asyncio.CancelledError:
        task.cancel()
        raise
    return False


async def _as_coroutine(work: Awaitable[object]) -> None:
    await work


def _retrieve_exception(task: asyncio.Future[Any]) -> None:
    # asyncio would log the exception as never retrieved; the hook is reported already.
    if not task.cancelled():
        task.exception()


# -- the actors of the loop ------------------------------------------------------------------------------------------


@final
class ActorCensus:
    """The actors of one loop. Loop thread only."""

    __slots__ = ("_drained", "_intake", "_loop")

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._intake: list[ActorLike] = []
        self._drained: list[ActorLike] = []

    def add_intake(self, actors: Iterable[ActorLike]) -> None:
        """Note actors that accept messages from outside."""
        for actor in actors:
            who = id_of(actor)
            self._check_local(who)
            known = {row[0]: row for row in self._loop.kernel.rows()}
            row = known.get(who)
            above = None if row is None or row[2] is None else known.get(row[2])
            if above is not None and is_supervisor_actor(above[5]):
                raise InvalidArgumentError(
                    f"{safe_repr(actor)} is a supervisor's child and would be started again as soon as it ends: stop its source of messages "
                    f"in a hook of ShutdownPhase.INTAKE instead"
                )
            self._intake.append(actor)

    def drain_only(self, actors: Iterable[ActorLike]) -> None:
        """Note the actors that the drain waits for; without any, it waits for all."""
        for actor in actors:
            self._check_local(id_of(actor))
            self._drained.append(actor)

    def close_intake(self) -> None:
        """Let the intake actors accept nothing more, handle what they have, and end."""
        for actor in self._intake:
            with suppress(NoSuchActorError):
                self._loop.kernel.actors.close_mailbox(id_of(actor))

    @property
    def is_quiet(self) -> bool:
        """Whether no actor that the drain waits for has work."""
        if not self._drained:
            # A pool keeps a message in no mailbox while its worker is down, so an empty loop is not enough.
            return self._loop.kernel.is_quiet() and all(
                self._loop.kernel.is_actor_idle(actor) for actor in self.ids()
            )
        return all(self._loop.kernel.is_actor_idle(id_of(actor)) for actor in self._drained)

    def busy(self) -> tuple[Busy, ...]:
        """Return the actors with work, of those that the drain waits for."""
        chosen = {id_of(actor) for actor in self._drained}
        return tuple(
            self._as_busy(row)
            for row in self._loop.kernel.rows()
            if (not chosen or row[0] in chosen) and not self._loop.kernel.is_actor_idle(row[0])
        )

    def alive(self) -> tuple[Busy, ...]:
        """Return the actors that have not ended."""
        return tuple(map(self._as_busy, self._loop.kernel.rows()))

    def ids(self) -> list[ActorId]:
        """Return the ids of the actors that have not ended."""
        return [row[0] for row in self._loop.kernel.rows()]

    def roots(self) -> list[Root]:
        """Return the running actors that no parent will end, the youngest first."""
        known = self._loop.kernel.rows()
        families = {row[0]: row[5] for row in known}

        def is_root(above: ActorId | None, family: object) -> bool:
            # A parent without a family gets a child's exit but does not end the child.
            return (
                above is None
                or above not in families
                or (families[above] is None and not is_supervisor_actor(family))
            )

        return [
            (actor, is_supervisor_actor(family))
            for actor, _, above, status, _, family in reversed(known)
            if is_root(above, family) and status < ActorStatus.STOPPING
        ]

    def stop(self, root: Root) -> None:
        """Stop an actor and everything below it. Does nothing if it has ended."""
        actor, is_supervisor = root
        with suppress(BandstandError):
            if is_supervisor:
                stop_supervisor(self._loop, actor)
            else:
                self._loop.stop_actor(actor)

    def has_ended(self, actor: ActorId) -> bool:
        """Return whether an actor has ended."""
        return self._loop.status(actor) >= ActorStatus.STOPPED

    def kill(self) -> tuple[Busy, ...]:
        """Kill all actors, supervisors before their children so that they do not restart them. Return those that were killed."""
        killed: list[Busy] = []
        for _ in range(KILL_ROUNDS):
            if self._loop.kernel.is_closed:
                break
            left = self._loop.kernel.rows()
            if not left:
                break
            killed.extend(map(self._as_busy, left))
            # The shutdown reports them in one line; the loop need not report each.
            for actor, *_ in left:
                self._loop.kernel.actors.set_exit_handled(actor)
            for actor, *_ in left:
                self._loop.kernel.actors.stop_or_kill(
                    actor,
                    ActorKilledError(f"actor {safe_repr(actor)} had not ended at the end of a shutdown"),
                )
        return tuple(killed)

    def _as_busy(self, row: Sequence[object]) -> Busy:
        actor, name, waiting = cast("ActorId", row[0]), cast("str | None", row[1]), cast("int", row[4])
        is_at_work = waiting == 0 and not self._loop.kernel.is_actor_idle(actor)
        return Busy(name or repr(actor), waiting, is_at_work)

    def _check_local(self, actor: ActorId) -> None:
        if actor.home is not self._loop.kernel:
            raise ActorNotLocalError(f"{safe_repr(actor)} does not live on the loop that is shut down")


def id_of(actor: ActorLike) -> ActorId:
    """Return the id of an actor.

    Raises:
        InvalidArgumentError: it is not an actor.
    """
    if isinstance(actor, ActorId):
        return actor
    if hasattr(type(actor), "__actor_id__"):
        return actor.__actor_id__()
    raise InvalidArgumentError(
        f"{safe_repr(actor)} is not an actor: pass a handle, an ActorId or a supervisor"
    )


# -- waiting ---------------------------------------------------------------------------------------------------------


@final
class ShutdownWaiter:
    """Lets one task on the loop's thread wait until it is woken or its time is up.

    The loop's timer wheel measures the time, so that it is virtual where the loop's clock is. After the loop has ended, the event loop does.
    """

    __slots__ = ("_future", "_loop")

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._future: asyncio.Future[None] | None = None

    def wake(self, _what: object = None) -> None:
        """Wake the task. Loop thread only."""
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def wait(self, ms: float) -> None:
        """Wait until `wake` is called, the loop ends, or `ms` milliseconds have passed."""
        host = asyncio.get_running_loop()
        self._future = host.create_future()
        cancel: Callable[[], object]
        if not self._loop.kernel.is_closed:
            cancel = self._loop.kernel.call_later(ceil(ms), self.wake, self.wake)
        else:
            cancel = host.call_later(ms / 1000, self.wake).cancel
        try:
            await self._future
        finally:
            self._future = None
            cancel()
