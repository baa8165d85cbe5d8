"""The place of a capability on a node: its supervised actor, incarnation after incarnation.

A seat has a supervisor of its own with one permanent child, so each capability has its own budget of restarts. The child's mailbox
is kept: what waited for an incarnation that has failed, the next one handles. What comes while there is none waits here. When the
supervisor gives up, the seat is unhealthy. It is tried again when the window of its restarts has passed, or when it is reset.

The router hears of every end by a monitor, whatever the reason: then what was at hand is answered. There is no other path.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from math import ceil
from typing import TYPE_CHECKING, Any

from bandstand.bus.contracts.blueprint import Blueprint
from bandstand.bus.faults import OVERLOADED
from bandstand.bus.hosting import performer_of
from bandstand.bus.hot.pending import Delivery, Pending
from bandstand.bus.hot.route import Route
from bandstand.bus.lineage import AT_HAND
from bandstand.bus.numbers import DONE
from bandstand.bus.performers import Performer
from bandstand.bus.speaker import Speaker
from bandstand.core import ActorId, Context
from bandstand.core.logs import SafeLogger
from bandstand.errors import ActorFailed
from bandstand.errors.formatting import safe_repr
from bandstand.supervision import ChildSpec, Mailbox, Supervisor, SupervisorSpec, spawn_supervisor
from bandstand.supervision.spec import required_init

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine

    from bandstand.bus.router import Router
    from bandstand.bus.ward import Ward
    from bandstand.core import TimerId

__all__ = ("Seat", "SeatState")

logger = SafeLogger("bandstand.bus")


# More than ever are under way.
UNBOUNDED = 1 << 62
# How many requests in a row have to time out before a capability is unresponsive that is not known to be at one of them.
ENOUGH = 3


class SeatState(Enum):
    """How a capability is."""

    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    UNHEALTHY = "unhealthy"
    """It has failed too often, and is out of service until it is tried again, or reset."""
    STOPPED = "stopped"


class Seat(Speaker):
    """One capability of a node."""

    __slots__ = (
        "_cap",
        "_incarnation",
        "_is_again",
        "_left",
        "_performer",
        "_silent_at",
        "_silent_since_ms",
        "_timeout_ms",
        "_timeouts",
        "_ward",
        "awaits",
        "crashes",
        "last_fault",
        "next_trial_ms",
        "restarts",
        "routes",
        "share",
        "state",
        "supervisor",
        "task",
        "trial_ends_ms",
        "trial_timer",
    )

    def __init__(self, router: Router, ward: Ward, blueprint: Blueprint) -> None:
        super().__init__(router, blueprint)
        self._ward = ward
        config = router.config
        self._cap = blueprint.mailbox_cap or config.mailbox_cap
        self.share = max(1, self._cap * 3 // 4)
        """How many requests of clients may be under way to it; the rest of its mailbox is for events and what capabilities ask."""
        self.room = self.share if config.hold_ms else UNBOUNDED
        self._timeout_ms = limit = blueprint.timeout_ms or config.timeout_ms
        # Requests that have timed out since it was last seen to come to an end with a message; since when it is silent, by the loop's clock;
        # and how many messages it had begun with then.
        self._timeouts = 0
        self._silent_since_ms = 0.0
        self._silent_at = 0
        self.routes = tuple(
            Route(self, entry, place, limit, config.remember_count > 0)
            for place, entry in enumerate(blueprint.entries.values())
        )
        self.state = SeatState.STARTING
        self.supervisor: Supervisor | None = None
        self.task: asyncio.Task[Any] | None = None
        """The task that runs the coroutine of the message at hand."""
        self.awaits: Pending | None = None
        """The request that the handler at hand waits for."""
        self._performer: Performer | None = None
        # Whose performer that is; and what those have left behind of whose end the router has not heard yet.
        self._incarnation: ActorId | None = None
        self._left: dict[ActorId, list[Pending | Delivery]] = {}
        self._is_again = False
        self.crashes = self.restarts = 0
        self.last_fault: str | None = None
        self.trial_timer: TimerId | None = None
        """What brings the next trial while it is out of service."""
        self.next_trial_ms = 0.0
        """When that is, by the loop's clock."""
        self.trial_ends_ms = 0.0
        """Until when, by the loop's clock, one failure puts it out of service again."""

    # -- life ------------------------------------------------------------------------------------------------------------------

    def launch(self, *, is_trial: bool = False) -> None:
        """Start it under a new supervisor; in a trial, under one that gives up at the first failure within the window.

        Raises:
            StartFailed: it did not start.
        """
        policy = self.blueprint.policy
        spec = SupervisorSpec(
            children=[
                ChildSpec(
                    self.id,
                    self.behave,
                    init=required_init(self._begin, f"capability {self.id}"),
                    mailbox=Mailbox.KEPT,
                    mailbox_cap=self._cap + self._router.loop.config.sys_reserved,
                    backoff=policy.backoff,
                )
            ],
            intensity=policy.max_restarts,
            period_ms=policy.window_ms,
        )
        self.cancel_trial()
        self.state = SeatState.STARTING
        self._is_again = False
        self.trial_ends_ms = self._router.now_ms() + policy.window_ms if is_trial else 0.0
        self.supervisor = supervisor = spawn_supervisor(
            self._router.loop, spec, name=f"capability {self.id}", parent=self._router.actor
        )
        if is_trial:
            supervisor.spend_restarts()

    def cancel_trial(self) -> None:
        """It is not tried again by itself."""
        timer, self.trial_timer = self.trial_timer, None
        if timer is not None and timer.pending:
            self._router.loop.cancel_timer(timer)

    @property
    def is_on_trial(self) -> bool:
        """Whether it was tried again, and one failure puts it out of service once more."""
        is_there = self.state not in {SeatState.UNHEALTHY, SeatState.STOPPED}
        return is_there and self._router.now_ms() < self.trial_ends_ms

    @property
    def trial_in_ms(self) -> int | None:
        """How long it is until it is tried again; None if it is in service."""
        if self.state is not SeatState.UNHEALTHY:
            return None
        return max(0, ceil(self.next_trial_ms - self._router.now_ms()))

    def _begin(self, ctx: Context[None]) -> Coroutine[Any, Any, None] | None:
        before = self._incarnation
        if before is not None:
            # The supervisor was faster than the router, who has not heard of the end of the last one.
            self._left[before] = self._vacate()
        self._performer = performer = performer_of(self)
        self._incarnation = ctx.self_id
        self.handlers = performer.handlers
        self._ward.watch(self, ctx.self_id)
        self._router.loop.kernel.actors.set_exit_hook(
            ctx.self_id, lambda _reason, _cause: self._say_goodbye(performer)
        )
        # What it says while it starts follows from nothing.
        AT_HAND.set(None)
        starting = performer.start()
        if starting is None:
            self._rise(ctx.self_id)
            return None
        return self._rise_later(starting, ctx.self_id)

    @staticmethod
    def _say_goodbye(performer: Performer) -> Awaitable[None] | None:
        AT_HAND.set(None)
        return performer.stop()

    async def _rise_later(self, starting: Any, actor: ActorId) -> None:
        await starting
        self._rise(actor)

    def _rise(self, actor: ActorId) -> None:
        if self._is_again:
            self.restarts += 1
            self._router.books.restarts += 1
        self._is_again = True
        self.actor = actor
        self.state = SeatState.RUNNING
        self._timeouts = 0
        self.take_held()
        self._ward.risen(self)

    def take_held(self) -> None:
        """Move what had to wait into the mailbox, as far as there is room; the rest follows with the next message."""
        held, actor = self.held, self.actor
        while held and actor is not None:
            item = held[0]
            is_over = isinstance(item, Pending) and item.stage == DONE
            if not is_over and not self._router.loop.try_send(actor, item):
                return
            held.popleft()

    def fall(self, actor: ActorId) -> list[Pending | Delivery]:
        """An incarnation has ended: what it was at, and what else it owes an answer."""
        if actor != self._incarnation:
            return self._left.pop(actor, [])
        if self.state in {SeatState.RUNNING, SeatState.STARTING}:
            self.state = SeatState.RESTARTING
        return self._vacate()

    def _vacate(self) -> list[Pending | Delivery]:
        owed: list[Pending | Delivery] = [] if self.at_hand is None else [self.at_hand]
        self.at_hand = self.actor = self.sync_item = self.task = self.awaits = self._incarnation = None
        self.handlers = None
        performer, self._performer = self._performer, None
        if performer is not None:
            owed += performer.owed()
            try:
                performer.terminate()
            except Exception:
                logger.exception("%s: terminate() has failed; it has ended all the same", self.id)
        return owed

    @property
    def is_there(self) -> bool:
        """Whether there is an incarnation of whose end the router has not heard."""
        return self._incarnation is not None

    @property
    def is_stuck(self) -> bool:
        """Whether its handler is at a request whose deadline has passed."""
        return isinstance(self.at_hand, Pending) and self.at_hand.stage == DONE

    def note_timeout(self, pending: Pending, waited_ms: float) -> None:
        """A request to it has timed out."""
        if self.at_hand is not None and self.handled != self._silent_at:
            # It has come to an end with what it was at when the last one timed out.
            self._timeouts = 0
        if not self._timeouts:
            # What it has not begun with says only that it is at something else now.
            self._silent_since_ms = self._router.now_ms() - (waited_ms if pending.is_begun else 0)
        self._timeouts += 1
        self._silent_at = self.handled

    def note_answer(self) -> None:
        """A Worker has said something to a request, in time or not."""
        self._timeouts = 0

    @property
    def is_unresponsive(self) -> bool:
        """Whether requests time out and it has come to an end with none, for at least as long as a request to it may take.

        One request is enough if it is at that one; else it takes three.
        """
        if self.state is not SeatState.RUNNING or self._timeouts < (1 if self.is_stuck else ENOUGH):
            return False
        if self.at_hand is None:
            # A Worker, which owes something; or a handler that has come to its end.
            if self._performer is None or not self._performer.is_busy:
                return False
        elif self.handled != self._silent_at:
            return False
        return self._router.now_ms() - self._silent_since_ms >= self._timeout_ms

    @property
    def is_out_of_service(self) -> bool:
        """Whether it does not do its work: it has failed too often, or does not respond."""
        return self.state is SeatState.UNHEALTHY or self.is_unresponsive

    def is_under(self, actor: ActorId) -> bool:
        """Whether this actor is its supervisor."""
        return self.supervisor is not None and self.supervisor.actor == actor

    @property
    def cap(self) -> int:
        """How many messages may wait for it."""
        return self._cap

    def turn_away(self, item: Pending | Delivery) -> None:
        """As much waits for it as may, and this is more."""
        router = self._router
        said = f"as many messages wait for {self.id} as may; try again later"
        if isinstance(item, Pending):
            router.answer(item, router.faults.make(OVERLOADED, said, request=item.frame, capability=self.id))
        else:
            router.books.undelivered += 1
            router.bury(item, "undelivered", None, said)

    def stop(self) -> None:
        """End it in good order: what it is at is cancelled, what waits is answered by the router."""
        self.state = SeatState.STOPPED
        self.cancel_trial()
        if self.supervisor is not None:
            self.supervisor.stop()

    def crash(self, error: BaseException) -> None:
        """End the incarnation from outside its own turn: a Worker has failed."""
        if self.actor is not None:
            self._router.loop.kernel.actors.stop_or_kill(self.actor, error)

    def has_room(self) -> bool:
        """Whether one message more may wait while there is no incarnation."""
        if len(self.held) >= self._cap:
            # Those whose deadline has passed need not.
            kept = [item for item in self.held if not (isinstance(item, Pending) and item.stage == DONE)]
            self.held.clear()
            self.held.extend(kept)
        return len(self.held) < self._cap

    @property
    def is_busy(self) -> bool:
        """Whether it is at something, or something waits for it."""
        return (
            self.at_hand is not None
            or bool(self.held)
            or (self._performer is not None and self._performer.is_busy)
        )

    # -- work ------------------------------------------------------------------------------------------------------------------

    def perform(self, item: Pending | Delivery) -> Coroutine[Any, Any, None] | None:
        """Deal with a message that is not simply handled by calling something."""
        assert self._performer is not None
        try:
            return self._performer.perform(item)
        except SystemExit as error:
            raise ActorFailed(
                f"the handler of {item.frame.type} called sys.exit({safe_repr(error.code)})"
            ) from error

    async def await_result(self, item: Pending | Delivery, result: Coroutine[Any, Any, Any]) -> None:
        """See a handler's coroutine to its end."""
        assert self._performer is not None
        AT_HAND.set(item)
        self.task = asyncio.current_task()
        try:
            self._performer.finish(item, await result)
        except Exception as error:
            if not self.is_refused(item, error):
                raise
        except SystemExit as error:
            raise ActorFailed(
                f"the handler of {item.frame.type} called sys.exit({safe_repr(error.code)})"
            ) from error
        # Not in a finally: what is at hand when this is cancelled or fails, the ward answers.
        self.task = None
        self.at_hand = None

    def __repr__(self) -> str:
        return f"<Seat {self.id} {self.state.value}>"
