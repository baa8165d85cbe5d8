"""A cell: the inside of one actor. A mailbox with a behavior, and what the scheduler must know about it.

Actors are cells, not tasks: an idle one is this object and its id, a few hundred bytes, and a message to it costs a
push, a pop and a call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from bandstand.core.hot.mailbox import Mailbox
from bandstand.core.numbers import INIT, UNTIMED

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import interpreted as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from contextvars import Context

    from bandstand.core.aside import Shelf
    from bandstand.core.hot.ids import ActorId
    from bandstand.core.hot.monitors import Monitor
    from bandstand.core.hot.reach import Reach
    from bandstand.core.hot.turn import Turn
    from bandstand.core.hot.wheel import Queue, Timer
    from bandstand.core.signals import Member
    from bandstand.core.vocabulary import ExitReason, Overflow

StatusNumber: TypeAlias = int
ReasonNumber: TypeAlias = int


class Driver(Protocol):
    """What a cell knows of whoever drives its coroutine."""

    def cancel(self) -> None:
        """Have the coroutine cancelled, as a task is."""
        ...


class Family(Protocol):
    """What the loop asks of a supervisor about its children."""

    def disband(self, children: list[ActorId]) -> None:
        """The supervisor has ended: append the children that end with it, in their order. The loop ends them, the last one first."""
        ...

    def cause_of_kill(self) -> BaseException | None:
        """Why such a child is killed if it does not end at once; None if its coroutine may take its time to end."""
        ...

    def keep(self, actor: ActorId, estate: Cell) -> None:
        """Take charge of what a child has left unread: it goes to the next incarnation, or to the dead letters."""
        ...

    def members(self) -> Sequence[Member]:
        """The children in their order, with those that are not running, for the tree."""
        ...


# A ready cell holds the next one, and a supervised one its supervisor: without the trashcan, to drop a loop with many of them
# would be a recursion as deep. What is linked both ways needs none: the collector takes it apart piece by piece.
@cython.trashcan(True)
@cython.cclass
class Cell(Mailbox):
    """One actor from the inside. Only the kernel touches it."""

    __slots__ = (
        "actor",
        "aside",
        "behavior",
        "birth",
        "budget",
        "cause",
        "context",
        "driver",
        "epilogue",
        "family",
        "fds",
        "is_heard",
        "keeps",
        "kernel",
        "links",
        "message",
        "name",
        "next_ready",
        "overdue",
        "overflow",
        "queued",
        "reason",
        "speed",
        "state",
        "status",
        "supervisor",
        "timers",
        "traps",
        "turn",
        "watch",
        "watchers",
        "watching",
    )

    def __init__(self) -> None:
        self.set_cap(0, 0)
        self.kernel: Reach | None = None
        self.actor: ActorId | None = None
        self.behavior: Callable[..., Any] | None = None
        self.state: object = None
        # The how-manieth actor of its loop this is: the order in which they end is the reverse of it.
        self.birth: ReasonNumber = 0
        # How many messages it handles a visit; 0 for the loop's own number.
        self.budget: ReasonNumber = 0
        # How quick it was when the clock was last read after a message of it; UNTIMED while it is new.
        self.speed: ReasonNumber = UNTIMED
        self.name: str | None = None
        self.turn: Turn | None = None
        # What a coroutine's context variables start from, for an async behavior.
        self.context: Context | None = None
        # The message whose coroutine is in flight.
        self.message: object = None
        # Messages that it has put aside, in that order, each with its lane and the shelf it is on; None for nearly every actor.
        self.aside: list[tuple[int, object, object, object, Shelf]] | None = None
        # Who drives the coroutine that is in flight; None while there is none.
        self.driver: Driver | None = None
        self.supervisor: Cell | None = None
        # In the run queue, or being visited: a send need not queue it.
        self.queued = False
        self.next_ready: Cell | None = None
        self.status: StatusNumber = INIT
        # How it is to end, once its behavior has returned.
        self.reason: ReasonNumber = 0
        self.cause: BaseException | None = None
        # None is `Overflow.REJECT`.
        self.overflow: Overflow | None = None
        self.timers: Timer | None = None
        # Due timers that met a full lane, a queue for each lane; None for nearly every actor.
        self.overdue: list[Queue | None] | None = None
        # How many descriptors it has watched.
        self.fds: ReasonNumber = 0
        # The descriptor whose event is being handled, to be watched again afterwards.
        self.watch: object = None
        # For a supervisor: its children, which end with it. See `Family`.
        self.family: Family | None = None
        # What it still has to do when it ends, unless it is killed: called with the reason and the cause.
        self.epilogue: Callable[[ExitReason, BaseException | None], object] | None = None
        # Whether somebody hears of its end who is no supervisor, so that the log need not tell.
        self.is_heard = False
        # Whether what it leaves unread is kept for the supervisor's next child of that name.
        self.keeps = False
        # Whom this actor is linked with, and whether it is told of their ends instead of sharing them.
        self.links: dict[Cell, None] | None = None
        self.traps = False
        # Who watches this actor, and whom it watches; None for nearly every actor. Dicts as ordered sets.
        self.watchers: dict[Monitor, None] | None = None
        self.watching: dict[Monitor, None] | None = None

    def adopt_timer(self, timer: Timer) -> None:
        """Link a timer whose target this actor is; it goes when the actor goes."""
        first = self.timers
        timer.cell = self
        timer.previous_of_cell = None
        timer.next_of_cell = first
        if first is not None:
            first.previous_of_cell = timer
        self.timers = timer

    def disown_timer(self, timer: Timer) -> None:
        """Unlink a timer that has fired or was cancelled."""
        before = timer.previous_of_cell
        after = timer.next_of_cell
        if before is None:
            self.timers = after
        else:
            before.next_of_cell = after
        if after is not None:
            after.previous_of_cell = before
        timer.previous_of_cell = None
        timer.next_of_cell = None
        timer.cell = None
