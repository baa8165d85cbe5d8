"""Messages that go out: from the stand-ins into the tray, each lane of each actor in its order."""

from __future__ import annotations

from collections import deque
from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from bandstand.actor.reply import ReplyCallback
from bandstand.actor.wait_graph import REMOTE_ARRIVALS
from bandstand.pod.link.codec import Packet, encode
from bandstand.pod.link.hot.tray import framed
from bandstand.pod.link.numbers import CANCEL, END

if TYPE_CHECKING:
    from bandstand.pod.link.hot.ledger import Ledger, Question
    from bandstand.pod.link.hot.outlet import Channel, Outlet
    from bandstand.pod.link.hot.standin import StandIn
    from bandstand.pod.link.hot.tray import Tray
    from bandstand.pod.link.wire import Wire

Number: TypeAlias = int


class Relay:
    """Takes an ask back that was passed on, and says over which link, under which number, that was."""

    __slots__ = ("arrivals", "number", "outgoing")

    def __init__(self, outgoing: Outgoing, number: Number) -> None:
        self.outgoing = outgoing
        self.number: Number = number
        # How many asks and probes had come over links when it was passed on.
        self.arrivals: Number = REMOTE_ARRIVALS[0]

    def __call__(self) -> None:
        """The asker takes it back."""
        self.outgoing.cancel(self.number)

    def start_probe(self) -> None:
        """Find out whether the ask is part of a cycle. From any thread."""
        self.outgoing.probes.start_probe(self)


class Outgoing:
    """What the stand-ins of a link pass on.

    Args:
        ledger: where it is written down.
        tray: where it waits to be written.
        wire: what it is written to.
    """

    __slots__ = ("_ledger", "_tray", "_wire", "probes")

    def __init__(self, ledger: Ledger, tray: Tray, wire: Wire) -> None:
        self._ledger = ledger
        self._tray = tray
        self._wire = wire
        # What finds cycles of asks over this link.
        self.probes: Any = None

    def send(self, outlet: Outlet, sender: object, data: object) -> None:
        """Pass a one-way message on."""
        if type(sender) is int and type(data) is not Packet and outlet.channel.line is None:
            # By far the most common case, and so without anybody's help.
            self._ledger.sent += 1
            outlet.pending.append(data)
            flat = self._tray.flat(outlet.lane)
            flat.append(outlet.code)
            flat.append(data)
            self._tray.weigh(outlet.lane, data)
        else:
            self._ledger.enter(outlet, data, sender)
            self.line_up(outlet, 0, data)
        self._wire.stir()

    def ask(self, outlet: Outlet, asked: ReplyCallback, data: object) -> None:
        """Pass an ask on."""
        number = self._ledger.enter_ask(outlet, data, asked)
        asked.relay = Relay(self, number)
        self.line_up(outlet, number, data)
        if len(self._ledger.questions) == 1:
            # The only one that somebody waits for: at once. The others of a burst go together, at the end of the turn.
            self._wire.flush()
        else:
            self._wire.stir()

    def end(self, role: str, how: int) -> None:
        """Have a role of the other side end: before all messages, as the system's own words are everywhere."""
        self._tray.preface(framed(END, encode((role, how))))
        self._wire.stir()

    def is_awaited(self, stand_in: StandIn) -> bool:
        """Whether something that a stand-in has passed on has no fate yet."""
        return self._ledger.is_open(stand_in)

    def line_up(self, outlet: Outlet, number: Number, data: object) -> None:
        """Put a message into the tray, or behind one whose parts are still under way."""
        channel = outlet.channel
        if channel.line is not None:
            channel.line.append((outlet, number, data))
        elif type(data) is Packet and data.parts:
            # Whatever comes after it, of the same lane of the same actor, goes after it.
            channel.line = deque([(outlet, number, data)])
            self._tray.depart(outlet.lane, data, partial(self.follow, channel))
        else:
            self.put(outlet, number, data)

    def put(self, outlet: Outlet, number: Number, data: object) -> None:
        """Put a message into the tray."""
        flat = self._tray.flat(outlet.lane)
        if number:
            # An ask is told by its sign: the other side need not know the method to read past it.
            flat.append(-outlet.code)
            flat.append(number)
            question: Question = self._ledger.questions[number]
            question.is_out = True
        else:
            flat.append(outlet.code)
        flat.append(data)
        self._tray.weigh(outlet.lane, data)

    def follow(self, channel: Channel) -> None:
        """The parts of a message are written: now itself, and those that waited behind it, up to the next that is large."""
        line = channel.line
        assert line is not None
        while line:
            outlet, number, data = line[0]
            if type(data) is Packet and data.parts:
                self._tray.depart(outlet.lane, data, partial(self.follow, channel))
                return
            line.popleft()
            self.put(outlet, number, data)
            if number and self._ledger.questions[number].asked.is_cancelled():
                # Taken back while it stood here: that is said after it.
                self.cancel(number)
        channel.line = None

    def cancel(self, number: Number) -> None:
        """The asker takes an ask back."""
        question = self._ledger.questions.get(number)
        if question is not None and question.is_out:
            flat = self._tray.flat(question.outlet.lane)
            flat.append(CANCEL)
            flat.append(number)
            self._wire.stir()

    def is_choked(self) -> bool:
        """Whether the other side does not read as fast as this one writes."""
        return self._wire.is_waiting

    def unchoked(self) -> Coroutine[Any, Any, None]:
        """Wait until it does."""
        return self._wire.unchoked()
