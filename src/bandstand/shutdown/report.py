"""The phases of a shutdown, and the report of how it went."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ("Busy", "PhaseEnd", "PhaseReport", "ShutdownPhase", "ShutdownReport", "named")

# How many busy actors a line names.
MAX_NAMED = 10


class ShutdownPhase(Enum):
    """The phases of a shutdown, in order."""

    INTAKE = "intake"
    """Accept nothing more from outside."""
    DRAIN = "drain"
    """Handle what was accepted, including the messages that this makes actors send each other."""
    STOP = "stop"
    """Stop the actors, the youngest first, supervisors with their children; `on_stop` runs."""
    KILL = "kill"
    """Kill the actors that have not ended."""


class PhaseEnd(Enum):
    """How a phase ended."""

    COMPLETE = "complete"
    """There was nothing left to do."""
    TIMED_OUT = "timed out"
    """The time of the phase was up."""
    HURRIED = "hurried"
    """`hurry()` was called, or a second SIGINT came."""
    LOOP_ENDED = "loop ended"
    """The loop was ended from elsewhere meanwhile."""


@dataclass(frozen=True, slots=True)
class Busy:
    """An actor that had not finished."""

    name: str
    """Its name, or its id if it has no name."""
    waiting: int
    """How many messages wait in its mailbox."""
    is_at_work: bool
    """Whether a coroutine of the actor is suspended."""

    def __str__(self) -> str:
        parts = [f"{self.waiting} waiting"] if self.waiting else []
        if self.is_at_work:
            parts.append("at work")
        return f"{self.name} ({', '.join(parts) or 'not ended'})"


def named(busy: tuple[Busy, ...]) -> str:
    """Return the names of busy actors for one line."""
    more = f" and {len(busy) - MAX_NAMED} more" if len(busy) > MAX_NAMED else ""
    return ", ".join(map(str, busy[:MAX_NAMED])) + more


@dataclass(frozen=True, slots=True)
class PhaseReport:
    """The result of one phase."""

    phase: ShutdownPhase
    end: PhaseEnd
    duration: float
    """In seconds."""
    """How long it took, by the loop's clock."""
    left: tuple[Busy, ...]
    """The actors left at its end: in DRAIN those with work, in STOP those that had not ended, in KILL those that were killed."""
    failed_hooks: tuple[str, ...]
    """Hooks that raised, took too long, or were not called because no time was left."""

    def __str__(self) -> str:
        parts = [f"{self.phase.value}: {self.end.value} after {self.duration * 1000:.0f} ms"]
        if self.left:
            parts.append(f"left {named(self.left)}")
        if self.failed_hooks:
            parts.append(f"failed hooks: {', '.join(self.failed_hooks)}")
        return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class ShutdownReport:
    """The result of a shutdown. `str(report)` has a line for each phase."""

    reason: str
    """The reason given by the first caller that began the shutdown."""
    phases: tuple[PhaseReport, ...]
    """All four phases, in order."""
    duration: float
    """In seconds."""
    """How long it took, by the loop's clock."""
    dead_letters: int
    """How many accepted messages were not handled, counted from the beginning of the shutdown."""

    @property
    def killed(self) -> tuple[Busy, ...]:
        """The actors that were killed."""
        return self.of(ShutdownPhase.KILL).left

    @property
    def is_clean(self) -> bool:
        """Whether every phase was complete, no hook failed, no actor was killed and no message was lost."""
        return self.dead_letters == 0 and all(
            each.end is PhaseEnd.COMPLETE and not each.left and not each.failed_hooks for each in self.phases
        )

    def of(self, phase: ShutdownPhase) -> PhaseReport:
        """Return the result of one phase."""
        return next(each for each in self.phases if each.phase is phase)

    def __str__(self) -> str:
        verdict = "clean" if self.is_clean else "not clean"
        why = f" ({self.reason})" if self.reason else ""
        head = f"shutdown{why}: {verdict}, {self.duration * 1000:.0f} ms, {self.dead_letters} dead letters"
        return "\n".join((head, *(f"  {each}" for each in self.phases)))
