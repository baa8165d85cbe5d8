"""The actor behind a supervisor: it starts children, handles their exits and restarts them.

Each child has a `ChildSlot`, which outlives the child's incarnations. Everything that happens arrives as a message on the
SYSTEM lane: a child has exited (`ChildExit`), an asynchronous init has finished (`ChildStart`), a restart delay is over
(`RestartDue`), a child did not stop in time (`StopTimeout`), the supervisor has to stop (`StopRequest`). A message changes the wanted state
of some slots. Then `reconcile` takes the next steps: it stops the children that must stop, last to first and one at a
time, then starts the children that wait, first to last. When a step takes time (a coroutine is being cancelled, an init is in
flight, a backoff runs), `reconcile` returns, and the message that reports the end of that step continues the work. So a request
to stop is never starved, not even by a child that fails as fast as it starts: each failed restart is one more message, behind those that
wait already.

`restart` decides what follows from an exit; this module carries it out. Under ONE_FOR_ONE the children are independent once all
have started, and a restart touches one slot only.

Rejected: a queue of steps, which must be patched whenever a child exits halfway through it; messages for requests to start and
stop children, because a call on the loop's thread can answer at once; a task per child.

The module is compiled: a child that fails as fast as it starts is restarted 100,000 times a second, and interpreted, the way from an
exit to the next start took longer than the exit and the start themselves.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from enum import Enum
from heapq import heappop
from logging import WARNING
from math import ceil, inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from bandstand.core import ActorStatus, ChildExit, ChildStart, ExitReason, SystemTag
from bandstand.core.actors import NOT_YET
from bandstand.core.enums import KEEPS_ASKS, RUNNING, STOPPED, SYSTEM
from bandstand.core.kernel import whole_ms
from bandstand.core.messages import ChildSummary
from bandstand.errors import (
    ActorKilledError,
    BandstandError,
    ChildStateError,
    IgnoreChild,
    MaxActorsError,
    NoSuchActorError,
    OutOfMemoryError,
)
from bandstand.supervision.children import Children, ChildSlot, Phase, first_slots
from bandstand.supervision.log import (
    MAX_FAILURES,
    SupervisorLog,
    gave_up,
    is_enabled_for,
    start_failed,
    why_given_up,
)
from bandstand.supervision.restart import (
    DEFAULT_MAX_RESTARTS,
    AutoShutdown,
    ExitAction,
    History,
    Intensity,
    RestartBudget,
    Strategy,
    budget_of,
    count_given_up,
    plan_restart,
    triggers_auto_shutdown,
)
from bandstand.supervision.spec import DynamicSpec, SupervisorSpec, cap_of

if TYPE_CHECKING:
    from contextvars import Context as ContextVars

    from bandstand.core import Context
    from bandstand.core.context import ActorContext
    from bandstand.core.crash_report import CrashFacts
    from bandstand.core.ids import ActorId
    from bandstand.core.loop import Loop
    from bandstand.core.mailbox import ActorCell
    from bandstand.supervision.log import ChildFailure
    from bandstand.supervision.spec import AnySupervisorSpec

# Annotations only: the .pxd gives the C types.
Count: TypeAlias = int
Milliseconds: TypeAlias = float

# When a child that is not up has started: it has lived for less than any time.
NEVER: Milliseconds = inf
# The delay before another try when the loop has no room for a child. Other actors may end meanwhile.
NO_ROOM_MS = 1
# Of how many removed children a dynamic supervisor remembers why they were given up.
MAX_GIVEN_UP = 1000


class SupervisorState(Enum):
    """The state of a supervisor."""

    STARTING = "starting"
    """The children start for the first time."""
    RUNNING = "running"
    STOPPING = "stopping"
    """The children stop. Then the supervisor ends."""
    ENDED = "ended"


# A name of the module costs a tenth of an attribute of the enumeration.
DOWN = Phase.DOWN
WAITING = Phase.WAITING
STARTING = Phase.STARTING
UP = Phase.UP
STOPPING = Phase.STOPPING
SUPERVISOR_STARTING = SupervisorState.STARTING
SUPERVISOR_RUNNING = SupervisorState.RUNNING
SUPERVISOR_STOPPING = SupervisorState.STOPPING
SUPERVISOR_ENDED = SupervisorState.ENDED
ONE_FOR_ONE = Strategy.ONE_FOR_ONE
NORMAL = ExitReason.NORMAL
RESTART = ExitAction.RESTART


class RestartDue(NamedTuple):
    """The delay before a restart is over. Stale unless the token is the slot's, or the group's."""

    slot: ChildSlot
    token: int
    error: BandstandError | None = None
    """The last try failed because the loop had no room. There was no actor whose exit could be handled, so it is handled now."""


class StopTimeout(NamedTuple):
    """The time for a child to stop is over."""

    child: ActorId


class StopRequest(NamedTuple):
    """The supervisor has to stop its children and then itself."""


class SupervisorActor:
    """A supervisor as an actor. Users see it through a `BaseSupervisor`. Loop thread only, except where noted.

    It is the behavior of its actor, and it answers the loop's questions about its children.
    """

    __slots__ = (
        "actor_id",
        "auto_shutdown",
        "backoff_restarts",
        "children",
        "context",
        "depth",
        "crash",
        "failures",
        "given_up",
        "group_delay",
        "has_logged_stray",
        "history",
        "init_error",
        "intensity",
        "is_busy",
        "is_dynamic",
        "is_in_init",
        "is_start_error_raised",
        "is_unordered",
        "last_token",
        "log",
        "loop",
        "name",
        "outcome",
        "parent",
        "spec",
        "starting_slot",
        "state",
        "strategy",
        "unreported",
    )

    def __init__(self, loop: Loop, spec: AnySupervisorSpec, name: str, context: ContextVars) -> None:
        self.loop = loop
        self.spec = spec
        self.name = name
        # The context variables with which its children's coroutines start, at restarts too.
        self.context = context
        # None until it is launched.
        self.actor_id: ActorId | None = None
        self.parent: ActorId | int | None = None
        # How many supervisors there are from the root down to this one.
        self.depth = 1
        self.state: SupervisorState = SUPERVISOR_STARTING
        # Why it ends, if it does not end normally.
        self.outcome: BandstandError | None = None
        self.log = SupervisorLog(loop, name)

        self.strategy: Strategy = ONE_FOR_ONE
        self.auto_shutdown: AutoShutdown = AutoShutdown.NEVER
        if isinstance(spec, SupervisorSpec):
            self.strategy = spec.strategy
            self.auto_shutdown = spec.auto_shutdown
        # Children of a dynamic supervisor do not depend on each other: they stop all at once. Those that exit for good are removed.
        self.is_dynamic = isinstance(spec, DynamicSpec)

        self.children = Children()
        # Whether each child is handled by itself: under ONE_FOR_ONE, between the end of the first start and the stop.
        self.is_unordered = False
        # Children whose exit was handled before its message arrived, with their names.
        self.unreported: dict[ActorId, str] = {}
        # The child that is just being started, and the error of its init if it ended within the start.
        self.starting_slot: ChildSlot | None = None
        self.init_error: BaseException | None = None

        self.intensity = spec.restarts
        # How many restarts the backoffs of the children need, if the spec sets no limit.
        self.backoff_restarts: Count = 0
        self.history = History()
        # For the error when it gives up. Not more than that takes, because a traceback keeps the objects of its frames alive.
        # What the child that has failed was doing, while its exit is handled.
        self.crash: CrashFacts | None = None
        self.failures: deque[ChildFailure] = deque(
            maxlen=MAX_FAILURES if spec.max_restarts is None else min(MAX_FAILURES, spec.max_restarts + 1)
        )
        # Why children that were removed were given up, by name, for handles that still refer to them.
        self.given_up: dict[str, str] = {}
        # The restart for whose delay a whole group waits.
        self.group_delay: RestartDue | None = None
        self.last_token: Count = 0

        # A message or a request is being handled: no other request may interrupt it.
        self.is_busy = False
        self.is_in_init = False
        # Whether `spawn_supervisor` has raised the outcome.
        self.is_start_error_raised = False
        self.has_logged_stray = False

    # -- launch ----------------------------------------------------------------------------------------------------------------

    def launch(self, parent: ActorId | int | None, depth: Count) -> ActorId:
        """Make the actor, start the children and return the actor's id. Called once."""
        self.parent = parent
        self.depth = depth
        cap = self.loop.kernel.actors.checked_cap(None)
        self.actor_id = self.loop.kernel.actors.spawn_child(
            self, self._init, name=self.name, cap=cap, supervisor=parent, context=self.context
        )
        return self.actor_id

    def raise_start_error(self) -> None:
        """Raise the outcome, if the start has failed by now. Then the failure does not end the loop."""
        if self.outcome is not None:
            self.is_start_error_raised = True
            raise self.outcome

    def _init(self, ctx: Context[Any]) -> object:
        self.actor_id = ctx.self_id
        self.loop.kernel.actors.set_child_group(self.actor_id, self)
        for slot in first_slots(self.spec, self.context):
            slot.phase = WAITING
            self.children.add(slot)
            self.update_limit(slot, 1)
            self.children.queue_start(slot)
        self.is_busy = self.is_in_init = True
        try:
            self.reconcile()
        finally:
            self.is_busy = self.is_in_init = False
        is_done = self.state is SUPERVISOR_RUNNING or self.state is SUPERVISOR_ENDED
        return None if is_done else NOT_YET

    @property
    def own_id(self) -> ActorId:
        """Its id, once it is launched."""
        assert self.actor_id is not None, "the supervisor has not been launched"
        return self.actor_id

    # -- messages --------------------------------------------------------------------------------------------------------------

    def __call__(self, ctx: Any, data: object) -> None:
        """Handle one message."""
        self.handle_message(ctx, data)

    def handle_message(self, ctx: ActorContext, data: object) -> None:
        """Handle one message."""
        if ctx.lane_number != SYSTEM:
            if not self.has_logged_stray:
                self.has_logged_stray = True
                self.log.stray_message(data)
            return
        self.is_busy = True
        try:
            if type(data) is ChildExit:
                self.crash = ctx.sender or None  # type: ignore[assignment]  # the kernel puts it there
                self.on_child_exit(data)
            elif type(data) is RestartDue:
                self.on_restart_due(data)
            elif type(data) is ChildStart:
                self.on_child_start(data.child)
            elif type(data) is StopTimeout:
                self.on_stop_timeout(data.child)
            elif type(data) is StopRequest:
                self.begin_stop(None)
                self.reconcile()
        finally:
            self.is_busy = False
            self.crash = None

    def on_child_exit(self, exit: ChildExit) -> None:  # noqa: A002  # the name of the message
        """Handle the exit of a child."""
        child, reason, cause = exit
        slot = self.children.by_actor.pop(child, None)
        if slot is None:
            # It was handled when it happened.
            self.report_failed_stop(child, reason, cause)
            return
        phase = slot.phase
        slot.clear(self.loop)
        if phase is UP and not slot.must_stop and self.state is not SUPERVISOR_STOPPING:
            self.decide_restart(slot, (slot.name, reason, cause))
        else:
            self.on_other_exit(slot, phase, reason, cause)
        self.reconcile()

    def on_other_exit(
        self, slot: ChildSlot, phase: Phase, reason: ExitReason, cause: BaseException | None
    ) -> None:
        """Handle the exit of a child that was not simply up: one that was starting, or that had to stop."""
        failure = (slot.name, reason, cause)
        if phase is STOPPING or slot.must_stop or self.state is SUPERVISOR_STOPPING:
            self.log_failed_stop(failure)
            self.on_stopped(slot)
        elif phase is STARTING and reason is NORMAL and cause is not None and is_a(cause, IgnoreChild):
            self.ignore(slot, cause)
        elif (
            phase is STARTING
            and reason is not NORMAL
            and self.state is SUPERVISOR_STARTING
            and not slot.is_restart
        ):
            self.fail_start(slot, cause)
        elif slot.is_requested and reason is not NORMAL:
            self.log.failed_start(failure, self.crash)
            self.undo_start(slot)
        else:
            slot.is_requested = slot.is_added = False
            self.decide_restart(slot, failure)

    def on_child_start(self, child: ActorId) -> None:
        """Handle the end of an asynchronous init."""
        slot = self.children.by_actor.get(child)
        if slot is not None and slot.phase is STARTING:
            self.on_up(slot, child)
            self.reconcile()

    def on_restart_due(self, due: RestartDue) -> None:
        """Handle the end of the delay before a restart."""
        slot = due.slot
        if self.group_delay is not None and self.group_delay.token == due.token:
            self.group_delay = None
            self.reconcile()
        elif slot.token == due.token and slot.is_delayed:
            slot.is_delayed = False
            slot.timer = None
            if due.error is not None:
                self.decide_restart(slot, (slot.name, ExitReason.FAIL, due.error))
            else:
                if not self.is_unordered:
                    self.children.queue_start(slot)
                self.start_in_turn(slot)
            self.reconcile()

    def on_stop_timeout(self, child: ActorId) -> None:
        """Kill a child that did not stop in time."""
        slot = self.children.by_actor.get(child)
        if slot is None or slot.phase is not STOPPING:
            return
        self.log.killed(slot.name, slot.spec.stop_timeout or 0.0)
        slot.timer = None
        self.kill(slot)
        self.reconcile()

    # -- reconcile: stop what must stop, start what waits ----------------------------------------------------------------------

    def reconcile(self) -> None:
        """Take the next steps towards what is wanted. See the docstring of the module."""
        if self.is_unordered or not self.stop_in_order():
            return
        if self.state is SUPERVISOR_STOPPING:
            self.end()
        elif self.group_delay is None and self.state is not SUPERVISOR_ENDED:
            self.start_in_order()

    def stop_in_order(self) -> bool:
        """Stop the children that must stop, last to first. Return False while one is still stopping."""
        if self.is_dynamic:
            return self.stop_together()
        heap = self.children.to_stop
        while heap:
            slot = heap[0][1]
            if slot.must_stop and slot.phase is not STOPPING:
                self.stop_child(slot)
                if self.state is SUPERVISOR_ENDED:
                    # A hook has ended the supervisor meanwhile, and with it all children.
                    return False
            if slot.phase is STOPPING:
                return False
            if heap and heap[0][1] is slot:
                heappop(heap)
        return True

    def stop_together(self) -> bool:
        """Stop the children that must stop, all at once. Return False while one is still stopping."""
        heap = self.children.to_stop
        while heap:
            slot = heappop(heap)[1]
            if slot.must_stop and slot.phase is not STOPPING:
                self.stop_child(slot)
                if self.state is SUPERVISOR_ENDED:
                    return False
        return not self.children.by_actor

    def start_in_order(self) -> None:
        """Start the children that wait, first to last, until one takes time."""
        heap = self.children.to_start
        while heap:
            slot = heap[0][1]
            if slot.can_start:
                self.start_in_turn(slot)
                if self.state is SUPERVISOR_STOPPING:
                    # The child did not start.
                    self.reconcile()
                    return
                if slot.can_start:
                    # The supervisor is being ended.
                    return
            if slot.phase is STARTING or (slot.is_delayed and self.strategy is not ONE_FOR_ONE):
                return
            if heap and heap[0][1] is slot:
                heappop(heap)
        if self.state is SUPERVISOR_STARTING:
            self.state = SUPERVISOR_RUNNING
            self.is_unordered = self.strategy is ONE_FOR_ONE
            if not self.is_in_init:
                self.loop.kernel.actors.declare_started(self.own_id)

    # -- restart ---------------------------------------------------------------------------------------------------------------

    def decide_restart(self, slot: ChildSlot, failure: ChildFailure) -> None:
        """Apply the restart policy to a child that has exited by itself."""
        reason = failure[1]
        action = slot.exit_actions[reason]
        if action is not RESTART:
            self.release(slot, failure, action)
            return
        backoff = slot.backoff
        now = self.loop.kernel.timers.elapsed_ms()
        chance = random.random() if backoff is not None and backoff.jitter_ms else 0.5  # noqa: S311  # jitter
        limit = slot.limit
        plan = plan_restart(
            self.intensity if limit is None else limit,
            self.history if limit is None else cast("History", slot.history),
            now,
            backoff,
            reason,
            slot.stored_ms,
            now - slot.started_at,
            chance,
        )
        if limit is None:
            self.history = plan.history
            self.add_failure(failure)
            if plan.gives_up:
                self.give_up(failure, is_given_up=False)
                return
        else:
            slot.history = plan.history
            if plan.gives_up:
                self.give_up_child(slot, failure, now)
                return
        slot.stored_ms = plan.stored_ms
        slot.phase = WAITING
        slot.restarts += 1
        slot.is_restart = True
        if not self.is_unordered:
            self.children.queue_start(slot)
        siblings = () if self.strategy is ONE_FOR_ONE else self.restart_siblings(slot)
        if is_enabled_for(WARNING):
            self.log.restart(failure, self.crash, slot.restarts, plan.delay_ms / 1000, siblings)
        if plan.delay_ms > 0:
            self.delay_restart(slot, plan.delay_ms, None)
        elif self.is_unordered:
            self.start(slot)

    def restart_siblings(self, slot: ChildSlot) -> Sequence[str]:
        """Mark the siblings that are restarted together with a child. Return the names of those that were up before."""
        # If the group already waits for the backoff of an earlier failure, the latest failure decides.
        self.cancel_group_delay()
        names: list[str] = []
        for sibling in self.children.siblings_in_group(slot, self.strategy):
            if sibling.is_held:
                continue
            if sibling.actor is not None:
                self.mark_for_stop(sibling)
                sibling.starts_after_stop = not sibling.is_temporary
            else:
                sibling.cancel_timer(self.loop)
                sibling.is_delayed = False
                sibling.token = 0
                sibling.phase = WAITING
                self.children.queue_start(sibling)
            if sibling.has_been_up and not sibling.is_restart and not sibling.is_temporary:
                sibling.is_restart = True
                sibling.restarts += 1
                names.append(sibling.name)
        return names

    def delay_restart(self, slot: ChildSlot, ms: Milliseconds, error: BandstandError | None) -> None:
        """Delay the restart of a child, or of its whole group."""
        self.last_token += 1
        due = RestartDue(slot, self.last_token, error)
        slot.token = self.last_token
        if self.strategy is ONE_FOR_ONE or error is not None:
            slot.is_delayed = True
        else:
            self.cancel_group_delay()
            self.group_delay = due
        slot.timer = self.loop.kernel.start_system_timer(self.own_id, ceil(ms), due, SystemTag.CHILD_RESTART)

    def cancel_group_delay(self) -> None:
        """Cancel the delay for which a group waits."""
        if self.group_delay is not None:
            self.group_delay.slot.cancel_timer(self.loop)
            self.group_delay = None

    def is_failing_to_restart(self, slot: ChildSlot) -> bool:
        """Return whether a child of a group has failed and waits for another try, or has just failed the last one."""
        if self.strategy is ONE_FOR_ONE or self.state is SUPERVISOR_STARTING:
            return False
        if slot.is_delayed or (self.group_delay is not None and self.group_delay.slot is slot):
            return True
        actor = slot.actor
        if actor is None or slot.phase is not STARTING or not slot.is_restart:
            return False
        return self.loop.status(actor) is ActorStatus.FAILED

    def cancel_group_restart(self, slot: ChildSlot) -> None:
        """Keep the siblings down that were going to start together with a child that is now stopped on request."""
        self.cancel_group_delay()
        for sibling in self.children.siblings_in_group(slot, self.strategy):
            if sibling.must_stop:
                sibling.starts_after_stop = sibling.is_restart = False
            elif sibling.phase is WAITING:
                self.retire(sibling)

    def add_failure(self, failure: ChildFailure) -> None:
        """Remember a failure that counts against the limit, and forget those that are older than the period."""
        self.failures.append(failure)
        while len(self.failures) > self.history.count:
            self.failures.popleft()

    def give_up_child(self, slot: ChildSlot, failure: ChildFailure, now: Milliseconds) -> None:
        """Give up a child that has exceeded its own limit: it stays down, or is removed, and the others continue to run.

        It counts as one restart against the supervisor's limit, if the spec sets one.
        """
        limit, history = slot.limit, slot.history
        assert limit is not None
        assert history is not None
        why = why_given_up(failure, len(history), limit)
        self.log.gave_up_child(failure, self.crash, why)
        slot.given_up = why
        slot.stored_ms = 0.0
        if self.is_dynamic:
            self.given_up[slot.name] = why
            if len(self.given_up) > MAX_GIVEN_UP:
                del self.given_up[next(iter(self.given_up))]
        is_too_many = False
        if self.spec.max_restarts is not None:
            self.history, is_too_many = count_given_up(self.intensity, self.history, now)
            self.add_failure(failure)
        self.leave_down(slot, ExitAction.STAY_DOWN)
        if is_too_many:
            self.give_up(failure, is_given_up=True)
        else:
            self.shut_down_if_significant(slot)

    def give_up(self, failure: ChildFailure, *, is_given_up: bool) -> None:
        """Escalate: this restart, or this child that was given up, is one too many."""
        error = gave_up(self.name, self.failures, len(self.history), self.intensity, is_given_up=is_given_up)
        self.log.gave_up(failure, error)
        self.loop.kernel.report_escalation(self.own_id)
        self.begin_stop(error)

    # -- start one child -------------------------------------------------------------------------------------------------------

    def start(self, slot: ChildSlot) -> ActorId | None:
        """Start a child and return its id; the slot's phase says how it went. None if there is no actor: see `on_no_actor`."""
        slot.phase = STARTING
        slot.started_at = NEVER
        kept = slot.kept_mailbox
        slot.kept_mailbox = None
        # A mailbox that is kept whole comes first. Asks come behind what the init sends to the child, as those that wait in a queue do.
        only_asks = slot.keeps_mailbox == KEEPS_ASKS
        self.starting_slot = slot
        try:
            if slot.is_supervisor:
                actor = self.launch_supervisor(slot)
            else:
                if not slot.mailbox_cap:
                    slot.mailbox_cap = cap_of(self.loop, slot.spec)
                actor = self.loop.kernel.actors.spawn_child(
                    slot.behavior,
                    slot.init,
                    slot.name,
                    slot.mailbox_cap,
                    self.actor_id,
                    slot.context,
                    slot.keeps_mailbox,
                    None if only_asks else kept,
                )
        except BandstandError as error:
            self.starting_slot = slot.supervisor = None
            slot.kept_mailbox = kept
            slot.phase = WAITING
            self.on_no_actor(slot, error)
            return None
        self.starting_slot = None
        if only_asks and kept is not None and not self.loop.kernel.append_mailbox(actor, kept):
            # It has ended in its init.
            slot.keep_before(kept)
        if self.state is SUPERVISOR_ENDED:
            # The child's init has ended the supervisor, and this child was not yet among those that ended with it.
            self.end_orphan(actor)
            slot.discard_mailbox(self.loop)
            slot.phase = WAITING
            self.on_no_actor(
                slot,
                ChildStateError(f"supervisor {self.name!r} ended while child {slot.name!r} was starting"),
            )
            return None
        # The name means the new incarnation before any callback can ask.
        slot.actor = actor
        self.children.by_actor[actor] = slot
        if slot.is_temporary:
            # It is never restarted: its init and the arguments can be freed.
            slot.init = None
        if slot.watchers is not None:
            slot.notify_watchers()
        if actor.status == RUNNING:
            self.on_up(slot, actor)
        else:
            raised = self.loop.kernel.actors.init_error
            self.loop.kernel.actors.init_error = None
            if actor.status == STOPPED and raised is not None and is_a(raised, IgnoreChild):
                del self.children.by_actor[actor]
                self.ignore(slot, raised)
            else:
                self.init_error = raised
        return actor

    def start_in_turn(self, slot: ChildSlot) -> None:
        """Start a child whose turn it is.

        If it fails at once, its exit arrives as a message, behind those that wait. Not during the first start of the supervisor: then
        the caller of `spawn_supervisor` learns of it at once.
        """
        self.start(slot)
        if self.state is SUPERVISOR_STARTING and slot.phase is STARTING and not slot.is_restart:
            actor = slot.actor
            assert actor is not None
            if self.loop.status(actor) is ActorStatus.FAILED:
                self.fail_start(slot, self.take_start_error(slot, actor))

    def launch_supervisor(self, slot: ChildSlot) -> ActorId:
        """Start a child that is a supervisor."""
        nested = SupervisorActor(self.loop, cast("AnySupervisorSpec", slot.spec.run), slot.name, slot.context)
        slot.supervisor = nested
        slot.handle = None
        return nested.launch(self.own_id, self.depth + 1)

    def on_up(self, slot: ChildSlot, actor: ActorId) -> None:
        """Note that a child is up."""
        slot.phase = UP
        slot.has_been_up = True
        slot.is_requested = slot.is_added = False
        slot.started_at = self.loop.kernel.timers.elapsed_ms()
        if slot.is_restart:
            slot.is_restart = False
            assert self.actor_id is not None
            self.loop.kernel.report_restart(self.actor_id, actor, slot.restarts)

    def on_no_actor(self, slot: ChildSlot, error: BandstandError) -> None:
        """Handle a start that made no actor: the loop has no room for it, or the supervisor is being ended."""
        if slot.is_requested:
            # For the caller.
            raise error
        if not isinstance(error, (MaxActorsError, OutOfMemoryError)):
            # An init is ending the supervisor.
            return
        if self.state is SUPERVISOR_STARTING and not slot.is_restart:
            self.fail_start(slot, error)
        else:
            # No actor, so no exit arrives. The message of the delay takes its place.
            self.delay_restart(slot, NO_ROOM_MS, error)

    def take_start_error(self, slot: ChildSlot, actor: ActorId) -> BaseException | None:
        """Clear the slot of a child that ended within the call that started it. Return what went wrong."""
        del self.children.by_actor[actor]
        outcome = None if slot.supervisor is None else slot.supervisor.outcome
        error, self.init_error = self.init_error, None
        slot.clear(self.loop)
        return outcome or error

    def ignore(self, slot: ChildSlot, error: BaseException) -> None:
        """Continue without a child whose init has raised `IgnoreChild`."""
        slot.clear(self.loop)
        slot.is_restart = slot.is_requested = slot.is_added = False
        self.log.ignored(slot.name, error)
        self.drop(slot)

    def fail_start(self, slot: ChildSlot, cause: BaseException | None) -> None:
        """Stop because a child failed during the first start."""
        self.begin_stop(start_failed(self.name, slot.name, cause))

    # -- stop one child --------------------------------------------------------------------------------------------------------

    def mark_for_stop(self, slot: ChildSlot) -> None:
        """Mark a running child as having to stop, and queue it."""
        slot.must_stop = slot.actor is not None
        if slot.must_stop and not self.is_unordered:
            self.children.queue_stop(slot)

    def retire(self, slot: ChildSlot) -> None:
        """Mark a child as no longer wanted: one that runs must stop, one that waits is down."""
        if slot.phase is WAITING:
            slot.phase = DOWN
            slot.cancel_timer(self.loop)
        slot.is_delayed = slot.starts_after_stop = slot.is_restart = False
        slot.token = 0
        self.mark_for_stop(slot)
        if slot.actor is None:
            self.drop(slot)
        else:
            slot.discard_mailbox(self.loop)

    def stop_child(self, slot: ChildSlot) -> None:
        """Stop a child, and give its coroutine the time its spec says."""
        actor = slot.actor
        assert actor is not None
        stop_timeout = slot.spec.stop_timeout
        status = self.loop.status(actor)
        slot.phase = STOPPING
        if stop_timeout == 0:
            self.kill(slot)
        elif not slot.is_supervisor:
            self.loop.kernel.actors.stop_or_kill(actor)
        elif status < ActorStatus.STOPPING and not self.loop.kernel.is_closed:
            # A loop that was asked to stop just now ends all actors itself.
            stop_supervisor(self.loop, actor)
        if self.loop.status(actor) < ActorStatus.STOPPED:
            if stop_timeout is not None:
                slot.timer = self.loop.kernel.start_system_timer(
                    self.own_id, whole_ms(stop_timeout), StopTimeout(actor), SystemTag.SHUTDOWN
                )
        elif self.is_in_init or self.state is not SUPERVISOR_STOPPING:
            # It ended within that call: there is no need to wait for the message. (While the supervisor stops, there is: the
            # message would become a dead letter. But a start that failed at once is undone at once.)
            if status >= ActorStatus.STOPPED:
                # It had ended by itself before, and only the message has the cause.
                self.unreported[actor] = slot.name
            self.children.by_actor.pop(actor, None)
            slot.clear(self.loop)
            self.on_stopped(slot)

    def kill(self, slot: ChildSlot) -> None:
        """Kill a child."""
        assert slot.actor is not None
        error = ActorKilledError(f"child {slot.name!r} was killed by its supervisor {self.name!r}")
        self.loop.kernel.actors.stop_or_kill(slot.actor, error)

    def on_stopped(self, slot: ChildSlot) -> None:
        """Note that a child that had to stop has stopped."""
        self.reset_backoff_if_stable(slot)
        slot.must_stop = slot.is_requested = slot.is_added = False
        if slot.starts_after_stop:
            slot.starts_after_stop = False
            slot.phase = WAITING
            self.children.queue_start(slot)
        else:
            self.drop(slot)

    def release(self, slot: ChildSlot, failure: ChildFailure, action: ExitAction) -> None:
        """Note that a child has exited by itself and is not restarted."""
        self.reset_backoff_if_stable(slot)
        if failure[1] is not NORMAL:
            self.log.final_exit(failure, self.crash)
        self.leave_down(slot, action)
        self.shut_down_if_significant(slot)

    def leave_down(self, slot: ChildSlot, action: ExitAction) -> None:
        """Keep a child down that is not restarted, or remove it."""
        slot.discard_mailbox(self.loop)
        if action is ExitAction.FORGET or self.is_dynamic:
            self.remove(slot)
        else:
            slot.notify_watchers()

    def shut_down_if_significant(self, slot: ChildSlot) -> None:
        """Stop the supervisor if a child that is not restarted is significant, and `auto_shutdown` says so."""
        if slot.spec.significant:
            others = [
                other.phase is not DOWN
                for other in self.children.slots.values()
                if other is not slot and other.spec.significant
            ]
            if triggers_auto_shutdown(self.auto_shutdown, others):
                self.begin_stop(None)

    def drop(self, slot: ChildSlot) -> None:
        """Note that nothing starts a child again by itself: it stays down, or is removed."""
        slot.discard_mailbox(self.loop)
        if slot.is_temporary or self.is_dynamic:
            self.remove(slot)
        else:
            slot.notify_watchers()

    def remove(self, slot: ChildSlot) -> None:
        """Forget a child."""
        slot.discard_mailbox(self.loop)
        if self.children.slots.pop(slot.name, None) is not None:
            self.update_limit(slot, -1)
        slot.notify_watchers()

    def update_limit(self, slot: ChildSlot, change: Count) -> None:
        """Allow as many restarts as backoffs need, unless the spec sets a limit. `change` is 1 for a new child, -1 for one that is removed."""
        if slot.backoff is None or slot.limit is not None or self.spec.max_restarts is not None:
            return
        self.backoff_restarts += change * slot.backoff.restarts_to_maximum
        self.intensity = Intensity(max(DEFAULT_MAX_RESTARTS, self.backoff_restarts), self.spec.period)

    def reset_backoff_if_stable(self, slot: ChildSlot) -> None:
        """Start the backoff of a child again that has run for a whole period, however it ended."""
        limit = self.intensity if slot.limit is None else slot.limit
        if slot.stored_ms and self.now_ms() - slot.started_at >= limit.period_ms:
            slot.stored_ms = 0.0

    def report_failed_stop(self, child: ActorId, reason: ExitReason, cause: BaseException | None) -> None:
        """Log the failure of a child whose exit was handled before its message arrived."""
        name = self.unreported.pop(child, None)
        if name is not None:
            self.log_failed_stop((name, reason, cause))

    def log_failed_stop(self, failure: ChildFailure) -> None:
        """Log the exit of a child that had to stop, if it failed by itself: nothing else would."""
        if failure[1] is not NORMAL and not is_a(failure[2], ActorKilledError):
            self.log.failed_while_stopping(failure, self.crash)

    # -- stop the supervisor ---------------------------------------------------------------------------------------------------

    def begin_stop(self, outcome: BandstandError | None) -> None:
        """Begin to stop: from now on children only stop."""
        if self.state is SUPERVISOR_STOPPING or self.state is SUPERVISOR_ENDED:
            return
        self.state = SUPERVISOR_STOPPING
        self.is_unordered = False
        self.outcome = outcome
        self.cancel_group_delay()
        self.children.to_start.clear()
        for slot in list(self.children.slots.values()):
            self.retire(slot)

    def end(self) -> None:
        """End the supervisor: all children have ended."""
        self.state = SUPERVISOR_ENDED
        if self.outcome is not None and not self.is_in_init and self.is_unobserved():
            self.loop.kernel.fail(self.outcome)
        self.loop.kernel.actors.stop_or_kill(self.own_id, self.outcome)

    def is_unobserved(self) -> bool:
        """Return whether an abnormal end would go unnoticed: no parent, no caller and no scope learns of it."""
        if self.is_start_error_raised or self.loop.kernel.actors.is_exit_handled(self.own_id):
            return False
        if self.parent is None:
            return True
        try:
            return self.loop.status(self.parent) >= ActorStatus.STOPPING
        except NoSuchActorError:  # the parent was given as a number, which is free again
            return True

    def end_orphan(self, actor: ActorId) -> None:
        """End a child of a supervisor that has ended."""
        self.loop.kernel.actors.stop_or_kill(actor)
        # The supervisor cannot wait for a coroutine. A loop that is stopping does.
        if not self.loop.kernel.is_closed and self.loop.status(actor) < ActorStatus.STOPPED:
            self.loop.kernel.actors.stop_or_kill(actor, self.kill_cause())

    # -- requests from users ---------------------------------------------------------------------------------------------------

    def check_request(self, action: str, *, even_if_stopping: bool = False) -> None:
        """Raise if a request cannot be made from here, or now.

        Raises:
            ChildStateError: the supervisor is busy, stopping, or has ended.
            LoopClosedError, WrongThreadError: as for `Loop.stop_actor`.
        """
        self.loop.kernel.check_open()
        status = self.loop.status(self.own_id)
        if self.is_busy:
            raise ChildStateError(
                f"supervisor {self.name!r} is busy with its children and cannot {action}: an init, or a hook, cannot "
                f"change the supervisor that called it. Do it from a message."
            )
        if status >= ActorStatus.STOPPING or self.state is SUPERVISOR_ENDED:
            raise ChildStateError(f"supervisor {self.name!r} has ended and cannot {action}")
        if self.state is SUPERVISOR_STOPPING and not even_if_stopping:
            raise ChildStateError(f"supervisor {self.name!r} is stopping and cannot {action}")

    def check_not_sequencing(self, action: str) -> None:
        """Raise `ChildStateError` while children are being stopped or started in order."""
        if not self.is_unordered and self.children.is_sequencing():
            raise ChildStateError(
                f"supervisor {self.name!r} is stopping and starting its children in order and cannot {action}: "
                f"try again when it has finished"
            )

    def add_child(self, slot: ChildSlot) -> ActorId:
        """Add a child at the end and start it for a caller. If it fails at once, it is removed again."""
        slot.is_added = True
        self.given_up.pop(slot.name, None)
        self.children.add(slot)
        self.update_limit(slot, 1)
        return self.request_start(slot)

    def request_start(self, slot: ChildSlot) -> ActorId:
        """Start a child for a caller, who gets the error if it fails."""
        slot.was_held, slot.is_held = slot.is_held, False
        if slot.given_up is not None:
            # A request gives it its whole budget again.
            slot.given_up = None
            slot.history = History()
        slot.is_requested = True
        self.is_busy = True
        try:
            actor = self.start(slot)
            assert actor is not None
            if slot.phase is STARTING and not self.is_unordered:
                self.children.queue_start(slot)
            if self.loop.status(actor) is ActorStatus.FAILED:
                raise start_failed(self.name, slot.name, self.take_start_error(slot, actor))
        except BandstandError:
            self.undo_start(slot)
            raise
        finally:
            self.is_busy = False
        return actor

    def undo_start(self, slot: ChildSlot) -> None:
        """Restore a slot as it was before a requested start that has failed."""
        slot.phase = DOWN
        slot.discard_mailbox(self.loop)
        slot.is_requested = False
        slot.is_held = slot.was_held
        if slot.is_added:
            self.remove(slot)

    def request_stop_child(self, slot: ChildSlot) -> bool:
        """Stop a child for a caller, and keep it down. Return whether it has ended."""
        if self.state is not SUPERVISOR_STOPPING:
            slot.is_held = True
            if self.is_failing_to_restart(slot):
                self.cancel_group_restart(slot)
            if slot.phase is STOPPING:
                slot.starts_after_stop = slot.is_restart = False
            else:
                self.retire(slot)
            self.is_busy = True
            try:
                if slot.must_stop and slot.phase is not STOPPING and self.is_unordered:
                    self.stop_child(slot)
                self.reconcile()
            finally:
                self.is_busy = False
        return slot.actor is None or self.loop.status(slot.actor) >= ActorStatus.STOPPED

    def request_stop(self) -> None:
        """Stop the children and then the supervisor."""
        self.begin_stop(None)
        self.is_busy = True
        try:
            self.reconcile()
        finally:
            self.is_busy = False

    def spend_restarts(self) -> None:
        """Count as many restarts as are allowed as made just now, so that the next failure within the period is one too many."""
        self.history = History((self.now_ms(),) * self.intensity.max_restarts)

    # -- questions -------------------------------------------------------------------------------------------------------------

    def now_ms(self) -> float:
        """Return the milliseconds since the loop was made."""
        return self.loop.kernel.timers.elapsed_ms()

    def current(self, slot: ChildSlot) -> ActorId | None:
        """Return the incarnation of a child, unless it has ended or is about to."""
        actor = slot.actor
        if actor is None or self.loop.status(actor) >= ActorStatus.STOPPING:
            return None
        return actor

    def budget(self) -> RestartBudget:
        """Return how much of the limit is used, as it would be counted for the child with the longest delays."""
        limit, now_ms = self.intensity, self.now_ms()
        own = (slot for slot in self.children.slots.values() if slot.limit is None)
        period_ms = max((slot.counting_period(limit, now_ms) for slot in own), default=limit.period_ms)
        return budget_of(limit, self.history, now_ms, period_ms)

    def why_given_up(self, path: Sequence[str]) -> str | None:
        """Return why a child was given up, or the first supervisor on the way to it that was; None if none was. From any thread."""
        supervisor: SupervisorActor | None = self
        for name in path:
            if supervisor is None:
                break
            slot = supervisor.children.slots.get(name)
            why = supervisor.given_up.get(name) if slot is None else slot.given_up
            if slot is None or why is not None:
                return why
            supervisor = slot.supervisor
        return None

    def slots_on_path(self, path: Sequence[str]) -> list[ChildSlot]:
        """Return the slots on the way down to a child, as far as they exist now. From any thread."""
        slots: list[ChildSlot] = []
        supervisor: SupervisorActor | None = self
        for name in path:
            slot = None if supervisor is None else supervisor.children.slots.get(name)
            if slot is None:
                break
            slots.append(slot)
            supervisor = slot.supervisor
        return slots

    def is_gone(self, path: Sequence[str]) -> bool:
        """Return whether a child will never run again: it was removed, or this supervisor has ended.

        Not while a supervisor on the way is down: it may be restarted, and its children with it.
        """
        supervisor = self
        if supervisor.state is SUPERVISOR_ENDED:
            return True
        for name in path:
            slot = supervisor.children.slots.get(name)
            if slot is None:
                return True
            nested = slot.supervisor
            # Without an id it is just being made and has no children yet.
            if nested is None or nested.state is SUPERVISOR_ENDED or nested.actor_id is None:
                return False
            supervisor = nested
        return False

    def will_start(self, path: Sequence[str]) -> bool:
        """Return whether a child that is not alive is going to be started without a request. From any thread.

        While a supervisor on the way is down or stopping, it depends on the supervisor above: that one may restart it, and its children with it.
        """
        supervisor = self
        if supervisor.state is SUPERVISOR_STOPPING or supervisor.state is SUPERVISOR_ENDED:
            return False
        for name in path:
            slot = supervisor.children.slots.get(name)
            if slot is None:
                return False
            actor = slot.actor
            if (actor is None or not actor.is_alive) and not slot.will_start:
                return False
            nested = slot.supervisor
            # Without an id it is just being made and has no children yet.
            if nested is None or nested.actor_id is None:
                return True
            if nested.state is SUPERVISOR_STOPPING or nested.state is SUPERVISOR_ENDED:
                return True
            supervisor = nested
        return True

    # -- questions of the loop -------------------------------------------------------------------------------------------------

    def take_all(self, children: list[ActorId]) -> None:
        """Note that the supervisor has ended, for whatever reason, and append the children that end with it."""
        self.state = SUPERVISOR_ENDED
        slots = self.children.slots.values()
        children.extend([slot.actor for slot in slots if slot.actor is not None])
        for slot in reversed(slots):
            slot.discard_mailbox(self.loop)
            slot.actor = None
            slot.phase = DOWN
            slot.must_stop = False
            slot.notify_watchers()

    def kill_cause(self) -> ActorKilledError:
        """Return the error for a child that does not end at once: the supervisor has ended and cannot wait for it."""
        return ActorKilledError(f"supervisor {self.name!r} has ended, and its children with it")

    def keep(self, actor: ActorId, mailbox: ActorCell) -> None:
        """Keep the mailbox of a child that has ended, perhaps within its init, for the next incarnation."""
        slot = self.children.by_actor.get(actor, self.starting_slot)
        if slot is None or self.state is SUPERVISOR_ENDED:
            self.loop.kernel.discard_mailbox(mailbox)
        else:
            slot.kept_mailbox = mailbox

    def members(self) -> Sequence[ChildSummary]:
        """Return the children for the tree of the loop, in order."""
        return [
            ChildSummary(slot.name, slot.actor, slot.restarts, note_of(slot))
            for slot in self.children.slots.values()
        ]


def note_of(slot: ChildSlot) -> str:
    """Return the note of a child for the tree."""
    if slot.phase is DOWN:
        return "" if slot.given_up is None else "given up"
    return "" if slot.phase is UP else slot.phase.value


def is_a(error: BaseException | None, kind: type[BaseException]) -> bool:
    """Return whether an error is of a class. Unlike `isinstance`, it runs no code of the error."""
    return issubclass(type(error), kind)


def is_supervisor_actor(value: object) -> bool:
    """Return whether a value is the actor behind a supervisor, which restarts its children."""
    return isinstance(value, SupervisorActor)


def stop_supervisor(loop: Loop, actor: ActorId) -> None:
    """Send a supervisor a request to stop its children, last to first and each in its own time, and then to end."""
    loop.kernel.send_system(actor, StopRequest(), SystemTag.SHUTDOWN)
