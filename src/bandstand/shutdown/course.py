"""One course through the phases, from the intake to the last kill."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias, final

from bandstand.core.lifelines import at_end, close_within, mourn, watch_rounds
from bandstand.core.logs import SafeLogger
from bandstand.core.lowlevel import clock_of, is_open
from bandstand.shutdown.hooks import BACKWARDS, Hooks, call, name_of
from bandstand.shutdown.report import Busy, PhaseReport, ShutdownReport, named
from bandstand.shutdown.vocabulary import PhaseEnd, ShutdownPhase
from bandstand.shutdown.waiter import Waiter

if TYPE_CHECKING:
    from bandstand.core import ActorId, Loop
    from bandstand.shutdown.company import Company, Root
    from bandstand.shutdown.limits import Limits

__all__ = ("Course",)

logger = SafeLogger("bandstand.shutdown")

# How long the loop waits, when all is over, for coroutines that were killed and go on all the same.
STUBBORN_MS = 100.0

Outcome: TypeAlias = tuple[PhaseEnd, tuple[Busy, ...]]


@final
class Course:
    """Goes through the phases, once. Loop thread only."""

    def __init__(self, loop: Loop, company: Company, hooks: Hooks, limits: Limits, reason: str) -> None:
        self._loop = loop
        self._company = company
        self._hooks = hooks
        self._limits = limits
        self._reason = reason
        self._waiter = Waiter(loop)
        self._now = clock_of(loop)
        self._began = self._now()
        self._lost_before = loop.events.counts().dead_letters
        self._is_hurried = False
        self._was_quiet = False
        self.phase = ShutdownPhase.INTAKE

    def hurry(self) -> None:
        """Wait for nothing any more."""
        self._is_hurried = True
        self._waiter.wake()

    async def run(self) -> ShutdownReport:
        """Go through all phases; how it went. The loop is asked to stop in the end."""
        logger.info(
            "shutdown begins%s: %.0f ms, %d actors",
            f" ({self._reason})" if self._reason else "",
            self._limits.deadline_ms,
            self._loop.statistics().alive,
        )
        unwatch = at_end(self._loop, self._waiter.wake)
        works = {
            ShutdownPhase.INTAKE: self._close_intake,
            ShutdownPhase.DRAIN: self._drain,
            ShutdownPhase.STOP: self._stop,
            ShutdownPhase.KILL: self._kill,
        }
        try:
            phases = [await self._go_through(phase, work) for phase, work in works.items()]
        finally:
            unwatch()
        lost = self._loop.events.counts().dead_letters - self._lost_before
        report = ShutdownReport(self._reason, tuple(phases), self._spent, lost)
        logger.log(logging.INFO if report.is_clean else logging.WARNING, "%s", report)
        if is_open(self._loop):
            close_within(self._loop, STUBBORN_MS)
        return report

    @property
    def _spent(self) -> float:
        return self._now() - self._began

    async def _go_through(
        self, phase: ShutdownPhase, work: Callable[[float], Awaitable[Outcome]]
    ) -> PhaseReport:
        self.phase = phase
        began = self._now()
        until = began + self._limits.of(phase, self._spent)
        failed: list[str] = []
        if phase not in BACKWARDS:
            failed = await self._call_hooks(phase, until)
        end, left = await work(until)
        if phase in BACKWARDS:
            failed = await self._call_hooks(phase, self._began + self._limits.deadline_ms)
        return PhaseReport(phase, end, self._now() - began, left, tuple(failed))

    async def _call_hooks(self, phase: ShutdownPhase, until: float) -> list[str]:
        """Call the hooks of a phase; those that have not done their work."""
        failed: list[str] = []
        for hook in self._hooks.of(phase):
            own = until if self._limits.hook_ms is None else min(until, self._now() + self._limits.hook_ms)

            def left_ms(own: float = own) -> float:
                return 0.0 if self._is_hurried else own - self._now()

            if not await call(hook, phase, self._waiter, left_ms, self._now):
                failed.append(name_of(hook))
        return failed

    # -- what is done in each --------------------------------------------------------------------------------------------------

    async def _close_intake(self, until: float) -> Outcome:
        if is_open(self._loop):
            self._company.close_intake()
        return await self._until(lambda: self._now() <= until, until), ()

    async def _drain(self, until: float) -> Outcome:
        end = await self._wait_for_quiet(until)
        self._was_quiet = end is PhaseEnd.COMPLETE
        return end, () if self._was_quiet else self._left(self._company.busy)

    async def _wait_for_quiet(self, until: float) -> PhaseEnd:
        unwatch = watch_rounds(self._loop, self._wake_if_quiet)
        try:
            return await self._until(lambda: self._company.is_quiet, until, self._company.busy)
        finally:
            unwatch()

    def _wake_if_quiet(self) -> None:
        if self._company.is_quiet:
            self._waiter.wake()

    async def _stop(self, until: float) -> Outcome:
        asked: set[ActorId] = set()
        while fresh := self._fresh(asked):
            for root in fresh:
                asked.add(root[0])
                if self._is_hurried or not is_open(self._loop):
                    continue
                self._company.stop(root)
                is_over = (
                    self._company.has_ended(root[0])
                    or await self._wait_for([root[0]], self._patience(until)) is PhaseEnd.COMPLETE
                )
                if self._was_quiet:
                    # What it has said to others at its end is handled before they end, too; unless somebody is never done.
                    self._was_quiet = is_over and (
                        self._company.is_quiet
                        or await self._wait_for_quiet(self._patience(until)) is PhaseEnd.COMPLETE
                    )
        end = await self._wait_for(self._company.ids(), until) if is_open(self._loop) else PhaseEnd.LOOP_ENDED
        return end, self._left(self._company.living)

    def _patience(self, until: float) -> float:
        """Until when to wait for one."""
        own = self._limits.actor_ms
        return until if own is None else min(until, self._now() + own)

    def _fresh(self, asked: set[ActorId]) -> list[Root]:
        """Those who were not asked to stop yet, some of them perhaps started by others at their end."""
        if not is_open(self._loop):
            return []
        return [root for root in self._company.roots() if root[0] not in asked]

    async def _wait_for(self, actors: list[ActorId], until: float) -> PhaseEnd:
        """Wait until these have ended."""
        left = set(actors)

        def end_of(actor: ActorId) -> Callable[..., None]:
            def ended(*_: object) -> None:
                left.discard(actor)
                if not left:
                    self._waiter.wake()

            return ended

        forgets = [mourn(self._loop, actor, end_of(actor)) for actor in actors]
        try:
            return await self._until(lambda: not left, until, self._company.living)
        finally:
            # Whoever has not ended in time is waited for again in the end, with all others.
            for forget in forgets:
                forget()

    async def _kill(self, _until: float) -> Outcome:
        killed = self._company.kill()
        if killed:
            logger.warning("shutdown, kill: they had not ended in time: %s", named(killed))
        return PhaseEnd.COMPLETE, killed

    def _left(self, who: Callable[[], tuple[Busy, ...]]) -> tuple[Busy, ...]:
        return who() if is_open(self._loop) else ()

    async def _until(
        self, is_done: Callable[[], bool], until: float, who: Callable[[], tuple[Busy, ...]] | None = None
    ) -> PhaseEnd:
        """Wait until something is done; what has ended the wait. Now and then the log is told who is not done."""
        line_at = self._now() + self._limits.progress_ms
        while True:
            if not is_open(self._loop):
                return PhaseEnd.LOOP_ENDED
            if is_done():
                return PhaseEnd.COMPLETE
            if self._is_hurried:
                return PhaseEnd.HURRIED
            now = self._now()
            if now >= until:
                return PhaseEnd.TIMED_OUT
            if now >= line_at and who is not None:
                line_at = now + self._limits.progress_ms
                self._tell_progress(who())
            await self._waiter.wait(min(until, line_at) - now)

    def _tell_progress(self, busy: tuple[Busy, ...]) -> None:
        logger.info(
            "shutdown, %s: %d not done after %.0f ms, %.0f ms left: %s",
            self.phase.value,
            len(busy),
            self._spent,
            self._limits.deadline_ms - self._spent,
            named(busy),
        )
