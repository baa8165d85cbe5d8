"""The children of a supervisor: a slot for each, and the order in which they start and stop.

The module is compiled, because every restart goes through a slot.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, cast

from bandstand.core import ExitReason
from bandstand.core.enums import KEEPS_ALL, KEEPS_ASKS, KEEPS_NOTHING
from bandstand.errors import InvalidTimerError
from bandstand.supervision.restart import (
    ExitAction,
    History,
    RestartBudget,
    RestartPolicy,
    Strategy,
    budget_of,
    counting_period_ms,
    exit_action,
    restart_group,
)
from bandstand.supervision.spec import PartitionSpec, SupervisorSpec, class_of_child

if TYPE_CHECKING:
    from contextvars import Context as ContextVars

    from bandstand.core import Loop, TimerId
    from bandstand.core.ids import ActorId
    from bandstand.core.mailbox import ActorCell
    from bandstand.supervision.restart import Intensity
    from bandstand.supervision.spec import AnySupervisorSpec, ChildSpec
    from bandstand.supervision.supervisor import BaseSupervisor
    from bandstand.supervision.supervisor_actor import SupervisorActor

__all__ = ("ChildInfo", "ChildSlot", "ChildWatcher", "Children", "Phase", "first_slots")

# Annotations only: the .pxd gives the C types.
Count: TypeAlias = int
Milliseconds: TypeAlias = float


class Phase(Enum):
    """The state of a child, as its supervisor sees it."""

    DOWN = "down"
    """It is not running, and nothing is going to start it."""
    WAITING = "waiting"
    """It is going to start: after its backoff, or when its siblings have stopped, or when those before it have started."""
    STARTING = "starting"
    """Its init is in flight."""
    UP = "up"
    STOPPING = "stopping"
    """It is being stopped, and its coroutine has not ended yet."""


# A name of the module costs a tenth of an attribute of the enumeration.
DOWN = Phase.DOWN
WAITING = Phase.WAITING
UP = Phase.UP
STOPPING = Phase.STOPPING
RESTART = ExitAction.RESTART


class ChildInfo(NamedTuple):
    """What a supervisor knows about one child."""

    name: str
    actor: ActorId | None
    """The current incarnation; None while there is none."""
    phase: Phase
    restart: RestartPolicy
    is_supervisor: bool
    restarts: int
    """How often it was restarted."""
    budget: RestartBudget | None
    """How much of its own restart limit is used; None if its restarts count against its supervisor's."""
    given_up: str | None
    """Why the supervisor has given it up: how often it was restarted, and the last cause. None if it has not."""


class ChildWatcher(Protocol):
    """Is notified of changes of a child slot."""

    def changed(self) -> None:
        """The slot has a new incarnation, or was removed, or its supervisor has ended. Must not raise."""
        ...


