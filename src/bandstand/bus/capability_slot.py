"""The slot of a capability on a node: its state, its messages, and the actor that calls its handlers.

A slot stays for the life of the node. The actor in it is one incarnation: when it fails, its supervisor starts the next one. Each slot has its own
supervisor with one permanent child, so each capability has its own restart limit. The child keeps its mailbox across restarts: messages that
waited for the failed incarnation are handled by the next. Messages that arrive while there is no incarnation are held in the slot. When the
supervisor gives up, the capability is UNHEALTHY until its restart window has passed or it is reset.

The router monitors every incarnation. When one ends, for any reason, `CapabilityMonitor` answers the messages it has not answered. There is no
other path.

A capability with `concurrency` handles several messages at a time: the coroutines of its handlers run in tasks beside the actor, which
takes no further message while there are as many as allowed.

`handle` is the behavior of the actor and runs for every message: it calls the handler, encodes the result by the contract, and gives the
answer to the router. The `CapabilityHost` of the incarnation takes over where that is not enough: workers, functions with several outputs,
handlers that take the envelope, capabilities in other processes.

The hot path and the rest are one compiled class, so that a call inside it is a C call.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Coroutine
from enum import Enum
from math import ceil
from typing import TYPE_CHECKING, Any, TypeAlias

from bandstand.bus.capability_host import ObjectHost, create_host
from bandstand.bus.durations import to_whole_ms
from bandstand.bus.faults import OVERLOADED, REFUSED, FaultAnswer
from bandstand.bus.frame import Kind, correlation_of, id_of, metadata_of, new_frame
from bandstand.bus.request import DONE, DeferredTurn, Delivery, PendingRequest, Route, item_name
from bandstand.bus.tracing import CURRENT_MESSAGE
from bandstand.core import ChildExit
from bandstand.core.logs import SafeLogger
from bandstand.errors import ActorFailedError, ContractViolationError, RefusedError
from bandstand.errors.formatting import describe_exception, safe_repr
from bandstand.errors.validation import to_ms
from bandstand.supervision import ChildSpec, Supervisor, SupervisorSpec, spawn_supervisor
from bandstand.supervision.spec import required_init

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from msgspec import Raw

    from bandstand.bus.capability_host import CapabilityHost
    from bandstand.bus.capability_monitor import CapabilityMonitor
    from bandstand.bus.contracts.capability import CapabilitySpec
    from bandstand.bus.contracts.codec import PayloadCodec
    from bandstand.bus.router import Router
    from bandstand.core import Context, TimerId
    from bandstand.core.ids import ActorId

__all__ = ("CapabilitySlot", "CapabilityState")

Count: TypeAlias = int
Flag: TypeAlias = bool
Moment: TypeAlias = float

logger = SafeLogger("bandstand.bus")

# A limit that is never reached.
_UNLIMITED = 1 << 62
# How many requests in a row must time out before a capability is unresponsive, unless it is known to be stuck at one of them.
_SILENT_TIMEOUTS = 3
# How long cancelled handlers may take to end before `on_stop` is called: less than the supervisor waits for the end. In seconds.
_CANCEL_TIMEOUT = 2.0
# How many classes of results are remembered not to be coroutines.
_MAX_PLAIN_TYPES = 1024


class CapabilityState(Enum):
    """The state of a capability."""

    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    UNHEALTHY = "unhealthy"
    """It has failed too often, and is out of service until its next trial or a reset."""
    STOPPED = "stopped"


class CapabilitySlot:
    """One capability of a node."""

    __slots__ = (
        "_began_ms",
        "_cancelled",
        "_concurrency",
        "_context",
        "_has_started",
        "_incarnation",
        "_is_ending",
        "_monitor",
        "_outbound",
        "_plain_type",
        "_plain_types",
        "_room",
        "_runs_tasks",
        "_silent_at",
        "_silent_since_ms",
        "_timeout_ms",
        "_timeouts",
        "_unreported",
        "actor",
        "admit_limit",
        "awaited",
        "client_limit",
        "crashes",
        "current_message",
        "handled",
        "handlers",
        "held",
        "host",
        "id",
        "last_fault",
        "load",
        "mailbox",
        "next_trial_ms",
        "queued_events",
        "restarts",
        "router",
        "routes",
        "running",
        "spec",
        "state",
        "supervisor",
        "sync_message",
        "task",
        "trial_ends_ms",
        "trial_timer",
    )

    def __init__(self, router: Router, monitor: CapabilityMonitor, spec: CapabilitySpec) -> None:
        config = router.config
        self.router = router
        self._monitor = monitor
        self.spec = spec
        # The name of the capability.
        self.id = spec.id
        # How many messages may wait for it.
        self.mailbox: Count = spec.mailbox or config.mailbox
        self._timeout_ms: Count = to_whole_ms("timeout", spec.timeout or config.timeout)
        self._outbound: dict[tuple[Kind, str], PayloadCodec] = dict(spec.outbound)
        self.routes = tuple(
            Route(self, entry, place, self._timeout_ms, config.remember_count > 0)
            for place, entry in enumerate(spec.handlers.values())
        )

        # How many client requests are in flight to it, and how many may be. The rest of its mailbox is for events and for requests of
        # capabilities.
        self.load: Count = 0
        self.client_limit: Count = max(1, self.mailbox * 3 // 4)
        # Up to this load the router admits a client request directly; above it, `admission` decides.
        self.admit_limit: Count = self.client_limit if config.hold_timeout else _UNLIMITED

        self.state = CapabilityState.STARTING
        self.supervisor: Supervisor | None = None
        # The actor of the current incarnation once it has started; None while there is none.
        self.actor: ActorId | None = None
        # The actor of the current incarnation from the start of its host until the router learns of its end.
        self._incarnation: ActorId | None = None
        self.host: CapabilityHost | None = None
        # The handler of each route, by the route's place; None if `host.handle` handles all messages. Any: their types are the contract's.
        self.handlers: tuple[Callable[[Any], Any], ...] | None = None
        # The messages that earlier incarnations have not answered, until the router learns of their end.
        self._unreported: dict[ActorId, list[PendingRequest | Delivery]] = {}
        # Whether an incarnation has started under this supervisor, so that the next one is a restart.
        self._has_started = False
        self.handled: Count = 0
        self.crashes: Count = 0
        self.restarts: Count = 0
        self.last_fault: str | None = None

        # How many coroutines of handlers run at a time.
        self._concurrency: Count = spec.concurrency
        # Whether they run in tasks of their own. Otherwise the actor itself runs the one coroutine.
        self._runs_tasks: Flag = spec.concurrency > 1 or (
            spec.on_timeout == "cancel" and spec.host_factory is None
        )
        # The messages whose coroutines run in tasks of their own, in the order in which they began. The task is None if it has
        # failed: then it ends the incarnation.
        self.running: dict[PendingRequest | Delivery, asyncio.Task[None] | None] = {}
        # Those among them that were cancelled because their request has ended.
        self._cancelled: set[PendingRequest | Delivery] = set()
        # When the handler of each message began, on the loop's clock, unless the handler ends at once.
        self._began_ms: dict[PendingRequest | Delivery, float] = {}
        # Done when one of these tasks has ended, while the actor waits for that.
        self._room: asyncio.Future[None] | None = None
        # The context of the incarnation; each task gets a copy.
        self._context: contextvars.Context | None = None
        # Whether the incarnation cancels its tasks.
        self._is_ending = False

        # The message that the actor handles.
        self.current_message: PendingRequest | Delivery | None = None
        # The same message, but only during the synchronous call of its handler.
        self.sync_message: PendingRequest | Delivery | None = None
        # The task that runs the coroutine of the current message.
        self.task: asyncio.Task[Any] | None = None
        # The request that the handler of each message awaits.
        self.awaited: dict[PendingRequest | Delivery, PendingRequest] = {}
        # Events in the mailbox or held, in their order.
        self.queued_events: deque[Delivery] = deque()
        # Messages that arrived while there was no incarnation.
        self.held: deque[PendingRequest | Delivery] = deque()
        # Classes of results that are not coroutines: the check costs as much as the rest of a call.
        self._plain_types: set[type[object]] = {type(None)}
        # The last one of them: most results have the class of the one before.
        self._plain_type: type[object] = type(None)

        # How many requests have timed out since it last finished a message; since when, on the loop's clock, it has finished none; and the
        # value of `handled` at the last timeout.
        self._timeouts: Count = 0
        self._silent_since_ms: Moment = 0.0
        self._silent_at: Count = 0

        # The timer of the next trial while it is out of service, and the times, on the loop's clock, of that trial and of the end of the
        # current one.
        self.trial_timer: TimerId | None = None
        self.next_trial_ms: Moment = 0.0
        self.trial_ends_ms: Moment = 0.0

    def __repr__(self) -> str:
        return f"<CapabilitySlot {self.id} {self.state.value}>"

    # -- messages ----------------------------------------------------------------------------------------------------------

    def handle(self, ctx: Any, item: Any) -> Any:  # noqa: ARG002  # the signature of a behavior
        """Handle one message: the behavior of the actor."""
        if type(item) is PendingRequest:
            pending = item
            timer = pending.timer
            # A timer with a negative place has fired: the router is about to answer with a timeout.
            if pending.stage == DONE or pending.is_answered or (timer is not None and timer.place < 0):
                # It has timed out, or its requester has gone, or its answer is on its way to the journal: skip it.
                self.router.counters.expired += 1
                if self.held:
                    self.deliver_held()
                return None
            pending.is_begun = True
            route = pending.route
            assert route is not None
            payload = pending.payload
        else:
            if type(item) is not Delivery:
                return self._handle_internal(item)
            delivery = item
            if self.queued_events:
                self.queued_events.popleft()
            route = delivery.route
            payload = delivery.payload
        self.current_message = item
        self.handled += 1
        if self.held:
            self.deliver_held()
        handlers = self.handlers
        if handlers is None or route.envelope is not None:
            return self._handle_in_host(item)
        self.sync_message = item
        try:
            result: object = handlers[route.place](payload)
            kind: type[object] = type(result)
            if kind is self._plain_type or not self._is_coroutine(kind):
                self.reply(item, result)
                self.current_message = None
                return None
        except Exception as error:
            if not self.answer_refusal(item, error):
                raise
            self.current_message = None
            return None
        except SystemExit as error:
            # It ends the capability, not the node.
            raise _exit_error(item, error) from error
        finally:
            self.sync_message = None
        return self.run_coroutine(item, result, self.reply)

    def _is_coroutine(self, kind: type[object]) -> bool:
        is_coroutine = kind not in self._plain_types and issubclass(kind, Coroutine)
        if not is_coroutine:
            self._plain_type = kind
            if len(self._plain_types) >= _MAX_PLAIN_TYPES:
                # The handler creates a new class for each answer.
                self._plain_types.clear()
            self._plain_types.add(kind)  # pyright: ignore[reportUnknownArgumentType]  # narrowed to what it is not
        return is_coroutine

    def _handle_in_host(self, item: PendingRequest | Delivery) -> Any:
        assert self.host is not None
        try:
            return self.host.handle(item)
        except SystemExit as error:
            raise _exit_error(item, error) from error

    def _handle_internal(self, item: Any) -> Any:
        """Handle what is not a message of the bus: a call of a timer or of background work, or the end of such work."""
        if type(item) is DeferredTurn:
            # The mailbox is kept across restarts, but timers and background work end with their incarnation.
            return self._make_call(item) if item.actor == self._incarnation else None
        if isinstance(item, ChildExit) and isinstance(self.host, ObjectHost):
            self.host.note_child_exit(item.child)
        return None

    def _make_call(self, item: Any) -> Any:
        self.current_message = self.sync_message = item
        try:
            result: object = item.payload.run()
        except Exception as error:
            if not self.answer_refusal(item, error):
                raise
            self.current_message = None
            return None
        except SystemExit as error:
            raise _exit_error(item, error) from error
        finally:
            self.sync_message = None
        if not isinstance(result, Coroutine):
            self.current_message = None
            return None
        return self.run_coroutine(item, result, _drop_result)

    def run_coroutine(
        self,
        item: PendingRequest | Delivery,
        result: Any,
        finish: Callable[[PendingRequest | Delivery, Any], None],
    ) -> Coroutine[Any, Any, None] | None:
        """Run `result`, the coroutine of a handler, and call `finish` with the message and what it returns.

        Returns:
            A coroutine that the actor has to await before its next message; None if it can take the next one.
        """
        if self._runs_tasks:
            return self._start_task(item, result, finish)
        return self._await_result(item, result, finish)

    def _start_task(
        self,
        item: PendingRequest | Delivery,
        result: Any,
        finish: Callable[[PendingRequest | Delivery, Any], None],
    ) -> Coroutine[Any, Any, None] | None:
        assert self._context is not None
        assert self._incarnation is not None
        self.current_message = None
        actor = self._incarnation
        task = asyncio.get_running_loop().create_task(
            self._run_task(item, result, finish, actor), context=self._context.copy()
        )

        def on_done(task: asyncio.Task[None]) -> None:
            # If the task was cancelled before it began, it has not awaited the coroutine.
            result.close()
            if self.running.get(item) is task:
                self._end_task(item, actor)

        task.add_done_callback(on_done)
        self.note_waiting(item)
        self.running[item] = task
        return None if len(self.running) < self._concurrency else self._await_room()

    async def _await_room(self) -> None:
        self._room = asyncio.get_running_loop().create_future()
        await self._room

    async def _run_task(
        self,
        item: PendingRequest | Delivery,
        result: Any,
        finish: Callable[[PendingRequest | Delivery, Any], None],
        actor: ActorId,
    ) -> None:
        """Do what `_await_result` does, in a task beside the actor. A failure ends the incarnation as a failure of the actor would."""
        CURRENT_MESSAGE.set(item)
        failure: BaseException
        try:
            try:
                finish(item, await result)
            except Exception as error:
                if not self.answer_refusal(item, error):
                    raise
        except SystemExit as error:
            failure = _exit_error(item, error)
            failure.__cause__ = error
        except asyncio.CancelledError as error:
            if item in self._cancelled:
                # Its request has ended.
                self._end_task(item, actor)
                return
            if self._is_ending or actor != self._incarnation:
                # The message is answered when the router learns of the end of the incarnation.
                raise
            failure = error
        except Exception as error:  # noqa: BLE001  # any exception is the capability's failure
            failure = error
        else:
            self._end_task(item, actor)
            return
        if actor == self._incarnation and not self._is_ending:
            self.running[item] = None
            self.router.loop.kernel.actors.panic(actor, failure)
        else:
            logger.warning(
                "%s: the handler of %s failed after it was cancelled",
                self.id,
                item_name(item),
                exc_info=failure,
            )

    def _end_task(self, item: PendingRequest | Delivery, actor: ActorId) -> None:
        """Note that the handler of a message has ended, and let the actor take the next message."""
        if actor == self._incarnation and not self._is_ending:
            del self.running[item]
            self.note_ended(item)
            self._cancelled.discard(item)
            self.note_answer()
            if self._room is not None and not self._room.done():
                self._room.set_result(None)

    def end_handler(self, pending: PendingRequest, *, kills: bool) -> None:
        """End the handler of a request that has ended before it, as `on_timeout` declares. `kills` if its deadline has passed."""
        host, how = self.host, self.spec.on_timeout
        if host is None or not pending.is_begun:
            return
        if how == "kill" and kills:
            is_current = self.current_message is pending or pending in self.running
            if is_current or any(each is pending for each in host.unanswered()):
                self.crash(
                    ActorFailedError(
                        f"{pending.frame.type} was not answered in time, and on_timeout is 'kill'"
                    )
                )
        elif how == "cancel" and self.spec.host_factory is None:
            self.cancel(pending)
        host.forget(pending)

    def cancel(self, pending: PendingRequest) -> None:
        """Cancel the handler of a request if it runs in a task of its own."""
        task = self.running.get(pending)
        if task is not None:
            self._cancelled.add(pending)
            task.cancel()

    def _cancel_tasks(self) -> list[asyncio.Task[None]]:
        """Cancel the tasks of the messages that are being handled, and return them."""
        tasks = [task for task in self.running.values() if task is not None and not task.done()]
        for task in tasks:
            task.cancel()
        return tasks

    def is_handled_by(self, item: PendingRequest | Delivery, task: asyncio.Task[Any] | None) -> bool:
        """Return whether a task runs the handler of a message."""
        return task is not None and (self.task is task or self.running.get(item) is task)

    def end_wait(self, pending: PendingRequest) -> None:
        """Note that a handler does not await this request any more."""
        parent = pending.parent
        if parent is not None and self.awaited.get(parent) is pending:
            del self.awaited[parent]

    def awaited_if_blocked(self, asker: PendingRequest | Delivery) -> list[PendingRequest] | None:
        """Return the requests that its handlers await, without the handler of `asker`.

        Returns:
            None if it can handle a message now, or a handler awaits no request.
        """
        items = list(self.running) if self._runs_tasks else [self.current_message]
        if len(items) < self._concurrency:
            return None
        found: list[PendingRequest] = []
        for item in items:
            if item is asker:
                continue
            awaited = None if item is None else self.awaited.get(item)
            if awaited is None or awaited.route is None or awaited.stage == DONE:
                return None
            found.append(awaited)
        return found

    async def _await_result(
        self,
        item: PendingRequest | Delivery,
        result: Any,
        finish: Callable[[PendingRequest | Delivery, Any], None],
    ) -> None:
        CURRENT_MESSAGE.set(item)
        self.task = asyncio.current_task()
        self.note_waiting(item)
        try:
            finish(item, await result)
        except Exception as error:
            if not self.answer_refusal(item, error):
                raise
        except SystemExit as error:
            raise _exit_error(item, error) from error
        # Not in a finally: if this fails or is cancelled, the monitor answers the current message.
        self.task = None
        self.current_message = None
        self.note_ended(item)

    def deliver_held(self) -> None:
        """Move held messages to the mailbox while there is room. The rest follows with the next message."""
        held, actor = self.held, self.actor
        while held and actor is not None:
            item = held[0]
            if not _is_done(item) and not self.router.loop.try_send(actor, item):
                return
            held.popleft()

    def has_room(self) -> bool:
        """Return whether one more message can be held."""
        if len(self.held) >= self.mailbox:
            kept = [item for item in self.held if not _is_done(item)]
            self.held.clear()
            self.held.extend(kept)
        return len(self.held) < self.mailbox

    def reject(self, item: PendingRequest | Delivery) -> None:
        """Answer a message that exceeds the mailbox: a request with an error; an event becomes a dead letter."""
        router = self.router
        text = f"the mailbox of {self.id} is full; try again later"
        if isinstance(item, PendingRequest):
            router.answer(item, router.faults.make(OVERLOADED, text, request=item.frame, capability=self.id))
        else:
            router.counters.undelivered += 1
            router.add_dead_letter(item, "undelivered", None, text)

    # -- answers -----------------------------------------------------------------------------------------------------------

    def reply(self, item: PendingRequest | Delivery, value: object) -> None:
        """Answer a message with the result of its handler.

        Raises:
            ContractViolationError: the result does not match the contract, or an event has one.
        """
        if isinstance(item, Delivery):
            if value is not None:
                raise ContractViolationError(
                    f"{self.id}: the handler of event {item.frame.type} returned {safe_repr(value)}: an event has no answer, return None"
                )
            return
        pending = item
        route = pending.route
        assert route is not None
        assert route.reply is not None
        self.answer(pending, "reply", route.type, route.reply.write(value))

    def answer(self, item: PendingRequest | Delivery, kind: Kind, type_name: str, data: Raw) -> None:
        """Send the answer to a message. Do nothing if the message is an event."""
        if isinstance(item, Delivery):
            return
        pending = item
        asked = metadata_of(pending.frame)
        ids = self.router.ids
        name = ids.make()
        self.router.answer(
            pending,
            new_frame(kind, type_name, data, name, ids.last_ms, id_of(asked), correlation_of(asked)),
        )

    def answer_refusal(self, item: PendingRequest | Delivery, error: Exception) -> bool:
        """Answer a message whose handler has raised `RefusedError`, or an exception that its contract declares as a refusal.

        Returns:
            False if the exception is a failure. Then nothing is answered.

        Raises:
            ContractViolationError: the contract does not declare the error in the refusal.
        """
        if not self.is_refusal(error):
            return False
        self._refuse(
            item, error if isinstance(error, RefusedError) else RefusedError(describe_exception(error))
        )
        return True

    def is_refusal(self, error: BaseException) -> bool:
        """Return whether an exception of a handler is an answer and not a failure."""
        if isinstance(error, RefusedError):
            return True
        # An invalid answer is a failure, even if the contract declares a base class of ContractViolationError.
        return isinstance(error, self.spec.refuses) and not isinstance(error, ContractViolationError)

    def _refuse(self, item: PendingRequest | Delivery, refusal: RefusedError) -> None:
        answer = refusal.answer
        if isinstance(answer, str):
            answer = FaultAnswer(REFUSED, answer)
        if isinstance(answer, FaultAnswer):
            router = self.router
            fault = router.faults.make(
                answer.type, answer.message, request=item.frame, path=answer.path, capability=self.id
            )
            if type(item) is PendingRequest:
                router.answer(item, fault)
            else:
                router.sink(fault)
            return
        kind, type_name = getattr(answer, "message_kind", None), getattr(answer, "message_type", "")
        if kind != "error" or not type_name:
            raise ContractViolationError(
                f"{self.id}: Refused({safe_repr(answer)}): pass a string, or an instance of a class that derives from Failure"
            )
        self.answer(item, "error", type_name, self.encode("error", type_name, answer))

    def note_crash(self, error: BaseException) -> tuple[str, str]:
        """Count a failure that does not end the incarnation. Return the type and the text of the error for its message."""
        return self._monitor.note_crash(self, error)

    def encode(self, kind: Kind, type_name: str, data: object) -> Raw:
        """Encode the data of a message that the capability sends.

        Raises:
            ContractViolationError: the contract does not declare the message, or the data does not match it.
        """
        codec = self._outbound.get((kind, type_name))
        if codec is None:
            allowed = (
                ", ".join(sorted(f"{k} {name}" for k, name in self._outbound if k != "reply"))
                or "nothing but replies"
            )
            raise ContractViolationError(
                f"{self.id}: its contract does not declare that it sends {kind} {type_name}; outbound has {allowed}"
            )
        return codec.write(data)

    # -- start and stop ----------------------------------------------------------------------------------------------------

    def start(self, *, is_trial: bool = False) -> None:
        """Start it under a new supervisor. In a trial, the supervisor gives up at the first failure within the restart window.

        Raises:
            StartError: it did not start.
        """
        limits = self.spec.restarts
        period_ms = to_ms("period", limits.period)
        spec = SupervisorSpec(
            children=[
                ChildSpec(
                    self.id,
                    self.handle,
                    init=required_init(self.start_host, f"capability {self.id}"),
                    keep_mailbox=True,
                    mailbox=self.mailbox,
                    backoff=limits.backoff,
                )
            ],
            max_restarts=limits.max_restarts,
            period=limits.period,
        )
        self.cancel_trial()
        self.state = CapabilityState.STARTING
        self._has_started = False
        self.trial_ends_ms = self.router.now_ms() + period_ms if is_trial else 0.0
        self.supervisor = supervisor = spawn_supervisor(
            self.router.loop, spec, name=f"capability {self.id}", parent=self.router.actor
        )
        if is_trial:
            supervisor.spend_restarts()

    def start_host(self, ctx: Context[None]) -> Coroutine[Any, Any, None] | None:
        """Start an incarnation: the init function of the actor. Return a coroutine if its start is asynchronous."""
        actor = ctx.self_id
        before = self._incarnation
        if before is not None:
            # The supervisor has restarted it before the router has learned of the end of the last incarnation.
            self._unreported[before] = self._release_host()
        self.host = host = create_host(self, actor)
        self._incarnation = actor
        self._is_ending = False
        self.handlers = host.handlers
        self._monitor.watch(self, actor)
        self.router.loop.kernel.actors.set_exit_hook(actor, lambda _reason, _cause: self._stop_host(host))
        # Messages that it sends while it starts have no cause.
        CURRENT_MESSAGE.set(None)
        self._context = contextvars.copy_context()
        starting = host.start()
        if starting is None:
            self._on_started(actor)
            return None
        return self._await_start(starting, actor)

    async def _await_start(self, starting: Awaitable[None], actor: ActorId) -> None:
        await starting
        self._on_started(actor)

    def _on_started(self, actor: ActorId) -> None:
        if self._has_started:
            self.restarts += 1
            self.router.counters.restarts += 1
        self._has_started = True
        self.actor = actor
        self.state = CapabilityState.RUNNING
        self._timeouts = 0
        self.deliver_held()
        self._monitor.note_started(self)

    def _stop_host(self, host: CapabilityHost) -> Awaitable[None] | None:
        CURRENT_MESSAGE.set(None)
        self._is_ending = True
        tasks = self._cancel_tasks()
        return self._stop_after(tasks, host) if tasks else host.stop()

    async def _stop_after(self, tasks: list[asyncio.Task[None]], host: CapabilityHost) -> None:
        await asyncio.wait(tasks, timeout=_CANCEL_TIMEOUT)
        stopping = host.stop()
        if stopping is not None:
            await stopping

    def end_incarnation(self, actor: ActorId) -> list[PendingRequest | Delivery]:
        """Release an incarnation that has ended. Return the messages that it may not have answered."""
        if actor != self._incarnation:
            return self._unreported.pop(actor, [])
        if self.state in {CapabilityState.RUNNING, CapabilityState.STARTING}:
            self.state = CapabilityState.RESTARTING
        return self._release_host()

    def _release_host(self) -> list[PendingRequest | Delivery]:
        unanswered: list[PendingRequest | Delivery] = (
            [] if self.current_message is None else [self.current_message]
        )
        unanswered += self.running
        self._is_ending = True
        self._cancel_tasks()
        self.running = {}
        self._cancelled.clear()
        self._began_ms.clear()
        self.awaited.clear()
        self.current_message = self.sync_message = self.task = self._room = None
        self.actor = self._incarnation = None
        self.handlers = None
        host, self.host = self.host, None
        if host is not None:
            unanswered += host.unanswered()
            try:
                host.terminate()
            except Exception:
                logger.exception("%s: terminate() raised; the capability has ended anyway", self.id)
        return unanswered

    def crash(self, error: BaseException) -> None:
        """End the incarnation with an error from outside its own turn: its worker or its process has failed."""
        if self.actor is not None:
            self.router.loop.kernel.actors.stop_or_kill(self.actor, error)

    def stop(self) -> None:
        """Stop it gracefully: its handler is cancelled, and the router answers the messages that wait."""
        self.state = CapabilityState.STOPPED
        self.cancel_trial()
        if self.supervisor is not None:
            self.supervisor.stop()

    def cancel_trial(self) -> None:
        """Cancel the next trial."""
        timer, self.trial_timer = self.trial_timer, None
        if timer is not None and timer.pending:
            self.router.loop.cancel_timer(timer)

    def is_supervised_by(self, actor: ActorId) -> bool:
        """Return whether this actor is its supervisor."""
        return self.supervisor is not None and self.supervisor.actor == actor

    # -- health ------------------------------------------------------------------------------------------------------------

    @property
    def has_incarnation(self) -> bool:
        """Whether there is an incarnation, or one whose end the router has not learned of."""
        return self._incarnation is not None

    @property
    def is_busy(self) -> bool:
        """Whether it handles a message, or messages are held for it."""
        return (
            self.current_message is not None
            or bool(self.running)
            or bool(self.held)
            or (self.host is not None and self.host.is_busy)
        )

    @property
    def is_on_trial(self) -> bool:
        """Whether it runs after a trial start, so that one failure puts it out of service again."""
        is_in_service = self.state not in {CapabilityState.UNHEALTHY, CapabilityState.STOPPED}
        return is_in_service and self.router.now_ms() < self.trial_ends_ms

    @property
    def trial_in_ms(self) -> int | None:
        """The milliseconds until its next trial; None if it is in service."""
        if self.state is not CapabilityState.UNHEALTHY:
            return None
        return max(0, ceil(self.next_trial_ms - self.router.now_ms()))

    @property
    def oldest_message(self) -> PendingRequest | Delivery | None:
        """The message that is being handled; of several, the one that began first."""
        return next(iter(self.running), self.current_message)

    def note_waiting(self, item: PendingRequest | Delivery) -> None:
        """Record that the handler of a message does not end at once."""
        self._began_ms[item] = self.router.now_ms()

    def note_ended(self, item: PendingRequest | Delivery) -> None:
        """Record that the handler of a message has ended."""
        self._began_ms.pop(item, None)

    @property
    def busy_since_ms(self) -> int | None:
        """For how many milliseconds the oldest message has been handled; None if no message is."""
        oldest = self.oldest_message
        began_ms = None if oldest is None else self._began_ms.get(oldest)
        return None if began_ms is None else int(self.router.now_ms() - began_ms)

    @property
    def is_stuck(self) -> bool:
        """Whether all handlers that may run at a time work on requests that have timed out."""
        if self._runs_tasks:
            return len(self.running) >= self._concurrency and all(_is_done(item) for item in self.running)
        return self.current_message is not None and _is_done(self.current_message)

    def note_timeout(self, pending: PendingRequest, waited_ms: float) -> None:
        """Record that a request to it has timed out."""
        if self.current_message is not None and self.handled != self._silent_at:
            # It has finished a message since the last timeout.
            self._timeouts = 0
        if not self._timeouts:
            # A request that it has not begun only shows that it works on another one now.
            self._silent_since_ms = self.router.now_ms() - (waited_ms if pending.is_begun else 0)
        self._timeouts += 1
        self._silent_at = self.handled

    def note_answer(self) -> None:
        """Record that a worker has answered a request, or a handler in a task has returned, in time or late."""
        self._timeouts = 0

    @property
    def __behavior_name__(self) -> str:
        """Its capability's name, for crash reports."""
        return self.id

    @property
    def is_unresponsive(self) -> bool:
        """Whether requests time out and it has finished none for at least the timeout of a request.

        One timed out request is enough if its handler is stuck at it; otherwise it takes three.
        """
        if self.state is not CapabilityState.RUNNING or self._timeouts < (
            1 if self.is_stuck else _SILENT_TIMEOUTS
        ):
            return False
        if self.current_message is None:
            # Either a worker, which may have unanswered requests, or handlers in tasks, or an idle handler.
            if not self.running and (self.host is None or not self.host.is_busy):
                return False
        elif self.handled != self._silent_at:
            return False
        return self.router.now_ms() - self._silent_since_ms >= self._timeout_ms

    @property
    def is_out_of_service(self) -> bool:
        """Whether it is unhealthy or unresponsive."""
        return self.state is CapabilityState.UNHEALTHY or self.is_unresponsive


def _is_done(item: PendingRequest | Delivery) -> bool:
    return isinstance(item, PendingRequest) and item.stage == DONE


def _exit_error(item: PendingRequest | Delivery, error: SystemExit) -> ActorFailedError:
    return ActorFailedError(f"the handler of {item_name(item)} called sys.exit({safe_repr(error.code)})")


def _drop_result(_item: PendingRequest | Delivery, _result: object) -> None:
    """Finish a call of a timer or of background work: it has no caller."""
