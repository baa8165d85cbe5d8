"""What a kubelet and the process of a pod say to each other. A word that one of them does not know is an error, with a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bandstand.pod.books import PodBooks
from bandstand.pod.ending import Ending
from bandstand.pod.link import Undelivered
from bandstand.pod.link.faults import Fault, from_fault, to_fault
from bandstand.pod.spec import TroupeSpec
from bandstand.pod.vocabulary import PodPhase

__all__ = (
    "Announce",
    "Attach",
    "Begin",
    "Books",
    "Ended",
    "Entered",
    "Failing",
    "Known",
    "LinkLost",
    "Lost",
    "Retire",
    "Stop",
    "TellBooks",
    "Withdraw",
)


# -- to the process ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """What to play: the first thing it is told."""

    spec: TroupeSpec
    """As much of the troupe as it needs."""
    pod: str
    number: int
    """Which incarnation it is."""
    troupe: str | None = None
    """Where the class of the troupe is found, if it carries context variables: they are found there."""


@dataclass(frozen=True, slots=True)
class Attach:
    """A new link to a pod, or to the outside for None. Its end comes with the letter."""

    peer: str | None
    is_running: bool
    """Whether that pod runs; else it will be announced."""
    number: int = 0
    """What the kubelet calls the link."""


@dataclass(frozen=True, slots=True)
class Announce:
    """The pod at the other end of a link runs now."""

    peer: str


@dataclass(frozen=True, slots=True)
class Withdraw:
    """An incarnation of a pod has ended: if there is a link to it, that is of no use any more."""

    pod: str
    reason: str = "it has ended"


@dataclass(frozen=True, slots=True)
class Retire:
    """A pod is gone for good."""

    pod: str
    reason: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Handle what you have, accept nothing more, and end."""

    within_ms: float


@dataclass(frozen=True, slots=True)
class TellBooks:
    """Say how you are. The answer has the same number."""

    number: int


# -- from the process --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entered:
    """It has come into a phase, for a reason."""

    phase: PodPhase
    reason: str


@dataclass(frozen=True, slots=True)
class Known:
    """The actors of another pod can be reached from here."""

    peer: str


@dataclass(frozen=True, slots=True)
class LinkLost:
    """A link has failed."""

    number: int
    reason: str
    is_ours: bool
    """Whether that is the fault of this process, as far as it knows."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A message to another process was lost. Without what it said: that may be something that cannot travel."""

    letter: Undelivered


@dataclass(frozen=True, slots=True)
class Books:
    """How it is."""

    number: int
    is_quiet: bool
    """Whether it has nothing to do, and nothing that it has sent is under way."""
    waiting: Mapping[str, int]
    """How many messages wait in the mailboxes of its roles."""
    total: PodBooks
    """What became of the messages to its actors, and of those it has sent to other processes."""


@dataclass(frozen=True, slots=True)
class Failing:
    """It has failed; its other actors are ending."""

    reason: str
    actor: str
    fault: Fault | None

    @classmethod
    def of(cls, ending: Ending) -> Failing:
        """Say it."""
        return cls(ending.reason, ending.actor, None if ending.cause is None else to_fault(ending.cause))

    def ending(self) -> Ending:
        """Hear it."""
        cause = None if self.fault is None else from_fault(self.fault)
        return Ending(PodPhase.FAILED, self.reason, self.actor, cause)


@dataclass(frozen=True, slots=True)
class Ended:
    """How the incarnation has ended. It exits now."""

    phase: PodPhase
    reason: str
    actor: str
    fault: Fault | None
    total: PodBooks
    """Its books, for good."""
    is_terminated: bool = False
    """Whether it has stopped because of a SIGTERM, and its kubelet has not asked it to."""

    @classmethod
    def of(cls, ending: Ending, total: PodBooks, *, is_terminated: bool = False) -> Ended:
        """Say it."""
        fault = None if ending.cause is None else to_fault(ending.cause)
        return cls(ending.phase, ending.reason, ending.actor, fault, total, is_terminated)

    def ending(self) -> Ending:
        """Hear it."""
        cause = None if self.fault is None else from_fault(self.fault)
        return Ending(self.phase, self.reason, self.actor, cause)