class ChildSlot:
    """What a supervisor remembers about one child, through all its incarnations."""

    __slots__ = (
        "actor",
        "backoff",
        "behavior",
        "context",
        "exit_actions",
        "given_up",
        "handle",
        "has_been_up",
        "history",
        "init",
        "is_added",
        "is_delayed",
        "is_held",
        "is_requested",
        "is_restart",
        "is_supervisor",
        "is_temporary",
        "keeps_mailbox",
        "kept_mailbox",
        "limit",
        "mailbox_cap",
        "must_stop",
        "name",
        "phase",
        "position",
        "restarts",
        "spec",
        "started_at",
        "starts_after_stop",
        "stored_ms",
        "supervisor",
        "timer",
        "token",
        "was_held",
        "watchers",
    )

    def __init__(
        self, name: str, spec: ChildSpec[Any], context: ContextVars, arguments: tuple[object, ...] = ()
    ) -> None:
        self.name = name
        self.spec = spec
        self.is_supervisor = spec.is_supervisor
        # Not for a supervisor, which is made from its spec.
        self.behavior = cast("Callable[..., Any]", spec.run)
        init: Callable[..., object] | None = spec.init
        if init is not None and arguments:
            self.init: Callable[[Any], object] | None = lambda ctx: init(ctx, *arguments)
        else:
            self.init = init
        # What to do after an exit, by its reason.
        self.exit_actions = tuple(exit_action(spec.restart, reason) for reason in ExitReason)
        self.is_temporary = spec.restart is RestartPolicy.NEVER
        self.backoff = spec.backoff
        # What the next incarnation gets of its unread messages: all, or only the asks of a typed actor.
        self.keeps_mailbox: Count = KEEPS_ALL if spec.keep_mailbox else KEEPS_NOTHING
        if self.keeps_mailbox == KEEPS_NOTHING and not self.is_temporary and class_of_child(spec) is not None:
            self.keeps_mailbox = KEEPS_ASKS
        # 0 until the first start, which asks the loop for its default.
        self.mailbox_cap: Count = 0
        # The context variables with which its coroutines start.
        self.context = context
        # Its place in the order of starts.
        self.position: Count = 0
        self.actor: ActorId | None = None
        self.phase: Phase = DOWN
        # If the child is a supervisor: its actor, and the handle for users, made when first asked for.
        self.supervisor: SupervisorActor | None = None
        self.handle: BaseSupervisor | None = None
        self.restarts: Count = 0
        # Its own restart limit, and the restarts that count against it. None if they count against the supervisor's.
        self.limit = spec.restarts
        self.history = None if self.limit is None else History()
        # Why it was given up; None if it was not.
        self.given_up: str | None = None
        # Whether any incarnation has been up.
        self.has_been_up = False
        # What its backoff grows from; see `restart.plan_restart`.
        self.stored_ms: Milliseconds = 0.0
        self.started_at: Milliseconds = 0.0
        # The current start was requested by a call, perhaps by the one that added the child. If it fails, the child is down
        # again, or removed, and not restarted.
        self.is_requested = False
        self.is_added = False
        # Stopped on request: only a request starts it again. And whether it was when the current start was requested.
        self.is_held = False
        self.was_held = False
        # The current incarnation has to stop; and whether another one starts then.
        self.must_stop = False
        self.starts_after_stop = False
        # The next start is a restart; and whether it waits for the timer.
        self.is_restart = False
        self.is_delayed = False
        # The timer of its restart, or of its stop.
        self.timer: TimerId | None = None
        # The token of the last `RestartDue`; 0 for none.
        self.token: Count = 0
        # The mailbox of the last incarnation, for the next one.
        self.kept_mailbox: ActorCell | None = None
        # None for nearly every child. A dict, to keep the order.
        self.watchers: dict[ChildWatcher, None] | None = None

    @property
    def can_start(self) -> bool:
        """Whether it waits only for its turn."""
        return self.phase is WAITING and not self.is_delayed

    @property
    def will_start(self) -> bool:
        """Whether the supervisor is going to start the child by itself, as far as is known now. Only if no incarnation is alive."""
        if self.phase is DOWN:
            return False
        if self.phase is WAITING:
            return True
        if self.phase is STOPPING or self.must_stop:
            return self.starts_after_stop
        if self.is_requested or self.actor is None:
            # If a start on request fails, the child is down again.
            return False
        # It has exited, and the supervisor has not handled the exit yet.
        return self.exit_actions[self.actor.reason] is RESTART

    def clear(self, loop: Loop) -> None:
        """Note that the current incarnation has ended."""
        self.phase = DOWN
        self.actor = None
        self.supervisor = None
        self.handle = None
        if self.timer is not None:
            self.cancel_timer(loop)

    def cancel_timer(self, loop: Loop) -> None:
        """Cancel the timer of its restart or of its stop, if there is one."""
        timer, self.timer = self.timer, None
        if timer is not None:
            # It may have fired. Then its message is stale.
            with suppress(InvalidTimerError):
                loop.cancel_timer(timer)

    def keep_before(self, mailbox: ActorCell) -> None:
        """Keep messages for the next incarnation, before those that the last one left."""
        if self.kept_mailbox is not None:
            mailbox.append_messages_of(self.kept_mailbox)
        self.kept_mailbox = mailbox

    def discard_mailbox(self, loop: Loop) -> None:
        """Turn the messages kept for the next incarnation into dead letters: there is no next incarnation."""
        if self.kept_mailbox is not None:
            mailbox, self.kept_mailbox = self.kept_mailbox, None
            loop.kernel.discard_mailbox(mailbox)

    def notify_watchers(self) -> None:
        """Notify the watchers of a change."""
        for watcher in list(self.watchers or ()):
            # Unless one notified earlier has cancelled it.
            if self.watchers is not None and watcher in self.watchers:
                watcher.changed()

    def budget(self, now_ms: Milliseconds) -> RestartBudget | None:
        """Return how much of its own restart limit is used; None if it has none."""
        limit, history = self.limit, self.history
        if limit is None or history is None:
            return None
        return budget_of(limit, history, now_ms, self.counting_period(limit, now_ms))

    def counting_period(self, limit: Intensity, now_ms: Milliseconds) -> Milliseconds:
        """Return the time in which restarts would count against a limit if the child failed now."""
        is_stable = self.phase is UP and now_ms - self.started_at >= limit.period_ms
        return counting_period_ms(limit, self.backoff, 0.0 if is_stable else self.stored_ms)

    def info(self, actor: ActorId | None, now_ms: Milliseconds) -> ChildInfo:
        """Return what users may know, with the current incarnation as the caller sees it."""
        return ChildInfo(
            self.name,
            actor,
            self.phase,
            self.spec.restart,
            self.spec.is_supervisor,
            self.restarts,
            self.budget(now_ms),
            self.given_up,
        )


