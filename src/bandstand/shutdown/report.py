"""How a shutdown went, as frozen data, and in words."""

from __future__ import annotations

from dataclasses import dataclass

from bandstand.shutdown.vocabulary import PhaseEnd, ShutdownPhase

__all__ = ("MOST_NAMED", "Busy", "PhaseReport", "ShutdownReport", "named")

# How many of those that are busy a line names.
MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class Busy:
    """An actor that was not done."""

    name: str
    """Its name; its id, if it has none."""
    waiting: int
    """How many messages wait in its mailbox."""
    is_at_work: bool
    """Whether a coroutine of it is in flight."""

    def __str__(self) -> str:
        parts = [f"{self.waiting} waiting"] if self.waiting else []
        if self.is_at_work:
            parts.append("at work")
        return f"{self.name} ({', '.join(parts) or 'not ended'})"


def named(busy: tuple[Busy, ...]) -> str:
    """Who is busy, in a line."""
    more = f" and {len(busy) - MOST_NAMED} more" if len(busy) > MOST_NAMED else ""
    return ", ".join(map(str, busy[:MOST_NAMED])) + more


@dataclass(frozen=True, slots=True)
class PhaseReport:
    """How one phase went."""

    phase: ShutdownPhase
    end: PhaseEnd
    ms: float
    """How long it took, by the loop's clock."""
    left: tuple[Busy, ...]
    """Who was not done when it ended: in DRAIN, with messages or at work; in STOP, who had not ended; in KILL, who was killed."""
    failed_hooks: tuple[str, ...]
    """Hooks that raised, took too long, or had no time left to be called."""

    def __str__(self) -> str:
        parts = [f"{self.phase.value}: {self.end.value} after {self.ms:.0f} ms"]
        if self.left:
            parts.append(f"left {named(self.left)}")
        if self.failed_hooks:
            parts.append(f"failed hooks: {', '.join(self.failed_hooks)}")
        return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class ShutdownReport:
    """How a shutdown went. `str(report)` is for people: a line for each phase."""

    reason: str
    """Why it was begun, in the words of the first who did."""
    phases: tuple[PhaseReport, ...]
    """In their order, all four."""
    ms: float
    """How long it took, by the loop's clock."""
    dead_letters: int
    """How many messages were accepted and not handled, from its beginning on."""

    @property
    def killed(self) -> tuple[Busy, ...]:
        """Who had to be killed."""
        return self.of(ShutdownPhase.KILL).left

    @property
    def is_clean(self) -> bool:
        """Whether everything was done in its time: each phase complete, no hook failed, nobody killed, no message lost."""
        return self.dead_letters == 0 and all(
            each.end is PhaseEnd.COMPLETE and not each.left and not each.failed_hooks for each in self.phases
        )

    def of(self, phase: ShutdownPhase) -> PhaseReport:
        """How one of the phases went."""
        return next(each for each in self.phases if each.phase is phase)

    def __str__(self) -> str:
        verdict = "clean" if self.is_clean else "not clean"
        why = f" ({self.reason})" if self.reason else ""
        head = f"shutdown{why}: {verdict}, {self.ms:.0f} ms, {self.dead_letters} dead letters"
        return "\n".join((head, *(f"  {each}" for each in self.phases)))
