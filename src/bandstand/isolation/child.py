"""The child's side: one incarnation of a capability, in a process of its own.

The capability runs on the same parts as on a node: the same slot with the same handlers, the same bus client, the same checks of what it
sends. So it cannot tell where it runs, and nothing of that exists twice. The router is the same too, but it has no routes: it forwards
everything that the capability sends, to itself as well, to the node, whose router decides. (A whole node would answer
`Syscall` and `Timer` itself, deliver the capability's own events to it a second time, and have a log and a health of its own.)

There is no supervisor: when the incarnation fails, the process reports the failure and exits. Deadlines are the node's, except
that a Worker has to forget here what it has not answered in time.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
import traceback
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from bandstand.actor import Actor, ActorSystem, tell
from bandstand.bus import Capability, Contract, Provision
from bandstand.bus.admission import CreditLimit
from bandstand.bus.capability_host import WorkerHost
from bandstand.bus.capability_monitor import CapabilityMonitor
from bandstand.bus.capability_slot import CapabilitySlot
from bandstand.bus.contracts.capability import read_capability
from bandstand.bus.faults import ROUTING_ERROR, FaultAnswer
from bandstand.bus.frame import IdGenerator
from bandstand.bus.loading import load_file
from bandstand.bus.message_log import MemoryLog
from bandstand.bus.request import DONE, NO_REQUESTER, ROUTED, Delivery, PendingRequest
from bandstand.bus.router import Router
from bandstand.bus.scheduler import ScheduledMessage, Scheduler
from bandstand.bus.stats import BusCounters
from bandstand.bus.tap import Taps
from bandstand.bus.wire import read_frame, write_frame
from bandstand.core import ChildExit, ChildStart, Clock, Down, Lane
from bandstand.errors import BandstandError, ContractViolationError, RefusedError
from bandstand.errors.formatting import describe_exception, safe_str, safe_traceback
from bandstand.isolation.host import NodeRole, connect

if TYPE_CHECKING:
    from msgspec import Raw

    from bandstand.bus.config import NodeConfig
    from bandstand.bus.frame import Frame, Kind
    from bandstand.bus.request import Route
    from bandstand.core import ActorId, Context
    from bandstand.pod.link import Link
    from bandstand.pod.process import ControlChannel

__all__ = ("CapabilityRole", "CapabilityRuntime", "CapabilityStart", "Source", "run_capability")

Source: TypeAlias = type[Capability] | Provision | Contract

# The limit of messages on their way to the node is not below this, even if the node allows fewer events.
MIN_IN_FLIGHT = 64


@dataclass(frozen=True, slots=True)
class CapabilityStart:
    """What a process has to run."""

    files: tuple[str, ...]
    """The files that were loaded by path, in which the capability may be declared."""
    source: bytes
    """The capability, pickled: it can be unpickled when the files are loaded."""
    config: NodeConfig
    """The limits of the node."""
    known: frozenset[tuple[Kind, str]]
    """The commands and queries that the node can route."""


async def run_capability(control: ControlChannel, start: CapabilityStart) -> None:
    """Run a capability to its end. The target of the child process; the socket of its link comes over the control channel."""
    # SIGTERM is often sent to all processes of a program. The node gets it too, and stops this process in its turn.
    event_loop = asyncio.get_running_loop()
    event_loop.add_signal_handler(signal.SIGTERM, lambda: None)
    event_loop.set_exception_handler(exit_without_memory)
    for path in start.files:
        load_file(path)
    source: Source = pickle.loads(start.source)  # noqa: S301  # from the parent, over a socket that no other process has
    message = await control.receive()
    await CapabilityRuntime(socket.socket(fileno=message.fds[0]), source, start).run()


def exit_without_memory(event_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Handle an exception that no task has caught."""
    if isinstance(context.get("exception"), MemoryError) and "future" not in context:
        # Something could not be sent, and the node would wait for it.
        os._exit(1)
    event_loop.default_exception_handler(context)


