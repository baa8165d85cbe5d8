"""A feeder: sends the points of one series, and sends again what was not acknowledged.

It has at most `WINDOW` points on their way. When nothing was acknowledged for a while, it asks the head what is
durable and goes on from there: after a restart of the head, and after one of the whole store. The head leaves out
what it knows already, so nothing is stored twice.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sin

from bandstand import Actor, tell
from bandstand.errors import BandstandError
from examples.ingest.head import Head
from examples.ingest.points import Point

WINDOW = 400
BATCH = 20
PATIENCE_MS = 250
RETRY_MS = 20


def value_of(number: int) -> float:
    """Return the value of a point. It follows from its number, so that a check knows it."""
    return sin(number / 10)


class Feeder(Actor):
    def __init__(
        self,
        series: str,
        head: Head,
        until: int,
        acknowledge: Callable[[str, int], None],
        at_end: Callable[[], None],
    ) -> None:
        self._series = series
        self._head = head
        self._until = until
        self._acknowledge = acknowledge
        self._at_end = at_end
        # What is durable, and what was sent; None until the head answers where to continue.
        self._durable = 0
        self._sent: int | None = None
        self._is_moving = False
        self._is_asking = False

    def on_start(self) -> None:
        self.find_out()
        self.every(PATIENCE_MS / 1000, self.look)

    def find_out(self) -> None:
        """Ask the head where to continue. The answer comes as a message. Without an answer, ask again."""
        self._is_asking = True
        try:
            answer = self._head.last()
        except BandstandError:
            self.after(RETRY_MS / 1000, self.find_out)
        else:
            self.background(answer, self.go_on, self.not_now)

    def not_now(self, _error: Exception) -> None:
        self.after(RETRY_MS / 1000, self.find_out)

    def go_on(self, last: int) -> None:
        self._is_asking = False
        self._sent = last
        self.durable_up_to(last)

    @tell
    def durable(self, number: int) -> None:
        self._is_moving = True
        self.durable_up_to(number)

    def durable_up_to(self, number: int) -> None:
        if number > self._durable:
            self._durable = number
            self._acknowledge(self._series, number)
        if self._durable >= self._until:
            self._at_end()
            self.stop()
        else:
            self._send()

    def _send(self) -> None:
        while self._sent is not None and self._sent < min(self._until, self._durable + WINDOW):
            last = min(self._sent + BATCH, self._until)
            batch = [Point(number, value_of(number)) for number in range(self._sent + 1, last + 1)]
            if not self._head.append.try_send(batch, self.me):
                # The head is full or down: try again later.
                return
            self._sent = last

    def look(self) -> None:
        # A question that is open repeats itself.
        if not self._is_moving and not self._is_asking:
            self.find_out()
        self._is_moving = False
