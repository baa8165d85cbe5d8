"""Reacts to the end of capabilities: answers what they leave unanswered, takes them out of service, and tries them again.

The router monitors every incarnation, so it learns of every end, for any reason, on the SYSTEM lane, which comes before all others. The
messages that the incarnation has not answered are answered here and nowhere else. Its supervisor restarts it. When the supervisor gives up, the
capability is out of service, and every request that waits for it is answered at once. After the restart window there is one trial: the
capability is started without restarts. If it fails, it is out of service for another window.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bandstand.bus.capability_host import CapabilityProcessError
from bandstand.bus.capability_slot import CapabilitySlot, CapabilityState
from bandstand.bus.dead_letters import REASONS
from bandstand.bus.durations import to_whole_ms
from bandstand.bus.faults import ACTOR_CRASH, ACTOR_FAULT, SHUTTING_DOWN
from bandstand.bus.request import DONE, DeferredTurn, PendingRequest
from bandstand.core import ActorId, ChildExit, Down
from bandstand.core.logs import SafeLogger
from bandstand.errors import ContractViolationError, RestartLimitError, StartError
from bandstand.errors.formatting import describe_exception, safe_repr, safe_str

if TYPE_CHECKING:
    from bandstand.bus.router import Router

__all__ = ("CapabilityMonitor", "TrialDue")

logger = SafeLogger("bandstand.bus")


class TrialDue:
    """Sent to the router when a capability that is out of service is due for its next trial."""

    __slots__ = ("slot",)

    def __init__(self, slot: CapabilitySlot) -> None:
        self.slot = slot


class CapabilityMonitor:
    """Monitors the capabilities of one node."""

    __slots__ = ("_router", "_slots", "on_ended", "on_settled")

    def __init__(self, router: Router) -> None:
        self._router = router
        # The slots of the monitored incarnations.
        self._slots: dict[ActorId, CapabilitySlot] = {}
        self.on_settled: Callable[[CapabilitySlot], None] = lambda _slot: None
        """Called when a capability has started, or is out of service."""
        self.on_ended: Callable[[CapabilitySlot], None] = lambda _slot: None
        """Called when an incarnation has ended."""

    def watch(self, slot: CapabilitySlot, actor: ActorId) -> None:
        """Monitor an incarnation."""
        self._slots[actor] = slot
        router = self._router
        router.loop.monitor(router.actor, actor)

    def note_started(self, slot: CapabilitySlot) -> None:
        """Report that an incarnation has started."""
        self.on_settled(slot)

    def handle_down(self, down: Down) -> None:
        """Answer the messages of an incarnation that has ended."""
        router = self._router
        slot = self._slots.pop(down.actor, None)
        if slot is None:
            return
        unanswered = slot.end_incarnation(down.actor)
        cause = down.cause
        if cause is None and slot.state is CapabilityState.STOPPED:
            type_name, text = SHUTTING_DOWN, "the node is stopping"
        else:
            type_name, text = self.note_crash(slot, cause)
        for item in unanswered:
            if type(item) is PendingRequest:
                if item.stage != DONE and not item.is_answered:
                    router.fail(item, type_name, text, capability=slot.id)
            else:
                fault = router.faults.make(type_name, text, request=item.frame, capability=slot.id)
                router.sink(fault)
                if type(item) is not DeferredTurn:
                    router.add_dead_letter(item, REASONS[type_name], fault)
        self.on_ended(slot)

    def note_crash(self, slot: CapabilitySlot, cause: BaseException | None) -> tuple[str, str]:
        """Count a crash. Return the type and the text of the error for the unanswered messages."""
        self._router.counters.crashes += 1
        slot.crashes += 1
        if isinstance(cause, ContractViolationError):
            type_name, text = ACTOR_FAULT, safe_str(cause)
        else:
            if isinstance(cause, CapabilityProcessError):
                # The process that it ran in has described the exception already.
                what = safe_str(cause)
            else:
                what = describe_exception(cause) if cause is not None else "it has ended"
            type_name, text = ACTOR_CRASH, f"the handler of {slot.id} failed: {what}"
        slot.last_fault = text
        return type_name, text

    def handle_supervisor_exit(self, exit_: ChildExit) -> None:
        """Take a capability out of service whose supervisor has given up."""
        router = self._router
        slot = next((slot for slot in router.slots.values() if slot.is_supervised_by(exit_.child)), None)
        if slot is None or slot.state is CapabilityState.STOPPED:
            return
        if isinstance(exit_.cause, RestartLimitError):
            failures = exit_.cause.failures
            if failures and slot.last_fault is None:
                slot.last_fault = safe_repr(failures[-1])
        self._take_out_of_service(slot)
        # The events that were held, and those in the mailbox, which is gone.
        router.counters.undelivered += len(slot.queued_events)
        for delivery in slot.queued_events:
            router.add_dead_letter(
                delivery, "undelivered", None, f"{slot.id} is out of service, and has missed the event"
            )
        slot.queued_events.clear()
        slot.held.clear()
        logger.error("capability %s is out of service: %s", slot.id, exit_.cause)
        for pending in router.open_requests():
            if (
                pending.route is not None
                and pending.route.slot is slot
                and not pending.is_answered
                # A request that waits for a retry is answered at that retry.
                and pending not in router.retries
            ):
                router.dispatch_otherwise(slot, pending)
        self.on_settled(slot)

    def _take_out_of_service(self, slot: CapabilitySlot) -> None:
        """Mark a capability as unhealthy, and schedule its next trial."""
        router = self._router
        slot.state = CapabilityState.UNHEALTHY
        slot.supervisor = None
        slot.cancel_trial()
        wait_ms = to_whole_ms("period", slot.spec.restarts.period)
        slot.next_trial_ms = router.now_ms() + wait_ms
        slot.trial_timer = router.loop.send_after(router.actor, wait_ms / 1000, TrialDue(slot))

    def reset(self, slot: CapabilitySlot) -> None:
        """Start a capability that is out of service, with all its restarts.

        Raises:
            StartError: it did not start, and is still out of service.
        """
        try:
            slot.start()
        except StartError:
            self._take_out_of_service(slot)
            raise

    def start_trial(self, trial: TrialDue) -> None:
        """Start a capability that has been out of service for its restart window, without any restarts."""
        slot = trial.slot
        if slot.state is not CapabilityState.UNHEALTHY or self._router.is_draining:
            return
        logger.info("capability %s: starting a trial after its restart window", slot.id)
        try:
            slot.start(is_trial=True)
        except StartError as error:
            slot.last_fault = describe_exception(error.__cause__ or error)
            self._take_out_of_service(slot)
