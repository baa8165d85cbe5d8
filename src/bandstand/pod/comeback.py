"""Whether one that has ended comes back: the gate's arithmetic, with the time of day, the dice, and what is remembered."""

from __future__ import annotations

import random
from time import monotonic
from typing import TYPE_CHECKING, Protocol, final

from bandstand.pod.gate import Plan, Record, decide

if TYPE_CHECKING:
    from bandstand.pod.ending import Ending
    from bandstand.pod.vocabulary import RestartPolicy
    from bandstand.supervision import Backoff, Intensity

__all__ = ("Comeback", "Returning")


class Returning(Protocol):
    """What is declared of one that may come back: a pod, a troupe inside another."""

    @property
    def restart(self) -> RestartPolicy:
        """When."""
        ...

    @property
    def intensity(self) -> Intensity:
        """How often is too often."""
        ...

    @property
    def backoff(self) -> Backoff | None:
        """How long to wait after a failure."""
        ...


@final
class Comeback:
    """Of one that may come back, all through its incarnations.

    The gate's clock stands still while an incarnation starts. Else one that takes long to start, and fails each time, would never
    fail too often: three restarts of 1.7 s each are not within five seconds.

    Args:
        spec: what is declared of it.
        is_vital: whether the troupe cannot go on when it has failed for good.
    """

    __slots__ = ("_began", "_is_vital", "_ran", "_record", "_spec", "_starting")

    def __init__(self, spec: Returning, *, is_vital: bool) -> None:
        self._spec = spec
        self._is_vital = is_vital
        self._record = Record()
        self._began = monotonic()
        # When the present incarnation began to run; None if it does not yet.
        self._ran: float | None = None
        # How long all incarnations so far have taken to start.
        self._starting = 0.0

    def begin(self) -> None:
        """An incarnation begins."""
        self._began = monotonic()
        self._ran = None

    def run(self) -> None:
        """It has started, and runs."""
        if self._ran is None:
            self._ran = monotonic()

    def decide(self, ending: Ending, *, is_stopping: bool) -> Plan:
        """It has ended: what follows."""
        now = monotonic()
        ran = now if self._ran is None else self._ran
        self._starting += ran - self._began
        plan = decide(
            ending,
            self._record,
            restart=self._spec.restart,
            intensity=self._spec.intensity,
            backoff=self._spec.backoff,
            now=(now - self._starting) * 1000,
            lived_ms=(now - ran) * 1000,
            chance=random.random(),  # noqa: S311  # jitter
            is_vital=self._is_vital,
            is_stopping=is_stopping,
        )
        self._record = plan.record
        return plan
