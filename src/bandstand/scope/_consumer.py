"""Feeding an actor from a channel: the behavior of a channel actor, one element a visit.

An actor that has nothing to do stands in the channel's line of receivers, as a task would. Whoever serves it prods the actor:
one message of the system's, in a slot of its own, which says that there is something, and carries nothing. An element leaves
the channel when the actor is about to process it, or is handed to it while it stands in line; if the actor ends first, that
element goes back to the front.

When an element has been processed the actor prods itself, and comes again behind all others who are ready; it stands in line
again only if it then finds nothing. There is never more than one prod under way: `is_due`. A coroutine is performed through
a `Chore`, which sees how it has ended: nobody else could tell a function that has returned STOP from somebody's stop.
"""

# PyThread_get_thread_ident and step_job come from one of two places, of which the checker sees one.
# pyright: reportPossiblyUnboundVariable=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from bandstand.core.hot.desk import Desk
from bandstand.core.hot.kernel import is_coroutine
from bandstand.core.hot.turn import Turn
from bandstand.core.vocabulary import SystemTag, Verdict
from bandstand.errors import BadVerdict
from bandstand.errors.formatting import safe_repr
from bandstand.scope.hot.passage import Passage
from bandstand.scope.hot.pipe import Pipe
from bandstand.scope.numbers import CLOSED, DONE, FOREVER, FRESH, LEFT

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import interpreted as cython  # type: ignore[no-redef]  # one of the two

if not cython.compiled:
    # Compiled, this is C's function, declared in the .pxd.
    from threading import get_ident as PyThread_get_thread_ident

if TYPE_CHECKING:
    from bandstand.core.hot.ids import ActorId

Count: TypeAlias = int

# What the pipe calls by the same name, which in C nobody else can see.
RECEIVE = False
ELEMENT = SystemTag.ELEMENT
OK_VERDICT = Verdict.OK
STOP_VERDICT = Verdict.STOP
FAIL_VERDICT = Verdict.FAIL


