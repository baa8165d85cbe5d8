"""The router: every message of a node passes through it. It is an actor.

Its mailbox orders the work. DATA is the lane of users' messages: requests, events, answers, scheduled messages that are due. CONTROL is the lane of
the bus itself: deadlines, health ticks; it is emptied before each message of DATA. The SYSTEM lane above both reports capabilities that have
ended. The loop handles one message, then looks at the lanes again.

Answers pass through the mailbox like everything else, so that a client that asks and subscribes sees what happened in its order. There is always
room for them: see `admission`. The router never waits, and nothing that a client sends makes it raise.

The behavior, `turn`, tells messages apart by their class, frequent ones first:

    PendingRequest   a new request to route; once it is routed, its answer by DATA, and its deadline by CONTROL
    Frame            an event of a capability
    other classes    see `handlers`

Every admitted request has exactly one end, and each end is counted: `conclude` (an answer is sent), `DuplicateRequests` (the answer of another is
sent), or `withdraw` (the requester is gone).

The hot path and the rest are one compiled class, so that a call inside it is a C call.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from bandstand.bus.admission import CreditLimit
from bandstand.bus.contracts.capability import BUILTIN_PREFIXES
from bandstand.bus.dead_letters import REASONS, DeadLetterStore
from bandstand.bus.durations import to_whole_ms
from bandstand.bus.faults import (
    CYCLE,
    OVERLOADED,
    ROUTING_ERROR,
    SCHEMA_ERROR,
    SHUTTING_DOWN,
    TIMEOUT,
    TRANSIENT,
    UNHEALTHY,
    FaultAnswer,
    FaultMaker,
)
from bandstand.bus.frame import (
    Frame,
    IdGenerator,
    Metadata,
    data_of,
    is_command,
    kind_of,
    metadata_of,
    timeout_of,
    type_of,
)
from bandstand.bus.ingress import Peer
from bandstand.bus.message_log import MemoryLog, safe_appender
from bandstand.bus.request import (
    DONE,
    DUPLICATE,
    NEW,
    ROUTED,
    NoRequester,
    PendingRequest,
    RecoveredClient,
    RedeliveryRequester,
    new_client_request,
)
from bandstand.bus.request_table import DuplicateRequests, RequestTable, RetryQueue
from bandstand.bus.stats import BusCounters
from bandstand.bus.tap import Taps
from bandstand.core import ExitReason
from bandstand.core.enums import ACCEPTED, CONTROL, DATA
from bandstand.core.logs import SafeLogger
from bandstand.errors import InternalError, InvalidMessageError, RefusedError
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import to_ms

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from msgspec import Raw

    from bandstand.bus.capability_slot import CapabilitySlot
    from bandstand.bus.config import NodeConfig
    from bandstand.bus.contracts.capability import HandlerIndex
    from bandstand.bus.dead_letters import Reason
    from bandstand.bus.durable.lane import DurableLane
    from bandstand.bus.frame import Kind
    from bandstand.bus.protocols import Log
    from bandstand.bus.reminders.reminders import Reminders
    from bandstand.bus.request import Delivery, Requester, Route
    from bandstand.bus.scheduler import Scheduler
    from bandstand.bus.steps import StepRunner
    from bandstand.core.ids import ActorId
    from bandstand.core.loop import Loop

__all__ = ("Router", "Upstream", "find_cycle")

Count: TypeAlias = int
Flag: TypeAlias = bool
Moment: TypeAlias = float

logger = SafeLogger("bandstand.bus")


class Upstream(Protocol):
    """The node above a router that serves one capability in another process.

    That router has no routes: whatever its capability sends goes to the node at once, in order, and not through the router's mailbox. The
    node owns deadlines, retries, dead letters and statistics.
    """

    def emit(self, frame: Frame, /) -> bool:
        """Send an event of the capability to the node. Return False if the node does not keep up."""
        ...

    def forward(self, pending: PendingRequest, /) -> None:
        """Send a request of the capability to the node."""
        ...

    def withdraw(self, pending: PendingRequest, /) -> None:
        """Withdraw a request that was forwarded."""
        ...

    def answer(self, pending: PendingRequest | None, frame: Frame, /) -> None:
        """Send the answer to a request; None if it is not open any more."""
        ...

    def is_routed(self, frame: Frame, /) -> bool:
        """Return whether the node has a route for a request."""
        ...

    def schedule(self, frame: Frame, delay_ms: int, /) -> None:
        """Tell the node what the capability has scheduled: the node sends it if the process ends first."""
        ...

    def unschedule(self, frame: Frame, /) -> None:
        """Tell the node that a scheduled message was cancelled."""
        ...


class Router:
    """The one router of a node. All of it belongs to the loop's own thread.

    Args:
        loop: the loop it runs on.
        config: the limits of the node.
        log: where every message is appended; None for a `MemoryLog` with the limits of `config`.
        upstream: the node, for a router in another process; None for the router of a node.
        wall_clock: the time in nanoseconds since 1970.
    """

    __slots__ = (
        "_append",
        "_commands",
        "_memory_log",
        "_queries",
        "actor",
        "counters",
        "check_event",
        "client_credit",
        "config",
        "departing",
        "durable",
        "duplicates",
        "event_credit",
        "faults",
        "handlers",
        "ids",
        "index",
        "internal_credit",
        "is_draining",
        "is_running",
        "is_tapped",
        "dead_letters",
        "log",
        "loop",
        "on_capacity",
        "on_credit",
        "on_durable_event",
        "on_event",
        "requests",
        "reminders",
        "retries",
        "scheduler",
        "slots",
        "steps",
        "taps",
        "upstream",
    )

    actor: ActorId

    def __init__(
        self,
        loop: Loop,
        config: NodeConfig,
        log: Log | None = None,
        *,
        upstream: Upstream | None = None,
        wall_clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.loop = loop
        self.config = config
        # Generates the ids of messages.
        self.ids = ids = IdGenerator(wall_clock)
        if log is None:
            log = MemoryLog(config.log_count, config.log_bytes)
        self.log = log
        self._memory_log = log if type(log) is MemoryLog else None
        self._append = safe_appender(log)
        # The functions that see every message; and whether there are any, which is looked at for every message.
        self.taps = Taps()
        self.is_tapped: Flag = False
        self.taps.on_change = self._note_taps
        # The counters of the node.
        self.counters = BusCounters()
        self.upstream = upstream
        self.faults = FaultMaker(ids, lambda: ids.last_ms)
        self.dead_letters = DeadLetterStore(config.dead_count, config.dead_bytes)
        # Credit for requests and events of clients, for requests of capabilities, and for events of capabilities. Only the answers to clients
        # are remembered: the ids of capabilities' requests are generated, and do not repeat.
        self.client_credit = CreditLimit(config.max_in_flight, True)  # noqa: FBT003  # by position: it is compiled
        self.internal_credit = CreditLimit(config.max_inside)
        self.event_credit = CreditLimit(config.max_inside)
        self.requests = RequestTable(
            config.remember_count, config.remember_bytes, to_ms("remember_for", config.remember_for)
        )
        self.duplicates = DuplicateRequests(self)
        self.retries = RetryQueue(self)
        self.slots: dict[str, CapabilitySlot] = {}
        self.index: HandlerIndex | None = None
        self._commands: dict[str, Route] = {}
        self._queries: dict[str, Route] = {}
        self.is_draining: Flag = False
        self.is_running: Flag = False
        self.scheduler: Scheduler | None = None
        self.reminders: Reminders | None = None
        # The way of commands through the journal; None if the node has none.
        self.durable: DurableLane | None = None
        # The steps of workflows; None if the node has no journal.
        self.steps: StepRunner | None = None
        # Called when credit may have been released; None while no one waits for it.
        self.on_credit: Callable[[], None] | None = None
        # Called with a capability when a client's request to it is done; None while no client waits for capacity.
        self.on_capacity: Callable[[CapabilitySlot], None] | None = None
        # Routes an event; the other arguments are its client, if it came from one, and the credit that it takes until it is routed. Any: a `Peer`, or
        # None.
        self.on_event: Callable[[Frame, Any, CreditLimit | None], object] | None = None
        # Sends an event that is in the journal to its subscribers, with the same arguments.
        self.on_durable_event: Callable[[Frame, Any], object] | None = None
        # Refuses an event that cannot be published: see `check`.
        self.check_event: Callable[[Frame, str], None] | None = None
        # The tasks that wait for killed processes of capabilities.
        self.departing: set[asyncio.Task[None]] = set()
        # Handlers of other messages in its mailbox, by their class.
        self.handlers: dict[type, Callable[[Any], None]] = {}
        self.actor = loop.spawn(self.turn, name="router", mailbox_cap=config.router_cap)
        loop.kernel.actors.set_exit_hook(self.actor, self._on_exit)

    def _on_exit(self, reason: ExitReason, cause: BaseException | None) -> None:
        # A node without its router would admit everything and answer nothing: fail the loop instead.
        if reason is not ExitReason.NORMAL:
            error = InternalError(f"the router of the node has failed: {safe_repr(cause)}. Please report it.")
            error.__cause__ = cause
            self.loop.kernel.fail(error)

    # -- routes ------------------------------------------------------------------------------------------------------------

    def install_slots(self, index: HandlerIndex, slots: Iterable[CapabilitySlot]) -> None:
        """Install the capabilities of the node and their routes."""
        self.index = index
        self.slots = {slot.id: slot for slot in slots}
        for slot in self.slots.values():
            for route in slot.routes:
                self.install(route.entry.kind, route)

    def install(self, kind: Kind, route: Route) -> None:
        """Route requests of a kind and type to a capability."""
        if kind == "command":
            self._commands[route.type] = route
        elif kind == "query":
            self._queries[route.type] = route

    def find(self, kind: Kind, type_name: str) -> Route | None:
        """Return the route of requests of a kind and type; None if there is none."""
        return (self._commands if kind == "command" else self._queries).get(type_name)

    def _route_of(self, frame: Frame) -> Route | None:
        return (self._commands if is_command(frame) else self._queries).get(type_of(frame))

    # -- observation -------------------------------------------------------------------------------------------------------

    def note(self, frame: Frame, destination: str) -> None:
        """Append a message to the log and show it to the taps. Every message passes here, or does the same inline."""
        self._log(frame)
        if self.is_tapped:
            self.taps.notify(frame, destination)

    def _note_taps(self, is_tapped: Flag) -> None:
        self.is_tapped = is_tapped

    def _log(self, frame: Frame) -> None:
        if self._memory_log is not None:
            self._memory_log.append(frame)
        else:
            self._append(frame)

    def now_ms(self) -> Moment:
        """Return the milliseconds since the loop was created, on its own clock."""
        return self.loop.kernel.timers.elapsed_ms()

    def open_requests(self) -> list[PendingRequest]:
        """Return the requests that have no answer yet."""
        return self.requests.open_requests()

    @property
    def in_flight(self) -> int:
        """How many requests have no answer yet."""
        return self.requests.count_open()

    @property
    def is_quiet(self) -> bool:
        """Whether no request, event or handler is in flight."""
        return (
            not self.in_flight
            and not self.event_credit.used
            and not any(slot.is_busy for slot in self.slots.values())
        )

    # -- admission ---------------------------------------------------------------------------------------------------------

    def post(self, item: object) -> None:
        """Send a message to the router's own mailbox. There is room for it: the caller has taken credit."""
        if self.loop.kernel.post(self.actor, DATA, item, 0, 0) != ACCEPTED:
            self.loop.send(self.actor, item)

    def submit(self, pending: PendingRequest) -> bool:
        """Admit a request. Return False, without any effect, if there is no credit."""
        credit = pending.credit
        if credit.used >= credit.limit:
            return False
        # First of all: if it raises, nothing has happened.
        if self.upstream is not None:
            self.upstream.forward(pending)
        else:
            self.post(pending)
            pending.is_queued = True
        credit.used += 1
        self.counters.admitted += 1
        if not self.requests.enter(pending):
            pending.stage = DUPLICATE
        return True

    def admit(self, requester: Requester, frame: Frame, credit: CreditLimit) -> Flag:
        """Admit a client's request. Return False, without any effect, if there is no credit, or no capacity at its capability."""
        route = self._route_of(frame)
        if route is not None:
            slot = route.slot
            if slot.load >= slot.admit_limit:
                return False
        return self.admit_to(requester, frame, credit, route)

    def admit_to(self, requester: Requester, frame: Frame, credit: CreditLimit, route: Route | None) -> Flag:
        """Admit a client's request to a route, whether or not there is capacity. Return False, without any effect, if there is no credit."""
        if credit.used >= credit.limit:
            return False
        self.submit(new_client_request(requester, frame, credit, route))
        if route is not None:
            slot = route.slot
            slot.load += 1
        return True

    def post_event(self, frame: Frame) -> bool:
        """Admit an event of a capability. Return False if too many wait to be routed."""
        if self.upstream is not None:
            return self.upstream.emit(frame)
        if self.event_credit.used >= self.event_credit.limit:
            return False
        # First of all, as in `submit`.
        self.post(frame)
        self.event_credit.used += 1
        return True

    def hold_event(self, frame: Frame, parent: PendingRequest) -> bool:
        """Admit an event that is sent together with the answer to a request. Return False if too many wait to be routed."""
        if self.event_credit.used >= self.event_credit.limit:
            return False
        self.event_credit.used += 1
        assert self.durable is not None
        self.durable.hold(parent, frame)
        return True

    def fan_out(self, frame: Frame) -> None:
        """Route an event of the node itself at once: it has taken no credit to wait."""
        assert self.on_event is not None
        self.on_event(frame, None, None)

    def enter(self, pending: PendingRequest) -> None:
        """Admit a request of the node itself, whether or not there is credit. The caller routes it."""
        pending.credit.used += 1
        self.counters.admitted += 1
        self.requests.enter(pending)

    def hold(self, pending: PendingRequest, parent: PendingRequest) -> bool:
        """Admit a request that is sent together with the answer to its parent. Return False, without any effect, if there is no credit."""
        if pending.credit.used >= pending.credit.limit:
            return False
        self.enter(pending)
        assert self.durable is not None
        self.durable.hold(parent, pending)
        return True

    def answer(self, pending: PendingRequest, frame: Frame) -> None:
        """Take the answer to a request. A second answer, or one that is late, is discarded and counted."""
        if self.upstream is not None:
            self.upstream.answer(pending, frame)
            return
        if pending.is_answered or pending.stage == DONE:
            self.counters.late += 1
            if self.durable is not None:
                self.durable.note_late(pending, frame)
            return
        pending.is_answered = pending.is_queued = True
        pending.answer = frame
        self.post(pending)

    def discard(self, kind: Kind, type_name: str, data: Raw) -> None:
        """Count an answer to a request that is not open: it is late, or a second one. An error goes to the error sink."""
        frame = Frame(kind=kind, type=type_name, data=data, metadata=Metadata(self.ids(), self.ids.last_ms))
        if self.upstream is not None:
            self.upstream.answer(None, frame)
            return
        self.counters.late += 1
        if kind == "error":
            self.sink(frame)

    def check(self, frame: Frame, path: str) -> None:
        """Refuse a message that could not be routed or decoded if it were sent now. `path` is its place, for the error.

        Raises:
            Refused: with the fault that it would be answered with.
        """
        if frame.kind == "event":
            if self.check_event is not None:
                self.check_event(frame, path)
            return
        route = self.find(frame.kind, frame.type)
        if route is None:
            if self.upstream is not None and self.upstream.is_routed(frame):
                return
            raise RefusedError(FaultAnswer(ROUTING_ERROR, self.describe_unrouted(frame), f"{path}.type"))
        try:
            route.read(frame.data)
        except InvalidMessageError as problem:
            where = f"{path}{problem.path.removeprefix('$')}"
            raise RefusedError(FaultAnswer(SCHEMA_ERROR, str(problem), where)) from None

    # -- a turn ------------------------------------------------------------------------------------------------------------

    def turn(self, ctx: Any, item: Any) -> None:
        """Handle one message: the behavior of the router's actor."""
        kind = type(item)  # pyright: ignore[reportUnknownVariableType]  # any class
        if kind is PendingRequest:
            pending = item
            if pending.stage == NEW:
                pending.is_queued = False
                self.take(pending)
            elif ctx.lane_number != DATA:
                # Its deadline. It comes by a faster lane than answers: an answer that is in the mailbox was given in time.
                if pending.stage == ROUTED:
                    pending.timer = None
                    if not pending.is_answered:
                        self.expire(pending)
            elif pending.stage == ROUTED:
                answer = pending.answer
                assert answer is not None
                pending.answer = None
                pending.is_queued = False
                self.conclude(pending, answer)
            elif pending.stage == DUPLICATE:
                pending.is_queued = False
                self.duplicates.take(pending)
            elif pending.is_queued:
                # It was withdrawn before its turn; or it is done, and its answer is late.
                if pending.is_answered:
                    pending.answer = None
                    self.counters.late += 1
                self.release(pending)
        elif kind is Frame:
            assert self.on_event is not None
            self.on_event(item, None, self.event_credit)
        else:
            handler = self.handlers.get(kind)  # pyright: ignore[reportUnknownArgumentType]  # same
            if handler is None:
                logger.error("the router ignores an unexpected message: %r", item)
            else:
                handler(item)

    def take(self, pending: PendingRequest) -> None:
        """Decode a request, start its deadline, and dispatch it to its capability."""
        frame = pending.frame
        route = pending.counted_route
        if route is None:
            route = self._route_of(frame)
        self._log(frame)
        if self.is_tapped:
            self.taps.notify(frame, "none" if route is None else route.slot.id)
        pending.stage = ROUTED
        if route is None:
            self.fail_unrouted(pending)
            return
        pending.route = route
        try:
            pending.payload = route.codec.read(data_of(frame))
        except InvalidMessageError as problem:
            self.fail_unread(pending, problem)
            return
        timeout = timeout_of(metadata_of(frame))
        self._start_deadline(pending, route.timeout_ms if timeout is None else timeout)
        if pending.parent is not None and self._fail_cycle(pending):
            return
        if self.durable is None:
            self.deliver(pending)
        else:
            self.durable.accept(pending)

    def deliver(self, pending: PendingRequest) -> None:
        """Send a request to its capability."""
        route = pending.route
        assert route is not None
        slot = route.slot
        if (
            slot.actor is None
            or slot.held
            or self.loop.kernel.post(slot.actor, DATA, pending, 0, 0) != ACCEPTED
        ):
            self.dispatch_otherwise(slot, pending)

    def _start_deadline(self, pending: PendingRequest, timeout_ms: Count) -> None:
        """Start the deadline of a request."""
        kernel = self.loop.kernel
        cell = self.actor.cell
        if cell is None or kernel.is_closed:
            # It raises, and says why.
            pending.timer = kernel.start_timer(self.actor, timeout_ms, CONTROL, pending, 0)
        else:
            pending.timer = kernel.timers.start(cell, timeout_ms, CONTROL, pending, 0, 0)

    def dispatch_otherwise(self, slot: CapabilitySlot, pending: PendingRequest) -> None:
        """Hold a request that its capability cannot take now until its next incarnation, or fail it."""
        # Not at the top: the two modules import each other.
        from bandstand.bus.capability_slot import CapabilityState

        if slot.state is CapabilityState.UNHEALTHY:
            self.fail(
                pending,
                UNHEALTHY,
                f"{slot.id} has failed too often and is out of service; it is tried again in {slot.trial_in_ms or 0} ms, or at once with "
                f"Syscall.Reset; the last fault was: {slot.last_fault}",
                capability=slot.id,
                sinks=True,
            )
        elif self.is_draining and slot.state is CapabilityState.STOPPED:
            self.fail(pending, SHUTTING_DOWN, "the node is stopping")
        elif self.must_hold(slot) and slot.has_room():
            slot.held.append(pending)
        else:
            self.fail(
                pending, OVERLOADED, f"the mailbox of {slot.id} is full; try again later", capability=slot.id
            )

    def must_hold(self, slot: CapabilitySlot) -> bool:
        """Return whether a message has to wait: there is no incarnation, or others wait already."""
        return slot.actor is None or bool(slot.held) or not slot.actor.is_alive

    # -- the end of a request ----------------------------------------------------------------------------------------------

    def conclude(self, pending: PendingRequest, frame: Frame) -> None:
        """End a request: send its answer, unless that is an error after which the request is retried."""
        route = pending.route
        is_final = kind_of(frame) == "reply"
        if not is_final and route is not None and route.retry is not None and self.goes_again(pending, frame):
            return
        if not is_final:
            is_final = self._note_failure(pending, frame)
        if pending.entry is not None:
            assert self.durable is not None
            self.durable.answer(pending, frame, is_final)
        else:
            self.finish(pending, frame, is_final)

    def finish(self, pending: PendingRequest, frame: Frame, is_final: Flag) -> None:
        """Send the answer to a request, and remember it if a repeat would have the same one."""
        route = pending.route
        self.close(pending)
        self._log(frame)
        if kind_of(frame) == "reply":
            self.counters.answered += 1
        else:
            self.counters.fail(type_of(frame))
        if self.is_tapped:
            self.taps.notify(frame, "requester")
        if not self.settle(pending, frame):
            self.leave_unsettled(pending, frame)
        if is_final and route is not None and route.remembers and pending.credit.remembers:
            self.requests.keep(pending, frame, self.loop.kernel.timers.elapsed_ms())
        else:
            self.requests.leave(pending)
        if pending.duplicates is not None:
            self.duplicates.settle_duplicates(pending, frame)
        if self.on_credit is not None:
            self.on_credit()

    def settle(self, pending: PendingRequest, frame: Frame) -> Flag:
        """Give an answer to the requester. Return False if it could not be delivered."""
        requester = pending.requester
        try:
            if type(requester) is Peer:
                peer = requester
                return peer.settle(frame, pending.settles)
            return requester.settle(frame, pending.settles)
        except Exception:  # a requester that fails must not end the router
            logger.exception("the answer to %s could not be delivered to %r", pending.frame.type, requester)
            return False

    def due_ms(self, pending: PendingRequest) -> Moment:
        """Return the deadline of a request, on the loop's clock; 0 if it has passed."""
        timer = pending.timer
        return 0.0 if timer is None else float(timer.deadline)

    def close(self, pending: PendingRequest) -> None:
        """Mark a request as done: cancel its deadline, and release its credit once nothing of it is in the mailbox.

        It stays in the table of requests.
        """
        pending.stage = DONE
        if not pending.is_queued:
            pending.credit.used -= 1
        route = pending.counted_route
        if route is not None:
            pending.counted_route = None
            slot = route.slot
            slot.load -= 1
            if self.on_capacity is not None:
                self.on_capacity(slot)
        timer = pending.timer
        if timer is not None:
            pending.timer = None
            # It may have fired already: the message is ignored then.
            self.loop.kernel.timers.cancel(timer)

    def release(self, pending: PendingRequest) -> None:
        """Release the credit of a request that is done: its message has left the mailbox."""
        pending.is_queued = False
        pending.credit.used -= 1
        if self.on_credit is not None:
            self.on_credit()

    # -- requests that fail ------------------------------------------------------------------------------------------------

    def fail(
        self,
        pending: PendingRequest,
        type_name: str,
        message: str,
        *,
        path: str | None = None,
        capability: str | None = None,
        sinks: bool = False,
    ) -> None:
        """End a request with a fault of the runtime; `sinks` if the fault goes to the error sink too."""
        frame = self.faults.make(type_name, message, request=pending.frame, path=path, capability=capability)
        self.conclude(pending, frame)
        if sinks and (pending.stage == DONE or pending.is_answered):
            self.sink(frame)

    def fail_unrouted(self, pending: PendingRequest) -> None:
        """End a request that no capability handles."""
        self.fail(pending, ROUTING_ERROR, self.describe_unrouted(pending.frame))

    def describe_unrouted(self, frame: Frame) -> str:
        """Return the error text for a message that no capability handles."""
        near = self.index.nearest(frame.kind, frame.type) if self.index is not None else ()
        hint = f"did you mean {' or '.join(near)}?" if near else "Syscall.Describe lists what is handled"
        return f"no capability handles {frame.kind} {frame.type}; {hint}"

    def fail_unread(self, pending: PendingRequest, problem: InvalidMessageError) -> None:
        """End a request whose data does not match its type."""
        self.fail(pending, SCHEMA_ERROR, str(problem), path=problem.path)

    def expire(self, pending: PendingRequest) -> None:
        """End a request whose deadline has passed."""
        frame, route = pending.frame, pending.route
        waited = frame.metadata.timeout or (
            route.timeout_ms if route is not None else to_whole_ms("timeout", self.config.timeout)
        )
        name = "none" if route is None else route.slot.id
        if route is not None:
            route.slot.note_timeout(pending, waited)
        progress = "is handling it" if pending.is_begun else "has not started on it"
        self.fail(
            pending,
            TIMEOUT,
            f"{frame.type} was not answered within {waited} ms; {name} {progress}",
            capability=name,
        )
        if route is not None:
            route.slot.end_handler(pending, kills=True)

    def _fail_cycle(self, pending: PendingRequest) -> bool:
        """End a request that would wait for a capability that waits for it. Return whether it does."""
        cycle, route = find_cycle(pending), pending.route
        if cycle is None or route is None:
            return False
        self.fail(
            pending,
            CYCLE,
            f"a capability would wait for one that waits for it: {cycle}",
            capability=route.slot.id,
        )
        return True

    def goes_again(self, pending: PendingRequest, frame: Frame) -> bool:
        """Schedule a retry of a request that has failed. Return False if it is not retried."""
        return self.retries.plan(pending, frame)

    def _note_failure(self, pending: PendingRequest, frame: Frame) -> bool:
        """Make a dead letter of a request that ends with an error. Return whether the same request would always end so: then the answer is remembered."""
        name = frame.type
        self.retries.cancel(pending)
        reason = REASONS.get(name)
        # A fault of a built-in capability may be a refusal: that is an answer, and no dead letter.
        if reason is not None and not (pending.is_begun and _is_refusal(pending.frame, name)):
            self.add_dead_letter(pending, reason, frame)
        return name not in TRANSIENT

    def withdraw(self, pending: PendingRequest) -> None:
        """End a request without an answer: its requester has gone. If its handler has not started, it never does."""
        if pending.stage != DONE and not pending.duplicates:
            # Duplicates that have joined it still wait for the answer.
            self.retries.cancel(pending)
            if pending.entry is not None:
                assert self.durable is not None
                if pending.answer is None:
                    self.durable.withdraw(pending)
                else:
                    # The answer is in the mailbox, so the handler is done: what it has sent takes effect.
                    self.durable.answer(pending, pending.answer, False)  # noqa: FBT003  # by position: it is compiled
            self.abandon(pending)
            self.counters.withdrawn += 1
            route = pending.route
            if route is not None:
                route.slot.end_handler(pending, kills=False)
            if self.on_credit is not None:
                self.on_credit()
        if self.upstream is not None:
            self.upstream.withdraw(pending)

    def abandon(self, pending: PendingRequest) -> None:
        """End a request without an answer."""
        self.close(pending)
        self.requests.leave(pending)

    def dismiss_all(self) -> None:
        """End every open request with a fault: the node is stopping."""
        for pending in self.open_requests():
            # A duplicate ends together with the request that it has joined.
            if pending.stage == DONE:
                continue
            if pending.entry is not None:
                assert self.durable is not None
                self.durable.dismiss(pending)
            else:
                self.fail(pending, SHUTTING_DOWN, "the node stopped before it was answered")

    # -- answers without a requester ---------------------------------------------------------------------------------------

    def note_absence(self, pending: PendingRequest, frame: Frame) -> None:
        """Make the dead letter of an answer that waits for the journal, if its client has gone: both are in one page."""
        requester = pending.requester
        if type(requester) is Peer:
            if requester.is_open:
                return
        elif not isinstance(requester, RecoveredClient):
            return
        # A client that has come back is among the duplicates, and gets the answer.
        if frame.type not in REASONS and not pending.duplicates:
            self._add_abandoned(pending, frame)

    def leave_unsettled(self, pending: PendingRequest, frame: Frame) -> None:
        """Handle an answer that could not be delivered."""
        if not isinstance(pending.requester, NoRequester):
            # A fault with a dead letter of its own needs no second one.
            if frame.type not in REASONS:
                self.counters.abandon(frame)
                # It may have been added when the answer was written to the journal.
                if not self.dead_letters.has_answer(pending.frame, frame):
                    self._add_abandoned(pending, frame)
        elif frame.kind == "error":
            self.sink(frame)
        else:
            self.counters.unclaimed += 1

    def _add_abandoned(self, pending: PendingRequest, frame: Frame) -> None:
        text = f"{frame.kind} {frame.type} could not be delivered: the client has disconnected"
        self.add_dead_letter(pending, "abandoned", frame, text)

    def add_dead_letter(
        self, item: PendingRequest | Delivery, reason: Reason, answer: Frame | None, said: str = ""
    ) -> None:
        """Make a dead letter of a message that was not answered, or whose answer was not delivered."""
        retries = 0
        if isinstance(item, PendingRequest):
            if isinstance(item.requester, RedeliveryRequester):
                # Its dead letter is still there.
                return
            retries = item.retries
        self.dead_letters.add(
            item.frame,
            reason,
            self.ids.now_ms(),
            answer=answer,
            said=said,
            capability=None if item.route is None else item.route.slot.id,
            attempts=retries + 1,
        )

    def sink(self, frame: Frame) -> None:
        """Count and log an error that has no requester."""
        self.counters.sunk += 1
        logger.warning("%s: %s", frame.type, bytes(frame.data).decode(errors="replace")[:500])


def _is_refusal(request: Frame, fault: str) -> bool:
    """Return whether a built-in capability has refused a request with this fault."""
    return request.type.startswith(BUILTIN_PREFIXES) and fault in {OVERLOADED, ROUTING_ERROR}


def find_cycle(pending: PendingRequest) -> str | None:
    """Return the cycle of waiting capabilities that a handler's request would close, as text; None if there is none.

    Args:
        pending: a request that is routed, and awaited by the handler of its parent.
    """
    route, parent = pending.route, pending.parent
    assert route is not None
    assert parent is not None
    assert parent.route is not None
    asker = parent.route.slot
    target = route.slot
    # How each capability was reached. A request waits for any one of the handlers of its capability, so there is a cycle only if all of them wait.
    paths = {target: f"{asker.id} ({parent.frame.type}) asks {target.id} ({pending.frame.type})"}
    reached = [target]
    path = ""
    for slot in reached:
        path = paths[slot]
        awaited = slot.awaited_if_blocked(parent)
        if awaited is None:
            return None
        for each in awaited:
            assert each.route is not None
            following = each.route.slot
            if following not in paths:
                paths[following] = f"{path} asks {following.id} ({each.frame.type})"
                reached.append(following)
    return paths.get(asker, path)
