"""The child's side: one incarnation of a capability, in a process of its own.

The capability runs on the same parts as on a node: the same slot with the same handlers, the same bus client, the same checks of what it
sends. So it cannot tell where it runs, and nothing of that exists twice. The router is the same too, but it has no routes: it forwards
everything that the capability sends, to itself as well, to the node, whose router decides. (A whole node would answer
`Syscall` and `Timer` itself, deliver the capability's own events to it a second time, and have a log and a health of its own.)

There is no supervisor: when the incarnation fails, the process reports the failure and exits. Deadlines are the node's.
"""

from __future__ import annotations

import asyncio
import pickle
import signal
import socket
import traceback
from collections.abc import Coroutine
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from bandstand.actor import Actor, ActorSystem, id_of, tell
from bandstand.actor.reply import mailbox_depth
from bandstand.bus import Capability, Contract, Provision
from bandstand.bus.capability_host import WorkerHost
from bandstand.bus.capability_monitor import CapabilityMonitor
from bandstand.bus.capability_slot import CapabilitySlot
from bandstand.bus.contracts.capability import read_capability
from bandstand.bus.loading import load_file
from bandstand.bus.request import DONE, NO_REQUESTER, Delivery, PendingRequest
from bandstand.bus.router import Router
from bandstand.bus.scheduler import ScheduledMessage, Scheduler
from bandstand.bus.wire import read_frame, write_frame
from bandstand.core import ChildExit, ChildStart, Clock, Down
from bandstand.errors import BandstandError, ContractViolationError
from bandstand.errors.formatting import describe_exception, safe_str, safe_traceback
from bandstand.isolation.host import Item, NodeRole, connect

if TYPE_CHECKING:
    from bandstand.bus.config import NodeConfig
    from bandstand.bus.frame import Frame, Kind
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
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: None)
    for path in start.files:
        load_file(path)
    source: Source = pickle.loads(start.source)  # noqa: S301  # from the parent, over a socket that no other process has
    message = await control.receive()
    await CapabilityRuntime(socket.socket(fileno=message.fds[0]), source, start).run()


def describe_failure(error: BaseException | None) -> tuple[bool, str, str]:
    """Return what `NodeRole.end` takes."""
    if error is None:
        return False, "", ""
    if isinstance(error, MemoryError):
        # There may be no memory for the text while the frames keep theirs.
        traceback.clear_frames(error.__traceback__)
    is_fault = isinstance(error, ContractViolationError)
    return is_fault, safe_str(error) if is_fault else describe_exception(error), safe_traceback(error)