def describe_failure(error: BaseException | None) -> tuple[bool, str, str]:
    """Return what `NodeRole.end` takes."""
    if error is None:
        return False, "", ""
    if isinstance(error, MemoryError):
        # There may be no memory for the text while the frames keep theirs.
        traceback.clear_frames(error.__traceback__)
    is_fault = isinstance(error, ContractViolationError)
    return is_fault, safe_str(error) if is_fault else describe_exception(error), safe_traceback(error)


class NodeUpstream:
    """The node, as the router of the process uses it."""

    def __init__(
        self,
        node: NodeRole,
        link: Link,
        start: CapabilityStart,
        given_number: Callable[[PendingRequest | Delivery | None], int],
    ) -> None:
        self._node = node
        # Returns the number under which the node has given a message; 0 if it has not.
        self._given_number = given_number
        self._link = link
        self._known = start.known
        # With this many messages on their way to the node, no event is accepted.
        self.max_in_flight = max(MIN_IN_FLIGHT, start.config.max_inside)
        self.router: Router
        self._emit = node.emit.try_send
        # The requests that were forwarded, by number, and their numbers.
        self._numbers = count(1)
        self._forwarded: dict[int, PendingRequest] = {}
        self._number_of: dict[PendingRequest, int] = {}

    @property
    def is_writable(self) -> bool:
        """Whether the node keeps up."""
        return not self._link.is_write_blocked and self._link.stats().waiting < self.max_in_flight

    def emit(self, frame: Frame, _client: object) -> None:
        """Send an event of the capability to the node."""
        self._emit(write_frame(frame))

    def forward(self, pending: PendingRequest, /) -> None:
        """Send a request of the capability to the node."""
        number = next(self._numbers)
        self._forwarded[number] = pending
        self._number_of[pending] = number
        is_answered = pending.requester is not NO_REQUESTER
        self._node.request.try_send(
            number, write_frame(pending.frame), self._given_number(pending.parent), is_answered
        )

    def take_answer(self, number: int, frame: Frame) -> None:
        """Take the answer to a request of the capability."""
        pending = self._forwarded.pop(number, None)
        if pending is not None:
            del self._number_of[pending]
            self.router.answer(pending, frame)

    def withdraw(self, pending: PendingRequest, /) -> None:
        """Withdraw a request, if it was forwarded."""
        number = self._number_of.pop(pending, None)
        if number is not None:
            del self._forwarded[number]
            self._node.withdraw.try_send(number)

    def discard(self, kind: Kind, type_name: str, data: Raw, /) -> None:
        """Report an answer of a Worker to a request that is not open."""
        self._node.discard.try_send(kind, type_name, bytes(data))

    def check(self, frame: Frame, path: str, /) -> None:
        """Refuse a request that the node could not route."""
        if frame.is_request and (frame.kind, frame.type) not in self._known:
            raise RefusedError(
                FaultAnswer(ROUTING_ERROR, self.router.describe_unrouted(frame), f"{path}.type")
            )

    def schedule(self, frame: Frame, delay_ms: int, /) -> None:
        """Send a copy of a scheduled message to the node. The node forgets it when the message itself arrives."""
        self._node.schedule.try_send(delay_ms, write_frame(frame))

    def unschedule(self, frame: Frame, /) -> None:
        """Let the node forget a scheduled message."""
        self._node.unschedule.try_send(frame.metadata.id)


class NodeRequester:
    """The requester of a message that the node has given: it sends the answer to the node."""

    __slots__ = ("_node", "number")

    def __init__(self, node: NodeRole, number: int) -> None:
        self._node = node
        self.number = number

    def settle(self, frame: Frame, _settles: bool, /) -> bool:
        """Send the answer."""
        self._node.take_answer.try_send(self.number, write_frame(frame))
        return True


