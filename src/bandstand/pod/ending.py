"""How an incarnation of a pod has ended."""

from __future__ import annotations

from dataclasses import dataclass

from bandstand.errors import PodFailed
from bandstand.pod.vocabulary import PodPhase

__all__ = ("Ending",)


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of one incarnation: COMPLETED or FAILED, and why."""

    phase: PodPhase
    reason: str = ""
    """Why, in a sentence."""
    actor: str = ""
    """Whose failure it was; empty if it was nobody's in particular."""
    cause: BaseException | None = None

    @property
    def is_failure(self) -> bool:
        """Whether it has failed."""
        return self.phase is PodPhase.FAILED

    def error(self, pod: str) -> PodFailed:
        """The same, to be raised."""
        return PodFailed.of(pod, self.actor, self.reason, self.cause)
