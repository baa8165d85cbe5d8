"""A stage: what the kubelet has of one incarnation, wherever that runs. Everything but `kill` belongs on the kubelet's thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from bandstand.pod.books import PodBooks

if TYPE_CHECKING:
    import socket

    from bandstand.core import ActorId
    from bandstand.pod.ending import Ending
    from bandstand.pod.link import Undelivered
    from bandstand.pod.vocabulary import PodPhase

__all__ = ("ENDED", "Look", "Stage", "Told", "Where")


@dataclass(frozen=True, slots=True)
class Where:
    """Where an incarnation runs, as the system knows it."""

    process: int | None = None
    """The id of its process; None if that is the troupe's own."""
    native_id: int | None = None
    """What the system calls its thread."""
    core: int | None = None
    """The core that it is pinned to, and really is."""


@dataclass(frozen=True, slots=True)
class Look:
    """What an incarnation says of itself when it is asked."""

    is_quiet: bool
    """Whether it has nothing to do, and nothing that it has sent is under way."""
    waiting: Mapping[str, int]
    """How many messages wait in the mailboxes of its roles."""
    books: PodBooks = PodBooks()  # noqa: RUF009  # frozen
    """What became of the messages to its actors, and of those it has sent to other processes."""


ENDED = Look(is_quiet=True, waiting={})
"""What one says that has ended meanwhile."""


@dataclass(frozen=True, slots=True)
class Told:
    """Who hears of what happens on a stage: always on the kubelet's thread, but of dead letters on whichever thread they died."""

    phase: Callable[[Stage, PodPhase, str], object]
    """It has come into a phase, which is no end, for a reason."""
    begun: Callable[[Stage], object]
    """Its actors are being started: from now on it can be told who else is there."""
    known: Callable[[Stage, str], object]
    """It can reach the actors of a pod, by a link."""
    failing: Callable[[Stage, Ending], object]
    """It has failed, and its other actors are ending."""
    dead: Callable[[Undelivered], object]
    """A message to another process was lost."""
    lost: Callable[[Stage, int, str, bool], object] = lambda _stage, _number, _reason, _is_ours: None
    """A link of that number has failed, for a reason, and whether that is the fault of this side."""
    is_stopping: Callable[[], bool] = lambda: False
    """Whether the troupe has begun to stop."""


class Stage(Protocol):
    """One incarnation of a pod, or the outside's part of a troupe."""

    @property
    def pod(self) -> str | None:
        """The pod's name; None for the outside."""
        ...

    @property
    def number(self) -> int:
        """Which incarnation it is."""
        ...

    @property
    def is_apart(self) -> bool:
        """Whether it is in a process of its own, and all others reach it by links."""
        ...

    @property
    def exposed(self) -> Mapping[str, ActorId]:
        """Who plays its exposed roles; nobody, if it is apart."""
        ...

    @property
    def where(self) -> Where:
        """Where it runs."""
        ...

    @property
    def final(self) -> PodBooks:
        """What became of its messages, when it has ended; nothing, as far as a process that was killed could not tell."""
        ...

    async def play(self) -> Ending:
        """Play to the end. It raises nothing but a cancellation."""
        ...

    # -- what it is told -------------------------------------------------------------------------------------------------------

    def publish(self, pod: str, addresses: Mapping[str, ActorId]) -> None:
        """A pod of this process runs: its actors are there."""
        ...

    def withdraw(self, pod: str, reason: str) -> None:
        """An incarnation of a pod has ended, for a reason: if there is a link to it, that is of no use any more."""
        ...

    def retire(self, pod: str, reason: str) -> None:
        """A pod is gone for good."""
        ...

    def attach(self, peer: str | None, end: socket.socket, *, is_running: bool, number: int) -> None:
        """Here is the end of a link to a pod, or to the outside. The socket is the stage's from now on.

        `number` is what the kubelet calls the link.
        """
        ...

    def announce(self, peer: str) -> None:
        """The pod at the other end of a link runs now."""
        ...

    def stop(self, within_ms: float) -> None:
        """Handle what you have, accept nothing more, and end."""
        ...

    def kill(self, ending: Ending) -> None:
        """End at once, like this."""
        ...

    def fail_alive(self, reason: str) -> None:
        """It has lost a link, or its control channel, for a reason, and is to end with that unless it is ending anyway."""
        ...

    def abandon(self, ending: Ending) -> None:
        """It does not end, whatever one does: have `play` return, and leave it behind."""
        ...

    def look(self) -> Future[Look]:
        """Ask it how it is. The answer comes when it has time for that; never, if something keeps it busy."""
        ...
