"""How long each phase may take: arithmetic, and nothing else.

There is one deadline for everything, and a limit for each phase. Phases that wait for others, the drain above all, would take all
there is if somebody never ends; so the stop has a share that nobody else can have: its own limit, but a third of the whole at most.
"""

from __future__ import annotations

from dataclasses import dataclass

from bandstand.shutdown.vocabulary import ShutdownPhase
from bandstand.supervise.lowlevel import check_ms

__all__ = ("Limits",)

LARGEST_SHARE = 1 / 3


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a shutdown, in milliseconds; None for what is left.

    Raises:
        InvalidArgument: one of them is no time, or the deadline is not above 0.
    """

    deadline_ms: float
    intake_ms: float | None
    drain_ms: float | None
    stop_ms: float | None
    actor_ms: float | None
    """How long one actor, or one supervisor with all below it, is waited for before the next one is stopped as well."""
    hook_ms: float | None
    progress_ms: float

    def __post_init__(self) -> None:
        where = "GracefulShutdown"
        check_ms(where, "deadline_ms", self.deadline_ms, is_zero_allowed=False)
        check_ms(where, "progress_ms", self.progress_ms, is_zero_allowed=False)
        for field in ("intake_ms", "drain_ms", "stop_ms", "actor_ms", "hook_ms"):
            value: float | None = getattr(self, field)
            if value is not None:
                check_ms(where, field, value, is_zero_allowed=True)

    @property
    def share_ms(self) -> float:
        """What the stop has for itself."""
        largest = self.deadline_ms * LARGEST_SHARE
        return largest if self.stop_ms is None else min(self.stop_ms, largest)

    def of(self, phase: ShutdownPhase, spent_ms: float) -> float:
        """How long a phase may take that begins when so much time is spent."""
        left = max(0.0, self.deadline_ms - spent_ms)
        if phase is ShutdownPhase.STOP:
            return left if self.stop_ms is None else min(left, self.stop_ms)
        if phase is ShutdownPhase.KILL:
            return left
        own = self.intake_ms if phase is ShutdownPhase.INTAKE else self.drain_ms
        left = max(0.0, left - self.share_ms)
        return left if own is None else min(left, own)
