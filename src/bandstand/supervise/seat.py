"""A seat: one child of a supervisor, through all its incarnations."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast, final

from bandstand.core import ActorId, ExitReason, TimerId
from bandstand.core.lowlevel import Member
from bandstand.supervise.decision import fate_of
from bandstand.supervise.spec import ChildSpec
from bandstand.supervise.vocabulary import ChildMode, Mailbox

if TYPE_CHECKING:
    from contextvars import Context

    from bandstand.supervise.overseer import Overseer

__all__ = ("DOWN", "STARTING", "STOPPING", "UP", "WAITING", "ChildInfo", "Follower", "Phase", "Seat")


class Phase(Enum):
    """Where a child stands, as its supervisor sees it."""

    DOWN = "down"
    """It is not running, and nothing is about to start it."""
    WAITING = "waiting"
    """It is to be started: after its backoff, when its siblings have stopped, or when those before it have started."""
    STARTING = "starting"
    """Its init is in flight."""
    UP = "up"
    STOPPING = "stopping"
    """It was told to stop, and its coroutine has not ended yet."""


# By these names they cost a tenth of what `Phase.UP` does, which asks the enumeration's class every time.
DOWN: Final = Phase.DOWN
WAITING: Final = Phase.WAITING
STARTING: Final = Phase.STARTING
UP: Final = Phase.UP
STOPPING: Final = Phase.STOPPING


class Follower(Protocol):
    """Somebody who wants to know what becomes of a place."""

    def changed(self) -> None:
        """Somebody is there anew, or the child was forgotten, or its supervisor has ended: look."""
        ...


class ChildInfo(NamedTuple):
    """What a supervisor knows of one child."""

    name: str
    actor: ActorId | None
    """The present incarnation; None while there is none."""
    phase: Phase
    mode: ChildMode
    is_supervisor: bool
    restarts: int
    """How often it was started again."""


@final
class Seat:
    """What a supervisor remembers of one child."""

    __slots__ = (
        "actor",
        "cap",
        "comes_back",
        "context",
        "estate",
        "fates",
        "followers",
        "has_run",
        "init",
        "is_added",
        "is_again",
        "is_gated",
        "is_held",
        "is_requested",
        "is_supervisor",
        "keeps",
        "must_end",
        "name",
        "phase",
        "restarts",
        "run",
        "spec",
        "started_at",
        "stored_ms",
        "supervisor",
        "timer",
        "token",
        "was_held",
    )

    def __init__(
        self, name: str, spec: ChildSpec[Any], context: Context, arguments: tuple[object, ...] = ()
    ) -> None:
        self.name = name
        self.spec = spec
        # What it does, unless it is a supervisor, which is made of its spec.
        self.is_supervisor = spec.is_supervisor
        self.run = cast("Callable[..., Any]", spec.run)
        # What gives it its state, its own arguments included.
        init: Callable[..., object] | None = spec.init
        if init is not None and arguments:
            self.init: Callable[[Any], object] | None = lambda ctx: init(ctx, *arguments)
        else:
            self.init = init
        # What becomes of it, by the reason of its end.
        self.fates = tuple(fate_of(spec.mode, reason) for reason in ExitReason)
        self.keeps = spec.mailbox is Mailbox.KEPT
        # The slots of its mailbox; asked of the loop at its first start.
        self.cap = 0
        # Where the context variables of its coroutines start from.
        self.context = context
        self.actor: ActorId | None = None
        self.phase = DOWN
        # The supervisor itself, if the child is one.
        self.supervisor: Overseer | None = None
        self.restarts = 0
        # Whether any incarnation has ever been up.
        self.has_run = False
        self.stored_ms = 0.0
        self.started_at = 0.0
        # Somebody has asked for the start that is under way, and perhaps has added the child just for that: if it fails,
        # the child is down, or forgotten, and not started again by itself.
        self.is_requested = False
        self.is_added = False
        # Whether it was held when that start was asked for.
        self.was_held = False
        # Stopped on request: only a request starts it again.
        self.is_held = False
        # The present incarnation has to end, because it or its group is being stopped; and whether another follows.
        self.must_end = False
        self.comes_back = False
        # The next start is a restart; and it waits for its backoff.
        self.is_again = False
        self.is_gated = False
        # For the deadline of its end, or for its restart.
        self.timer: TimerId | None = None
        # Changes with every restart that is planned: a restart message with another one is stale.
        self.token = 0
        # What an earlier incarnation has left unread, for the next one.
        self.estate: Any = None
        # Who wants to know when somebody is there anew, or nobody will be any more; None for nearly every child.
        self.followers: dict[Follower, None] | None = None

    def announce(self) -> None:
        """Tell whoever follows it that it has changed."""
        for follower in list(self.followers or ()):
            # Unless one that was told before has taken it back.
            if self.followers is not None and follower in self.followers:
                follower.changed()

    @property
    def is_alive(self) -> bool:
        """Whether it has an incarnation that has not ended, as far as its supervisor knows."""
        return self.actor is not None

    @property
    def can_start(self) -> bool:
        """Whether it waits for nothing but its turn."""
        return self.phase is WAITING and not self.is_gated

    def info(self, actor: ActorId | None) -> ChildInfo:
        """What others may know; the actor, if it has not ended."""
        return ChildInfo(self.name, actor, self.phase, self.spec.mode, self.spec.is_supervisor, self.restarts)

    def member(self) -> Member:
        """What the tree shows."""
        note = "" if self.phase in {UP, DOWN} else self.phase.value
        return Member(self.name, self.actor, self.restarts, note)
