"""Hosts of capabilities: each runs one incarnation of a capability, in the way that fits its kind.

    ObjectHost      an object of a class that derives from `Capability`
    FunctionHost    a function of one message
    WorkerHost      an object with the interface of a `Worker`, which answers in its own time

A capability with a `HostFactory` has a host of that: see `bandstand.isolation`.

`CapabilitySlot` calls the handlers of an `ObjectHost` itself wherever it can. Otherwise it gives each message to `handle`, which handles it at
once or returns a coroutine. An exception of a handler ends the incarnation, except for `RefusedError` and those that the contract declares as
refusals: these are answers.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from bandstand.bus.bus_client import Bus
from bandstand.bus.contracts.messages import Message, TypedMessage
from bandstand.bus.contracts.types import message_parts
from bandstand.bus.deferred_calls import DeferredCalls
from bandstand.bus.faults import SCHEMA_ERROR, FaultAnswer
from bandstand.bus.request import Delivery, PendingRequest
from bandstand.bus.steps import StepCalls
from bandstand.bus.wire import DECODE_ERRORS
from bandstand.bus.worker import as_worker
from bandstand.errors import (
    ActorFailedError,
    ContractError,
    ContractViolationError,
    InvalidMessageError,
    RefusedError,
)
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from msgspec import Raw

    from bandstand.bus.capability_slot import CapabilitySlot
    from bandstand.bus.contracts.types import EnvelopeBuilder
    from bandstand.bus.frame import Frame, Kind
    from bandstand.bus.worker import ErrorEvent, MessageEvent, Worker
    from bandstand.core import ActorId

__all__ = (
    "CapabilityHost",
    "CapabilityProcessError",
    "FunctionHost",
    "ObjectHost",
    "WorkerHost",
    "create_host",
)

# How many of the messages that were posted to a worker are remembered as possible causes of what it sends.
_MAX_CAUSES = 1024


class CapabilityProcessError(ActorFailedError):
    """A host outside the process of the node has failed. The text describes the failure completely."""


class CapabilityHost(Protocol):
    """One incarnation of a capability."""

    # Any: the types of messages are the contract's.
    @property
    def handlers(self) -> tuple[Callable[[Any], Any], ...] | None:
        """The functions whose results are the replies, by the place of their routes; None if `handle` handles all messages."""
        ...

    @property
    def is_busy(self) -> bool:
        """Whether it works on something other than the slot's current message."""
        ...

    def start(self) -> Awaitable[None] | None:
        """Start it. Return an awaitable if that is asynchronous."""
        ...

    def handle(self, item: PendingRequest | Delivery) -> Coroutine[Any, Any, None] | None:
        """Handle a message, and set the slot's `current_message` to None when it is done."""
        ...

    def forget(self, item: PendingRequest) -> None:
        """Take note that a request which it was given has ended before it was answered."""
        ...

    def stop(self) -> Awaitable[None] | None:
        """Stop it, or clean up after a failure, in the last turn of the incarnation."""
        ...

    def unanswered(self) -> Sequence[PendingRequest]:
        """Return the requests that it has taken and not answered, besides those that the slot knows."""
        ...

    def terminate(self) -> None:
        """Release everything: the incarnation has ended."""
        ...


def create_host(slot: CapabilitySlot, actor: ActorId) -> CapabilityHost:
    """Create the host for a new incarnation, which runs as this actor.

    Raises:
        ContractError: `spawn` has returned neither a function nor a worker, or a worker that cannot do what the contract declares.
    """
    factory = slot.spec.host_factory
    if factory is not None:
        return factory.create_host(slot)
    made = slot.spec.make()
    if slot.spec.is_class:
        return ObjectHost(slot, made, actor)
    worker = as_worker(made, slot.id)
    if worker is not None:
        if slot.spec.concurrency > 1:
            raise ContractError(
                f"{slot.id}: concurrency is {slot.spec.concurrency}, but a worker decides itself how many messages it handles at a time: "
                f"remove concurrency, or let spawn return a function"
            )
        if slot.spec.on_timeout == "cancel":
            raise ContractError(
                f"{slot.id}: on_timeout is 'cancel', but the node cannot cancel what a worker does: pass 'report' or 'kill', or let spawn "
                f"return a function"
            )
        return WorkerHost(slot, worker)
    if callable(made):
        return FunctionHost(slot, made)
    raise ContractError(
        f"{slot.id}: spawn returned {safe_repr(made)}: return a function of one message, or an object with post_message()"
    )


