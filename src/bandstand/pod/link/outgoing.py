"""Messages that go out: from the stand-ins into the outbox, each lane of each actor in its order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from bandstand.pod.link.codec import Packet, encode
from bandstand.pod.link.frames import END, framed
from bandstand.pod.link.ledger import CANCEL
from bandstand.service.lowlevel import Asked

if TYPE_CHECKING:
    from bandstand.pod.link.ledger import Ledger
    from bandstand.pod.link.outbox import Outbox
    from bandstand.pod.link.standin import Channel, Outlet, StandIn
    from bandstand.pod.link.wire import Wire

__all__ = ("Outgoing",)


class Outgoing:
    """What the stand-ins of a link pass on.

    Args:
        ledger: where it is written down.
        outbox: where it waits to be written.
        wire: what it is written to.
    """

    def __init__(self, ledger: Ledger, outbox: Outbox, wire: Wire) -> None:
        self._ledger = ledger
        self._outbox = outbox
        self._wire = wire
        self._stir: Callable[[], None] = wire.stir

    def send(self, outlet: Outlet, sender: object, data: object) -> None:
        """Pass a one-way message on."""
        if type(sender) is int and type(data) is not Packet and outlet.channel.line is None:
            # By far the most common case, and so without anybody's help.
            self._ledger.sent += 1
            outlet.pending.append(data)
            flat = self._outbox.flat(outlet.lane)
            flat.append(outlet.code)
            flat.append(data)
        else:
            self._ledger.enter(outlet, data, sender)
            self._line_up(outlet, 0, data)
        if not self._wire.is_stirred:
            self._stir()

    def ask(self, outlet: Outlet, asked: Asked, data: object) -> None:
        """Pass an ask on."""
        number = self._ledger.enter_ask(outlet, data, asked)
        asked.relay = partial(self._cancel, number)
        self._line_up(outlet, number, data)
        if len(self._ledger.questions) == 1:
            # The only one that somebody waits for: at once. The others of a burst go together, at the end of the turn.
            self._wire.flush()
        else:
            self._stir()

    def end(self, role: str, how: int) -> None:
        """Have a role of the other side end: before all messages, as the system's own words are everywhere."""
        self._outbox.preface(framed(END, encode((role, how))))
        self._stir()

    def is_awaited(self, stand_in: StandIn) -> bool:
        """Whether something that a stand-in has passed on has no fate yet."""
        return self._ledger.is_open(stand_in)

    def _line_up(self, outlet: Outlet, number: int, data: object) -> None:
        """Put a message into the outbox, or behind one whose parts are still under way."""
        channel = outlet.channel
        if channel.line is not None:
            channel.line.append((outlet, number, data))
        elif type(data) is Packet and data.parts:
            # Whatever comes after it, of the same lane of the same actor, goes after it.
            channel.line = deque([(outlet, number, data)])
            self._outbox.depart(outlet.lane, data, partial(self._follow, channel))
        else:
            self._put(outlet, number, data)

    def _put(self, outlet: Outlet, number: int, data: object) -> None:
        flat = self._outbox.flat(outlet.lane)
        if number:
            # An ask is told by its sign: the other side need not know the method to read past it.
            flat.append(-outlet.code)
            flat.append(number)
            self._ledger.questions[number].is_out = True
        else:
            flat.append(outlet.code)
        flat.append(data)
        if type(data) is Packet:
            self._outbox.weigh(outlet.lane, data)

    def _follow(self, channel: Channel) -> None:
        """The parts of a message are written: now itself, and those that waited behind it, up to the next that is large."""
        line = channel.line
        assert line is not None
        while line:
            outlet, number, data = line[0]
            if type(data) is Packet and data.parts:
                self._outbox.depart(outlet.lane, data, partial(self._follow, channel))
                return
            line.popleft()
            self._put(outlet, number, data)
            if number and self._ledger.questions[number].asked.is_withdrawn():
                # Taken back while it stood here: that is said after it.
                self._cancel(number)
        channel.line = None

    def _cancel(self, number: int) -> None:
        """The asker takes an ask back."""
        question = self._ledger.questions.get(number)
        if question is not None and question.is_out:
            flat = self._outbox.flat(question.outlet.lane)
            flat.append(CANCEL)
            flat.append(number)
            self._stir()

    def is_choked(self) -> bool:
        """Whether the other side does not read as fast as this one writes."""
        return self._wire.is_choked

    def unchoked(self) -> Coroutine[Any, Any, None]:
        """Wait until it does."""
        return self._wire.unchoked()
