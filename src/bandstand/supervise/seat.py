"""A seat: one child of a supervisor, through all its incarnations."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, final

from bandstand.core import ActorId, TimerId
from bandstand.core.lowlevel import Member
from bandstand.supervise.spec import ChildSpec
from bandstand.supervise.vocabulary import ChildMode

if TYPE_CHECKING:
    from contextvars import Context

    from bandstand.supervise.overseer import Overseer

__all__ = ("ChildInfo", "Phase", "Seat")


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
        "arguments",
        "comes_back",
        "context",
        "estate",
        "is_again",
        "is_gated",
        "is_held",
        "is_new",
        "must_end",
        "name",
        "phase",
        "restarts",
        "spec",
        "started_at",
        "stored_ms",
        "supervisor",
        "timer",
        "token",
    )

    def __init__(
        self, name: str, spec: ChildSpec[Any], context: Context, arguments: tuple[object, ...] = ()
    ) -> None:
        self.name = name
        self.spec = spec
        # What its init gets besides its context.
        self.arguments = arguments
        # Where the context variables of its coroutines start from.
        self.context = context
        self.actor: ActorId | None = None
        self.phase = Phase.DOWN
        # The supervisor itself, if the child is one.
        self.supervisor: Overseer | None = None
        self.restarts = 0
        self.stored_ms = 0.0
        self.started_at = 0.0
        # It has never been up: its first start is somebody's request.
        self.is_new = True
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

    @property
    def is_alive(self) -> bool:
        """Whether it has an incarnation that has not ended, as far as its supervisor knows."""
        return self.actor is not None

    @property
    def can_start(self) -> bool:
        """Whether it waits for nothing but its turn."""
        return self.phase is Phase.WAITING and not self.is_gated

    def info(self) -> ChildInfo:
        """What others may know."""
        return ChildInfo(
            self.name, self.actor, self.phase, self.spec.mode, self.spec.is_supervisor, self.restarts
        )

    def member(self) -> Member:
        """What the tree shows."""
        note = "" if self.phase in {Phase.UP, Phase.DOWN} else self.phase.value
        return Member(self.name, self.actor, self.restarts, note)