class ObjectHost:
    """Hosts an object of a class that derives from `Capability`: the result of a method is the reply."""

    __slots__ = ("_calls", "_object", "_slot", "handlers")

    is_busy = False

    # Any: an object of a user's class; the spec was read from that class.
    def __init__(self, slot: CapabilitySlot, made: Any, actor: ActorId) -> None:
        made.bus = bus = Bus(slot.router, slot)
        made.__steps__ = StepCalls(slot.router, bus)
        made.__deferred_calls__ = self._calls = DeferredCalls(slot.router.loop, actor, bus)
        self._slot = slot
        self._object = made
        self.handlers: tuple[Callable[[Any], Any], ...] = tuple(
            getattr(made, str(route.method)) for route in slot.routes
        )

    def start(self) -> Awaitable[None] | None:
        """Call `on_start`."""
        started: Awaitable[None] | None = self._object.on_start()
        return started

    def note_child_exit(self, child: ActorId) -> None:
        """Forget background work that has ended."""
        self._calls.note_exit(child)

    def handle(self, item: PendingRequest | Delivery) -> Coroutine[Any, Any, None] | None:
        """Call the method of a message that takes the envelope."""
        assert item.route is not None
        return _call_handler(self._slot, item, self.handlers[item.route.place], self._slot.reply)

    def forget(self, item: PendingRequest) -> None:
        """Do nothing: the slot knows its messages."""

    def stop(self) -> Awaitable[None] | None:
        """Call `on_stop`."""
        stopped: Awaitable[None] | None = self._object.on_stop()
        return stopped

    def unanswered(self) -> Sequence[PendingRequest]:
        """Return nothing: the slot knows its messages."""
        return ()

    def terminate(self) -> None:
        """Do nothing: it runs in the slot's actor only."""


class FunctionHost:
    """Hosts a function of one message, which returns the messages to send: None, one, or several."""

    __slots__ = ("_bus", "_function", "_slot")

    handlers = None
    is_busy = False

    def __init__(self, slot: CapabilitySlot, function: Callable[[Any], Any]) -> None:
        self._slot = slot
        self._bus = Bus(slot.router, slot)
        self._function = function

    def start(self) -> Awaitable[None] | None:
        """Do nothing: a function needs no start."""

    def handle(self, item: PendingRequest | Delivery) -> Coroutine[Any, Any, None] | None:
        """Call the function with a message."""

        def call(payload: Any) -> Any:
            assert item.route is not None
            if item.route.envelope is None and not isinstance(payload, TypedMessage):
                # Plain data has no message type, so the function gets it in an envelope.
                frame = item.frame
                payload = Message(kind=frame.kind, type=frame.type, data=payload, metadata=frame.metadata)
            return self._function(payload)

        return _call_handler(self._slot, item, call, self._send_outputs)

    def forget(self, item: PendingRequest) -> None:
        """Do nothing: the slot knows its messages."""

    def stop(self) -> Awaitable[None] | None:
        """Do nothing: a function has nothing to release."""

    def unanswered(self) -> Sequence[PendingRequest]:
        """Return nothing: the slot knows its messages."""
        return ()

    def terminate(self) -> None:
        """Do nothing: it runs in the slot's actor only."""

    def _send_outputs(self, item: PendingRequest | Delivery, result: object) -> None:
        """Send what the function has returned, in order. For a request, one output must be its answer.

        Raises:
            ContractViolationError: the contract does not allow an output, or there is no answer, or more than one.
        """
        outputs: Iterable[object]
        if result is None:
            outputs = ()
        elif isinstance(result, (list, tuple, Iterator)):
            # Not every iterable: a pydantic model is iterable, and is one message.
            outputs = cast("Iterable[object]", result)
        else:
            outputs = (result,)
        answers = 0
        for output in outputs:
            kind, type_name, data = message_parts(output)
            raw = self._slot.encode(kind, type_name, data)
            if kind in {"reply", "error"}:
                self._answer(item, kind, type_name, raw, is_first=not answers)
                answers += 1
            else:
                self._bus.send_encoded(kind, type_name, raw)
        if type(item) is PendingRequest and not answers:
            reply = None if item.route is None else item.route.reply
            if reply is not None and reply.annotation is None:
                # The contract declares an empty reply, so the function need not return it.
                self._slot.reply(item, None)
            else:
                raise ContractViolationError(
                    f"{self._slot.id}: the handler of {item.frame.type} returned neither a reply nor an error"
                )

    def _answer(
        self, item: PendingRequest | Delivery, kind: Kind, type_name: str, raw: Raw, *, is_first: bool
    ) -> None:
        asked = item.frame
        if type(item) is not PendingRequest:
            raise ContractViolationError(
                f"{self._slot.id}: the handler of event {asked.type} returned {kind} {type_name}: an event has no answer"
            )
        if not is_first:
            raise ContractViolationError(
                f"{self._slot.id}: the handler of {asked.type} returned {kind} {type_name} as a second answer: a request has one"
            )
        if kind == "reply" and type_name != asked.type:
            raise ContractViolationError(f"{self._slot.id}: reply {type_name} is no reply to {asked.type}")
        self._slot.answer(item, kind, type_name, raw)


