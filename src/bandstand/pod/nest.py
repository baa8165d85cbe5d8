"""A troupe inside another: its kubelet is its own, its handles are good for as long as the troupe around plays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, final

from bandstand.core.logs import SafeLogger
from bandstand.pod.comeback import Comeback
from bandstand.pod.ending import Ending
from bandstand.pod.gate import Plan, Verdict
from bandstand.pod.settled import settled
from bandstand.pod.vocabulary import PodPhase

if TYPE_CHECKING:
    from bandstand.errors import PodFailed
    from bandstand.pod.life import House
    from bandstand.pod.nested import NestedSpec
    from bandstand.pod.stages import Look, OutsideStage

__all__ = ("Inner", "Nest", "NestLife")

logger = SafeLogger("bandstand.pod")


class Inner(Protocol):
    """The kubelet of a troupe inside, as the one around knows it."""

    @property
    def up(self) -> Future[None]:
        """Done when all its pods have run, or with its failure."""
        ...

    @property
    def over(self) -> Future[None]:
        """Done when everything of it has ended."""
        ...

    @property
    def failure(self) -> PodFailed | None:
        """Why it has failed."""
        ...

    def launch(self) -> None:
        """Start it."""
        ...

    def stop(self, within_ms: float | None = None) -> None:
        """Ask it to stop."""
        ...


@dataclass(frozen=True, slots=True)
class Nest:
    """What the kubelet around needs to know of a troupe inside."""

    spec: NestedSpec
    outsides: tuple[OutsideStage, ...]
    """Where its handles are, and those of the troupes inside it: they ride with the outermost kubelet, over all its incarnations."""
    directory: object
    """What the pods around have of it: its handles, by the names of its roles."""
    make: Callable[[], Inner]
    """A kubelet for its next incarnation."""
    close: Callable[[str], object]
    """Nobody comes back behind its handles, unless the troupe around is started again, and makes another kubelet for it."""
    stop_ms: float


@final
class NestLife:
    """All incarnations of a troupe inside."""

    def __init__(self, nest: Nest, house: House) -> None:
        self._nest = nest
        self._house = house
        self._inner: Inner | None = None
        self._comeback = Comeback(nest.spec, is_vital=nest.spec.is_watched)
        self.name = f"troupe {nest.spec.name!r}"
        self.stop_ms = nest.stop_ms
        self.task = asyncio.create_task(self._live(), name=f"bandstand keeps {nest.spec.name}")

    async def _live(self) -> None:
        spec, comeback = self._nest.spec, self._comeback
        while True:
            comeback.begin()
            ending = await self._incarnate()
            plan = comeback.decide(ending, is_stopping=self._house.is_stopping)
            if plan.verdict is not Verdict.RESTART:
                break
            logger.warning("%s is to be started again: %s", self.name, plan.reason)
            if not await self._house.pause(plan.delay_ms):
                plan = Plan(Verdict.RETIRE, "the troupe around it is stopping")
                break
        self._nest.close(plan.reason)
        self._house.bury(spec.name, ending, plan)

    async def _incarnate(self) -> Ending:
        self._inner = inner = self._nest.make()
        inner.launch()
        if self._house.is_stopping:
            inner.stop()
        await settled(inner.up)
        if inner.failure is None:
            self._comeback.run()
            self._house.bear(self._nest.spec.name)
        await settled(inner.over)
        self._inner = None
        if inner.failure is None:
            return Ending(PodPhase.COMPLETED, "its pods have ended")
        return Ending(PodPhase.FAILED, str(inner.failure), "", inner.failure)

    # -- how it is ended -------------------------------------------------------------------------------------------------------

    def look(self) -> Future[Look] | None:
        """Nobody: it drains by itself when it is stopped, and by then those who use it are quiet."""
        return None

    def stop(self, within_ms: float) -> None:
        """Have it handle what it has, and end."""
        if self._inner is not None:
            self._inner.stop(within_ms)

    def kill(self, ending: Ending) -> None:  # noqa: ARG002  # it says itself how it has ended
        """Have it end at once."""
        self.stop(0)

    def abandon(self, ending: Ending) -> None:  # noqa: ARG002  # likewise
        """Leave it behind: its kubelet has been told, and is stuck."""
        self.task.cancel()

    def whereabouts(self) -> str:
        """Unknown: its own kubelet tells."""
        return ""
