"""Ask cycles that go through other processes: probes follow the waits over the links, and find the ask that they began with.

An ask comes over a link for an actor that waits, directly or through others, for another process. The asker's side is told so (BUSY), and
sends a probe (PROBE) after the ask. Wherever a probe comes to, it goes on over each link by which the asked actor waits. If one of
the waits is for the very ask that the probe began with, there is a cycle: that ask ends with `AskCycle`, or is handled out of turn (SERVE)
if its method is reentrant.

A wait may also begin after its ask has arrived, or inside a process: `bandstand.actor.wait_graph` begins a probe then.
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
from bandstand.pod.link.numbers import BUSY, PROBE, SERVE

if TYPE_CHECKING:
    from bandstand.actor import Loop
    from bandstand.core.ids import ActorId
    from bandstand.pod.link.hot.inbound import Inbound
    from bandstand.pod.link.hot.ledger import Ledger
    from bandstand.pod.link.hot.outgoing import Outgoing, Relay

__all__ = ("Probes",)

Origin: TypeAlias = tuple[bytes, int, int]

# A probe goes over no more links than this: one that has met a cycle which it is not part of would go round for ever.
MOST_HOPS: Final = 32

# Names this process in a probe: pods of different troupes may have the same names and numbers.
PROCESS: Final = os.urandom(16)

decode_number: Final = Decoder(int).decode
decode_probe: Final = Decoder(tuple[int, tuple[bytes, int, int], int, bool, list[str]]).decode
decode_serve: Final = Decoder(tuple[int, list[str]]).decode

_serials = count(1)


@final
class Probes:
    """What one end of a link does to find cycles. On the link's thread, but for `start_probe`, `follow` and `close`.

    Args:
        porch: the loop where the stand-ins of the link live.
        inbound: knows the asks that have come.
        ledger: knows those that were sent.
        outgoing: takes them back.
        say: sends a frame.
    """

    __slots__ = ("_inbound", "_ledger", "_outgoing", "_porch", "_say", "_serial", "_served")

    def __init__(
        self,
        porch: Loop,
        inbound: Inbound,
        ledger: Ledger,
        outgoing: Outgoing,
        say: Callable[[int, bytes], object],
    ) -> None:
        self._porch = porch
        self._inbound = inbound
        self._ledger = ledger
        self._outgoing = outgoing
        self._say = say
        self._serial = next(_serials)
        # The asks that are handled out of turn.
        self._served: set[int] = set()

    def meet(self, number: int, actor: ActorId) -> None:
        """An ask has come for an actor, while some actor of this process waits."""
        if paths_to_processes(actor):
            self._say(BUSY, encode(number))

    def deliver(self, kind: int, body: memoryview) -> bool:
        """Take a frame; False if it is of another kind.

        Raises:
            MsgspecError: it cannot be read.
        """
        if kind == BUSY:
            self._begin(decode_number(body))
        elif kind == PROBE:
            self._take(*decode_probe(body))
        elif kind == SERVE:
            self._serve(*decode_serve(body))
        else:
            return False
        return True

    def start_probe(self, relay: Relay) -> None:
        """Find out whether an ask that was sent over this link is part of a cycle. From any thread."""
        self._porch.kernel.inbox.call_soon(partial(self._begin, relay.number))

    def follow(self, number: int, origin: Origin, hops: int, steps: list[str], *, is_yielding: bool) -> None:
        """Send a probe after an ask that was sent over this link. From any thread."""
        self._porch.kernel.inbox.call_soon(partial(self._follow, number, origin, hops, steps, is_yielding))

    def close(self, number: int, steps: list[str]) -> None:
        """An ask that was sent over this link closes a cycle. From any thread."""
        self._porch.kernel.inbox.call_soon(partial(self._close, number, steps))

    def origin(self, number: int) -> Origin:
        """What an ask that was sent over this link is called in probes."""
        return (PROCESS, self._serial, number)

    def _open(self, number: int) -> Any:
        """An ask that was sent and has not ended."""
        question: Any = self._ledger.questions.get(number)
        return None if question is None or question.asked.done() else question

    def _begin(self, number: int) -> None:
        question = self._open(number)
        if question is not None:
            is_reentrant: bool = question.outlet.method.is_reentrant
            self._say(PROBE, encode((number, self.origin(number), 0, is_reentrant, [])))

    def _follow(self, number: int, origin: Origin, hops: int, steps: list[str], is_yielding: bool) -> None:
        question = self._open(number)
        if question is None:
            return
        if question.outlet.method.is_reentrant and not is_yielding:
            # If there is a cycle, this ask is the one that can give way.
            self._begin(number)
        else:
            self._say(PROBE, encode((number, origin, hops, is_yielding, steps)))

    def _take(self, number: int, origin: Origin, hops: int, is_yielding: bool, steps: list[str]) -> None:
        """A probe has come after an ask."""
        # Before the look: an actor that begins to wait notes that first, and then looks here.
        REMOTE_ARRIVALS[0] += 1
        question = self._inbound.question(number)
        if question is None:
            # It has ended, or has not come yet, and then says itself that it meets an actor that waits.
            return
        for asker, path, relay in paths_to_processes(question.actor):
            probes: Probes = relay.outgoing.probes
            passed = [*steps, *map(wait_step, path[:-1])]
            if probes.origin(relay.number) == origin:
                probes.close(relay.number, [f"{actor_label(asker)} asks {ask_label(path[-1])}", *passed])
            elif hops < MOST_HOPS:
                probes.follow(
                    relay.number, origin, hops + 1, [*passed, wait_step(path[-1])], is_yielding=is_yielding
                )

    def _close(self, number: int, steps: list[str]) -> None:
        question = self._open(number)
        if question is None:
            return
        if question.outlet.method.is_reentrant:
            self._say(SERVE, encode((number, steps)))
            return
        question.asked.fail(cycle_error(steps))
        self._outgoing.cancel(number)

    def _serve(self, number: int, steps: list[str]) -> None:
        """Have an ask handled out of turn. If it cannot be, it ends."""
        question: Any = self._inbound.question(number)
        self._served = {each for each in self._served if self._inbound.question(each) is not None}
        if question is None or number in self._served:
            # Several probes may have found the same cycle. A new one through this ask looks the same, and ends by its deadline.
            return
        asks: Any = (
            None if question.actor.home is None else getattr(question.actor.home.loop, "ask_table", None)
        )
        method: Any = question.method
        if (
            asks is not None
            and method is not None
            and method.is_reentrant
            and asks.reentrancy.handle_now(question, method)
        ):
            self._served.add(number)
            return
        question.fail(cycle_error(steps))
        # Its handler is cancelled, if it has begun.
        question.withdraw()
