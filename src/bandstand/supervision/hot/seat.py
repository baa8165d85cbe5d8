"""A seat: one child of a supervisor, through all its incarnations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from bandstand.core import ExitReason
from bandstand.core.lowlevel import Member
from bandstand.supervision.place import DOWN, UP, WAITING, ChildInfo
from bandstand.supervision.restart import fate_of
from bandstand.supervision.vocabulary import ChildMode, Mailbox

if TYPE_CHECKING:
    from contextvars import Context

    from bandstand.core import TimerId
    from bandstand.core.hot.ids import ActorId
    from bandstand.supervision.overseer import Overseer
    from bandstand.supervision.place import Follower, Phase
    from bandstand.supervision.spec import ChildSpec

Count: TypeAlias = int
Milliseconds: TypeAlias = float


class Seat:
    """What a supervisor remembers of one child."""

    __slots__ = (
        "actor",
        "backoff",
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
        "is_temporary",
        "keeps",
        "must_end",
        "name",
        "phase",
        "place",
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
        self.is_temporary = spec.mode is ChildMode.TEMPORARY
        self.backoff = spec.backoff
        self.keeps = spec.mailbox is Mailbox.KEPT
        # The slots of its mailbox; asked of the loop at its first start.
        self.cap: Count = 0
        # Where the context variables of its coroutines start from.
        self.context = context
        # Where it stands among its siblings: those with a lower number start before it.
        self.place: Count = 0
        self.actor: ActorId | None = None
        self.phase: Phase = DOWN
        # The supervisor itself, if the child is one.
        self.supervisor: Overseer | None = None
        self.restarts: Count = 0
        # Whether any incarnation has ever been up.
        self.has_run = False
        self.stored_ms: Milliseconds = 0.0
        self.started_at: Milliseconds = 0.0
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
        self.token: Count = 0
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
