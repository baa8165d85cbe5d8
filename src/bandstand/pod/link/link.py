"""A link: one end of the connection between two processes."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec.msgpack import Decoder

from bandstand.actor.bound_methods import kill_actor, stop_actor
from bandstand.actor.declaration import methods_of
from bandstand.actor.handle import Handle
from bandstand.core import ActorId
from bandstand.errors import ActorKilledError, InvalidMessageError
from bandstand.pod.link.codec import Packer, Unpacker, encode
from bandstand.pod.link.large_buffers import IncomingBuffers
from bandstand.pod.link.protocol import BYE, DRAIN, END, HELLO, KILL, PING, PONG, VERSION, frame
from bandstand.pod.link.receiver import FrameDispatcher, Receiver
from bandstand.pod.link.sender import InFlightTable, RemoteProxy, RemoteRole, Sender, Undelivered
from bandstand.pod.link.transport import FrameReader, Transport, WriteQueue
from bandstand.pod.link.wait_probes import WaitProbes
from bandstand.pod.threads import close_in_forks

if TYPE_CHECKING:
    from bandstand.actor import ActorSystem
    from bandstand.pod.handle_pickling import HandleCheck, HandleResolver

__all__ = ("Link", "LinkStats")

_decode_hello: Final = Decoder(tuple[int, str, list[tuple[str, list[str]]]]).decode
_decode_end: Final = Decoder(tuple[str, Literal[0, 1, 2]]).decode
_decode_bye: Final = Decoder(tuple[str, bool, bool]).decode
_decode_ping: Final = Decoder(int).decode

# How many characters of a reason are sent.
MAX_REASON: Final = 16_384


@dataclass(frozen=True, slots=True)
class LinkStats:
    """The counters of one end of a link: what it has sent, and what it has received.

    `sent == handled + dead + dropped + in_doubt + waiting`. A message that the sender's call has refused is not counted.
    """

    sent: int = 0
    """Messages that were forwarded to the other process."""
    handled: int = 0
    """Those that were handled there, answered, or cancelled by their askers."""
    dead: int = 0
    """Those whose actor had ended, or that were not written when the link was lost."""
    dropped: int = 0
    """Those that the overflow policy of a remote mailbox has dropped."""
    in_doubt: int = 0
    """Those that were written, and not acknowledged when the link was lost. They may have been handled; they are not sent again."""
    waiting: int = 0
    """Those that are not acknowledged yet."""
    received: int = 0
    """Messages that have arrived from the other process."""


class Link:
    """One end of a link. Create, use and close it on the thread of the running event loop.

    The link sends a hello. When the hello of the other end has arrived, it creates the proxies of the remote roles on the
    proxy loop and calls `on_up`. It ends with `close`, or when the socket fails; then the proxies end, and pending asks end with
    `TargetEndedError`.

    Args:
        sock: one end of a socket pair; the link closes it, and a fork of this process does not keep it open.
        proxy_loop: the loop where the proxies live; it runs on this thread.
        here: the name of this end.
        there: the name of the other end.
        theirs: the roles of the other end that can be used here, by name.
        find: returns the handle of a role at this end; None if there is none.
        on_up: called once, when the link is up, with the ids of the proxies by role.
        on_down: called once, at the end, with the reason.
        on_dead: called with each message that was not handled, as far as this process knows.
        on_fault: called before `on_down` if the link was not closed on purpose, with the reason and whether this side has failed.
        carries: the context variables that are sent along with messages, in the same order at both ends.
        resolver: finds the handles among received arguments; None if there are none.
        check: returns why a pod could not resolve a handle that is sent. Without it, no handle can be sent.
        pod: the other end, as `check` knows it; None for the calling program.
        packer: packs what is sent from the proxy loop, and is set there; None for one without byte limits, which the link sets.
        limits_bytes: whether the byte limits of the roles are those of the proxies of this link.

    Attributes:
        there: the name of the other end.
        transport: the socket of this end.
    """

    def __init__(
        self,
        sock: socket.socket,
        proxy_loop: ActorSystem,
        *,
        here: str,
        there: str,
        theirs: Mapping[str, RemoteRole],
        find: Callable[[str], Handle | None],
        on_up: Callable[[Mapping[str, ActorId]], None],
        on_down: Callable[[str], None],
        on_dead: Callable[[Undelivered], object] = lambda _message: None,
        on_fault: Callable[[str, bool], object] = lambda _reason, _is_ours: None,
        carries: tuple[ContextVar[Any], ...] = (),
        resolver: HandleResolver | None = None,
        check: HandleCheck | None = None,
        pod: str | None = None,
        packer: Packer | None = None,
        limits_bytes: bool = True,
    ) -> None:
        close_in_forks(sock)
        self._proxy_loop = proxy_loop
        self._here = here
        self.there = there
        self._theirs = dict(theirs)
        self._find = find
        self._on_up = on_up
        self._on_down = on_down
        self._on_fault = on_fault
        self._pings: dict[int, Callable[[], object]] = {}
        self._last_ping = 0
        self._proxies: list[RemoteProxy] = []
        self._is_greeted = False
        self._is_closed = False
        buffers = IncomingBuffers()
        unpacker = Unpacker(buffers.take, resolver)
        self._queue = WriteQueue()
        self._in_flight = InFlightTable(there, unpacker, on_dead)
        self._receiver = Receiver(find, self._queue, unpacker, carries, check, pod, here)
        self._dispatcher = FrameDispatcher(self._receiver, self._in_flight, self._take_frame)
        reader = FrameReader(self._dispatcher, buffers)
        self.transport = Transport(sock, reader, self._queue, self._receiver, self._lose, proxy_loop.kernel)
        self._queue.attach(self._receiver, self.transport)
        self._sender = Sender(self._in_flight, self._queue, self.transport)
        self._probes = WaitProbes(proxy_loop, self._receiver, self._in_flight, self._sender, self._send_frame)
        self._sender.probes = self._probes
        self._receiver.attach(self.transport, self._probes.report_busy)
        self._packer = packer or Packer(carries, check)
        self._limits_bytes = limits_bytes
        if packer is None:
            proxy_loop.set_packing(self._packer.pack)
        self._queue.append_urgent(frame(HELLO, encode((VERSION, here, self._remote_methods()))))
        self.transport.flush()

    def stats(self) -> LinkStats:
        """Return a snapshot of the counters."""
        table = self._in_flight
        ended = table.handled + table.dead + table.dropped + table.in_doubt
        return LinkStats(
            table.sent,
            table.handled,
            table.dead,
            table.dropped,
            table.in_doubt,
            table.sent - ended,
            self._receiver.received,
        )

    @property
    def is_write_blocked(self) -> bool:
        """Whether the other end does not read as fast as this one writes, so that messages wait."""
        return self.transport.is_write_blocked

    @property
    def has_unreported(self) -> bool:
        """Whether the other end still has to learn the outcome of a message that it has sent."""
        return self.transport.is_writable and (
            self._receiver.has_pending or self._queue.is_ready or self.transport.is_writing
        )

    @property
    def proxies(self) -> Mapping[str, RemoteProxy]:
        """The proxies of the roles of the other end, by role. Empty until the link is up."""
        return {proxy.role: proxy for proxy in self._proxies}

    def ping(self, on_pong: Callable[[], object]) -> None:
        """Ask the other end for a sign of life, and call `on_pong` when it arrives. It is not called if the link ends first."""
        self._last_ping += 1
        self._pings[self._last_ping] = on_pong
        self._queue.append_urgent(frame(PING, encode(self._last_ping)))
        self.transport.schedule_flush()

    def close(self, reason: str, *, is_certain: bool = False) -> None:
        """End the link: its proxies end, pending asks end with an error, and the socket is closed.

        Answers and acknowledgements that are due are written if the socket takes them now. It never waits. Closing a closed
        link does nothing.

        Args:
            reason: why.
            is_certain: whether the other end has reported every message that it received, so that no message is in doubt.
        """
        self._close(reason, is_certain=is_certain)

    def close_after_peer(self, reason: str) -> None:
        """Take what the other end has sent before it ended, and close the link."""
        if not self._is_closed:
            self.transport.read_all()
        self.close(reason)

    def _lose(self, reason: str, is_ours: bool) -> None:
        self._close(reason, is_our_fault=is_ours)

    def _close(self, reason: str, *, is_certain: bool = False, is_our_fault: bool | None = None) -> None:
        """End the link. `is_our_fault` is None if it is closed on purpose."""
        if self._is_closed:
            return
        self._is_closed = True
        self._dispatcher.is_closed = True
        self._pings.clear()
        bye = (reason[:MAX_REASON], not self._receiver.has_pending, is_our_fault is True)
        unsent = self._queue.close(frame(BYE, encode(bye)))
        self._receiver.close()
        self.transport.close()
        unsent += self.transport.unsent_batches()
        cause = ActorKilledError(f"the link from {self._here!r} to pod {self.there!r} has ended: {reason}")
        for proxy in self._proxies:
            proxy.mark_lost()
        self._in_flight.end_all(reason, unsent, is_certain=is_certain)
        for proxy in self._proxies:
            proxy.close(cause)
        if is_our_fault is not None:
            self._on_fault(reason, is_our_fault)
        self._on_down(reason)

    def _remote_methods(self) -> list[tuple[str, list[str]]]:
        """Return the remote roles and methods that this end sends to, in the order of their codes."""
        return [
            (role, [method.name for method in methods_of(spec.kind)]) for role, spec in self._theirs.items()
        ]

    def _take_frame(self, kind: int, body: bytes | bytearray | memoryview) -> None:
        """Take a frame that is neither messages nor their outcomes.

        Raises:
            InvalidMessageError: it is not valid.
            MsgspecError: it cannot be decoded.
        """
        if kind == HELLO:
            self._greet(*_decode_hello(body))
        elif kind == END:
            self._end_role(*_decode_end(body))
        elif kind == BYE:
            reason, is_certain, is_fault = _decode_bye(body)
            self._close(reason, is_certain=is_certain, is_our_fault=False if is_fault else None)
        elif kind == PING:
            self._queue.append_urgent(frame(PONG, bytes(body)))
            self.transport.schedule_flush()
        elif kind == PONG:
            on_pong = self._pings.pop(_decode_ping(body), None)
            if on_pong is not None:
                on_pong()
        elif not self._probes.dispatch(kind, body):
            raise InvalidMessageError(f"the link received a frame of unknown kind {kind}")

    def _send_frame(self, kind: int, body: bytes) -> None:
        """Send a frame ahead of all messages."""
        if not self._is_closed:
            self._queue.append_urgent(frame(kind, body))
            self.transport.schedule_flush()

    def _end_role(self, role: str, how: int) -> None:
        """End a role at this end, because its proxy at the other end was ended."""
        handle = self._find(role)
        if handle is None:
            return
        if how == KILL:
            kill_actor(handle)
        else:
            stop_actor(handle, drain=how == DRAIN)

    def _greet(self, version: int, name: str, roles: list[tuple[str, list[str]]]) -> None:
        if version != VERSION or name != self.there or self._is_greeted:
            raise InvalidMessageError(
                f"the link received a hello of pod {name!r} in version {version}: one of pod {self.there!r} in version {VERSION} "
                f"was expected, once"
            )
        self._is_greeted = True
        self._receiver.expect(roles)
        self._proxies = [
            RemoteProxy(self._proxy_loop, role, spec, self.there, self._in_flight, self._sender)
            for role, spec in self._theirs.items()
        ]
        if self._limits_bytes:
            for proxy in self._proxies:
                self._packer.attach(proxy.role, self._proxy_loop, proxy.actor)
        self._on_up({proxy.role: proxy.actor for proxy in self._proxies})
