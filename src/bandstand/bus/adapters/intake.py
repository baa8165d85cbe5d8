"""What one client says, on its way in: bytes become lines, lines become messages, and messages are handed in on credit.

Each line is read only when it can be handed in, without a task, a future or a queue; what cannot be stays as it came. There are
three reasons not to go on:

- **credit**: as many requests as `Limits.window` allows have no answer yet.
- **room**: the node would not take the last message.
- **writing**: the client does not take its answers, so it gets no chance to cause more of them.

And after some hundreds of lines others have their turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, final

from bandstand.bus.adapters.cutting import OVERLONG, Cutter
from bandstand.bus.wire import read_frame
from bandstand.errors import BadMessage

if TYPE_CHECKING:
    from bandstand.bus.adapters.limits import Limits
    from bandstand.bus.frame import Frame
    from bandstand.bus.ports import Ingress, Line

__all__ = ("Intake",)

REQUESTS = frozenset({"command", "query"})


@final
class Intake:
    """The way in of one line.

    Attributes:
        in_flight: how many of its requests have no answer yet.
        is_stopped: whether nothing more is taken in.
    """

    __slots__ = ("_batch", "_cutter", "_held", "_ingress", "_limits", "_line", "in_flight", "is_stopped")

    def __init__(self, line: Line, ingress: Ingress, limits: Limits) -> None:
        self._line = line
        self._ingress = ingress
        self._limits = limits
        self.in_flight = 0
        self.is_stopped = False
        # What was read, in the order in which it is handed in: the message that there was no room for, the lines that were
        # cut already, and the bytes that were not.
        self._held: Frame | None = None
        self._batch: Iterator[bytes] = iter(())
        self._cutter = Cutter(limits.line_bytes)

    def feed(self, chunk: bytes) -> None:
        """Some more bytes."""
        if not self.is_stopped:
            self._cutter.feed(chunk)

    def end(self) -> None:
        """No more bytes: what has come of the last line is all of it."""
        self._cutter.end()

    def stop(self) -> None:
        """Take in nothing more, not even what was read already."""
        self.is_stopped = True
        self._held = None
        self._batch = iter(())
        self._cutter.clear()

    def hand_in(self) -> bool:
        """Hand in what was read. False if there may be more of it, for which it is not the time now."""
        return self._hand_in_held() and self._hand_in_lines()

    def _hand_in_lines(self) -> bool:
        line, window = self._line, self._limits.window
        admit = self._ingress.admit
        is_first = True
        while self._has_credit():
            for text in self._batch:
                if not text or text.isspace():
                    continue
                try:
                    frame = read_frame(text)
                except BadMessage as problem:
                    self._refuse(text, problem)
                else:
                    # Counted before it is handed in: the answer may come before `admit` is back.
                    is_request = frame.kind in REQUESTS
                    self.in_flight += is_request
                    if not admit(line, frame):
                        self.in_flight -= is_request
                        self._held = frame
                        return False
                if self.in_flight >= window or not line.is_writable or self.is_stopped:
                    return False
            batch = self._cutter.cut()
            if not batch:
                return True
            self._batch = iter(batch)
            if not is_first:
                # So much for now: others are to have their turn.
                line.resume()
                break
            is_first = False
        return False

    def _hand_in_held(self) -> bool:
        """Hand in again what the node had no room for, if there is something. False if it still has none."""
        frame = self._held
        if frame is None:
            return True
        if not self._has_credit():
            return False
        is_request = frame.kind in REQUESTS
        self.in_flight += is_request
        if self._ingress.admit(self._line, frame):
            self._held = None
            return True
        self.in_flight -= is_request
        return False

    def _has_credit(self) -> bool:
        return self.in_flight < self._limits.window and self._line.is_writable and not self.is_stopped

    def _refuse(self, text: bytes, problem: BadMessage) -> None:
        if text is OVERLONG:
            longest = self._limits.line_bytes
            problem = BadMessage.of(
                f"not a message: the line has more than {longest} bytes, which is the limit here; it was skipped"
            )
        self._ingress.refuse(self._line, problem)