# Any: messages and results have the types that the contract declares.
def _call_handler(
    slot: CapabilitySlot,
    item: PendingRequest | Delivery,
    handler: Callable[[Any], Any],
    finish: Callable[[PendingRequest | Delivery, Any], None],
) -> Coroutine[Any, Any, None] | None:
    """Call a handler with a message or its envelope, then `finish` with the result, or return a coroutine that does both."""
    route, payload = item.route, item.payload
    assert route is not None
    slot.sync_message = item
    try:
        if route.envelope is not None:
            payload = _build_envelope(route.envelope, item)
        result: object = handler(payload)
        if isinstance(result, Coroutine):
            return slot.run_coroutine(item, cast("Coroutine[object, object, object]", result), finish)
        finish(item, result)
    except Exception as error:
        if not slot.answer_refusal(item, error):
            raise
    finally:
        slot.sync_message = None
    slot.current_message = None
    return None


def _build_envelope(builder: EnvelopeBuilder, item: PendingRequest | Delivery) -> Any:
    frame = item.frame
    try:
        return builder.build(frame.kind, frame.type, item.payload, frame.metadata)
    except InvalidMessageError as problem:
        # A check of the envelope class itself, which can run only now.
        raise RefusedError(FaultAnswer(SCHEMA_ERROR, f"{frame.type}: {problem}", problem.path)) from None


class WorkerRequester:
    """The requester of a worker's own request: the answer is posted to the worker as a message."""

    __slots__ = ("_host",)

    def __init__(self, host: WorkerHost) -> None:
        self._host = host

    def settle(self, frame: Frame, _settles: bool, /) -> bool:
        """Post the answer."""
        return self._host.post_answer(frame)


