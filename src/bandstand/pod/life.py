"""The life of a pod: one incarnation after the other, from its declaration to its end for good. Linear, in one task."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TYPE_CHECKING, Protocol, final

from bandstand.core.logs import SafeLogger
from bandstand.pod.comeback import Comeback
from bandstand.pod.ending import Ending
from bandstand.pod.gate import Plan, Verdict
from bandstand.pod.stack import stack_of
from bandstand.pod.stages.local import failed_by
from bandstand.pod.vocabulary import PodPhase, RestartPolicy, ThreadModel

if TYPE_CHECKING:
    from bandstand.pod.exchange import Exchange
    from bandstand.pod.phases import Phases
    from bandstand.pod.spec import PodSpec
    from bandstand.pod.stages import Look, Stage

__all__ = ("House", "PodLife")

# How long an incarnation that has failed may take to end before its failure is told, in seconds. Most end at once; then whoever hears of
# the failure finds that all of it is over.
PROMPT_S = 0.1

logger = SafeLogger("bandstand.pod")


class House(Protocol):
    """What a life needs of the kubelet."""

    @property
    def is_stopping(self) -> bool:
        """Whether the troupe has begun to stop."""
        ...

    @property
    def exchange(self) -> Exchange:
        """Who is there."""
        ...

    @property
    def phases(self) -> Phases:
        """Who is told."""
        ...

    def leave(self, stage: Stage, reason: str) -> None:
        """An incarnation has ended, for a reason: nobody is there any more, and its books are closed."""
        ...

    def stage_of(self, pod: PodSpec, number: int) -> Stage:
        """Make the stage of an incarnation."""
        ...

    def tell_failed(self, stage: Stage, reason: str) -> None:
        """An incarnation has failed, and has not ended yet: tell."""
        ...

    async def pause(self, ms: float) -> bool:
        """Wait; False, at once, if the troupe begins to stop."""
        ...

    def bear(self, name: str) -> None:
        """One runs, maybe for the first time."""
        ...

    def bury(self, name: str, ending: Ending, plan: Plan) -> None:
        """One has ended for good: see what that means for the troupe."""
        ...


@final
class PodLife:
    """All incarnations of one pod."""

    def __init__(self, pod: PodSpec, house: House) -> None:
        self._pod = pod
        self._house = house
        self._stage: Stage | None = None
        # What happens if the present incarnation, which has failed, does not end soon.
        self._timers: list[asyncio.TimerHandle] = []
        self._comeback = Comeback(pod, is_vital=pod.thread is ThreadModel.MAIN)
        self.name = f"pod {pod.name!r}"
        self.stop_ms = pod.stop_ms
        self.task = asyncio.create_task(self._live(), name=f"bandstand keeps {pod.name}")

    async def _live(self) -> None:
        house, pod, comeback = self._house, self._pod, self._comeback
        number = house.phases.of(pod.name).number + 1
        house.phases.tell(pod.name, PodPhase.PENDING, "", number=number)
        while True:
            comeback.begin()
            ending = await self._incarnate(number)
            plan = comeback.decide(ending, is_stopping=house.is_stopping)
            if plan.verdict is not Verdict.RESTART:
                self._end(ending, plan, number)
                return
            self._tell_end(ending, number)
            number += 1
            again = (
                f"to be started again in {plan.delay_ms:.0f} ms" if plan.delay_ms else "to be started again"
            )
            house.phases.tell(pod.name, PodPhase.PENDING, again, number=number)
            if not await house.pause(plan.delay_ms):
                stopped = Ending(PodPhase.COMPLETED, "stopped before it was started again")
                self._end(stopped, Plan(Verdict.RETIRE, "the troupe is stopping"), number)
                return

    def run(self) -> None:
        """The present incarnation has started, and runs."""
        self._comeback.run()

    async def _incarnate(self, number: int) -> Ending:
        self._stage = stage = self._house.stage_of(self._pod, number)
        ending = Ending(PodPhase.FAILED, "its kubelet has ended")
        try:
            ending = await stage.play()
        except Exception as error:
            logger.exception("%s could not be played: this is a fault of bandstand's own", self.name)
            ending = failed_by(error)
        finally:
            self._stage = None
            while self._timers:
                self._timers.pop().cancel()
            self._house.leave(stage, ending.reason)
        if ending.is_failure and ending.cause is not None:
            logger.warning("%s #%d has failed with this", self.name, number, exc_info=ending.cause)
        return ending

    def _end(self, ending: Ending, plan: Plan, number: int) -> None:
        pod = self._pod
        # First, so that whoever hears of the end finds it gone.
        self._house.exchange.retire(pod.name, plan.reason)
        self._tell_end(ending, number)
        self._house.bury(pod.name, ending, plan)

    def _tell_end(self, ending: Ending, number: int) -> None:
        """Tell how an incarnation has ended, unless that was told when it failed."""
        event = self._house.phases.of(self._pod.name)
        if event.number != number or not event.phase.is_end:
            self._house.phases.tell(self._pod.name, ending.phase, _told(ending), number=number)

    # -- a failure that takes long ---------------------------------------------------------------------------------------------

    def fail(self, stage: Stage, ending: Ending) -> None:
        """An incarnation has failed, and its other actors are ending. That must not take longer than a stop may."""
        if stage is not self._stage or self._timers:
            return
        home = asyncio.get_running_loop()
        self._timers.append(home.call_later(PROMPT_S, self._tell_failed, stage, ending))
        self._timers.append(home.call_later(self._pod.stop_ms / 1000, self._end_failed, stage, ending))

    def _tell_failed(self, stage: Stage, ending: Ending) -> None:
        if self._pod.restart is RestartPolicy.NEVER:
            # As at every end for good: whoever hears of it finds it gone.
            self._house.exchange.retire(self._pod.name, f"it has failed: {ending.reason}")
        self._house.tell_failed(stage, _told(ending))

    def _end_failed(self, stage: Stage, ending: Ending) -> None:
        late = f"{self.name} #{stage.number} has failed, and its actors have not ended within {self._pod.stop_ms:g} ms"
        if self._pod.thread is ThreadModel.PROCESS:
            logger.warning("%s: its process is killed", late)
            stage.kill(ending)
        elif self._pod.thread is ThreadModel.DEDICATED:
            at = self.whereabouts()
            logger.error("%s: its thread is left behind%s", late, at and f", at {at}")
            stage.abandon(ending)

    # -- how it is ended -------------------------------------------------------------------------------------------------------

    def look(self) -> Future[Look] | None:
        """Ask it how it is; None while it does not run: then there is nothing yet that it could handle."""
        is_running = self._house.phases.of(self._pod.name).phase is PodPhase.RUNNING
        return self._stage.look() if self._stage is not None and is_running else None

    def stop(self, within_ms: float) -> None:
        """Have it handle what it has, and end."""
        if self._stage is not None:
            self._stage.stop(within_ms)

    def kill(self, ending: Ending) -> None:
        """Have it end at once."""
        if self._stage is not None:
            self._stage.kill(ending)

    def abandon(self, ending: Ending) -> None:
        """Leave it behind."""
        if self._stage is not None:
            self._stage.abandon(ending)

    def whereabouts(self) -> str:
        """What its thread is doing."""
        return "" if self._stage is None else stack_of(self._stage.where.native_id)


def _told(ending: Ending) -> str:
    """The reason of an end, with whose failure it was."""
    return f"actor {ending.actor!r}: {ending.reason}" if ending.actor else ending.reason