class RouterCallback:
    """A call that passes through the mailbox of the router, behind everything that the capability has sent."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], object]) -> None:
        self.call = call


class CapabilityRole(Actor):
    """What the node sends to the process. See `NodeRole` for the opposite direction."""

    def __init__(self, runtime: CapabilityRuntime) -> None:
        self._runtime = runtime

    @tell
    def handle(self, number: int, line: bytes) -> None:
        """Handle a request or an event."""
        self._runtime.handle(number, read_frame(line))

    @tell
    def cancel(self, number: int) -> None:
        """Cancel the handler of a request."""
        self._runtime.cancel(number)

    @tell
    def take_answer(self, number: int, line: bytes) -> None:
        """Take the answer to a request that the capability has sent."""
        self._runtime.upstream.take_answer(number, read_frame(line))

    @tell
    def shut_down(self) -> None:
        """Stop the capability gracefully."""
        self._runtime.shut_down()


class CapabilityRuntime:
    """Runs one incarnation of a capability for the node at the other end of a link.

    Args:
        sock: the child's end of the link.
        source: the capability, as a node takes it.
        start: the limits of the node, and what it can route.
        clock: the source of time; None for the clock of the system.
    """

    def __init__(
        self, sock: socket.socket, source: Source, start: CapabilityStart, clock: Clock | None = None
    ) -> None:
        self._sock = sock
        self._source = source
        self._start = start
        self._loop = ActorSystem(clock=clock)
        # Done when the capability has ended, with what has ended it.
        self._ended: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        self._link: Link
        self.node: NodeRole | None = None
        self.upstream: NodeUpstream
        self._router: Router
        self._slot: CapabilitySlot
        self._routes: dict[tuple[Kind, str], Route] = {}
        self._actor: ActorId | None = None
        # The requests of the node take no credit here: the node has counted them.
        self._credit = CreditLimit(1 << 30)
        # The requests that the node has given and whose handlers have not returned, by number.
        self._requests: dict[int, PendingRequest] = {}
        # The numbers of the events that are being handled.
        self._events: dict[Delivery, int] = {}

    async def run(self) -> None:
        """Run the capability until it has ended, or the node is gone."""
        async with self._loop as loop:
            role = loop.options(name="link", mailbox=1 << 30).spawn(CapabilityRole, self)
            self._link = connect(self._sock, loop, role, NodeRole, self._on_up, self._end)
            try:
                failure = await self._ended
                if self.node is not None:
                    # The answer says that the node has handled everything. The node may be gone.
                    with suppress(BandstandError):
                        await self.node.end(*describe_failure(failure))
            finally:
                self._link.close("the capability has ended")

    def _on_up(self, node: NodeRole) -> None:
        """Start the capability."""
        self.node = node
        try:
            spec = replace(read_capability(self._source), host_factory=None)
        except Exception as error:  # noqa: BLE001  # the node reports it
            self._end(error)
            return
        self.upstream = upstream = NodeUpstream(node, self._link, self._start, self._number_of)
        # The node remembers answers, keeps dead letters and has a log.
        config = replace(self._start.config, remember_count=0, dead_count=0)
        ids, log, taps, counters = IdGenerator(), MemoryLog(1, 1), Taps(), BusCounters()
        self._router = upstream.router = router = Router(
            self._loop, config, ids=ids, log=log, taps=taps, counters=counters, upstream=upstream
        )
        router.scheduler = scheduler = Scheduler(router)
        router.on_event = upstream.emit
        router.handlers = {
            ChildExit: self._on_exit,
            ChildStart: lambda _start: None,
            Down: lambda _down: None,
            ScheduledMessage: scheduler.fire,
            RouterCallback: lambda callback: callback.call(),
        }
        monitor = CapabilityMonitor(router)
        monitor.on_settled = lambda slot: node.ready(isinstance(slot.host, WorkerHost))
        self._slot = slot = CapabilitySlot(router, monitor, spec)
        router.slots = {slot.id: slot}
        self._routes = {(route.entry.kind, route.type): route for route in slot.routes}
        router.is_running = True
        cap = self._loop.kernel.actors.cap_for(slot.mailbox)
        self._actor = self._loop.kernel.actors.spawn_child(
            self._behave, slot.start_host, slot.id, cap, router.actor, copy_context()
        )

    def _end(self, cause: BaseException | None) -> None:
        """End the run: the capability or the link has ended, or a message of the node could not be handled."""
        if not self._ended.done():
            self._ended.set_result(cause)

    # -- messages from the node ------------------------------------------------------------------------------------------------

    def handle(self, number: int, frame: Frame) -> None:
        """Pass a message to the capability."""
        slot = self._slot
        route = self._routes[frame.kind, frame.type]
        # The node has decoded it before, so this fails only if a check of the capability's own is not deterministic.
        payload = route.read(frame.data)
        item: PendingRequest | Delivery
        if frame.is_request:
            assert self.node is not None
            item = PendingRequest(NodeRequester(self.node, number), frame, self._credit, False)  # noqa: FBT003  # by position: it is hot
            item.stage, item.route, item.payload = ROUTED, route, payload
            self._credit.used += 1
            if not isinstance(slot.host, WorkerHost):
                # A worker cannot be cancelled.
                self._requests[number] = item
            else:
                timeout_ms = frame.metadata.timeout or route.timeout_ms
                item.timer = self._loop.send_after(
                    self._router.actor, timeout_ms / 1000, item, lane=Lane.CONTROL
                )
        else:
            item = Delivery(frame, route, payload)
            self._events[item] = number
        # There is room: the node gives no more than the mailbox holds. If the capability has just ended, the node answers.
        if slot.actor is not None:
            self._loop.try_send(slot.actor, item)

    def cancel(self, number: int) -> None:
        """Cancel the handler of a request, or do not begin with it."""
        pending = self._requests.get(number)
        if pending is None:
            return
        if not pending.is_begun:
            pending.stage = DONE
        elif pending in self._slot.running:
            self._slot.cancel(pending)

    def shut_down(self) -> None:
        """Stop the capability: its current handler is cancelled, and its scheduled messages are not sent."""
        if self._actor is None:
            return
        assert self._router.scheduler is not None
        self._router.scheduler.cancel_all()
        self._slot.stop()
        self._loop.kernel.actors.stop_or_kill(self._actor)

    # -- the capability --------------------------------------------------------------------------------------------------------

    # Any: as for every behavior.
    def _behave(self, ctx: Context[Any], item: Any) -> Any:
        """Handle a message, and report when its handler has returned."""
        running: Coroutine[Any, Any, None] | None = self._slot.handle(ctx, item)
        if type(item) is not PendingRequest and item not in self._events:
            # The node does not know it: a call of a timer or of background work, or the end of such work.
            return running
        task = self._slot.running.get(item)
        if task is not None:
            # It runs beside the actor, which waits, if at all, for any of its tasks.
            task.add_done_callback(lambda _task: self._report_task(item))
            return running
        if running is not None:
            return self._await_handler(item, running)
        self._report_finished(item)
        return None

    def _report_task(self, item: PendingRequest | Delivery) -> None:
        """Report that the handler of a message has returned, unless it has failed, or was cancelled with the incarnation."""
        if self._slot.actor is not None and item not in self._slot.running:
            self._report_finished(item)

    async def _await_handler(
        self, item: PendingRequest | Delivery, running: Coroutine[Any, Any, None]
    ) -> None:
        await running
        self._report_finished(item)

    def _number_of(self, item: PendingRequest | Delivery | None) -> int:
        """Return the number under which the node has given a message; 0 for what it has not given, such as a call of a timer."""
        if isinstance(item, PendingRequest):
            return item.requester.number if isinstance(item.requester, NodeRequester) else 0
        return 0 if item is None else self._events.get(item, 0)

    def _report_finished(self, item: PendingRequest | Delivery) -> None:
        number = self._number_of(item)
        if isinstance(item, Delivery):
            del self._events[item]
        else:
            self._requests.pop(number, None)
        assert self.node is not None
        self._router.post(RouterCallback(partial(self.node.finish.try_send, number)))

    def _on_exit(self, exit_: ChildExit) -> None:
        self._slot.end_incarnation(exit_.child)
        self._router.is_running = False
        self._router.post(RouterCallback(partial(self._end, exit_.cause)))