class Children:
    """The slots of a supervisor: by name in order, by actor, and queued for their turn to start or to stop."""

    __slots__ = ("by_actor", "next_position", "slots", "to_start", "to_stop")

    def __init__(self) -> None:
        self.slots: dict[str, ChildSlot] = {}
        self.by_actor: dict[ActorId, ChildSlot] = {}
        self.next_position: Count = 0
        # Heaps, so that the next one is found without a walk over all. A slot that has nothing to wait for any more is removed
        # when it comes to the top.
        self.to_start: list[tuple[int, ChildSlot]] = []
        self.to_stop: list[tuple[int, ChildSlot]] = []

    def add(self, slot: ChildSlot) -> None:
        """Add a slot at the end."""
        slot.position = self.next_position
        self.next_position += 1
        self.slots[slot.name] = slot

    def queue_start(self, slot: ChildSlot) -> None:
        """Let a waiting child start when those before it have started."""
        heappush(self.to_start, (slot.position, slot))

    def queue_stop(self, slot: ChildSlot) -> None:
        """Let a child stop when those behind it have stopped."""
        heappush(self.to_stop, (-slot.position, slot))

    def is_sequencing(self) -> bool:
        """Return whether children are being stopped or started in order."""
        heaps = (self.to_start, self.to_stop)
        for heap in heaps:
            while heap and heap[0][1].phase in {UP, DOWN} and not heap[0][1].must_stop:
                heappop(heap)
        return any(heaps)

    def siblings_in_group(self, slot: ChildSlot, strategy: Strategy) -> list[ChildSlot]:
        """Return the other slots that are restarted together with this one."""
        slots = list(self.slots.values())
        group = restart_group(strategy, slots.index(slot), len(slots))
        return [slots[index] for index in group if slots[index] is not slot]


def first_slots(spec: AnySupervisorSpec, context: ContextVars) -> list[ChildSlot]:
    """Return slots for the children with which a supervisor starts."""
    if isinstance(spec, SupervisorSpec):
        return [ChildSlot(child.name, child, context) for child in spec.children]
    if isinstance(spec, PartitionSpec):
        name = spec.child.name
        return [
            ChildSlot(f"{name}-{number}", spec.child, context, (number,)) for number in range(spec.partitions)
        ]
    return []
