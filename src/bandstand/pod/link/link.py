"""A link: this end of the way between two incarnations of which at least one has a process to itself."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec.msgpack import Decoder

from bandstand.actor.bound_methods import kill_actor, stop_actor
from bandstand.actor.handle import Handle
from bandstand.actor.schema import methods_of
from bandstand.core import ActorId
from bandstand.errors import ActorKilled, BadMessage
from bandstand.pod.link.books import LinkBooks
from bandstand.pod.link.codec import Unpacker, encode
from bandstand.pod.link.hot.frames import Frames
from bandstand.pod.link.hot.inbound import Inbound
from bandstand.pod.link.hot.ledger import Ledger
from bandstand.pod.link.hot.outgoing import Outgoing
from bandstand.pod.link.hot.packer import Packer
from bandstand.pod.link.hot.sorting import Sorting
from bandstand.pod.link.hot.standin import Role, StandIn
from bandstand.pod.link.hot.tray import Tray, framed
from bandstand.pod.link.letter import Undelivered
from bandstand.pod.link.numbers import BYE, DRAIN, END, HELLO, KILL, PING, PONG
from bandstand.pod.link.probes import Probes
from bandstand.pod.link.streams import Arrivals
from bandstand.pod.link.wire import Wire

if TYPE_CHECKING:
    from bandstand.actor import Loop
    from bandstand.pod.passport import HandleCheck, Resolver

__all__ = ("Link",)

VERSION: Final = 1

decode_hello: Final = Decoder(tuple[int, str, list[tuple[str, list[str]]]]).decode
decode_end: Final = Decoder(tuple[str, Literal[0, 1, 2]]).decode
decode_bye: Final = Decoder(tuple[str, bool, bool]).decode
decode_ping: Final = Decoder(int).decode

# So much of a reason is told to the other side.
LONGEST_REASON: Final = 16_384


class Link:
    """One end. Made, used and closed on the thread of the running event loop.

    It says hello, and when the other side has, there are stand-ins for the other side's actors on the porch. It ends by `close`, or by
    itself when the socket is of no use any more; then the stand-ins end, and whoever waits for an answer is told.

    Args:
        sock: this end of a socket pair; the link's own from now on.
        porch: the loop where stand-ins live, of this thread.
        here: the pod at this end.
        there: the pod at the other end.
        theirs: the roles of the other side that are visible here.
        find: gives the handle of a role of this side; None if there is no such role.
        carries: the context variables that travel with messages, in the same order at both ends.
        on_up: called once when the other side has said hello, with the addresses of the stand-ins.
        on_down: called once at the end, with the reason.
        on_fault: called before that if nobody has closed the link: it was lost, or one side could not go on. It is given the
            reason, and whether that is the fault of this side.
        on_dead: called for each message that was sent and not handled, as far as anybody knows.
        resolver: finds handles that came as arguments; None if there are none to be found.
        check: says why a pod could not resolve a handle that is sent; without it, none can be sent.
        pod: the pod at the other end, as `check` knows it; None for the program outside.
        packer: packs what is sent from the porch; None for one of its own, without bounds.
    """

    def __init__(
        self,
        sock: socket.socket,
        porch: Loop,
        *,
        here: str,
        there: str,
        theirs: Mapping[str, Role],
        find: Callable[[str], Handle | None],
        carries: tuple[ContextVar[Any], ...],
        on_up: Callable[[Mapping[str, ActorId]], None],
        on_down: Callable[[str], None],
        on_dead: Callable[[Undelivered], object],
        on_fault: Callable[[str, bool], object] = lambda _reason, _is_ours: None,
        resolver: Resolver | None = None,
        check: HandleCheck | None = None,
        pod: str | None = None,
        packer: Packer | None = None,
    ) -> None:
        self._porch = porch
        self._here = here
        self._there = there
        self._theirs = dict(theirs)
        self._on_up = on_up
        self._on_down = on_down
        self._on_fault = on_fault
        self._pings: dict[int, Callable[[], object]] = {}
        self._last_ping = 0
        self._stand_ins: list[StandIn] = []
        self._find = find
        self._is_greeted = False
        self._is_closed = False
        arrivals = Arrivals()
        unpacker = Unpacker(arrivals.take, resolver)
        self._tray = Tray()
        self._ledger = Ledger(there, unpacker, on_dead)
        self._inbound = Inbound(find, self._tray, unpacker, carries, check, pod, here)
        self._sorting = Sorting(self._inbound, self._ledger, self._deliver)
        self._wire = Wire(sock, Frames(self._sorting, arrivals), self._tray, self._inbound, self._lose)
        self._tray.join(self._inbound.acks, self._wire.flush)
        self._outgoing = Outgoing(self._ledger, self._tray, self._wire)
        self._probes = Probes(porch, self._inbound, self._ledger, self._outgoing, self._say)
        self._outgoing.probes = self._probes
        self._inbound.join(self._wire.stir, self._probes.meet)
        self._packer = packer or Packer(carries, check)
        porch.set_packing(self._packer.pack)
        self._tray.preface(framed(HELLO, encode((VERSION, here, self._addressed()))))
        self._wire.flush()

    @property
    def books(self) -> LinkBooks:
        """What became of the messages so far."""
        out = self._ledger
        settled = out.handled + out.dead + out.dropped + out.in_doubt
        return LinkBooks(
            out.sent,
            out.handled,
            out.dead,
            out.dropped,
            out.in_doubt,
            out.sent - settled,
            self._inbound.received,
        )

    @property
    def is_choked(self) -> bool:
        """Whether the other side does not read as fast as this one writes: what is ready waits."""
        return self._wire.is_choked

    @property
    def owes(self) -> bool:
        """Whether the other side is still to hear of something that it has sent: what became of it, or the answer."""
        return self._wire.is_writable and (self._inbound.owes or self._tray.is_ready or self._wire.is_writing)

    def part(self, reason: str) -> None:
        """The other side is known to be gone: take what it has said before, and end the link."""
        if not self._is_closed:
            self._wire.read_out()
        self.close(reason)

    def ping(self, answered: Callable[[], object]) -> None:
        """Have the other side answer over this link; `answered` is called when it has. Not at all, if the link ends before."""
        self._last_ping += 1
        self._pings[self._last_ping] = answered
        self._tray.preface(framed(PING, encode(self._last_ping)))
        self._wire.stir()

    def close(self, reason: str, *, is_certain: bool = False) -> None:
        """End the link: its stand-ins end, whoever waits for an answer is told so, and the socket is let go.

        Answers and acknowledgements that are due are written if the socket takes them now; nothing is waited for. The second time
        nothing happens.

        Args:
            reason: why.
            is_certain: whether the other side has said what became of all that it has taken: what it has not spoken of, it never had.
        """
        self._close(reason, is_certain=is_certain)

    def _lose(self, reason: str, is_ours: bool) -> None:
        """The socket is of no use any more."""
        self._close(reason, is_ours_to_blame=is_ours)

    def _close(self, reason: str, *, is_certain: bool = False, is_ours_to_blame: bool | None = None) -> None:
        """End the link. `is_ours_to_blame` is None if somebody has closed it on purpose."""
        if self._is_closed:
            return
        self._is_closed = True
        self._sorting.is_closed = True
        self._pings.clear()
        bye = (reason[:LONGEST_REASON], not self._inbound.owes, is_ours_to_blame is True)
        unsent = self._tray.seal(framed(BYE, encode(bye)))
        self._inbound.lose()
        self._wire.close()
        unsent += self._wire.unsent()
        cause = ActorKilled(f"the link from {self._here!r} to pod {self._there!r} has ended: {reason}")
        self._ledger.lose(reason, unsent, is_certain=is_certain)
        for stand_in in self._stand_ins:
            stand_in.end(cause)
        if is_ours_to_blame is not None:
            self._on_fault(reason, is_ours_to_blame)
        self._on_down(reason)

    def _addressed(self) -> list[tuple[str, list[str]]]:
        """Whom this end is going to address, and by which methods, in the order of their numbers."""
        return [
            (role, [method.name for method in methods_of(spec.kind)]) for role, spec in self._theirs.items()
        ]

    def _deliver(self, kind: int, body: memoryview) -> None:
        """A frame has come that does not come often.

        Raises:
            BadMessage: it makes no sense.
            MsgspecError: it cannot be read.
        """
        if kind == HELLO:
            self._greet(*decode_hello(body))
        elif kind == END:
            self._end_role(*decode_end(body))
        elif kind == BYE:
            why, is_certain, is_fault = decode_bye(body)
            self._close(why, is_certain=is_certain, is_ours_to_blame=False if is_fault else None)
        elif kind == PING:
            self._tray.preface(framed(PONG, bytes(body)))
            self._wire.stir()
        elif kind == PONG:
            answered = self._pings.pop(decode_ping(body), None)
            if answered is not None:
                answered()
        elif not self._probes.deliver(kind, body):
            raise BadMessage(f"a frame of a kind that is not known came over the link: {kind}")

    def _say(self, kind: int, body: bytes) -> None:
        """Send a frame, before all messages that wait."""
        if not self._is_closed:
            self._tray.preface(framed(kind, body))
            self._wire.stir()

    def _end_role(self, role: str, how: int) -> None:
        """The other side has ended who stands in for a role of ours: that was meant for the role."""
        handle = self._find(role)
        if handle is None:
            return
        if how == KILL:
            kill_actor(handle)
        else:
            stop_actor(handle, drain=how == DRAIN)

    def _greet(self, version: int, name: str, roles: list[tuple[str, list[str]]]) -> None:
        if version != VERSION or name != self._there or self._is_greeted:
            raise BadMessage(
                f"pod {name!r} has said hello in version {version}: {self._there!r} was expected, once, in version {VERSION}"
            )
        self._is_greeted = True
        self._inbound.expect(roles)
        self._stand_ins = [
            StandIn(self._porch, role, spec, self._there, self._ledger, self._outgoing)
            for role, spec in self._theirs.items()
        ]
        for stand_in in self._stand_ins:
            self._packer.join(stand_in.role, self._porch, stand_in.actor)
        self._on_up({stand_in.role: stand_in.actor for stand_in in self._stand_ins})