class CapabilityRole(Actor):
    """The child's end of the link: takes what the node sends, and is the `Upstream` of the router. `NodeRole` is the other end."""

    def __init__(self, loop: ActorSystem, source: Source, start: CapabilityStart) -> None:
        self._loop = loop
        self._source = source
        self._start = start
        # With this many messages on their way to the node, no event is accepted.
        self.max_in_flight = max(MIN_IN_FLIGHT, start.config.max_inside)
        # The numbers under which the node has given the messages that are being handled.
        self._numbers: dict[Item, int] = {}
        self._actor: ActorId | None = None

    def begin(self, node: NodeRole, link: Link) -> None:
        """Start the capability.

        Raises:
            Exception: whatever prevents it.
        """
        self._node, self._link, loop = node, link, self._loop
        spec = replace(read_capability(self._source), host_factory=None)
        # The node remembers answers, keeps dead letters and has a log.
        config = replace(self._start.config, remember_count=0, dead_count=0, log_count=1)
        self._router = router = Router(loop, config, upstream=self)
        router.scheduler = scheduler = Scheduler(router)
        router.on_event = lambda frame, _client, _credit: node.emit.try_send(write_frame(frame))
        router.handlers = {
            ChildExit: self._on_exit,
            ChildStart: lambda _start: None,
            Down: lambda _down: None,
            ScheduledMessage: scheduler.fire,
        }
        monitor = CapabilityMonitor(router)
        monitor.on_settled = lambda _slot: node.ready(self._is_worker)
        self._slot = slot = CapabilitySlot(router, monitor, spec)
        router.slots = {slot.id: slot}
        self._routes = {(route.entry.kind, route.type): route for route in slot.routes}
        router.is_running = True
        cap = loop.kernel.actors.cap_for(slot.mailbox)
        self._actor = loop.kernel.actors.spawn_child(
            self._behave, slot.start_host, slot.id, cap, router.actor, copy_context()
        )

    def _on_exit(self, exit_: ChildExit) -> None:
        self._slot.end_incarnation(exit_.child)
        self._router.is_running = False
        self._loop.kernel.actors.stop_or_kill(id_of(self.me), exit_.cause)

    # -- from the node -----------------------------------------------------------------------------------------------------

    @tell
    def handle(self, number: int, line: bytes) -> None:
        """Handle a request or an event."""
        frame = read_frame(line)
        route = self._routes[frame.kind, frame.type]
        # The node has decoded it before, so this fails only if a check of the capability's own is not deterministic.
        payload = route.read(frame.data)
        item: Item = Delivery(frame, route, payload)
        if frame.is_request:
            # It takes no credit here: the node has counted it.
            item = PendingRequest(NO_REQUESTER, frame, self._router.internal_credit, False)  # noqa: FBT003  # by position: it is hot
            item.route, item.payload = route, payload
        self._numbers[item] = number
        # There is room: the node gives no more than the mailbox holds. If the capability has just ended, the node answers.
        if self._slot.actor is not None:
            self._router.loop.try_send(self._slot.actor, item)

    @tell
    def cancel(self, number: int) -> None:
        """Cancel the handler of a request, or do not begin with it. A Worker need not answer it."""
        item = next((item for item, given in self._numbers.items() if given == number), None)
        if type(item) is PendingRequest and self._slot.host is not None:
            item.stage = DONE
            self._slot.cancel(item)
            if self._is_worker:
                self._slot.host.forget(item)
                del self._numbers[item]

    @tell
    def take_answer(self, line: bytes) -> None:
        """Take the answer to a request of the capability, whose id was generated here, so that it is unique."""
        frame, router = read_frame(line), self._router
        pending = router.requests.find(frame.metadata.causation or "")
        if type(pending) is PendingRequest:
            router.close(pending)
            router.requests.leave(pending)
            router.settle(pending, frame)

    @tell
    def shut_down(self) -> None:
        """Stop the capability: its current handler is cancelled, and its scheduled messages are not sent."""
        if self._actor is not None and self._router.scheduler is not None:
            self._router.scheduler.cancel_all()
            self._slot.stop()
            self._router.loop.kernel.actors.stop_or_kill(self._actor)

    # -- to the node -------------------------------------------------------------------------------------------------------

    @property
    def is_writable(self) -> bool:
        """Whether the node keeps up, and the link has taken what was sent in this turn."""
        if self._link.is_write_blocked or self._link.stats().waiting >= self.max_in_flight:
            return False
        return mailbox_depth(id_of(self._node)) < self._start.config.max_inside

    def emit(self, frame: Frame, /) -> bool:
        """Send an event. Return False if there is no room for it."""
        return self.is_writable and self._node.emit.try_send(write_frame(frame))

    def forward(self, pending: PendingRequest, /) -> None:
        """Send a request."""
        parent = 0 if pending.parent is None else self._numbers.get(pending.parent, 0)
        is_answered = pending.requester is not NO_REQUESTER
        self._node.request.try_send(write_frame(pending.frame), parent, is_answered)

    def withdraw(self, pending: PendingRequest, /) -> None:
        """Withdraw a request."""
        self._node.withdraw.try_send(pending.frame.metadata.id)

    def answer(self, pending: PendingRequest | None, frame: Frame, /) -> None:
        """Send the answer to a message; 0 is the number of one that the node does not expect any more."""
        number = 0 if pending is None else self._numbers.get(pending, 0)
        self._node.take_answer.try_send(number, write_frame(frame))
        if pending is not None and self._is_worker:
            self._report(pending)

    def is_routed(self, frame: Frame, /) -> bool:
        """Return whether the node has a route for a request."""
        return (frame.kind, frame.type) in self._start.known

    def schedule(self, frame: Frame, delay_ms: int, /) -> None:
        """Send a copy of a scheduled message. The node forgets it when the message itself arrives."""
        self._node.schedule.try_send(delay_ms, write_frame(frame))

    def unschedule(self, frame: Frame, /) -> None:
        """Let the node forget a scheduled message."""
        self._node.unschedule.try_send(frame.metadata.id)

    # -- the capability ----------------------------------------------------------------------------------------------------

    @property
    def _is_worker(self) -> bool:
        return isinstance(self._slot.host, WorkerHost)

    # Any: as for every behavior.
    async def _behave(self, ctx: Context[Any], item: Any) -> None:
        """Handle a message, and report when its handler has returned."""
        running: Coroutine[Any, Any, None] | None = self._slot.handle(ctx, item)
        task = self._slot.running.get(item)
        if task is not None:
            # It runs beside the actor, which waits, if at all, for any of its tasks.
            task.add_done_callback(lambda _task: self._report(item))
        if running is not None:
            await running
        if type(item) is not PendingRequest or not self._is_worker:
            self._report(item)

    def _report(self, item: Item) -> None:
        """Report that the handler of a message has returned; for a request of a Worker, that it has answered."""
        # Not if it has failed, or was cancelled with the incarnation.
        if self._slot.actor is not None and item not in self._slot.running and item in self._numbers:
            self._node.finish.try_send(self._numbers.pop(item))


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
        self._loop = loop = ActorSystem(clock=clock)
        role = loop.options(name="link", mailbox=1 << 30).spawn(CapabilityRole, loop, source, start)
        self.upstream: CapabilityRole = loop.instance_of(id_of(role))
        self.node: NodeRole | None = None

    async def run(self) -> None:
        """Run the capability until it has ended, or the node is gone."""
        ended: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

        def begin(node: NodeRole) -> None:
            self.node = node
            try:
                self.upstream.begin(node, link)
            except Exception as error:  # noqa: BLE001  # the node reports it
                loop.kernel.actors.panic(id_of(self.upstream.me), error)

        async with self._loop as loop:
            link = connect(self._sock, loop, self.upstream.me, NodeRole, begin, ended.set_result)
            try:
                # Not `await ended`: if this is cancelled, the role still ends.
                await asyncio.wait([ended])
                if self.node is not None:
                    # The answer says that the node has handled everything. The node may be gone.
                    with suppress(BandstandError):
                        await self.node.end(*describe_failure(ended.result()))
            finally:
                link.close("the capability has ended")