class Feed(Passage):
    """What one incarnation of a channel actor receives by."""

    __slots__ = (
        "actor",
        "has_returned",
        "is_busy",
        "is_cancelled",
        "is_due",
        "is_over",
        "is_stopping",
        "kernel",
        "process",
        "processed",
        "strays",
    )

    def __init__(self, pipe: Pipe, process: Callable[[Any], Any], kernel: Desk, actor: ActorId) -> None:
        self.set_up(pipe, RECEIVE, None, FOREVER, None)
        self.process = process
        self.kernel = kernel
        self.actor = actor
        # Whether an element is being processed.
        self.is_busy = False
        # Whether a prod is under way.
        self.is_due = False
        # Whether it is to take no further element, and whether what it does is to be cancelled. From any thread.
        self.is_stopping = False
        self.is_cancelled = False
        # Whether it has met the end of the channel; and whether its function has returned STOP.
        self.is_over = False
        self.has_returned = False
        self.processed: Count = 0
        # Messages that somebody has sent to its id: they are nobody's.
        self.strays: Count = 0

    # -- what the actor does -------------------------------------------------------------------------------------------

    def turn(self, turn: Turn) -> Any:
        """The behavior."""
        if turn.tag is not ELEMENT:
            self.strays += 1
            return None
        self.is_due = False
        if self.is_stopping:
            return STOP_VERDICT
        if self.state == FRESH and not self.begin() and not self.stand():
            return None
        if self.state == CLOSED:
            self.is_over = True
            return STOP_VERDICT
        if self.state != DONE:
            # Prodded for nothing: it stands in line.
            return None
        item, self.item = self.item, None
        self.state = FRESH
        self.processed += 1
        self.is_busy = True
        verdict = self.process(item)
        if verdict is not None and verdict is not OK_VERDICT and is_coroutine(verdict):
            chore = Chore.__new__(Chore)
            chore.feed = self
            chore.job = verdict
            return chore
        return self.judge(verdict)

    def judge(self, verdict: Any) -> Any:
        """An element has been processed: what the kernel is to make of that."""
        if verdict is None or verdict is OK_VERDICT:
            self.is_busy = False
            if self.is_stopping:
                return STOP_VERDICT
            self.prod()
            return None
        if verdict is STOP_VERDICT:
            self.has_returned = True
        elif verdict is not FAIL_VERDICT:
            what = getattr(self.process, "__qualname__", self.process)
            raise BadVerdict(
                f"{what} returned {safe_repr(verdict)} for an element of {self.pipe!r}: return None to go on, STOP to end, FAIL to fail"
            )
        return verdict

    def prod(self) -> None:
        """Have the actor look at its channel. On the thread of its loop."""
        if not self.is_due:
            self.is_due = True
            self.kernel._prod(self.actor)

    def wake(self) -> None:
        """It has been served: have the actor look. From any thread."""
        if self.is_lost():
            # It will never have a turn: what it was given is somebody else's.
            self.abandon()
        elif PyThread_get_thread_ident() == self.kernel._owner:
            self.prod()
        else:
            self.kernel._call_afar(self.prod)

    def is_lost(self) -> bool:
        """Whether the event loop of its loop was closed under it."""
        return self.kernel._is_stranded()

    # -- what ends it --------------------------------------------------------------------------------------------------

    def ask_to_stop(self) -> None:
        """Have the actor take no further element, and end when it has processed the one at hand. From any thread."""
        self.is_stopping = True
        self.have_obeyed()

    def interrupt(self) -> None:
        """The token was cancelled: have the actor end now, and a coroutine that is in flight cancelled. From any thread."""
        self.is_cancelled = True
        self.is_stopping = True
        self.have_obeyed()

    def have_obeyed(self) -> None:
        """Have the actor do what it was asked."""
        if PyThread_get_thread_ident() == self.kernel._owner:
            self.obey()
        else:
            self.kernel._call_afar(self.obey)

    def obey(self) -> None:
        """The same, on the thread of its loop; anywhere, if that has ended, and the actor with it."""
        if self.actor.cell is not None and (self.is_cancelled or not self.is_busy):
            self.kernel._kill_quietly(self.actor, None)

    def end(self) -> None:
        """The actor has ended: leave the line, and give back what came too late."""
        self.abandon()
        if self.state == FRESH:
            self.state = LEFT

    # -- who asks ------------------------------------------------------------------------------------------------------

    def is_at_home(self) -> bool:
        """Whether the caller is on the thread of its loop."""
        return PyThread_get_thread_ident() == self.kernel._owner

    def is_itself(self) -> bool:
        """Whether the caller is the actor itself, in its turn. From any thread."""
        return PyThread_get_thread_ident() == self.kernel._owner and self.kernel._is_current(self.actor)


class Chore:
    """A coroutine that processes an element. For whoever steps it, it is that coroutine."""

    __slots__ = ("feed", "is_done", "job")

    def __init__(self, feed: Feed, job: Coroutine[Any, Any, Any]) -> None:
        self.feed = feed
        self.job = job
        self.is_done = False

    def __await__(self) -> Self:
        return self

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        """Step it."""
        value = step_job(self, None)
        if not self.is_done:
            return value
        value = self.feed.judge(value)
        if value is None:
            raise StopIteration
        raise StopIteration(value)

    def send(self, value: Any) -> Any:
        """Step it with a value."""
        value = step_job(self, value)
        if not self.is_done:
            return value
        raise StopIteration(self.feed.judge(value))

    def throw(self, *error: Any) -> Any:
        """Step it with an error."""
        try:
            return self.job.throw(*error)
        except StopIteration as stop:
            value = stop.value
        raise StopIteration(self.feed.judge(value))

    def close(self) -> None:
        """End it where it stands."""
        self.job.close()


if not cython.compiled:
    # Compiled, this is C, in the .pxd.
    def step_job(chore: Chore, value: Any) -> Any:
        """Step a coroutine: what it waits for or, if `is_done` says so, what it has returned."""
        chore.is_done = False
        try:
            return chore.job.send(value)
        except StopIteration as stop:
            chore.is_done = True
            return stop.value


class Fed:
    """The state of a channel actor. Not the feed itself: that can be awaited, and would be taken for the coroutine of an init."""

    __slots__ = ("feed",)

    def __init__(self, feed: Feed) -> None:
        self.feed = feed


def consume_one(turn: Turn, _data: object) -> Any:
    """The behavior of every channel actor; its state is what this incarnation is fed by."""
    fed: Any = turn.state
    return fed.feed.turn(turn)
