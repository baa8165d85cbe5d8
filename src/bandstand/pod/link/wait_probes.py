"""Detects cycles of asks that go through other processes: probes follow the waits over the links.

An ask arrives over a link for an actor that waits, directly or through others, for another process. This end reports that
(BUSY), and the asker's end sends a probe (PROBE) after the ask. Each process forwards a probe over every link that the asked
actor waits on. If one of these waits is for the ask that the probe started with, there is a cycle: that ask ends with
`AskCycleError`, or is handled out of turn (SERVE) if its method is reentrant.

A wait may also begin after its ask has arrived, or inside a process: then `bandstand.actor.wait_graph` starts a probe.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from msgspec.msgpack import Decoder

from bandstand.actor.wait_graph import (
    REMOTE_ARRIVALS,
    actor_label,
    ask_label,
    cycle_error,
    paths_to_processes,
    wait_step,
)
from bandstand.pod.link.codec import encode
from bandstand.pod.link.protocol import BUSY, PROBE, SERVE

if TYPE_CHECKING:
    from bandstand.actor import ActorSystem
    from bandstand.core.ids import ActorId
    from bandstand.pod.link.receiver import Receiver
    from bandstand.pod.link.sender import InFlightTable, PendingAsk, Sender

__all__ = ("WaitProbes",)

Origin: TypeAlias = tuple[bytes, int, int]

# A probe that meets a cycle which it is not part of would circulate forever.
MAX_HOPS: Final = 32

# Identifies this process in probes: pods of different deployments may have the same names and numbers.
PROCESS_ID: Final = os.urandom(16)

_decode_number: Final = Decoder(int).decode
_decode_probe: Final = Decoder(tuple[int, tuple[bytes, int, int], int, bool, list[str]]).decode
_decode_serve: Final = Decoder(tuple[int, list[str]]).decode

_serials = count(1)


@final
class WaitProbes:
    """Detects cycles at one end of a link. Link thread only, except `start_probe`, `follow` and `close_cycle`.

    Args:
        loop: the proxy loop of the link.
        receiver: has the asks that were received.
        in_flight: has the asks that were sent.
        sender: cancels them.
        send_frame: sends a frame with kind and body.
    """

    __slots__ = ("_in_flight", "_loop", "_receiver", "_send_frame", "_sender", "_serial", "_served")

    def __init__(
        self,
        loop: ActorSystem,
        receiver: Receiver,
        in_flight: InFlightTable,
        sender: Sender,
        send_frame: Callable[[int, bytes], object],
    ) -> None:
        self._loop = loop
        self._receiver = receiver
        self._in_flight = in_flight
        self._sender = sender
        self._send_frame = send_frame
        self._serial = next(_serials)
        # The asks that are handled out of turn.
        self._served: set[int] = set()

    def report_busy(self, number: int, actor: ActorId) -> None:
        """Report an ask to the other end if its target waits for another process."""
        if paths_to_processes(actor):
            self._send_frame(BUSY, encode(number))

    def dispatch(self, kind: int, body: bytes | bytearray | memoryview) -> bool:
        """Take a frame. Return False if it is of another kind.

        Raises:
            MsgspecError: the frame cannot be decoded.
        """
        if kind == BUSY:
            self._start(_decode_number(body))
        elif kind == PROBE:
            self._take_probe(*_decode_probe(body))
        elif kind == SERVE:
            self._serve(*_decode_serve(body))
        else:
            return False
        return True

    def start_probe(self, ask: PendingAsk) -> None:
        """Find out whether an ask that was sent over this link is part of a cycle. Thread-safe."""
        self._loop.kernel.inbox.call_soon(partial(self._start, ask.number))

    def follow(self, number: int, origin: Origin, hops: int, steps: list[str], *, is_yielding: bool) -> None:
        """Send a probe after an ask that was sent over this link. Thread-safe."""
        self._loop.kernel.inbox.call_soon(partial(self._follow, number, origin, hops, steps, is_yielding))

    def close_cycle(self, number: int, steps: list[str]) -> None:
        """End an ask that was sent over this link and closes a cycle. Thread-safe."""
        self._loop.kernel.inbox.call_soon(partial(self._close_cycle, number, steps))

    def origin(self, number: int) -> Origin:
        """Return how probes identify an ask that was sent over this link."""
        return (PROCESS_ID, self._serial, number)

    def _pending(self, number: int) -> PendingAsk | None:
        """Return an ask that was sent and has not ended."""
        ask = self._in_flight.asks.get(number)
        return None if ask is None or ask.reply.done() else ask

    def _start(self, number: int) -> None:
        ask = self._pending(number)
        if ask is not None:
            is_reentrant: bool = ask.remote_method.method.is_reentrant
            self._send_frame(PROBE, encode((number, self.origin(number), 0, is_reentrant, [])))

    def _follow(self, number: int, origin: Origin, hops: int, steps: list[str], is_yielding: bool) -> None:
        ask = self._pending(number)
        if ask is None:
            return
        if ask.remote_method.method.is_reentrant and not is_yielding:
            # If there is a cycle, this ask can break it.
            self._start(number)
        else:
            self._send_frame(PROBE, encode((number, origin, hops, is_yielding, steps)))

    def _take_probe(
        self, number: int, origin: Origin, hops: int, is_yielding: bool, steps: list[str]
    ) -> None:
        """Take a probe that follows an ask."""
        # First: an actor that begins to wait notes its wait, and then compares this count.
        REMOTE_ARRIVALS[0] += 1
        received = self._receiver.pending_ask(number)
        if received is None:
            # The ask has ended; or it has not arrived, and will be reported itself if it meets an actor that waits.
            return
        for asker, path, relay in paths_to_processes(received.actor):
            ask: PendingAsk = relay
            probes: WaitProbes | None = ask.sender.probes
            if probes is None:
                continue
            passed = [*steps, *map(wait_step, path[:-1])]
            if probes.origin(ask.number) == origin:
                probes.close_cycle(ask.number, [f"{actor_label(asker)} asks {ask_label(path[-1])}", *passed])
            elif hops < MAX_HOPS:
                probes.follow(
                    ask.number, origin, hops + 1, [*passed, wait_step(path[-1])], is_yielding=is_yielding
                )

    def _close_cycle(self, number: int, steps: list[str]) -> None:
        ask = self._pending(number)
        if ask is None:
            return
        if ask.remote_method.method.is_reentrant:
            self._send_frame(SERVE, encode((number, steps)))
            return
        ask.reply.fail(cycle_error(steps))
        self._sender.cancel(ask)

    def _serve(self, number: int, steps: list[str]) -> None:
        """Handle an ask out of turn; if that is not possible, it ends."""
        ask = self._receiver.pending_ask(number)
        self._served = {each for each in self._served if self._receiver.pending_ask(each) is not None}
        if ask is None or number in self._served:
            # Several probes may find the same cycle. A new cycle through this ask looks the same, and ends at its deadline.
            return
        asks: Any = None if ask.actor.home is None else getattr(ask.actor.home.loop, "ask_table", None)
        method = ask.method
        if (
            asks is not None
            and method is not None
            and method.is_reentrant
            and asks.reentrancy.handle_now(ask, method)
        ):
            self._served.add(number)
            return
        ask.fail(cycle_error(steps))
        # Cancels the handler if it has started.
        ask.withdraw()