class WorkerHost:
    """Hosts an object with the interface of a `Worker`.

    The slot's actor posts each message to the worker and is done with it. What the worker sends arrives as an event, is checked against the
    contract, and is matched with its request by the causation in it. When a worker reports an error, the incarnation fails: the worker is
    created anew, and the requests that it has not answered are answered with the error.
    """

    __slots__ = ("_bus", "_causes", "_has_ended", "_slot", "_unanswered", "_worker")

    handlers = None

    def __init__(self, slot: CapabilitySlot, worker: Worker) -> None:
        self._slot = slot
        self._worker = worker
        self._bus = Bus(slot.router, slot)
        self._has_ended = False
        # The requests that it has not answered, by the ids under which they were posted.
        self._unanswered: dict[str, PendingRequest] = {}
        # The last messages that were posted, by the same ids: the possible causes of what it sends.
        self._causes: dict[str, PendingRequest | Delivery] = {}

    @property
    def is_busy(self) -> bool:
        """Whether it has unanswered requests, or its `is_idle` is False."""
        return bool(self._unanswered) or getattr(self._worker, "is_idle", True) is False

    def start(self) -> Awaitable[None] | None:
        """Listen to its events."""
        self._worker.add_event_listener("message", self._on_message)
        self._worker.add_event_listener("error", self._on_error)
        return None

    def handle(self, item: PendingRequest | Delivery) -> Coroutine[Any, Any, None] | None:
        """Post the message, or reject it if too many wait."""
        slot, frame, metadata = self._slot, item.frame, item.frame.metadata
        slot.current_message = None
        if self._is_full():
            slot.reject(item)
            return None
        if metadata.id in self._causes or metadata.id in self._unanswered:
            # The worker may still answer an earlier message with the same id: post this one under another id, which only the worker sees.
            metadata = msgspec.structs.replace(metadata, id=slot.router.ids())
        self._causes[metadata.id] = item
        if len(self._causes) > _MAX_CAUSES:
            del self._causes[next(iter(self._causes))]
        if type(item) is PendingRequest:
            self._unanswered[metadata.id] = item
        slot.sync_message = item
        try:
            self._worker.post_message(
                Message(kind=frame.kind, type=frame.type, data=item.payload, metadata=metadata)
            )
        except BaseException:  # raised again: this only makes the message the current one
            # The message is answered with this error.
            self._unanswered.pop(metadata.id, None)
            slot.current_message = item
            raise
        finally:
            slot.sync_message = None
        return None

    def _is_full(self) -> bool:
        cap = self._slot.mailbox
        backlog: object = getattr(self._worker, "backlog", 0)
        return len(self._unanswered) >= cap or (isinstance(backlog, int) and backlog >= cap)

    def post_answer(self, frame: Frame) -> bool:
        """Post the answer to a request of the worker. Return False if the worker has ended, or the data cannot be decoded."""
        if self._has_ended:
            return False
        try:
            data = msgspec.json.decode(frame.data)
        except DECODE_ERRORS:
            return False
        try:
            self._worker.post_message(
                Message(kind=frame.kind, type=frame.type, data=data, metadata=frame.metadata)
            )
        except Exception as error:  # noqa: BLE001  # any exception is the capability's failure, not the router's
            self._fail(error)
        return True

    # -- events of the worker ----------------------------------------------------------------------------------------------

    def _on_message(self, event: MessageEvent) -> None:
        if self._has_ended:
            return
        slot = self._slot
        try:
            kind, type_name, data = message_parts(event.data)
            metadata = getattr(event.data, "metadata", None)
            causation = getattr(metadata, "causation", None) or event.causation
            item = self._find_request(causation)
            raw = slot.encode(kind, type_name, data)
            before = slot.sync_message
            # The cause may also be an event, or a request that has been answered.
            slot.sync_message = item if causation is None else self._causes.get(causation, item)
            try:
                if kind in {"reply", "error"}:
                    self._answer(item, kind, type_name, raw)
                else:
                    self._bus.send_encoded(kind, type_name, raw, WorkerRequester(self))
            finally:
                slot.sync_message = before
        except Exception as error:  # noqa: BLE001  # any exception is the capability's failure and ends the incarnation
            self._fail(error)

    def _find_request(self, causation: str | None) -> PendingRequest | None:
        """Return the unanswered request with this id. Without an id, return the only unanswered request if there is just one."""
        if causation is not None:
            return self._unanswered.get(causation)
        return next(iter(self._unanswered.values())) if len(self._unanswered) == 1 else None

    def _answer(self, item: PendingRequest | None, kind: Kind, type_name: str, raw: Raw) -> None:
        slot = self._slot
        slot.note_answer()
        if item is None:
            # The request has timed out, or this is its second answer.
            slot.router.discard(kind, type_name, raw)
            return
        if kind == "reply" and type_name != item.frame.type:
            raise ContractViolationError(f"{slot.id}: reply {type_name} is no reply to {item.frame.type}")
        self._remove(item)
        slot.answer(item, kind, type_name, raw)

    def _remove(self, item: PendingRequest) -> None:
        # Nearly always it was posted under its own id.
        name = item.frame.metadata.id
        if self._unanswered.get(name) is not item:
            name = next((key for key, each in self._unanswered.items() if each is item), "")
        self._unanswered.pop(name, None)

    def _on_error(self, event: ErrorEvent) -> None:
        if self._has_ended:
            return
        error = event.error
        if not isinstance(error, Exception) or not self._slot.is_refusal(error):
            self._fail(error)
            return
        self._slot.note_answer()
        item = self._find_request(event.causation)
        if item is None:
            # The cause is an event, which has no answer, or a request that has timed out.
            return
        try:
            self._slot.answer_refusal(item, error)
            self._remove(item)
        except ContractViolationError as fault:
            self._fail(fault)

    # -- end ---------------------------------------------------------------------------------------------------------------

    def _fail(self, error: BaseException) -> None:
        self._has_ended = True
        self._slot.crash(error)

    def forget(self, item: PendingRequest) -> None:
        """Expect no answer of the worker any more."""
        self._remove(item)

    def stop(self) -> Awaitable[None] | None:
        """Do nothing: `terminate` is called in any case."""
        return None

    def unanswered(self) -> Sequence[PendingRequest]:
        """Return the requests that it has not answered."""
        return list(self._unanswered.values())

    def terminate(self) -> None:
        """Terminate the worker. The router answers its unanswered requests."""
        self._has_ended = True
        self._worker.remove_event_listener("message", self._on_message)
        self._worker.remove_event_listener("error", self._on_error)
        self._worker.terminate()
