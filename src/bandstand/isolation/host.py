"""The node's side: the host of a capability whose handlers run in a child process, and what the process sends to the node.

To the node, this is a host like any other: the capability has its mailbox, its supervisor and its deadlines on the node. The process is
given one message at a time, or up to `concurrency`, and the next one when a handler has returned. So a process that dies, for whatever reason,
costs the requests that were being handled, and the next incarnation handles the waiting messages. (A Worker is given several, and owes all of
them an answer, as on the node.)

What the capability sends is sent here on its behalf. A request that its handler awaits has the current message as its parent, so the node
finds cycles through any number of processes. The node sends what the capability has scheduled if the process ends first.

An incarnation fails when its process has ended, and not before: when a failure is reported, no process is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from msgspec import Raw

from bandstand.actor import Actor, ActorSystem, ask, id_of, tell
from bandstand.actor.handle import class_of
from bandstand.bus.capability_host import CapabilityProcessError
from bandstand.bus.faults import OVERLOADED
from bandstand.bus.request import DONE, NO_REQUESTER, Delivery, PendingRequest
from bandstand.bus.wire import read_frame, write_frame
from bandstand.core import LoopConfig, Overflow
from bandstand.errors import ContractViolationError, InvalidMessageError, RefusedError
from bandstand.errors.formatting import describe_exception, safe_str
from bandstand.pod.link import Link
from bandstand.pod.threads import close_in_forks

if TYPE_CHECKING:
    import socket

    from bandstand.actor.handle import Handle
    from bandstand.bus.capability_slot import CapabilitySlot
    from bandstand.bus.frame import Frame, Kind
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


@dataclass(frozen=True, slots=True)
class LinkedRole:
    """The actor at the other end of the link. Its mailbox is never full: the limits of the node bound what is in it."""

    kind: type[Actor]
    mailbox: int = 1 << 30
    overflow: Overflow = Overflow.REJECT


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
    close_in_forks(sock)
    here, there = class_of(role).__name__, theirs.__name__
    actors, actor = loop.kernel.actors, id_of(role)
    actors.set_exit_handled(actor)
    actors.on_exit(actor, lambda _reason, cause: on_exit(cause))
    return Link(
        sock,
        loop,
        here=here,
        there=there,
        theirs={there: LinkedRole(theirs)},
        find={here: cast("Handle", role)}.get,
        carries=(),
        on_up=lambda proxies: on_up(cast("Remote", loop.handle_at(theirs, None, actor=proxies[there]))),
        on_down=lambda _reason: role.stop(drain=True),
        on_dead=lambda _message: None,
        on_fault=lambda reason, is_ours: (
            actors.panic(actor, InvalidMessageError(reason)) if is_ours else None
        ),
    )


# -- from the process ------------------------------------------------------------------------------------------------------


class IsolatedRequester:
    """Sends a request on behalf of a capability in another process, and the answer back to it."""

    __slots__ = ("_role", "is_answered", "number")

    def __init__(self, role: NodeRole, number: int, *, is_answered: bool) -> None:
        self._role = role
        self.number = number
        self.is_answered = is_answered

    def settle(self, frame: Frame, _settles: bool, /) -> bool:
        """Send the answer to the process."""
        return self._role.send_answer(self, frame)


class NodeRole(Actor, ask_timeout=None):
    """What the process sends to the node.

    All of it is one-way and on one lane, so that it is handled in order: what a handler emits before its reply is routed before its reply.
    Only `end` is an ask: its answer says that the node has handled everything. A message of the bus is sent as its NDJSON line. A message
    and its answer have the same number. Ids will not do: clients choose them, and may use one twice.
    """

    def __init__(self, host: IsolatedHost) -> None:
        self._host = host
        self._slot = host.slot
        self._router = host.slot.router
        # What the process has requested, by number; and what it has scheduled, by id: when it is due, and the message.
        self._requests: dict[int, PendingRequest] = {}
        self.scheduled: dict[str, tuple[float, Frame]] = {}

    @tell
    def ready(self, is_worker: bool) -> None:
        """The capability has started. A Worker may be given several messages at a time."""
        self._host.finish_start(is_worker=is_worker)

    @tell
    def take_answer(self, number: int, line: bytes) -> None:
        """Take the answer to a message that the process was given."""
        self._host.take_answer(number, read_frame(line))

    @tell
    def finish(self, number: int) -> None:
        """The handler of a message has returned."""
        self._host.finish_turn(number)

    @tell
    def request(self, number: int, line: bytes, awaited_by: int, is_answered: bool) -> None:
        """Route a request.

        `awaited_by` is the number of the message whose handler waits for the answer, or 0; `is_answered` if the answer is wanted at all.
        """
        slot, router, frame = self._slot, self._router, self._read(line)
        requester = IsolatedRequester(self, number, is_answered=is_answered)
        parent = self._host.given(awaited_by)
        pending = PendingRequest(requester, frame, router.internal_credit, False, parent)  # noqa: FBT003  # by position: it is hot
        self._requests[number] = pending
        if not router.submit(pending):
            text = f"{pending.credit.used} requests of capabilities are under way, and the node allows {pending.credit.limit}"
            self.send_answer(requester, router.faults.make(OVERLOADED, text, request=frame))
        elif parent is not None:
            slot.awaited[parent] = pending

    @tell
    def withdraw(self, number: int) -> None:
        """Withdraw a request."""
        pending = self._take_request(number)
        if pending is not None:
            self._router.withdraw(pending)

    @tell
    async def emit(self, line: bytes) -> None:
        """Route an event. While the router has no room, this and all later messages wait."""
        frame = self._read(line)
        # Polling is enough: the router has thousands of events to route until then.
        while self._router.is_running and not self._router.post_event(frame):  # noqa: ASYNC110  # see above
            await asyncio.sleep(RETRY_DELAY)

    @tell
    def schedule(self, delay_ms: int, line: bytes) -> None:
        """Remember a message that the capability will send later."""
        frame = read_frame(line)
        self.scheduled[frame.metadata.id] = (self._router.now_ms() + delay_ms, frame)

    @tell
    def unschedule(self, message_id: str) -> None:
        """Forget a scheduled message."""
        self.scheduled.pop(message_id, None)

    @tell
    def discard(self, kind: Kind, type_name: str, raw: bytes) -> None:
        """Count an answer of a Worker to a request that is not open."""
        self._router.discard(kind, type_name, Raw(raw))

    @ask
    def end(self, is_fault: bool, text: str, traceback: str) -> None:
        """The process exits. `text` says why the capability has failed, if it has; `is_fault` if it has broken its contract."""
        if text:
            self._host.failure = ContractViolationError(text) if is_fault else CapabilityProcessError(text)
            self._host.failure.add_note(traceback)
        self.stop(drain=True)

    def send_answer(self, requester: IsolatedRequester, frame: Frame) -> bool:
        """Send the answer to a request of the capability. Return False if it could not be delivered."""
        pending = self._take_request(requester.number)
        if pending is not None and self._host.capability is not None:
            self._host.capability.take_answer.try_send(requester.number, write_frame(frame))
        if requester.is_answered:
            return pending is not None
        # As for every request without a requester: a reply is dropped, an error is not.
        if frame.kind == "error":
            self._router.sink(frame)
        else:
            self._router.counters.unclaimed += 1
        return True

    def close(self) -> None:
        """Handle no more messages. Withdraw the requests of the capability, and let the node send what it has scheduled."""
        self.kill()
        router, requests, self._requests = self._router, self._requests, {}
        for pending in requests.values():
            if isinstance(pending.requester, IsolatedRequester) and pending.requester.is_answered:
                router.withdraw(pending)
        scheduled, self.scheduled = self.scheduled, {}
        if not router.is_draining:
            for due_ms, frame in scheduled.values():
                self._take_over(due_ms, frame)

    def _take_over(self, due_ms: float, frame: Frame) -> None:
        router, name = self._router, self._slot.id
        assert router.scheduler is not None
        try:
            router.scheduler.add(frame, max(0, round(due_ms - router.now_ms())), NO_REQUESTER, "$")
        except RefusedError as refusal:
            text = f"{frame.type} was scheduled by {name}, which has ended: {refusal}"
            router.sink(router.faults.make(OVERLOADED, text, request=frame, capability=name))

    def _read(self, line: bytes) -> Frame:
        frame = read_frame(line)
        # If it was scheduled, it is sent now.
        self.scheduled.pop(frame.metadata.id, None)
        return frame

    def _take_request(self, number: int) -> PendingRequest | None:
        pending = self._requests.pop(number, None)
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
        self._ready = asyncio.Event()
        # Set when everything that the process has sent is handled.
        self._drained = asyncio.Event()
        # Whether the end of the process is not a failure any more.
        self._is_over = False
        self._is_worker = False
        # The messages that the process was given, by number; and what is done when the handler of each has returned.
        self._numbers = count(1)
        self._given: dict[int, Item] = {}
        self._turns: dict[int, asyncio.Future[None]] = {}

    @property
    def is_busy(self) -> bool:
        """Whether it owes an answer, or has scheduled a message."""
        return bool(self._given) or (self._role is not None and bool(self._role.scheduled))

    async def start(self) -> None:
        """Start the process, and wait until the capability is ready."""
        self._process, sock = await self._launch(self.slot)
        self._running = asyncio.get_running_loop().create_task(self._run(self._process, sock))
        await self._ready.wait()
        if self.failure is not None:
            raise self.failure

    async def _run(self, process: ChildProcess, sock: socket.socket) -> None:
        try:
            async with ActorSystem(LoopConfig()) as loop:
                await self._take_messages(loop, process, sock)
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
        if self._ready.is_set():
            self.slot.crash(self.failure)
        self._ready.set()

    async def _take_messages(self, loop: ActorSystem, process: ChildProcess, sock: socket.socket) -> None:
        """Handle what the process sends until it has ended."""
        # Not at the top: the two modules import each other.
        from bandstand.isolation.child import CapabilityRole

        role = loop.options(name="node", mailbox=1 << 30).spawn(NodeRole, self)
        self._role = loop.instance_of(id_of(role))
        link = connect(sock, loop, role, CapabilityRole, self._on_up, self._on_drained)
        exiting = asyncio.ensure_future(process.wait())
        exiting.add_done_callback(lambda _exit: link.close_after_peer("its process has ended"))
        await self._drained.wait()
        await asyncio.wait([exiting], timeout=EXIT_TIMEOUT)
        process.kill()
        await exiting

    def _on_up(self, capability: CapabilityRole) -> None:
        self.capability = capability
        if self._is_over:
            capability.shut_down()

    def _on_drained(self, cause: BaseException | None) -> None:
        if cause is not None:
            self.failure = ContractViolationError(
                f"{self.slot.id} has sent something that cannot be read: {safe_str(cause)}"
            )
        self._drained.set()

    def stop(self) -> Awaitable[None] | None:
        """Stop the capability gracefully. Kill its process if that takes too long."""
        if self._is_over or self._process is None or self._running is None:
            return None
        return self._stop(self._process, self._running)

    async def _stop(self, process: ChildProcess, running: asyncio.Task[None]) -> None:
        self._is_over = True
        if self.capability is not None:
            self.capability.shut_down.try_send()
        await asyncio.wait([running], timeout=STOP_TIMEOUT)
        process.kill()
        await asyncio.wait([running])

    def unanswered(self) -> Sequence[PendingRequest]:
        """Return the requests that the process was given and may not have answered."""
        return [item for item in self._given.values() if type(item) is PendingRequest]

    def terminate(self) -> None:
        """Kill the process, and ignore what it still sends."""
        self._is_over = True
        if self._role is not None:
            self._role.close()
        if self._process is not None:
            self._process.kill()
        if self._running is not None and not self._running.done():
            departing = self.slot.router.departing
            departing.add(self._running)
            self._running.add_done_callback(departing.discard)

    # -- messages to the process, and what comes back --------------------------------------------------------------------------

    def handle(self, item: Item) -> Coroutine[Any, Any, None] | None:
        """Give a message to the process. Unless that is a Worker's, return a coroutine that waits until the handler has returned."""
        assert self.capability is not None
        if self._is_worker:
            self.slot.current_message = None
            if self._is_full():
                self.slot.reject(item)
                return None
        number = next(self._numbers)
        self._given[number] = item
        self.capability.handle.try_send(number, write_frame(item.frame))
        if self._is_worker:
            return None
        turn = self._turns[number] = asyncio.get_running_loop().create_future()
        return self.slot.run_coroutine(item, _await_turn(turn), _finish)

    def given(self, number: int) -> Item | None:
        """Return a message that the process was given; None if its handler has returned."""
        return self._given.get(number)

    def cancel(self, item: PendingRequest) -> None:
        """Cancel the handler of a request in the process."""
        number = next((number for number, each in self._given.items() if each is item), None)
        if number is not None and self.capability is not None:
            self.capability.cancel.try_send(number)

    def _is_full(self) -> bool:
        if len(self._given) >= self.slot.mailbox:
            # Requests whose deadline has passed do not count.
            ended = [number for number, item in self._given.items() if getattr(item, "stage", None) == DONE]
            for number in ended:
                del self._given[number]
        return len(self._given) >= self.slot.mailbox

    def finish_start(self, *, is_worker: bool) -> None:
        """Note that the capability is ready."""
        self._is_worker = is_worker
        self._ready.set()

    def take_answer(self, number: int, frame: Frame) -> None:
        """Take the answer to a message."""
        item = self._given.get(number)
        if type(item) is PendingRequest:
            if self._is_worker:
                del self._given[number]
                self.slot.note_answer()
            self.slot.router.answer(item, frame)

    def finish_turn(self, number: int) -> None:
        """The handler of a message has returned: let the process be given another one. A Worker keeps a request until it answers."""
        if self._is_worker and type(self._given.get(number)) is PendingRequest:
            return
        self._given.pop(number, None)
        turn = self._turns.pop(number, None)
        if turn is not None and not turn.done():
            turn.set_result(None)


async def _await_turn(turn: asyncio.Future[None]) -> None:
    await turn


def _finish(_item: Item, _result: object) -> None:
    """Do nothing: the process has sent the answer."""
