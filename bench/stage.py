"""One text for every system of Python: what a program of the benchmark may say, and how a stage plays it.

A program is written once and played by bandstand's raw loop, by tasks with queues, by Pykka, Thespian and xoscar: then nobody
can say that one of them was given other work. What it may say is what all of them have: make an actor of a function, and send
to it. `send(who, data)` is, wherever that can be, the system's own function and no wrapper: `Loop.send` with an id,
`asyncio.Queue.put_nowait` with a queue, `ActorRef.tell` with a reference; the stage's module says where it is not. Whom to
answer travels in the message, which is how all of them do it.

A handler gets its actor, or None, and the message, and goes on unless it returns `stage.end`. Its state is its closure's.

What is not told this way: `limit`, where one frame more would be a third of the figure, typed actors, whose point is that they
are classes, and Erlang. Those are written beside the program, with the same messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from bench.case import Outcome, Setting, WrongResultError

# Any: what an actor is called, and what it is sent, is each system's and each program's own affair.
Handler: TypeAlias = Callable[[Any, Any], Any]
Who: TypeAlias = Any
Send: TypeAlias = Callable[[Who, Any], object]


class Stage(Protocol):
    """What a program is given."""

    @property
    def send(self) -> Send:
        """Send a message to an actor. A program takes it once, as a local name."""
        ...

    @property
    def end(self) -> object:
        """What a handler returns to end its actor."""
        ...

    def spawn(self, handler: Handler, room: int = 1024) -> Who:
        """Make an actor, also from inside a handler. As many as `room` messages may wait for it; where nothing is bounded that says nothing."""
        ...

    def finish(self) -> None:
        """Say, from a handler, that the last message has been handled: the clock stops."""
        ...


@dataclass(frozen=True, kw_only=True)
class Play:
    """A program whose first actors are there: what is left is to begin, and to check."""

    begin: Callable[[], object]
    """Send what comes first."""
    operations: int
    """By what the time is divided."""
    sent: int
    """What had to arrive, known from the program's own arithmetic."""
    handled: Callable[[], int]
    """What did arrive, by the handlers' own counting. Raises WrongResultError where the program knows that more is wrong."""
    details: Callable[[], Mapping[str, float]] = dict[str, float]
    """What the figure does not say, such as what depends on the scheduler."""
    ends: int | None = None
    """How many actors had to end by themselves; None where that is not asked."""

    def outcome(self, elapsed: int, ended: int) -> Outcome:
        """Make the figure, of what the stage found.

        Raises:
            WrongResultError: other actors have ended than were to.
        """
        if self.ends is not None and ended != self.ends:
            raise WrongResultError(f"{self.ends} actors were to end, {ended} did")
        return Outcome(
            total=elapsed,
            operations=self.operations,
            sent=self.sent,
            handled=self.handled(),
            details=self.details(),
        )


def failed(error: BaseException) -> WrongResultError:
    """Say that a handler has failed: then there is no figure, whatever the others did."""
    return WrongResultError(f"a handler failed: {error!r}")


Program: TypeAlias = Callable[[Stage, Setting], Play]
"""Makes the first actors on a stage. Those are there before the clock starts; who is made later counts."""
