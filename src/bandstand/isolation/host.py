"""The node's side: the host of a capability whose handlers run in a child process, and what the process sends to the node.

To the node, this is a host like any other: the capability has its mailbox, its supervisor and its deadlines on the node. The process is
given one message at a time, or up to `concurrency`, and the next one when a handler has returned. So a process that dies, for whatever reason,
costs the requests that were being handled, and the next incarnation handles the waiting messages. (A Worker is given several, and owes all of
them an answer, as on the node.)

What the capability sends is sent here on its behalf. A request that its handler awaits has the current message as its parent, so the node
finds cycles through any number of processes. The node sends what the capability has scheduled if the process ends first. On a node with a journal,
events, and commands whose answers are not used, are held until the command that has caused them is answered.

An incarnation fails when its process has ended, and not before: when a failure is reported, no process is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from bandstand.actor import Actor, ActorSystem, ask, id_of, tell
from bandstand.actor.handle import class_of
from bandstand.bus.bus_client import overload_text
from bandstand.bus.capability_host import CapabilityProcessError
from bandstand.bus.durable.lane import HeldWrite
from bandstand.bus.faults import ACTOR_CRASH, OVERLOADED
from bandstand.bus.request import NO_REQUESTER, Delivery, NoRequester, PendingRequest
from bandstand.bus.wire import read_frame, write_frame
from bandstand.core import LoopConfig
from bandstand.errors import ContractViolationError, InvalidMessageError, RefusedError
from bandstand.errors.formatting import describe_exception, safe_str
from bandstand.pod.link import Link
from bandstand.pod.spec import RoleSpec

if TYPE_CHECKING:
    import socket

    from bandstand.actor.handle import Handle
    from bandstand.bus.capability_slot import CapabilitySlot
    from bandstand.bus.frame import Frame
    from bandstand.isolation.child import CapabilityRole
    from bandstand.pod.process import ChildProcess

__all__ = ("IsolatedHost", "NodeRole", "connect")

# How long a capability may take to stop: a little less than its supervisor waits for the host. In seconds, as are the others.
STOP_TIMEOUT = 4.5
# How long a process may take to exit after its last message.
EXIT_TIMEOUT = 1.0
# The delay before an event is offered again to a router that has no room.
RETRY_DELAY = 0.001

Item: TypeAlias = PendingRequest | Delivery
Launch: TypeAlias = "Callable[[CapabilitySlot], Awaitable[tuple[ChildProcess, socket.socket]]]"
Remote = TypeVar("Remote", bound=Actor)


# -- the link --------------------------------------------------------------------------------------------------------------


def connect(
    sock: socket.socket,
    loop: ActorSystem,
    role: Actor,
    theirs: type[Remote],
    on_up: Callable[[Remote], None],
    on_exit: Callable[[BaseException | None], object],
) -> Link:
    """Open one end of the link between a node and a process.

    Args:
        sock: one end of a socket pair; the link closes it.
        loop: runs the role at this end, and the proxy of the other role.
        role: the role at this end. When the link has ended, it handles what has arrived, and ends.
        theirs: the class of the role at the other end.
        on_up: called with the handle of the other role.
        on_exit: called when the role at this end has ended. It is passed what cannot be handled or read, or None.
    """
    here, there = class_of(role).__name__, theirs.__name__
    actors, actor = loop.kernel.actors, id_of(role)
    # Its mailbox is never full: the limits of the node bound what is in it.
    spec = RoleSpec(name=there, kind=theirs, mailbox=1 << 30)
    actors.set_exit_handled(actor)
    actors.on_exit(actor, lambda _reason, cause: on_exit(cause))
    return Link(
        sock,
        loop,
        here=here,
        there=there,
        theirs={there: spec},
        find={here: cast("Handle", role)}.get,
        on_up=lambda proxies: on_up(cast("Remote", loop.handle_at(theirs, None, actor=proxies[there]))),
        on_down=lambda _reason: role.stop(drain=True),
        on_fault=lambda reason, is_ours: (
            actors.panic(actor, InvalidMessageError(reason)) if is_ours else None
        ),
    )


# -- from the process ------------------------------------------------------------------------------------------------------


class NodeRole(Actor, ask_timeout=None):
    """What the process sends to the node. It is also the requester of what the capability asks.

    All of it is one-way and on one lane, so that it is handled in order: what a handler emits before its reply is routed before its reply.
    Only `end` is an ask: its answer says that the node has handled everything. A message of the bus is sent as its NDJSON line. What the
    node gives to the process has a number. Ids will not do: clients choose them, and may use one twice.
    """

    def __init__(self, host: IsolatedHost) -> None:
        self._host = host
        self._slot = host.slot
        self._router = host.slot.router
        # What the capability has requested, by id; and what it has scheduled, by id: when it is due, and the message.
        self._requests: dict[str, PendingRequest] = {}
        self.scheduled: dict[str, tuple[float, Frame]] = {}

    @tell
    def ready(self, is_worker: bool) -> None:
        """The capability has started. A Worker may be given several messages at a time."""
        self._host.is_worker = is_worker
        self._host.is_ready.set()

    @tell
    def take_answer(self, number: int, line: bytes) -> None:
        """Take the answer to a message that the process was given."""
        item, frame = self._host.given.get(number), read_frame(line)
        if type(item) is PendingRequest:
            self._router.answer(item, frame)
        else:
            self._router.discard(frame.kind, frame.type, frame.data)

    @tell
    def finish(self, number: int) -> None:
        """The handler of a message has returned, or a Worker has answered a request: the process may be given another one."""
        if type(self._host.given.pop(number, None)) is PendingRequest:
            self._slot.note_answer()
        turn = self._host.turns.pop(number, None)
        if turn is not None:
            turn.set()

    @tell
    def request(self, line: bytes, awaited_by: int, is_answered: bool) -> None:
        """Route a request.

        `awaited_by` is the number of the message whose handler waits for the answer, or 0; `is_answered` if the answer is wanted at all.
        """
        slot, router, frame = self._slot, self._router, self._read(line)
        # If the capability does not use the answer, it still learns that the request has ended.
        requester = self if is_answered else NoRequester(self.settle)
        parent = self._host.given.get(awaited_by)
        pending = PendingRequest(requester, frame, router.internal_credit, False, parent)  # noqa: FBT003  # by position: it is hot
        self._requests[frame.metadata.id] = pending
        # What is asked cannot wait: the handler waits for the answer.
        cause = None if is_answered else self._durable_cause(frame)
        pending.is_owed = not is_answered
        if cause is not None:
            assert router.durable is not None
            router.durable.hold(cause, HeldWrite(partial(self._route, pending), partial(self._drop, pending)))
        elif not router.submit(pending):
            fault = router.faults.make(OVERLOADED, overload_text(pending), request=frame)
            if not router.settle(pending, fault):
                router.leave_unsettled(pending, fault)
        elif parent is not None:
            slot.awaited[parent] = pending

    def _durable_cause(self, frame: Frame) -> PendingRequest | None:
        """Return the command that has caused a message, if what its handler sends takes effect together with its answer."""
        router = self._router
        if router.durable is None:
            return None
        cause = router.requests.find(frame.metadata.causation or "")
        if not isinstance(cause, PendingRequest) or cause.route is None or cause.route.slot is not self._slot:
            return None
        return cause if router.durable.is_open(cause) else None

    def _route(self, pending: PendingRequest) -> None:
        """Route a request whose cause is answered now."""
        self._router.enter(pending)
        self._router.take(pending)

    def _drop(self, pending: PendingRequest) -> None:
        """Report the end of a request whose cause has failed: it is not sent."""
        fault = self._router.faults.make(ACTOR_CRASH, "what has sent it has failed", request=pending.frame)
        self.settle(fault, False)  # noqa: FBT003  # by position, as elsewhere

    @tell
    def withdraw(self, request_id: str) -> None:
        """Withdraw a request."""
        pending = self._take_request(request_id)
        if pending is not None:
            self._router.withdraw(pending)

    @tell
    async def emit(self, line: bytes) -> None:
        """Route an event. While the router has no room, this and all later messages wait."""
        frame = self._read(line)
        # Polling is enough: the router has thousands of events to route until then.
        while self._router.is_running and not self._admit(frame):  # noqa: ASYNC110  # see above
            await asyncio.sleep(RETRY_DELAY)

    def _admit(self, frame: Frame) -> bool:
        """Admit an event. Return False if too many wait to be routed."""
        cause = self._durable_cause(frame)
        return self._router.post_event(frame) if cause is None else self._router.hold_event(frame, cause)

    @tell
    def schedule(self, delay_ms: int, line: bytes) -> None:
        """Remember a message that the capability will send later."""
        frame = read_frame(line)
        self.scheduled[frame.metadata.id] = (self._router.now_ms() + delay_ms, frame)

    @tell
    def unschedule(self, message_id: str) -> None:
        """Forget a scheduled message."""
        self.scheduled.pop(message_id, None)

    @ask
    def end(self, is_fault: bool, text: str, traceback: str) -> None:
        """The process exits. `text` says why the capability has failed, if it has; `is_fault` if it has broken its contract."""
        if text:
            self._host.failure = ContractViolationError(text) if is_fault else CapabilityProcessError(text)
            self._host.failure.add_note(traceback)
        self.stop(drain=True)

    def settle(self, frame: Frame, _settles: bool, /) -> bool:
        """Send the answer to a request of the capability. Return False if it could not be delivered."""
        pending, capability = self._take_request(frame.metadata.causation), self._host.capability
        if pending is None or capability is None:
            return False
        return capability.take_answer.try_send(write_frame(frame))

    def close(self) -> None:
        """Handle no more messages. Withdraw the requests of the capability, and let the node send what it has scheduled."""
        self.kill()
        router, requests, self._requests = self._router, self._requests, {}
        for pending in requests.values():
            if pending.requester is self:
                router.withdraw(pending)
        scheduled, self.scheduled = self.scheduled, {}
        for due_ms, frame in () if router.is_draining else scheduled.values():
            assert router.scheduler is not None
            try:
                router.scheduler.add(frame, max(0, round(due_ms - router.now_ms())), NO_REQUESTER, "$")
            except RefusedError as refusal:
                name = self._slot.id
                text = f"{frame.type} was scheduled by {name}, which has ended: {refusal}"
                router.sink(router.faults.make(OVERLOADED, text, request=frame, capability=name))

    def _read(self, line: bytes) -> Frame:
        frame = read_frame(line)
        # If it was scheduled, it is sent now.
        self.scheduled.pop(frame.metadata.id, None)
        return frame

    def _take_request(self, request_id: str | None) -> PendingRequest | None:
        pending = self._requests.pop(request_id or "", None)
        if pending is not None:
            self._slot.end_wait(pending)
        return pending


# -- the host --------------------------------------------------------------------------------------------------------------


class IsolatedHost:
    """Hosts one incarnation of a capability in a child process.

    Args:
        slot: the place of the capability on its node.
        launch: starts a process, and returns it with the node's end of its link. If it raises, or is cancelled, no process is left.
    """

    handlers = None

    def __init__(self, slot: CapabilitySlot, launch: Launch) -> None:
        self.slot = slot
        self._launch = launch
        # The roles at both ends of the link, when it is up.
        self._role: NodeRole | None = None
        self.capability: CapabilityRole | None = None
        # Why the incarnation has failed, if there is more to say than how its process has ended.
        self.failure: Exception | None = None
        self._process: ChildProcess | None = None
        self._running: asyncio.Task[None] | None = None
        # Whether the capability is ready, or will not be; and whether it is a Worker.
        self.is_ready = asyncio.Event()
        self.is_worker = False
        # Whether the end of the process is not a failure any more.
        self._is_over = False
        # The messages that the process was given, by number; and what is set when the handler of each has returned.
        self._numbers = count(1)
        self.given: dict[int, Item] = {}
        self.turns: dict[int, asyncio.Event] = {}

    @property
    def is_busy(self) -> bool:
        """Whether it owes an answer, or has scheduled a message."""
        return bool(self.given) or (self._role is not None and bool(self._role.scheduled))

    async def start(self) -> None:
        """Start the process, and wait until the capability is ready."""
        self._process, sock = await self._launch(self.slot)
        self._running = asyncio.get_running_loop().create_task(self._run(self._process, sock))
        departing = self.slot.router.departing
        departing.add(self._running)
        self._running.add_done_callback(departing.discard)
        await self.is_ready.wait()
        if self.failure is not None:
            raise self.failure

    async def _run(self, process: ChildProcess, sock: socket.socket) -> None:
        """Handle what the process sends until it has ended."""
        # Not at the top: the two modules import each other.
        from bandstand.isolation.child import CapabilityRole

        # Done when everything that the process has sent is handled.
        drained: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        try:
            async with ActorSystem(LoopConfig()) as loop:
                role = loop.options(name="node", mailbox=1 << 30).spawn(NodeRole, self)
                self._role = loop.instance_of(id_of(role))
                link = connect(sock, loop, role, CapabilityRole, self._on_up, drained.set_result)
                exiting = asyncio.ensure_future(process.wait())
                exiting.add_done_callback(lambda _exit: link.close_after_peer("its process has ended"))
                # Not `await drained`: if this is cancelled, the role still ends.
                await asyncio.wait([drained])
                if (cause := drained.result()) is not None:
                    self.failure = ContractViolationError(
                        f"{self.slot.id} has sent something that cannot be read: {safe_str(cause)}"
                    )
                await asyncio.wait([exiting], timeout=EXIT_TIMEOUT)
                process.kill()
                await exiting
        except Exception as error:  # noqa: BLE001  # whatever it is, the incarnation must not go on without a link
            self.failure = CapabilityProcessError(
                f"the link to its process has failed: {describe_exception(error)}"
            )
            sock.close()
        ended = await process.close()
        if self._is_over:
            return
        self._is_over = True
        self.failure = self.failure or CapabilityProcessError(f"its process has ended: {ended.reason}")
        if self.is_ready.is_set():
            self.slot.crash(self.failure)
        self.is_ready.set()

    def _on_up(self, capability: CapabilityRole) -> None:
        self.capability = capability
        if self._is_over:
            capability.shut_down()

    async def stop(self) -> None:
        """Stop the capability gracefully. Kill its process if that takes too long."""
        if self._is_over or self._process is None or self._running is None:
            return
        self._is_over = True
        if self.capability is not None:
            self.capability.shut_down.try_send()
        await asyncio.wait([self._running], timeout=STOP_TIMEOUT)
        self._process.kill()
        await asyncio.wait([self._running])

    def unanswered(self) -> Sequence[PendingRequest]:
        """Return the requests that the process was given and may not have answered."""
        return [item for item in self.given.values() if type(item) is PendingRequest]

    def terminate(self) -> None:
        """Kill the process, and ignore what it still sends."""
        self._is_over = True
        if self._role is not None:
            self._role.close()
        if self._process is not None:
            self._process.kill()

    # -- messages to the process, and what comes back --------------------------------------------------------------------------

    def handle(self, item: Item) -> Coroutine[Any, Any, None] | None:
        """Give a message to the process. Unless that is a Worker's, return a coroutine that waits until the handler has returned."""
        assert self.capability is not None
        if self.is_worker:
            self.slot.current_message = None
            if len(self.given) >= self.slot.mailbox:
                self.slot.reject(item)
                return None
        number = next(self._numbers)
        self.given[number] = item
        self.capability.handle.try_send(number, write_frame(item.frame))
        if self.is_worker:
            return None
        turn = self.turns[number] = asyncio.Event()
        return self.slot.run_coroutine(item, turn.wait(), lambda _item, _result: None)

    def forget(self, item: PendingRequest) -> None:
        """Let the process cancel the handler of a request, if the capability declares that; a Worker need not answer it."""
        if self.capability is None or not (self.is_worker or self.slot.spec.on_timeout == "cancel"):
            return
        number = next((number for number, each in self.given.items() if each is item), None)
        if number is not None:
            self.capability.cancel.try_send(number)
            if self.is_worker:
                del self.given[number]
