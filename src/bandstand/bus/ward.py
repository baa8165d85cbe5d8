"""The ward: what becomes of capabilities that have ended.

The router monitors every incarnation, so it hears of every end, whatever the reason, by the lane that comes before all others. What
the incarnation was at is answered here, and nowhere else. Starting it again is its supervisor's affair; when that gives up, the
capability is out of service, and all that waits for it is answered at once. It is tried again when the window of its restarts has
passed: once. If that fails as well, it is out of service for as long again.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING

from bandstand.bus.deputy import Fallen
from bandstand.bus.faults import ACTOR_CRASH, ACTOR_FAULT, SHUTTING_DOWN
from bandstand.bus.hot.pending import Pending
from bandstand.bus.letters import REASONS
from bandstand.bus.numbers import DONE
from bandstand.bus.seat import Seat, SeatState
from bandstand.core import ActorId, ChildExit, Down
from bandstand.core.logs import SafeLogger
from bandstand.errors import GaveUp, OutboundFault, StartFailed
from bandstand.errors.formatting import describe_exception, safe_repr, safe_str

if TYPE_CHECKING:
    from bandstand.bus.router import Router

__all__ = ("Trial", "Ward")

logger = SafeLogger("bandstand.bus")


class Trial:
    """The time has come to try a capability again that is out of service."""

    __slots__ = ("seat",)

    def __init__(self, seat: Seat) -> None:
        self.seat = seat


class Ward:
    """Looks after the capabilities of one node."""

    __slots__ = ("_router", "_watched", "on_fallen", "on_settled")

    def __init__(self, router: Router) -> None:
        self._router = router
        self._watched: dict[ActorId, Seat] = {}
        self.on_settled: Callable[[Seat], None] = lambda _seat: None
        """Called when a capability has started, or is out of service."""
        self.on_fallen: Callable[[Seat], None] = lambda _seat: None
        """Called when an incarnation has ended."""

    def watch(self, seat: Seat, actor: ActorId) -> None:
        """Hear of the end of an incarnation."""
        self._watched[actor] = seat
        router = self._router
        router.loop.monitor(router.actor, actor)

    def risen(self, seat: Seat) -> None:
        """An incarnation has started."""
        self.on_settled(seat)

    def take_fall(self, down: Down) -> None:
        """An incarnation has ended: what it owed is answered."""
        router = self._router
        seat = self._watched.pop(down.actor, None)
        if seat is None:
            return
        owed = seat.fall(down.actor)
        cause = down.cause
        if cause is None and seat.state is SeatState.STOPPED:
            type_name, said = SHUTTING_DOWN, "the node is stopping"
        else:
            type_name, said = self._note_crash(seat, cause)
        for item in owed:
            if type(item) is Pending:
                if item.stage != DONE and not item.is_answered:
                    router.fail(item, type_name, said, capability=seat.id)
            else:
                fault = router.faults.make(type_name, said, request=item.frame, capability=seat.id)
                router.sink(fault)
                router.bury(item, REASONS[type_name], fault)
        self.on_fallen(seat)

    def _note_crash(self, seat: Seat, cause: BaseException | None) -> tuple[str, str]:
        self._router.books.crashes += 1
        seat.crashes += 1
        is_fault = isinstance(cause, OutboundFault)
        if isinstance(cause, Fallen):
            # In the words that were found where it ran.
            what = safe_str(cause)
        else:
            what = describe_exception(cause) if cause is not None else "it has ended"
        said = safe_str(cause) if is_fault else f"the handler of {seat.id} failed: {what}"
        seat.last_fault = said
        return (ACTOR_FAULT if is_fault else ACTOR_CRASH), said

    def take_exit(self, exit_: ChildExit) -> None:
        """A supervisor has given up: its capability is out of service."""
        router = self._router
        seat = next((seat for seat in router.seats.values() if seat.is_under(exit_.child)), None)
        if seat is None or seat.state is SeatState.STOPPED:
            return
        if isinstance(exit_.cause, GaveUp):
            failures = exit_.cause.failures
            if failures and seat.last_fault is None:
                seat.last_fault = safe_repr(failures[-1])
        self._retire(seat)
        # Those that waited, here and in the mailbox that was kept for nobody.
        router.books.undelivered += len(seat.events)
        for delivery in seat.events:
            router.bury(
                delivery, "undelivered", None, f"{seat.id} is out of service, and has missed the event"
            )
        seat.events.clear()
        seat.held.clear()
        logger.error("capability %s is out of service: %s", seat.id, exit_.cause)
        for pending in router.open_requests():
            if (
                pending.route is not None
                and pending.route.seat is seat
                and not pending.is_answered
                # Those that wait for their next attempt will see by then.
                and pending not in router.retries
            ):
                router.dispatch_otherwise(seat, pending)
        self.on_settled(seat)

    def _retire(self, seat: Seat) -> None:
        """Put a capability out of service until its next trial."""
        router = self._router
        seat.state = SeatState.UNHEALTHY
        seat.supervisor = None
        seat.cancel_trial()
        wait_ms = ceil(seat.blueprint.policy.window_ms)
        seat.next_trial_ms = router.now_ms() + wait_ms
        seat.trial_timer = router.loop.send_after(router.actor, wait_ms, Trial(seat))

    def reset(self, seat: Seat) -> None:
        """Start a capability that is out of service, with all its restarts.

        Raises:
            StartFailed: it did not start, and is out of service still.
        """
        try:
            seat.launch()
        except StartFailed:
            self._retire(seat)
            raise

    def try_again(self, trial: Trial) -> None:
        """Start a capability that has been out of service for its window, without any restarts."""
        seat = trial.seat
        if seat.state is not SeatState.UNHEALTHY or self._router.is_draining:
            return
        logger.info("capability %s is tried again", seat.id)
        try:
            seat.launch(is_trial=True)
        except StartFailed as error:
            seat.last_fault = describe_exception(error.__cause__ or error)
            self._retire(seat)
