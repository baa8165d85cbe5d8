"""The ends of requests, where they are not simply the reply: faults, answers that nobody takes, dead letters, repeats and retries.

Between the hot half of the router and the rest of it. Every request that is let in comes to exactly one of these ends, and each is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bandstand.bus.chronicle import guarded
from bandstand.bus.contracts.legality import BUILTIN
from bandstand.bus.faults import OVERLOADED, PASSING, ROUTING_ERROR, SHUTTING_DOWN, FaultMaker
from bandstand.bus.hot.pending import Delivery, Pending
from bandstand.bus.hot.purse import Purse
from bandstand.bus.hot.roll import Roll
from bandstand.bus.hot.switch import Switch
from bandstand.bus.letters import REASONS, Letters, Reason
from bandstand.bus.numbers import DONE
from bandstand.bus.origin import NOBODY, Encore
from bandstand.bus.repeats import Repeats
from bandstand.bus.retries import Retries
from bandstand.core.logs import SafeLogger

if TYPE_CHECKING:
    from bandstand.bus.books import Books
    from bandstand.bus.config import NodeConfig
    from bandstand.bus.frame import Frame
    from bandstand.bus.hot.idmaker import IdMaker
    from bandstand.bus.ports import Log
    from bandstand.bus.tap import Taps
    from bandstand.core import Loop

__all__ = ("Endings",)

logger = SafeLogger("bandstand.bus")


class Endings(Switch):
    """The router, as far as it ends requests. All of it belongs on the loop's own thread."""

    def __init__(
        self, loop: Loop, config: NodeConfig, *, ids: IdMaker, log: Log, taps: Taps, books: Books
    ) -> None:
        roll = Roll(config.remember_count, config.remember_bytes, config.remember_ms)
        super().__init__(loop, ids, books, taps, Purse(config.max_inside), roll, guarded(log))
        self.config = config
        self.faults = FaultMaker(ids, lambda: ids.last_ms)
        self.now_ms = loop.kernel.timers.elapsed_ms
        """Milliseconds since the loop was made, on its own clock."""
        self.letters = Letters(config.dead_count, config.dead_bytes)
        self.repeats = Repeats(self)
        self.retries = Retries(self)

    # -- ends with a fault -------------------------------------------------------------------------------------------------

    def fail(
        self,
        pending: Pending,
        type_name: str,
        message: str,
        *,
        path: str | None = None,
        capability: str | None = None,
        sinks: bool = False,
    ) -> None:
        """The one end of a request, with a fault of the runtime's own; `sinks` if it goes to the error sink too."""
        frame = self.faults.make(type_name, message, request=pending.frame, path=path, capability=capability)
        self.conclude(pending, frame)
        if sinks and pending.stage == DONE:
            self.sink(frame)

    def note_failure(self, pending: Pending, frame: Frame) -> bool:
        """It has ended with an error. True if that is the answer to the same request for ever, and so to be remembered."""
        name = frame.type
        self.books.fail(name)
        self.retries.cancel(pending)
        reason = REASONS.get(name)
        # The runtime's own capabilities answer with faults that are refusals: those were answered.
        if reason is not None and not (pending.is_begun and is_refusal(pending.frame, name)):
            self.bury(pending, reason, frame)
        return name not in PASSING

    def withdraw(self, pending: Pending) -> None:
        """Whoever asked has gone: what has not begun never does, and no answer is owed."""
        if pending.stage == DONE or pending.joined:
            # Those who have joined it still want to know.
            return
        self.retries.cancel(pending)
        self.close(pending)
        self.roll.leave(pending)
        self.books.withdrawn += 1
        if self.on_credit is not None:
            self.on_credit()

    def dismiss_all(self) -> None:
        """Answer every request that is still open: the node is stopping."""
        for pending in self.open_requests():
            # One that has joined another was answered with it.
            if pending.stage != DONE:
                self.fail(pending, SHUTTING_DOWN, "the node has stopped before it was answered")

    # -- ends that nobody hears of -----------------------------------------------------------------------------------------

    def leave_unsettled(self, pending: Pending, frame: Frame) -> None:
        """Nobody has taken its answer."""
        if pending.origin is not NOBODY:
            # A fault that has a letter of its own stays what it is.
            if frame.type not in REASONS:
                self.books.abandon(frame)
                said = f"{frame.kind} {frame.type} could not be given to whoever had asked, who had gone"
                self.bury(pending, "abandoned", frame, said)
        elif frame.kind == "error":
            self.sink(frame)
        else:
            self.books.unclaimed += 1

    def bury(self, item: Pending | Delivery, reason: Reason, answer: Frame | None, said: str = "") -> None:
        """Make a dead letter of a message that was not answered, or whose answer nobody has got."""
        if isinstance(item, Pending) and isinstance(item.origin, Encore):
            # Its letter lies there still.
            return
        self.letters.add(
            item.frame,
            reason,
            self.ids.now_ms(),
            answer=answer,
            said=said,
            capability=None if item.route is None else item.route.seat.id,
            attempts=item.retries + 1 if isinstance(item, Pending) else 1,
        )

    def complain(self, pending: Pending, error: Exception) -> None:
        """Whoever asked for it has failed to take the answer."""
        logger.error(
            "the answer to %s could not be delivered to %r",
            pending.frame.type,
            pending.origin,
            exc_info=error,
        )

    def sink(self, frame: Frame) -> None:
        """The end of an error that nobody waits for: it is counted, and said in the log."""
        self.books.sunk += 1
        logger.warning("%s: %s", frame.type, bytes(frame.data).decode(errors="replace")[:500])

    # -- the same request again --------------------------------------------------------------------------------------------

    def take_repeat(self, pending: Pending) -> None:
        """A request whose id another has, or had."""
        self.repeats.take(pending)

    def settle_joined(self, pending: Pending, frame: Frame) -> None:
        """Others were to get the same answer."""
        self.repeats.settle_joined(pending, frame)

    def goes_again(self, pending: Pending, frame: Frame) -> bool:
        """Whether a request that may be tried again will be, after this error."""
        return self.retries.plan(pending, frame)


def is_refusal(request: Frame, fault: str) -> bool:
    """Whether a fault is what a capability of the runtime's own refuses with."""
    return request.type.startswith(BUILTIN) and fault in {OVERLOADED, ROUTING_ERROR}
