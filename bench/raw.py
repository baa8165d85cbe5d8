"""bandstand's raw loop on its real host: made, run until idle, its books checked."""

from __future__ import annotations

from collections.abc import Callable

from bandstand.core import Loop, LoopConfig
from bench import stopwatch
from bench.case import WrongResultError


def make(config: LoopConfig | None = None) -> Loop:
    """Make a loop whose host is there already: a cell measures messages, not the making of an event loop."""
    loop = Loop(config)
    loop.run(until_idle=True)
    return loop


def drain(loop: Loop, *begin: Callable[[], object]) -> int:
    """Send what comes first, by these, and run the loop until it is idle; the nanoseconds it took. Sending is in the figure, as on every stage."""
    start = stopwatch.start()
    for send in begin:
        send()
    loop.run(until_idle=True)
    return stopwatch.since(start)


def settle(loop: Loop, sent: int) -> int:
    """Check the books, destroy the loop; how many messages were handled.

    Raises:
        WrongResultError: the loop counted other sends than the case did, or one was not handled.
    """
    books = loop.statistics()
    loop.destroy()
    if books.sent != sent or books.handled != sent:
        raise WrongResultError(
            f"the case sent {sent}; the loop says {books.sent} were sent, {books.handled} handled, {books.refused} "
            f"refused, {books.dead} dead, {books.dropped} dropped, {books.waiting} waiting"
        )
    return books.handled
