"""One run through the phases of a shutdown, from INTAKE to KILL.

There is one deadline for the whole shutdown and a limit for each phase. DRAIN would take all the time if an actor never finishes, so STOP has a
reserved share: its own limit, but at most a third of the whole.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, final

from bandstand.core.logs import SafeLogger
from bandstand.errors.validation import check_ms
from bandstand.shutdown.hooks import REVERSED_PHASES, Hooks, call_hook, name_of
from bandstand.shutdown.report import Busy, PhaseEnd, PhaseReport, ShutdownPhase, ShutdownReport, named
from bandstand.shutdown.waiter import ShutdownWaiter

if TYPE_CHECKING:
    from bandstand.core import ActorId, Loop
    from bandstand.shutdown.census import ActorCensus, Root

__all__ = ("STUBBORN_MS", "ShutdownLimits", "ShutdownRun")

logger = SafeLogger("bandstand.shutdown")

# At the end, how long the loop waits for killed coroutines that ignore their cancellation.
STUBBORN_MS = 100.0
# The share of the deadline that is reserved for STOP is at most this.
MAX_STOP_SHARE = 1 / 3

Outcome: TypeAlias = tuple[PhaseEnd, tuple[Busy, ...]]


@dataclass(frozen=True, slots=True)
class ShutdownLimits:
    """The time limits of a shutdown in milliseconds; None means all the time that is left.

    Raises:
        InvalidArgument: a limit is not a duration, or the deadline is 0.
    """

    deadline_ms: float
    intake_ms: float | None
    drain_ms: float | None
    stop_ms: float | None
    actor_ms: float | None
    """How long to wait for one actor, or one supervisor and everything below it, before the next one is stopped too."""
    hook_ms: float | None
    progress_ms: float

    def __post_init__(self) -> None:
        where = "GracefulShutdown"
        check_ms(f"{where}: deadline_ms", self.deadline_ms, is_zero_allowed=False)
        check_ms(f"{where}: progress_ms", self.progress_ms, is_zero_allowed=False)
        for field in ("intake_ms", "drain_ms", "stop_ms", "actor_ms", "hook_ms"):
            value: float | None = getattr(self, field)
            if value is not None:
                check_ms(f"{where}: {field}", value)

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
        report = ShutdownReport(self._reason, tuple(phases), self._spent, lost)
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
        return PhaseReport(phase, end, self._now() - began, left, tuple(failed))

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
